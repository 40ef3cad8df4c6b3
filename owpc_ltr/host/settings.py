"""Settings: `loss.generator=top` becomes `OWPC(generator="top")`, from the dataclass fields.

A plugin checks its own, however it is made, so that `LaRank(C=1)` has the C of `LaRank(C=1.0)`:

    target: Literal["label", "gain"] = "label"

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> Vector:
        return np.array([choice_number(self, "target")])

The type of a field lists its choices: other values are refused, and kernels read the choice's
number.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from owpc_ltr.errors import UsageError

T = TypeVar("T")


_SPAN = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?)-([0-9.]+(?:e[+-]?[0-9]+)?)", re.IGNORECASE)
"""Two numbers with a dash between them, which many tools read as a range."""


def named_settings(texts: Iterable[str]) -> dict[str, str]:
    """Each `NAME=VALUE` by its name, of which the value is still text. Raises UsageError.

    >>> named_settings(["loss.generator=top", "C=10"])
    {'loss.generator': 'top', 'C': '10'}
    """
    return _named_values(texts, "setting", "C=10 or loss.generator=top")


def named_grids(texts: Iterable[str]) -> dict[str, str]:
    """Each `NAME=VALUES` by its name, of which the values are still text. Raises UsageError."""
    return _named_values(texts, "grid", "C=1e-3..1e3 or loss.p=5,10,20")


def configure(cls: type[T], values: Mapping[str, Any]) -> T:
    """Make a plugin object from settings given as text or as values.

    Raises UsageError naming the plugin, the setting, the value and what would do.
    """
    plugin = _name_of(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    hints = _hints_of(cls)  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            known = ", ".join(describe_settings(cls)) or "none"
            raise UsageError(f"'{plugin}' has no setting '{name}'; its settings: {known}")
    converted = {
        name: convert(plugin, name, value, hints[name])
        if isinstance(value, str)
        else _checked(plugin, name, value, hints[name])
        for name, value in values.items()
    }
    try:
        return cls(**converted)
    except ValueError as error:
        raise UsageError(f"'{plugin}' refuses its settings: {error}") from error


def convert(plugin: str, name: str, text: str, hint: Any) -> Any:
    """The value that a text stands for."""
    refusal = _refusal(plugin, name, text, hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        for choice in arguments:
            if str(choice) == text:
                return choice
        raise refusal
    if origin in {Union, UnionType}:
        if NoneType in arguments and text.lower() in {"", "none"}:
            return None
        hint = next(argument for argument in arguments if argument is not NoneType)
        return convert(plugin, name, text, hint)
    if hint is bool:
        if text.lower() in {"true", "yes", "1"}:
            return True
        if text.lower() in {"false", "no", "0"}:
            return False
        raise refusal
    try:
        return hint(text)
    except (TypeError, ValueError):
        raise refusal from None


def check_settings(plugin: Any) -> None:
    """Make whole numbers floats where floats are meant, and refuse what is of another type.

    Raises UsageError naming the plugin, the setting, the value, and the choices if there are any.
    """
    plugin_name = _name_of(plugin.__class__)
    for name, hint in _hints_of(plugin.__class__).items():
        value = getattr(plugin, name)
        checked = _checked(plugin_name, name, value, hint)
        if checked is not value:
            object.__setattr__(plugin, name, checked)


def choice_number(plugin: Any, name: str) -> float:
    """The place of a field's value among its choices, from 0, as a kernel reads it."""
    return float(choices_of(plugin.__class__)[name].index(getattr(plugin, name)))


def describe_settings(cls: type[Any]) -> list[str]:
    """Each setting as `name=default`."""
    return [
        f"{field.name}={'' if field.default is None else field.default}"
        for field in dataclasses.fields(cls)
        if field.init
    ]


def values_of(plugin: Any) -> dict[str, Any]:
    """The settings of a plugin object, as JSON."""
    return {
        field.name: getattr(plugin, field.name)
        for field in dataclasses.fields(plugin)
        if field.init
    }


@cache
def choices_of(cls: type) -> dict[str, tuple[Any, ...]]:
    """The fields of Literal types of a class, and the choices of each."""
    hints = get_type_hints(cls)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _named_values(texts: Iterable[str], what: str, example: str) -> dict[str, str]:
    named = {}
    for text in texts:
        name, equals, value = text.partition("=")
        names = name.strip().split(".")
        if not (equals and all(names) and (value or what == "setting")):
            raise UsageError(f"cannot read the {what} '{text}': write {example}")
        named[name.strip()] = value.strip()
    return named


def _name_of(cls: type[Any]) -> str:
    return str(getattr(cls, "name", cls.__name__))


@cache
def _hints_of(cls: Any) -> dict[str, Any]:
    """The type of each setting, by its name."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _checked(plugin: str, name: str, value: Any, hint: Any) -> Any:
    """The value as its type wants it: what is a whole number is a number too."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        others = [argument for argument in arguments if argument is not NoneType]
        if len(others) > 1 or (value is None and NoneType in arguments):
            return value
        return _checked(plugin, name, value, others[0])
    if origin is Literal:
        fits = value in arguments
    elif hint in {int, float}:
        # NumPy's numbers are registered as such; True is a 1 that nobody means.
        number = Real if hint is float else Integral
        fits = isinstance(value, number) and not isinstance(value, bool)
        value = value if not fits or type(value) is hint else hint(value)
    else:
        # Of other types only the plugin knows what fits.
        fits = hint not in {bool, str} or isinstance(value, hint)
    if not fits:
        raise _refusal(plugin, name, repr(value), hint)
    return value


def _refusal(plugin: str, name: str, value: str, hint: Any) -> UsageError:
    ends = _SPAN.fullmatch(value)
    meant = f"; a grid is {name}={ends[1]}..{ends[2]}" if ends and hint in {int, float} else ""
    return UsageError(
        f"'{plugin}' cannot take {name}={value}: it must be {_describe_type(hint)}{meant}"
    )


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(hint, str(hint))
