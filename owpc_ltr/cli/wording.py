"""Texts of the library in the words of the command line.

Errors, warnings, help texts and docstrings name parameters as Python does, in backticks. Here
`folds` becomes --folds, `normalise="scale"` becomes --normalise scale, and
`log_features(extra_features=…)` becomes owpc-ltr log-features --extra-features …
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import get_origin

from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.options import Option, named_options
from owpc_ltr.host.commands import Command, plugin_commands
from owpc_ltr.text import SPELLING

Options = Mapping[str, Option]
"""The options of a command by the names of its parameters."""

_CODE = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|`([^`]+)`")
"""A value in quotes, which may hold anything and stays, or code between backticks."""
_OPTIONS: ContextVar[tuple[Options, Mapping[str, str]]] = ContextVar("options", default=({}, {}))
"""Those of the running command, and where parameters stand that are not given by an option."""


@contextmanager
def running(options: Options, places: Mapping[str, str]) -> Iterator[None]:
    """In this block these are the options of the running command.

    `places` says of a parameter that a file gave where it stands.
    """
    token, spelling = _OPTIONS.set((options, places)), SPELLING.set(as_typed)
    try:
        yield
    finally:
        SPELLING.reset(spelling)
        _OPTIONS.reset(token)


def as_typed(text: str, options: Options | None = None) -> str:
    """A text in which parameters are options; default: of the running command.

    Other code between backticks, and parameters that the command has not, stay as they are.
    """
    known, places = _OPTIONS.get() if options is None else (options, {})

    def typed(match: re.Match[str]) -> str:
        code = match[1]
        return (code and (places.get(code) or _typed(code, known))) or match[0]

    return _CODE.sub(typed, text)


def _typed(code: str, options: Options) -> str | None:
    """What a user types for a parameter, its value, or a call; None where it is none of them."""
    call = _parsed(code) or _parsed(f"_({code})")
    if isinstance(call, ast.Name):
        return options[call.id].spelling if call.id in options else None
    if not isinstance(call, ast.Call):
        return None
    words, job = [], ast.unparse(call.func)
    if job != "_":
        command = _command(job.removeprefix("cluster.").replace(".", "_"))
        if command is None:
            return None
        here = options
        if call.args or call.keywords:
            options = named_options(command.load())
        # Options of the running command itself need no name of it.
        if call.args or not call.keywords or options != here:
            # A group shows its list without a word, and of one thing with it.
            words += ["owpc-ltr", command.name if call.args else command.name.removesuffix(" show")]
    for argument in call.args:
        option = options.get(argument.id) if isinstance(argument, ast.Name) else None
        words += _values(argument) if option is None else _with_value(option, [option.metavar])
    for keyword in call.keywords:
        option = options.get(str(keyword.arg))
        if option is None:
            return None
        words += _with_value(option, _values(keyword.value))
    return " ".join(words)


def _parsed(code: str) -> ast.expr | None:
    try:
        return ast.parse(code.replace("…", "..."), mode="eval").body
    except SyntaxError:
        return None


def _with_value(option: Option, values: Sequence[str]) -> list[str]:
    """The option with its values, each of a list after the option again; a flag stands alone."""
    if option.argument:
        return list(values)
    if option.kind is bool:
        return [option.flag]
    if get_origin(option.kind) is not list:
        return [option.flag, ",".join(values)]
    return [word for value in values for word in (option.flag, value)]


def _values(value: ast.expr) -> list[str]:
    """What a user types for a value: a name stands for what a user knows, as FILE."""
    if isinstance(value, ast.List | ast.Tuple):
        return [text for element in value.elts for text in _values(element)]
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return [f"{_values(key)[0]}={_values(of)[0]}" for key, of in pairs if key is not None]
    if isinstance(value, ast.Constant):
        return ["…" if value.value is ... else shlex.quote(str(value.value))]
    return [ast.unparse(value)]


def _command(job: str) -> Command | None:
    """The command of a function; plugins are asked only where no other command has its name."""
    ours = _by_function(COMMANDS).get(job)
    return ours or _by_function(plugin_commands().commands).get(job)


@functools.cache
def _by_function(commands: tuple[Command, ...]) -> dict[str, Command]:
    """The commands by the names of their functions, in Python or in a group of the cluster's."""
    jobs = [command for command in commands if command.function]
    by_function = {command.function.partition(":")[2]: command for command in jobs}
    by_name = {command.public_name: command for command in jobs}
    # The group of commands is `featureset`, as in the LTR plugin; in Python it is a plural.
    plural = {name.replace("featureset_", "featuresets_"): it for name, it in by_name.items()}
    return {**by_function, **plural, **by_name}
