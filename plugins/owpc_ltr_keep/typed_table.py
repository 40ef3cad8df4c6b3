"""Tables of TOML or JSON as frozen dataclasses: each mistake names the file, the table and the key.

A field may be text, a number, true or false, a table (another dataclass, or a mapping), or a list
(a tuple) of one of these; None stands for a key that is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from owpc_ltr.errors import BadInput
from owpc_ltr.names import did_you_mean

T = TypeVar("T")

_TYPES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def read_table(kind: type[T], content: Mapping[str, Any], place: str) -> T:
    """A table as an object of this class. Raises BadInput for what no such table has."""
    types = get_type_hints(kind)
    refuse_unknown(content, types, place)
    for key in fields(kind):  # type: ignore[arg-type]
        required = key.default is MISSING and key.default_factory is MISSING
        if required and key.name not in content:
            raise BadInput(f"{place} lacks the key '{key.name}'")
    return kind(**{key: _value(types[key], value, place, key) for key, value in content.items()})


def refuse_unknown(content: Mapping[str, Any], names: Collection[str], place: str) -> None:
    """Raise BadInput for a key that is none of these names."""
    for key in content:
        if key not in names:
            advice = did_you_mean(key, names, f"use {', '.join(sorted(names))}")
            raise BadInput(f"{place}: there is no key '{key}': {advice}")


def _value(annotation: Any, value: Any, place: str, key: str) -> Any:
    """A value of the annotated type, which may be optional."""
    options = get_args(annotation)
    if NoneType in options:
        if value is None:
            return None
        annotation = next(option for option in options if option is not NoneType)
    kind = get_origin(annotation) or annotation
    if kind is dict or is_dataclass(kind):
        if not isinstance(value, dict):
            raise BadInput(f"{place}: '{key}' is a table: write [{key}]")
        return value if kind is dict else read_table(annotation, value, f"{place}, [{key}]")
    if kind is tuple:
        if not isinstance(value, list):
            raise BadInput(f'{place}: {key} = {value!r} must be a list, as ["a", "b"]')
        element = get_args(annotation)[0]
        name = f"{key} {{}}" if is_dataclass(element) else f"an element of {key}"
        return tuple(
            _value(element, value_of_element, place, name.format(n))
            for n, value_of_element in enumerate(value, 1)
        )
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{place}: {key} = {value!r} must be {_TYPES[kind]}")
    return value
