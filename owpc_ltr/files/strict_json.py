"""JSON from strangers: no duplicate keys, no NaN, no bombs, and typed looks inside."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.json_values import each_once

LARGEST_FILE = 50_000_000
DEEPEST_NESTING = 200
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def parse_json(content: bytes | str, where: str) -> Any:
    """The value of a JSON text. Raises BadInput naming `where` and what is wrong."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if len(raw) > LARGEST_FILE:
        raise BadInput(f"{where} is larger than {LARGEST_FILE} bytes: not a model")
    if _nesting(raw) > DEEPEST_NESTING:
        raise BadInput(f"{where} is nested deeper than {DEEPEST_NESTING} levels: not a model")
    try:
        return json.loads(raw, object_pairs_hook=each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not valid JSON: {error}") from error


def take(content: Any, key: str, where: str) -> Any:
    """The value of a key of a JSON object. Raises BadInput."""
    if not isinstance(content, dict):
        raise BadInput(f"{where} is {a_json(content)}, not an object")
    if key not in content:
        raise BadInput(f"{where} has no '{key}'")
    return content[key]


def take_object(content: Any, key: str, where: str) -> dict[str, Any]:
    """A JSON object under a key. Raises BadInput."""
    value = take(content, key, where)
    if not isinstance(value, dict):
        raise BadInput(f"'{key}' of {where} is {a_json(value)}, not an object")
    return value


def take_list(content: Any, key: str, where: str) -> list[Any]:
    """A JSON list under a key. Raises BadInput."""
    value = take(content, key, where)
    if not isinstance(value, list):
        raise BadInput(f"'{key}' of {where} is {a_json(value)}, not a list")
    return value


def take_text(content: Any, key: str, where: str) -> str:
    """A JSON string under a key. Raises BadInput."""
    value = take(content, key, where)
    if not isinstance(value, str):
        raise BadInput(f"'{key}' of {where} is {a_json(value)}, not text")
    return value


def take_strings(content: Any, key: str, where: str) -> list[str]:
    """A JSON list of strings under a key. Raises BadInput."""
    values = take_list(content, key, where)
    for value in values:
        if not isinstance(value, str):
            raise BadInput(f"'{key}' of {where} holds {a_json(value)}, not only strings")
    return values


def take_integers(content: Any, key: str, where: str) -> NDArray[np.int64]:
    """A JSON list of 32-bit integers (or true and false) under a key. Raises BadInput."""
    values = take_list(content, key, where)
    for value in values:
        if type(value) not in {int, bool} or not -(2**31) <= value < 2**31:
            raise BadInput(f"'{key}' of {where} holds {a_json(value)}, not only 32-bit integers")
    return np.array(values, dtype=np.int64)


def take_numbers(content: Any, key: str, where: str) -> Vector:
    """A JSON list of finite numbers under a key. Raises BadInput."""
    values = take_list(content, key, where)
    for value in values:
        if type(value) not in {int, float}:
            raise BadInput(f"'{key}' of {where} holds {a_json(value)}, not only numbers")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise BadInput(f"'{key}' of {where} holds a number that is too large") from error
    if not np.isfinite(numbers).all():
        raise BadInput(f"'{key}' of {where} holds a number that is not finite")
    return numbers


def a_json(value: object) -> str:
    """What a JSON value is, shortly, for messages."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return json.dumps(value)[:60]
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"


def shown(text: str) -> str:
    """The start of a text from a file, on one line, for messages."""
    return "".join(c if c.isprintable() else "?" for c in text[:60])


def _nesting(raw: bytes) -> int:
    bare = np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)
    opened = (bare == ord("{")) | (bare == ord("["))
    closed = (bare == ord("}")) | (bare == ord("]"))
    steps = opened.astype(np.int8) - closed.astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
