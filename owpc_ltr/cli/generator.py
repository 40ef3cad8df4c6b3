"""Commands of the command line, made from the signatures of public functions.

Positional parameters are arguments, unless their `Help` names a flag; keyword-only ones are
options, and so are the fields of objects of options. Parameters without a `Help` are for Python
only, but for `progress`, and `cluster`, which stands for the options of `connect`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
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

from owpc_ltr.cli import finishing, print_json, progress
from owpc_ltr.engine.options import TO_CONNECT
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.files.output import is_standard_output
from owpc_ltr.signatures import (
    NAMES,
    Argument,
    Command,
    ConnectsWith,
    Help,
    Progress,
    Without,
    Writes,
    all_parameters,
    check,
    described,
    help_of,
    marks_of,
    option_classes,
    option_name,
    spelled_as,
)

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
PANELS = ("", "Data", "Model", "Engine", "Advanced", TO_CONNECT)
"""The parts of a help page, in order; others follow them."""
_FIRST_PAGE = 15
"""Options on the first page of a command's help."""
_ALL = "owpc_ltr.help_all"

_METAVARS = {Path: "FILE", int: "N", float: "NUMBER"}
_NAMED_METAVARS = {
    name: metavar
    for metavar, names in {
        "NAME": (
            "loss losses optimizer optimizers reranker generator data_sets ubi_queries ubi_events"
        ),
        "RANKER": "baseline base",
        "SPLIT": "split",
        "FIELD": "id_field document_field",
        "TIME": "since until",
        "PLACE": "dask workers",
        "FORMAT": "to",
        "NAME=VALUE": "params",
        "ROLE=COLUMN,…": "columns",
        "ACTION=VALUE,…": "actions",
        "ACTION,…": "impressions",
        "FIELD,…": "fields",
        "RANKER,…": "rankers",
        "champion|challenger": "role",
        "K/N": "part",
        "HH:MM-HH:MM": "schedule",
        "RANGE": "grades",
        "SIZE": "heap",
        "VERSION": "version",
    }.items()
    for name in names.split()
}
"""What stands for the text of an option, by its parameter: the same on every command."""
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
            return "|".join(str(one.value) for one in kind)
        if kind is str:
            usual = "NAME" if self.meaning in NAMES else "TEXT"
            return _NAMED_METAVARS.get(self.name, usual)
        return _METAVARS.get(kind, "VALUE")

    @property
    def names(self) -> str:
        """What the shell completes the value with, as `Help.names` has it."""
        if self.help.names:
            return self.help.names
        if getattr(self.help, "unless", None) == "feature:":
            return "ranker"
        return self.meaning.value if self.meaning in NAMES - {Argument.NAME} else ""

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
        how: dict[str, Any] = {"help": about.text, "min": about.min, "max": about.max}
        if self.kind is not bool:
            how["metavar"] = self.metavar
        if self.names:
            how["autocompletion"] = _completer(self.names)
        if not self.argument:
            how["rich_help_panel"] = about.panel
        default = inspect.Parameter.empty if self.required else self.default
        if self.argument:
            info: Any = typer.Argument(**how)
        else:
            short = about.short or ("-o" if self.name == "out" else None)
            info = typer.Option(self.flag, *([short] if short else []), **how)
        kind = self.kind if self.required or default is not None else self.kind | None
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind, info],
        )

    @property
    def default(self) -> Any:
        """The default, where the help can show it; None leaves it to the function."""
        default = self.parameter.default
        if self.kind is bool:
            return False if default in {True, False} else None
        if self.help.parse is not None or not isinstance(default, str | int | float | Path):
            return None
        return default

    def value(self, given: Any) -> Any:
        """The parameter's value for what the command line has."""
        if self.kind is bool and self.parameter.default is True:
            return not given
        return given if self.help.parse is None else self.help.parse(given)


def _completer(kind: str) -> Callable[[Any], list[str]]:
    def offer(ctx: Any) -> list[str]:
        from owpc_ltr.cli.completion import names_for

        return names_for(kind, ctx)

    return offer


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
    if annotation in {Path, str, int, float, bool} or get_origin(annotation) is Literal:
        return annotation
    if isinstance(annotation, type) and hasattr(annotation, "__members__"):
        return annotation
    origin, inner = get_origin(annotation), get_args(annotation)
    sequence = isinstance(origin, type) and issubclass(origin, list | tuple)
    if (sequence or getattr(origin, "__name__", "") == "Sequence") and inner:
        of = command_line_type(inner[0])
        return None if of is None else list[of]  # type: ignore[valid-type]
    return None


class LazyCommand(TyperCommand):
    """A command whose function is imported when it runs, or its help is asked for."""

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


def _show_all(ctx: Any, _param: Any, asked: bool) -> None:
    """Print the help of a command with all of its options, and end."""
    if asked and not ctx.resilient_parsing:
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
        options = [one for one in params if one.param_type_name == "option"]
        connects = any(getattr(one, "rich_help_panel", "") == TO_CONNECT for one in options)
        if len(options) <= _FIRST_PAGE and not connects:
            return params
        whole = copy.copy(self.get_help_option(ctx))
        if whole is not None:
            whole.name, whole.opts, whole.callback = "help_all", ["--help-all"], _show_all
            whole.help = "Show all options and exit."
            params.append(whole)
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without braces around what is required."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{p: [] for p in PANELS}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                panels["Arguments"].append((str(param.metavar), record[1]))
                continue
            flags = ", ".join(sorted(param.opts, key=len))
            name = flags if getattr(param, "is_flag", False) else f"{flags} {param.metavar}"
            panel = getattr(param, "rich_help_panel", None) or ""
            panels.setdefault(panel, []).append((name, record[1]))
        left, hidden = math.inf if ctx.meta.get(_ALL) else _FIRST_PAGE, dict[str, int]()
        for panel, rows in panels.items():
            room = 0 if panel == TO_CONNECT and left != math.inf else left
            shown = rows if panel == "Arguments" else rows[: int(min(room, len(rows)))]
            left -= 0 if panel == "Arguments" else len(shown)
            if len(shown) < len(rows):
                hidden[panel] = len(rows) - len(shown)
            if shown:
                title = panel if panel in {"", "Arguments"} else f"{panel} options"
                with formatter.section(title or "Options"):
                    formatter.write_dl(shown)
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
    own, connection = options_of(function)
    options = {option.name: option for option in [*own, *connection]}
    flags = {option.name: option.spelling for option in options.values()}
    shows = getattr(function, "shows", None) or (lambda result: result)

    finishes = getattr(function, "finishes", False)

    def run(*, as_json: bool = False, **values: Any) -> None:
        given = {
            name: options[name].value(value)
            for name, value in values.items()
            if value is not None and value != []
        }
        outputs = _outputs(function, given)
        alone = any(map(is_standard_output, outputs))
        uncut = finishing() if finishes else contextlib.nullcontext()
        with uncut, spelled_as(flags), _printing_to_stderr(alone):
            try:
                with _printing_to_stderr(as_json):
                    to_connect = {option.name for option in connection}
                    result = run_job(about, function, given, to_connect)
            except OwpcLtrError as error:
                if as_json or str(error.result):
                    _show(error.result, [], as_json=as_json)
                raise
            _show(None if result is None else shows(result), outputs, as_json=as_json)
            # A finding that is bad news for a script: the command tells it by its exit code.
            refusal = getattr(result, "refusal", None)
            if refusal is not None:
                raise refusal

    parameters = [option.as_typer() for option in options.values()]
    if described(function).return_annotation not in {None, NoneType}:
        parameters.append(_JSON)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _printing_to_stderr(needed: bool) -> contextlib.AbstractContextManager[Any]:
    """What is printed in this block goes to standard error, if that is needed."""
    return contextlib.redirect_stdout(sys.stderr) if needed else contextlib.nullcontext()


_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print one JSON object.")],
)


def _show(result: Any, outputs: Sequence[Path], *, as_json: bool) -> None:
    """Print a result, and which files were written."""
    if as_json and result is not None:
        print_json(result.as_dict())
    if as_json:
        return
    if result is not None:
        typer.echo(str(result))
    for path in outputs:
        typer.echo(f"wrote {path}")


def help_text(function: Callable[..., Any]) -> str:
    """The docstring as a help page has it: the summary, then all but what is for Python."""
    # The wrapper's docstring may be that for Python by now, which lists the parameters.
    text = inspect.getdoc(inspect.unwrap(function)) or ""
    end = _NO_HELP.search(text)
    told = text[: end.start()] if end else text
    summary, _, rest = told.strip().partition(".")
    if rest and not rest[0].isspace():
        summary, rest = told.strip(), ""
    return f"{' '.join(summary.split())}.\n\n{rest.strip()}".strip()


def _connection() -> list[Option]:
    """The options of `connect`."""
    options = filter(None, map(option_of, described(_connect()).parameters.values()))
    return [replace(one, argument=False) for one in options]


def connection_rows() -> list[tuple[str, str]]:
    """The options of `connect` and their texts, as a help page lists them."""
    return [
        (one.flag if one.kind is bool else f"{one.flag} {one.metavar}", one.help.text)
        for one in _connection()
    ]


def options_of(function: Callable[..., Any]) -> tuple[list[Option], list[Option]]:
    """The options of a function, and those of the cluster that it works on, if it does."""
    parameters = dict(all_parameters(function))
    connection: list[Option] = []
    cluster = parameters.pop("cluster", None)
    if cluster is not None:
        marks = marks_of(cluster)
        without = {name for one in marks if isinstance(one, Without) for name in one.parameters}
        connection = [one for one in _connection() if one.name not in without]
    return [one for one in map(option_of, parameters.values()) if one is not None], connection


def _connects(
    cluster: inspect.Parameter, given: Mapping[str, Any], to_cluster: Mapping[str, Any]
) -> bool:
    """Whether a job connects: always, or where the parameter that needs a cluster is given.

    Without such a parameter a cluster that has a default is connected to where an option names it.
    """
    marks = marks_of(cluster)
    needed = [one for one in marks if isinstance(one, ConnectsWith)]
    if needed:
        connects = any(
            one.parameter in given and str(given[one.parameter]).startswith(one.prefix)
            for one in needed
        )
        if not connects and any(to_cluster.values()):
            idle = next(name for name, value in to_cluster.items() if value)
            raise UsageError(
                f"{option_name(idle)} has no effect without {option_name(needed[0].parameter)} "
                f"{needed[0].prefix}…: leave it out"
            )
        return connects
    return cluster.default is cluster.empty or any(to_cluster.values())


def _connect() -> Callable[..., Any]:
    from owpc_ltr.engine.connect import connect

    return connect


def _outputs(function: Callable[..., Any], given: Mapping[str, Any]) -> list[Path]:
    """The files that are to be written."""
    parameters = all_parameters(function)
    return [
        value
        for name, value in given.items()
        if name in parameters and isinstance(help_of(parameters[name]), Writes)
    ]


def run_job(
    about: Command,
    function: Callable[..., Any],
    given: dict[str, Any],
    connection: Collection[str],
    show: Progress | None = None,
) -> Any:
    """The result of the function, whose parameters are checked before it connects.

    `connection` names those of the `given` options that are for `connect`. `show` receives the
    progress; default: a bar.
    """
    bare: Callable[..., Any] = inspect.unwrap(function)
    to_cluster = {name: given.pop(name) for name in set(connection) & set(given)}
    check(bare, given)
    for path in _outputs(bare, given):
        if path.is_symlink() and not path.is_dir():
            print(f"{path} is a link: {os.path.realpath(path)} is written", file=sys.stderr)
    parameters = described(bare).parameters
    cluster = parameters.get("cluster")
    if cluster is not None and _connects(cluster, given, to_cluster):
        connect = _connect()
        check(connect, to_cluster)
        given["cluster"] = connect(**to_cluster)
        settings = given["cluster"].engine.settings
        # A node that nobody named may be somebody else's.
        why = "" if settings.given else " (OWPC_LTR_URL is not set: the local node)"
        if why or getattr(function, "changes_cluster", False):
            print(f"cluster: {settings.url}{why}", file=sys.stderr)
    for name, cls in option_classes(bare).items():
        own = {field: given.pop(field) for field in described(cls).parameters if field in given}
        if own:
            given[name] = cls(**own)
    try:
        if "progress" not in parameters:
            return bare(**given)
        if show is not None:
            return bare(**given, progress=show)
        with progress() as bar:
            return bare(**given, progress=bar)
    except ModuleNotFoundError as error:
        raise about.missing_package(error) from error
