"""Tables of TOML or JSON as frozen dataclasses: each mistake names the file, the table and the key.

A field may be text, a number, true or false, a table (another dataclass, or a mapping), or a list
(a tuple) of one of these; None stands for a key that is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text
from owpc_ltr.text import did_you_mean

T = TypeVar("T")

_LARGEST = 1 << 20
_TYPES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file. Raises BadInput, with the line where the syntax is wrong."""
    import tomllib

    try:
        return tomllib.loads(read_text(Path(path), _LARGEST))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error


def read_table(kind: type[T], content: Mapping[str, Any], place: str, table: str = "") -> T:
    """A table as an object of this class; `table` is its name in the file, or its document.

    Raises BadInput for what no such table has.
    """
    types, where = get_type_hints(kind), _where(place, table)
    refuse_unknown(content, types, where)
    for key in fields(kind):  # type: ignore[arg-type]
        required = key.default is MISSING and key.default_factory is MISSING
        if required and key.name not in content:
            raise BadInput(f"{where} lacks the key '{key.name}'")
    return kind(
        **{key: _value(types[key], value, place, table, key) for key, value in content.items()}
    )


def refuse_unknown(content: Mapping[str, Any], names: Collection[str], place: str) -> None:
    """Raise BadInput for a key that is none of these names."""
    for key in content:
        if key not in names:
            advice = did_you_mean(key, names, f"use {', '.join(sorted(names))}")
            raise BadInput(f"{place}: there is no key '{key}': {advice}")


def _where(place: str, table: str) -> str:
    return f"{place}, [{table}]" if table else place


def _value(annotation: Any, value: Any, place: str, table: str, key: str) -> Any:
    """A value of the annotated type, which may be optional."""
    options, where = get_args(annotation), _where(place, table)
    if annotation is Any or (value is None and NoneType in options):
        return value
    if NoneType in options:
        annotation = next(option for option in options if option is not NoneType)
    kind = get_origin(annotation) or annotation
    if kind is dict or is_dataclass(kind):
        inner = f"{table}.{key}" if table else key
        if not isinstance(value, dict):
            raise BadInput(f"{where}: '{key}' is a table: write [{inner}]")
        if kind is not dict:
            return read_table(annotation, value, place, inner)
        element = get_args(annotation)[1]
        return {name: _value(element, part, place, inner, name) for name, part in value.items()}
    if kind is tuple:
        if not isinstance(value, list):
            raise BadInput(f'{where}: {key} = {value!r} must be a list, as ["a", "b"]')
        element = get_args(annotation)[0]
        name = f"{key} {{}}" if is_dataclass(element) else f"an element of {key}"
        return tuple(
            _value(element, part, place, table, name.format(number))
            for number, part in enumerate(value, 1)
        )
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{where}: {key} = {value!r} must be {_TYPES[kind]}")
    return value
