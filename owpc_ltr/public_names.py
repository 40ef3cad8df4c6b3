"""Public names of a module, each imported when it is first used, and what `help()` shows of them.

    _HOMES = homes({"training.train": "train"})

    if TYPE_CHECKING:
        from owpc_ltr.training.train import train as train
    else:
        __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> Any:
        return public_name(name, globals(), _HOMES)

`train as train` says to type checkers that it is public; a test compares them with the table.
The help of a public function lists its parameters, each with its type, its default and the text of
its `Help`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from owpc_ltr.signatures import described, help_of, marks_of

_WIDTH = 80

_INDENT = "    "

_EXAMPLES = re.compile(r"^>>> ", re.MULTILINE)

_RAISES = re.compile(r"(?:^|(?<=[.:]\s))Raises ", re.MULTILINE)


def with_help(public: Any) -> Any:
    """The same function or class, with the help of its parameters.

    Of a class, the methods that are jobs get it, and the class itself if its fields have help.
    Everything else is returned as it is.
    """
    if inspect.isclass(public):
        for member in list(vars(public).values()):
            if hasattr(member, "shows"):
                with_help(member)
    takes_help = inspect.isfunction(public) or is_dataclass(public)
    if takes_help and not hasattr(public, "__signature__"):
        _add_help(public)
    return public


def _add_help(public: Any) -> None:
    parameters = described(public).parameters.values()
    if any(map(help_of, parameters)):
        public.__doc__ = python_docstring(public)
        public.__signature__ = inspect.Signature(
            [
                parameter.replace(
                    annotation=inspect.Parameter.empty, default=_readable(parameter.default)
                )
                for parameter in parameters
            ]
        )


def python_docstring(function: Callable[..., Any]) -> str:
    """The docstring of a public function with its parameters, in the words of Python."""
    bare = inspect.unwrap(function)
    text, examples = _cut(inspect.getdoc(bare) or "", _EXAMPLES)
    text, raises = _cut(text, _RAISES)
    returned = described(bare).return_annotation
    parts = [
        text.replace("\nPython: ", "\n").strip(),
        "Parameters\n----------\n" + "\n".join(parameter_lines(bare)),
        "" if returned in {None, NoneType, Any} else f"Returns\n-------\n{type_text(returned)}",
        raises.strip(),
        examples.strip(),
    ]
    return "\n\n".join(filter(None, parts))


def _cut(text: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """The text before the first match of a pattern, and the text from there on."""
    match = pattern.search(text)
    end = len(text) if match is None else match.start()
    return text[:end], text[end:]


def parameter_lines(function: Callable[..., Any]) -> Iterator[str]:
    """Two lines or more for each parameter: its type and default, then what it means."""
    for name, parameter in described(function).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        if name == "self" or (name == "cluster" and required):
            continue
        default = ""
        if not required:
            readable = _readable(parameter.default)
            default = f", default {getattr(readable, 'value', readable)!r}"
        yield f"{name} : {type_text(parameter.annotation)}{default}"
        text = _meaning(parameter)
        if text:
            yield textwrap.fill(
                text,
                _WIDTH,
                initial_indent=_INDENT,
                subsequent_indent=_INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _meaning(parameter: inspect.Parameter) -> str:
    """What a parameter means: the text of its `Help`, or a text in its annotation."""
    about = help_of(parameter)
    if about is not None:
        return about.text
    if parameter.name == "progress":
        return "Called with what is being done and the share of it that is done, or None."
    if parameter.name == "cluster":
        return "The cluster, as `connect()` returns it, where the job needs one."
    return next((mark for mark in marks_of(parameter) if isinstance(mark, str)), "")


_TYPE_NAMES = {None: "None", NoneType: "None", Any: "any", Ellipsis: "..."}


def type_text(annotation: Any) -> str:
    """A type as a reader writes it.

    >>> type_text(Annotated[str | None, "text"])
    'str | None'
    """
    if isinstance(annotation, list):
        return f"[{', '.join(map(type_text, annotation))}]"
    if annotation in _TYPE_NAMES:
        return _TYPE_NAMES[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(inner[0])
    if origin is Literal:
        return " | ".join(map(repr, inner))
    if origin in {Union, UnionType}:
        return " | ".join(dict.fromkeys(map(type_text, inner)))
    name = str(getattr(annotation, "__forward_arg__", getattr(annotation, "__name__", annotation)))
    return f"{name}[{', '.join(map(type_text, inner))}]" if inner else name


class _Named:
    """A default whose own repr has an address."""

    def __init__(self, value: Any) -> None:
        self.name = str(getattr(value, "__name__", value))

    def __repr__(self) -> str:
        return self.name


def _readable(default: Any) -> Any:
    is_empty = default is inspect.Parameter.empty
    return _Named(default) if callable(default) and not is_empty else default


def homes(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each public name, of a table of the names by module of `owpc_ltr`."""
    return {
        name: f"owpc_ltr.{module}" for module, listed in names.items() for name in listed.split()
    }


def public_name(
    name: str,
    namespace: dict[str, Any],
    homes: Mapping[str, str],
    otherwise: Callable[[str], Any] | None = None,
) -> Any:
    """Import a public name into the namespace of its module, with the help of its parameters.

    `homes` has the module that each name is imported from; `otherwise` finds a name that is not
    there, or returns None. Raises AttributeError for an unknown name, with the one that is meant.
    """
    from importlib import import_module

    if name in homes:
        value = getattr(import_module(homes[name]), name)
    else:
        value = None if otherwise is None else otherwise(name)
    if value is None:
        from owpc_ltr.names import did_you_mean

        hint = "" if name.startswith("_") else did_you_mean(name, homes)
        raise AttributeError(
            f"module '{namespace['__name__']}' has no attribute '{name}'{': ' * bool(hint)}{hint}"
        )
    namespace[name] = with_help(value)
    return value
