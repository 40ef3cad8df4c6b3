"""Commands of the command line, made from the signatures of public functions."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand

from owpc_ltr.cli.options import keyword_only, named_options, options_of
from owpc_ltr.cli.signals import finishing
from owpc_ltr.cli.terminal import print_json, progress
from owpc_ltr.cli.wording import Options, as_typed, running
from owpc_ltr.engine.options import TO_CONNECT
from owpc_ltr.errors import BadInput, OwpcLtrError, UsageError
from owpc_ltr.files.output import is_standard_output
from owpc_ltr.host.commands import Command, ConnectsWith
from owpc_ltr.host.project import PROJECT_FILE, applying, in_words, project_values
from owpc_ltr.signatures import (
    Progress,
    Writes,
    check,
    described,
    help_of,
    marks_of,
    project_key,
)

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
PANELS = ("", "Data", "Model", "Engine", "Advanced", TO_CONNECT)
"""The parts of a help page, in order; others follow them."""
_FIRST_PAGE = 15
"""Options on the first page of a command's help."""
ALL = "owpc_ltr.help_all"
_PROJECT = "owpc_ltr.project"
_WRITERS = {"data": "log-features", "model": "train"}
"""The commands that write what the project file has under these keys."""

_NO_HELP = re.compile(r"(?:^|(?<=[.:]\s))(?:Raises |Args:|Python: |>>> )", re.MULTILINE)


class LazyCommand(TyperCommand):
    """A command whose function is imported when it runs, or its help is shown."""

    def __init__(self, about: Command) -> None:
        name = about.name.rpartition(" ")[2]
        super().__init__(name, help=about.summary, short_help=about.summary, rich_markup_mode=None)
        self.about = about

    @functools.cached_property
    def made(self) -> Any:
        """The command itself."""
        return command_of(self.about)

    def make_context(self, *args: Any, **named: Any) -> Any:
        """The context of the command itself."""
        return self.made.make_context(*args, **named)

    def get_params(self, ctx: Any) -> Any:
        """The arguments and options of the command itself."""
        return self.made.get_params(ctx)


def show_all(ctx: Any, _param: Any, requested: bool) -> None:
    """Print the help with all that it has, and end."""
    if requested and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _Command(TyperCommand):
    """A command whose help has its options in panels, and no types of Python.

    Of many options the first are shown: those of the first panels, and not those that connect.
    `--help-all` shows all.
    """

    named_options: Options
    """Its options by parameter, for the words of the help."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters; with `--help-all` where the first page does not take all."""
        params = super().get_params(ctx)
        options = [param for param in params if param.param_type_name == "option"]
        connects = any(getattr(param, "rich_help_panel", "") == TO_CONNECT for param in options)
        help_all = copy.copy(self.get_help_option(ctx))
        if help_all is not None and (len(options) > _FIRST_PAGE or connects):
            help_all.name, help_all.opts, help_all.callback = "help_all", ["--help-all"], show_all
            help_all.help = "Show all options and exit."
            params.append(help_all)
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; the error of a value of the project file names its key."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = str(getattr(error.param, "name", ""))
            key = ctx.meta.get(_PROJECT, {}).get(name)
            if key is not None and _is_of_project(ctx, name):
                raise BadInput(f"{PROJECT_FILE}: {key}: {error.message}") from error
            if key is not None and not error.message:  # it is missing
                error.message = f"Give it, or write {key} into {PROJECT_FILE} (owpc-ltr init)"
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without braces around what is required."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does."""
        self.help = as_typed(self.help or "", self.named_options)
        super().format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, panel by panel."""
        arguments: list[tuple[str, str]] = []
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            text = as_typed(record[1], self.named_options)
            if param.param_type_name == "argument":
                arguments.append((str(param.metavar), text))
                continue
            flags = ", ".join(sorted(param.opts, key=len))
            name = flags if getattr(param, "is_flag", False) else f"{flags} {param.metavar}"
            panel = getattr(param, "rich_help_panel", None) or ""
            panels.setdefault(panel, []).append((name, text))
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        room, hidden = _FIRST_PAGE, dict[str, int]()
        for panel, rows in panels.items():
            first = rows if ctx.meta.get(ALL) else rows[: 0 if panel == TO_CONNECT else room]
            room -= len(first)
            if len(first) < len(rows):
                hidden[panel] = len(rows) - len(first)
            if first:
                with formatter.section(f"{panel} options" if panel else "Options"):
                    formatter.write_dl(first)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"and {sum(hidden.values())} more ({', '.join(hidden)}) in")
            formatter.write(f"  {ctx.command_path} --help-all\n")


def command_of(about: Command) -> Any:
    """The command, made from the signature of its function."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    function = about.load()
    app.command(
        about.name.rpartition(" ")[2],
        cls=_Command,
        help=help_text(function),
        context_settings=HELP_OPTIONS,
    )(callback_of(about))
    command: Any = typer.main.get_command(app)
    command.named_options = named_options(function)
    return command


def callback_of(about: Command) -> Callable[..., None]:
    """What typer calls: it runs the function, and prints the result."""
    function = about.load()
    options = named_options(function)
    connection = {option.name for option in options_of(function)[1]}
    shows = getattr(function, "shows", None) or (lambda result: result)
    keys = {name: key for name, it in options.items() if (key := project_key(it.parameter))}

    def read(ctx: typer.Context, ignored: bool) -> bool:
        ctx.meta[_PROJECT] = keys
        if not ignored and not ctx.resilient_parsing:
            ctx.default_map = {
                # Of several values one is in the file.
                name: [value] if get_origin(options[name].kind) is list else value
                for name, value in project_values(keys).items()
            }
        return ignored

    def run(ctx: typer.Context, *, as_json: bool = False, **values: Any) -> None:
        taken = {name: key for name, key in keys.items() if _is_of_project(ctx, name)}
        arguments = {
            # The file has what the function takes, where the shell has a text of it.
            name: ctx.default_map[name]
            if ctx.default_map and name in taken and options[name].help.parse
            else options[name].value(value)
            for name, value in values.items()
            if name in options and value is not None and value != []
        }
        outputs = _outputs(function, arguments)
        places = {name: f"{key} in {PROJECT_FILE}" for name, key in taken.items()}
        alone = any(map(is_standard_output, outputs))
        finishes = getattr(function, "finishes", False)
        uninterrupted = finishing() if finishes else contextlib.nullcontext()
        with uninterrupted, running(options, places), _printing_to_stderr(alone):
            try:
                with _printing_to_stderr(as_json):
                    arguments = _with_project(function, arguments, taken, connection)
                    for name in taken.keys() - arguments.keys():
                        del places[name]
                    result = run_job(about, function, arguments, connection)
                _show(None if result is None else shows(result), outputs, as_json=as_json)
                # A script learns of a bad result by the command's exit code.
                refusal = getattr(result, "refusal", None)
                if refusal is not None:
                    raise refusal
            except OwpcLtrError as error:
                if as_json or str(error.result):
                    _show(error.result, [], as_json=as_json)
                error.args = (as_typed(str(error)),)
                raise

    parameters = [keyword_only("ctx", inspect.Parameter.empty, typer.Context)]
    parameters += [option.as_typer() for option in options.values()]
    if keys:
        ignored = typer.Option("--no-project", callback=read, is_eager=True, hidden=True)
        parameters.append(keyword_only("no_project", False, Annotated[bool, ignored]))
    if described(function).return_annotation not in {None, NoneType}:
        parameters.append(_JSON)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _is_of_project(ctx: Any, name: str) -> bool:
    """Whether the value of a parameter is from the project file."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def _with_project(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    taken: Mapping[str, str],
    connection: Collection[str],
) -> dict[str, Any]:
    """The arguments without values of the project file that do not apply; a line tells the rest."""
    typed = {name: value for name, value in arguments.items() if name not in taken}
    cluster = described(inspect.unwrap(function)).parameters.get("cluster")
    to_connect = {name: typed[name] for name in set(connection) & set(typed)}
    connects = cluster is not None and _connects(cluster, typed, to_connect)
    apply = dict(applying(taken, typed, connects=connects))
    if "url" in apply:
        from owpc_ltr.engine.client.settings import split_url

        split_url(arguments["url"], f"{PROJECT_FILE}: url")
    if apply:
        words = (in_words(key, arguments[name]) for name, key in apply.items())
        print(f"{PROJECT_FILE}: {', '.join(words)}", file=sys.stderr)
    outputs = _outputs(function, arguments)
    for name, key in apply.items():
        path = arguments[name][0] if isinstance(arguments[name], list) else arguments[name]
        if key in _WRITERS and path not in outputs and not os.path.lexists(path):
            raise BadInput(
                f"cannot read {path}: it is not there yet: owpc-ltr {_WRITERS[key]} writes it"
            )
    return typed | {name: arguments[name] for name in apply}


def _printing_to_stderr(needed: bool) -> contextlib.AbstractContextManager[Any]:
    """What is printed in this block goes to standard error, if that is needed."""
    return contextlib.redirect_stdout(sys.stderr) if needed else contextlib.nullcontext()


_JSON = keyword_only(
    "as_json", False, Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
)


def _show(result: Any, outputs: Sequence[Path], *, as_json: bool) -> None:
    """Print a result, and, unless as JSON, which files were written."""
    if result is not None and as_json:
        print_json(result.as_dict())
    elif result is not None:
        typer.echo(str(result))
    for path in () if as_json else outputs:
        typer.echo(f"wrote {path}")


def help_text(function: Callable[..., Any]) -> str:
    """The docstring as a help page has it: the summary, then all but what is for Python."""
    # The wrapper's docstring may be that for Python by now, which lists the parameters.
    text = inspect.getdoc(inspect.unwrap(function)) or ""
    end = _NO_HELP.search(text)
    shown = (text[: end.start()] if end else text).strip()
    summary, _, details = shown.partition(".")
    if details and not details[0].isspace():
        summary, details = shown, ""
    return f"{' '.join(summary.split())}.\n\n{details.strip()}".strip()


def _connects(
    cluster: inspect.Parameter, arguments: Mapping[str, Any], to_connect: Mapping[str, Any]
) -> bool:
    """Whether a job connects: always, or where the parameter that needs a cluster is given.

    Without such a parameter a cluster that has a default is connected to where an option names it.
    """
    idle = next((name for name, value in to_connect.items() if value), None)
    marks = [mark for mark in marks_of(cluster) if isinstance(mark, ConnectsWith)]
    if not marks:
        return cluster.default is cluster.empty or idle is not None
    if any(
        mark.parameter in arguments and str(arguments[mark.parameter]).startswith(mark.prefix)
        for mark in marks
    ):
        return True
    if idle is not None:
        raise UsageError(
            f"`{idle}` has no effect without `{marks[0].parameter}` "
            f"{marks[0].prefix}…: leave it out"
        )
    return False


def _outputs(function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[Path]:
    """The files that are to be written."""
    parameters = described(function).parameters
    return [
        value
        for name, value in arguments.items()
        if name in parameters and isinstance(help_of(parameters[name]), Writes)
    ]


def run_job(
    about: Command,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    connection: Collection[str],
    show: Progress | None = None,
) -> Any:
    """The result of the function, whose parameters are checked before it connects.

    `connection` names those of the `arguments` that are for `connect`. `show` receives the
    progress; default: a bar.
    """
    bare: Callable[..., Any] = inspect.unwrap(function)
    to_connect = {name: arguments.pop(name) for name in set(connection) & set(arguments)}
    check(bare, arguments)
    for path in _outputs(bare, arguments):
        if path.is_symlink() and not path.is_dir():
            print(f"{path} is a link: {os.path.realpath(path)} is written", file=sys.stderr)
    parameters = described(bare).parameters
    cluster = parameters.get("cluster")
    if cluster is not None and _connects(cluster, arguments, to_connect):
        from owpc_ltr.engine.connect import connect

        check(connect, to_connect)
        arguments["cluster"] = connect(**to_connect)
        settings = arguments["cluster"].engine.settings
        # A node that nobody named may be somebody else's.
        why = "" if settings.given else " (OWPC_LTR_URL is not set: the local node)"
        if why or getattr(function, "changes_cluster", False):
            print(f"cluster: {settings.url}{why}", file=sys.stderr)
    try:
        if "progress" not in parameters:
            return bare(**arguments)
        with progress() if show is None else contextlib.nullcontext(show) as shown:
            return bare(**arguments, progress=shown)
    except ModuleNotFoundError as error:
        raise about.missing_package(error) from error
