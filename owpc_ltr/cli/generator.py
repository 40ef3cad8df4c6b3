"""Commands of the command line, made from the signatures of public functions.

Positional parameters are arguments, unless their `Help` names a flag; keyword-only ones are
options, and so are the fields of objects of options. Parameters without a `Help` are for Python
only. Three names are conventions: `progress`, `cluster`, which stands for the options of `connect`,
and `out`, which has the short form -o.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from owpc_ltr.cli.signals import finishing
from owpc_ltr.cli.terminal import print_json, progress
from owpc_ltr.engine.options import TO_CONNECT
from owpc_ltr.errors import BadInput, OwpcLtrError, UsageError
from owpc_ltr.files.output import is_standard_output
from owpc_ltr.host.commands import NO_STORE, Command, ConnectsWith
from owpc_ltr.host.project import PROJECT_FILE, applying, in_words, project_values
from owpc_ltr.signatures import (
    Argument,
    Help,
    Progress,
    Writes,
    all_parameters,
    check,
    described,
    help_of,
    in_options,
    marks_of,
    option_name,
    project_key,
    spelled_as,
)

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
PANELS = ("", "Data", "Model", "Engine", "Advanced", TO_CONNECT)
"""The parts of a help page, in order; others follow them."""
_FIRST_PAGE = 15
"""Options on the first page of a command's help."""
_ALL = "owpc_ltr.help_all"
_PROJECT = "owpc_ltr.project"

_METAVARS = {Path: "FILE", int: "N", float: "NUMBER"}
_NO_HELP = re.compile(r"(?:^|(?<=[.:]\s))(?:Raises |Args:|Python: |>>> )", re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """An option or argument of a command: its parameter, and how the command line takes it."""

    parameter: inspect.Parameter
    help: Help
    kind: Any
    """The type on the command line, as typer takes it."""
    argument: bool

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    @property
    def flag(self) -> str:
        """The option, as the user types it."""
        if self.help.flag is not None:
            return self.help.flag
        no = "no-" if self.parameter.default is True else ""
        return f"--{no}{self.name.replace('_', '-')}"

    @property
    def spelling(self) -> str:
        """How errors name it."""
        return self.metavar if self.argument else self.flag

    @property
    def metavar(self) -> str:
        """What stands for the value in the help."""
        if self.help.metavar is not None:
            return self.help.metavar
        if self.argument:
            return self.name.upper().replace("_", "-")
        kind = get_args(self.kind)[0] if get_origin(self.kind) is list else self.kind
        if get_origin(kind) is Literal:
            return "|".join(map(str, get_args(kind)))
        if hasattr(kind, "__members__"):
            return "|".join(str(member.value) for member in kind)
        if kind is str:
            return "NAME" if self.meaning is Argument.NAME else "TEXT"
        return _METAVARS.get(kind, "VALUE")

    @property
    def meaning(self) -> Argument | None:
        """What the annotation says that it is."""
        marks = marks_of(self.parameter)
        return next((mark for mark in marks if isinstance(mark, Argument)), None)

    @property
    def required(self) -> bool:
        """Whether the command line demands it."""
        return self.help.required or self.parameter.default is inspect.Parameter.empty

    def as_typer(self) -> inspect.Parameter:
        """The parameter from which typer makes it."""
        about = self.help
        keywords: dict[str, Any] = {"help": about.text, "min": about.min, "max": about.max}
        if self.kind is not bool:
            keywords["metavar"] = self.metavar
        if self.argument:
            info: Any = typer.Argument(**keywords)
        else:
            short = about.short or ("-o" if self.name == "out" else None)
            flags = filter(None, (self.flag, short))
            info = typer.Option(*flags, rich_help_panel=about.panel, **keywords)
        default = inspect.Parameter.empty if self.required else self.default
        kind = self.kind if default is not None else self.kind | None
        return _keyword_only(self.name, default, Annotated[kind, info])

    @property
    def default(self) -> Any:
        """The default, where the help can show it; None leaves it to the function."""
        default = self.parameter.default
        if self.kind is bool:
            return False if default in {True, False} else None
        shown = self.help.parse is None and isinstance(default, str | int | float | Path)
        return default if shown else None

    def value(self, parsed: Any) -> Any:
        """The parameter's value for what the command line has."""
        if self.kind is bool and self.parameter.default is True:
            return not parsed
        return parsed if self.help.parse is None else self.help.parse(parsed)


def _keyword_only(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def option_of(parameter: inspect.Parameter) -> Option | None:
    """What a parameter is on the command line; None for one of Python only.

    Raises TypeError where the annotation has no type that the command line knows.
    """
    about = help_of(parameter)
    if about is None:
        if parameter.default is inspect.Parameter.empty and parameter.name != "progress":
            raise TypeError(f"the parameter '{parameter.name}' has no Help and no default")
        return None
    kind = about.cli or command_line_type(get_args(parameter.annotation)[0])
    if kind is None:
        raise TypeError(f"the parameter '{parameter.name}' needs cli=, its type on the shell")
    positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    return Option(parameter, about, kind, argument=positional and about.flag is None)


def command_line_type(annotation: Any) -> Any:
    """The type on the command line for an annotation, or None.

    Of a union it is a list of values, if it has one, else a path, else the first simple type.

    >>> command_line_type(Path | str | None)
    <class 'pathlib.Path'>
    >>> command_line_type(str | tuple[str, ...])
    list[str]
    """
    kinds = [kind for kind in map(_simple_type, _members(annotation)) if kind is not None]
    lists = [kind for kind in kinds if get_origin(kind) is list]
    paths = [kind for kind in kinds if kind is Path]
    return next(iter([*lists, *paths, *kinds]), None)


def _members(annotation: Any) -> list[Any]:
    """The members of a union, or the annotation itself, without None and marks."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [inner for member in get_args(annotation) for inner in _members(member)]
    return [] if annotation in {None, NoneType} else [annotation]


def _simple_type(annotation: Any) -> Any:
    is_enum = isinstance(annotation, type) and hasattr(annotation, "__members__")
    if is_enum or annotation in {Path, str, int, float, bool} or get_origin(annotation) is Literal:
        return annotation
    origin, inner = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence) and inner:
        of = command_line_type(inner[0])
        return None if of is None else list[of]  # type: ignore[valid-type]
    return None


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


def _show_all(ctx: Any, _param: Any, requested: bool) -> None:
    """Print the help of a command with all of its options, and end."""
    if requested and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _Command(TyperCommand):
    """A command whose help has its options in panels, and no types of Python.

    Of many options the first are shown: those of the first panels, and not those that connect.
    `--help-all` shows all.
    """

    def get_params(self, ctx: Any) -> Any:
        """The parameters; with `--help-all` where the first page does not take all."""
        params = super().get_params(ctx)
        options = [param for param in params if param.param_type_name == "option"]
        connects = any(getattr(param, "rich_help_panel", "") == TO_CONNECT for param in options)
        help_all = copy.copy(self.get_help_option(ctx))
        if help_all is not None and (len(options) > _FIRST_PAGE or connects):
            help_all.name, help_all.opts, help_all.callback = "help_all", ["--help-all"], _show_all
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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, panel by panel."""
        arguments: list[tuple[str, str]] = []
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                arguments.append((str(param.metavar), record[1]))
                continue
            flags = ", ".join(sorted(param.opts, key=len))
            name = flags if getattr(param, "is_flag", False) else f"{flags} {param.metavar}"
            panel = getattr(param, "rich_help_panel", None) or ""
            panels.setdefault(panel, []).append((name, record[1]))
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        room, hidden = _FIRST_PAGE, dict[str, int]()
        for panel, rows in panels.items():
            first = rows if ctx.meta.get(_ALL) else rows[: 0 if panel == TO_CONNECT else room]
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
    app.command(
        about.name.rpartition(" ")[2],
        cls=_Command,
        help=help_text(about.load()),
        context_settings=HELP_OPTIONS,
    )(callback_of(about))
    return typer.main.get_command(app)


def callback_of(about: Command) -> Callable[..., None]:
    """What typer calls: it runs the function, and prints the result."""
    function = about.load()
    of_function, connection = options_of(function)
    options = {option.name: option for option in [*of_function, *connection]}
    flags = {name: option.spelling for name, option in options.items()}
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
        spellings = flags | {name: f"{key} in {PROJECT_FILE}" for name, key in taken.items()}
        alone = any(map(is_standard_output, outputs))
        finishes = getattr(function, "finishes", False)
        uninterrupted = finishing() if finishes else contextlib.nullcontext()
        with uninterrupted, spelled_as(spellings), _printing_to_stderr(alone):
            try:
                with _printing_to_stderr(as_json):
                    to_connect = {option.name for option in connection}
                    arguments = _with_project(function, arguments, taken, to_connect)
                    result = run_job(about, function, arguments, to_connect)
            except OwpcLtrError as error:
                if as_json or str(error.result):
                    _show(error.result, [], as_json=as_json)
                raise
            _show(None if result is None else shows(result), outputs, as_json=as_json)
            # A script learns of a bad result by the command's exit code.
            refusal = getattr(result, "refusal", None)
            if refusal is not None:
                raise refusal

    parameters = [_keyword_only("ctx", inspect.Parameter.empty, typer.Context)]
    parameters += [option.as_typer() for option in options.values()]
    if keys:
        ignored = typer.Option("--no-project", callback=read, is_eager=True, hidden=True)
        parameters.append(_keyword_only("no_project", False, Annotated[bool, ignored]))
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
    return typed | {name: arguments[name] for name in apply}


def _printing_to_stderr(needed: bool) -> contextlib.AbstractContextManager[Any]:
    """What is printed in this block goes to standard error, if that is needed."""
    return contextlib.redirect_stdout(sys.stderr) if needed else contextlib.nullcontext()


_JSON = _keyword_only(
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


def connection_options() -> list[Option]:
    """The options of `connect`."""
    from owpc_ltr.engine.connect import connect

    options = filter(None, map(option_of, described(connect).parameters.values()))
    return [replace(option, argument=False) for option in options]


def options_of(function: Callable[..., Any]) -> tuple[list[Option], list[Option]]:
    """The options of a function, and those of the cluster that it works on, if it does."""
    parameters = dict(all_parameters(function))
    connection: list[Option] = []
    cluster = parameters.pop("cluster", None)
    if cluster is not None:
        without = NO_STORE if NO_STORE in marks_of(cluster) else ()
        connection = [option for option in connection_options() if option.name not in without]
    return list(filter(None, map(option_of, parameters.values()))), connection


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
            f"{option_name(idle)} has no effect without {option_name(marks[0].parameter)} "
            f"{marks[0].prefix}…: leave it out"
        )
    return False


def _outputs(function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[Path]:
    """The files that are to be written."""
    parameters = all_parameters(function)
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
    arguments = in_options(bare, arguments)
    try:
        if "progress" not in parameters:
            return bare(**arguments)
        with progress() if show is None else contextlib.nullcontext(show) as shown:
            return bare(**arguments, progress=shown)
    except ModuleNotFoundError as error:
        raise about.missing_package(error) from error
