"""Options of the command line, made from the parameters of public functions.

Positional parameters are arguments, unless their `Help` names a flag; keyword-only ones are
options. Parameters without a `Help` are for Python only. `cluster` stands for the options of
`connect`, and `out` has the short form -o.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from owpc_ltr.host.commands import NO_STORE
from owpc_ltr.signatures import Argument, Help, described, help_of, marks_of

_METAVARS = {Path: "FILE", int: "N", float: "NUMBER"}


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
        about, text = self.help, self.help.text
        if get_origin(self.kind) is list and not self.argument:
            text = f"{text.removesuffix('.')}; may be repeated."
        keywords: dict[str, Any] = {"help": text, "min": about.min, "max": about.max}
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
        return keyword_only(self.name, default, Annotated[kind, info])

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


def keyword_only(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    """A parameter that typer takes for an option."""
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


def connection_options() -> list[Option]:
    """The options of `connect`."""
    from owpc_ltr.engine.connect import connect

    options = filter(None, map(option_of, described(connect).parameters.values()))
    return [replace(option, argument=False) for option in options]


def named_options(function: Callable[..., Any]) -> dict[str, Option]:
    """All options of a function's command, by the names of their parameters."""
    of_function, connection = options_of(function)
    return {option.name: option for option in (*of_function, *connection)}


def options_of(function: Callable[..., Any]) -> tuple[list[Option], list[Option]]:
    """The options of a function, and those of the cluster that it works on, if it does."""
    parameters = dict(described(function).parameters)
    connection: list[Option] = []
    cluster = parameters.pop("cluster", None)
    if cluster is not None:
        without = NO_STORE if NO_STORE in marks_of(cluster) else ()
        connection = [option for option in connection_options() if option.name not in without]
    return list(filter(None, map(option_of, parameters.values()))), connection
