"""Strict JSON, read and written: every number finite, every key once, every text valid Unicode."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from owpc_ltr.errors import BadInput, give_warning
from owpc_ltr.files.input import (
    bad_line_of,
    first_duplicate,
    line_blocks,
    open_bytes,
    read_text,
    shown,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from owpc_ltr.arrays import Vector

T = TypeVar("T")
Json = dict[str, Any] | list[Any] | str | float | bool | None
"""A value of decoded JSON, of which nothing is known yet."""

LARGEST_FILE = 50_000_000
DEEPEST_NESTING = 200
_LARGEST_OBJECT = 10_000_000
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A text with its quotes, or an unterminated one up to the end; matched in one pass."""


def parse_json(content: bytes | str, where: str) -> Any:
    """The value of a JSON text. Raises BadInput naming `where` and what is wrong."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if len(raw) > LARGEST_FILE:
        raise BadInput(f"{where} is larger than {LARGEST_FILE} bytes: not a model")
    if nesting(raw) > DEEPEST_NESTING:
        raise BadInput(f"{where} is nested deeper than {DEEPEST_NESTING} levels: not a model")
    try:
        return json.loads(raw, object_pairs_hook=each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not valid JSON: {why_no_json(raw, error)}") from error


def why_no_json(raw: bytes, error: Exception) -> str:
    """Why the bytes are not JSON: the parser's message, if they are text, and not empty."""
    if not raw.strip():
        return "it is empty"
    binary = isinstance(error, UnicodeDecodeError) or b"\0" in raw
    return "it holds binary data" if binary else str(error)


def take(content: Json, key: str, where: str) -> Any:
    """The value of a key of a JSON object. Raises BadInput."""
    if not isinstance(content, dict):
        raise BadInput(f"{where} is {a_json(content)}, not an object")
    if key not in content:
        raise BadInput(f"{where} has no '{key}'")
    return content[key]


def take_object(content: Json, key: str, where: str) -> dict[str, Any]:
    """A JSON object under a key. Raises BadInput."""
    return _take_of_type(content, key, where, dict, "an object")


def take_list(content: Json, key: str, where: str) -> list[Any]:
    """A JSON list under a key. Raises BadInput."""
    return _take_of_type(content, key, where, list, "a list")


def take_text(content: Json, key: str, where: str) -> str:
    """A JSON string under a key. Raises BadInput."""
    return _take_of_type(content, key, where, str, "text")


def _take_of_type(content: Json, key: str, where: str, kind: type[T], words: str) -> T:
    value = take(content, key, where)
    if not isinstance(value, kind):
        raise BadInput(f"'{key}' of {where} is {a_json(value)}, not {words}")
    return value


def take_strings(content: Json, key: str, where: str) -> list[str]:
    """A JSON list of strings under a key. Raises BadInput."""
    values = take_list(content, key, where)
    for value in values:
        if not isinstance(value, str):
            raise BadInput(f"'{key}' of {where} holds {a_json(value)}, not only strings")
    return values


def take_integers(content: Json, key: str, where: str) -> NDArray[np.int64]:
    """A JSON list of 32-bit integers (or true and false) under a key. Raises BadInput."""
    import numpy as np

    values = take_list(content, key, where)
    for value in values:
        if type(value) not in {int, bool} or not -(2**31) <= value < 2**31:
            raise BadInput(f"'{key}' of {where} holds {a_json(value)}, not only 32-bit integers")
    return np.array(values, dtype=np.int64)


def take_numbers(content: Json, key: str, where: str) -> Vector:
    """A JSON list of finite numbers under a key. Raises BadInput."""
    import numpy as np

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
    """The kind of a JSON value, or a short value itself, for messages."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return json.dumps(value)[:60]
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"


def nesting(raw: bytes) -> int:
    """The depth of nested objects and lists in a JSON text."""
    import numpy as np

    bare = np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)
    opened = (bare == ord("{")) | (bare == ord("["))
    closed = (bare == ord("}")) | (bare == ord("]"))
    steps = opened.astype(np.int8) - closed.astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class NoJson(ValueError):
    """A text that breaks the syntax of JSON."""


def read_json_value(text: str) -> Any:
    """The value of a JSON text. Raises ValueError with a short reason for anything else.

    It is a `NoJson` where the syntax is broken.

    >>> read_json_value('{"vector": [0.5, -1e-3]}')
    {'vector': [0.5, -0.001]}
    >>> read_json_value("[1e999]")
    Traceback (most recent call last):
    ValueError: 1e999 is not a finite number
    """
    try:
        value = json.loads(
            text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=each_once
        )
    except json.JSONDecodeError as error:
        raise NoJson(f"{error.msg.lower()} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    # Half a surrogate pair can be written in JSON, and in nothing that is sent.
    if "\\u" in text and _half_a_pair(value):
        raise ValueError("half a surrogate pair is not a character")
    return value


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object (for `object_pairs_hook`). Raises ValueError for a key that occurs twice."""
    content = dict(pairs)
    if len(content) != len(pairs):
        key = first_duplicate([key for key, _ in pairs]) or ""
        raise ValueError(f"the key {shown(key)} occurs twice in one object: keep one of them")
    return content


def json_text(value: Json) -> str:
    """The value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def kind_of(value: object) -> str:
    """The kind of a JSON value, in words.

    >>> [kind_of(value) for value in (True, 3, "x", [1], {}, None)]
    ['true or false', 'a number', 'a text', 'a list', 'an object', 'null']
    """
    if isinstance(value, bool):
        return "true or false"
    for types, words in (
        ((int, float), "a number"),
        ((str,), "a text"),
        ((list, tuple), "a list"),
        ((dict,), "an object"),
    ):
        if isinstance(value, types):
            return words
    return "null"


def not_finite(value: object) -> float | None:
    """The first number in the value that is NaN or infinite; None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((bad for part in value if (bad := not_finite(part)) is not None), None)
    return None


def _half_a_pair(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:40]} is not a finite number")
    return number


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises BadInput naming the file and the place of the fault."""
    try:
        content = read_json_value(read_text(path, largest=_LARGEST_OBJECT))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no JSON object: it begins with {str(content)[:20]!r}")
    return content


def json_lines(path: Path, *, appended: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, one a line, with their lines' numbers; empty lines are left out.

    A file that a service has `appended` to may end in a torn line, of which a warning tells. Raises
    BadInput, with its number, for any other line that is none.
    """
    with open_bytes(path) as source:
        for first, block in line_blocks(source):
            lines = block.split(b"\n")
            if appended and is_torn(lines[-1]):
                number = first + len(lines) - 1
                give_warning(f"{path}, line {number}: the last line is torn, and is left out")
                lines.pop()
            for number, line in enumerate(lines, first):
                if line.strip():
                    yield number, _object(path, number, line)


def is_torn(line: bytes) -> bool:
    """Whether this is the half of an object, as a crash leaves it at the end of a file of them."""
    if line.lstrip()[:1] not in {b"{", b"\0"}:
        return False
    try:
        return not isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return True


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        content = read_json_value(line.decode())
    except UnicodeDecodeError as error:
        raise bad_line_of(path, number, line) from error
    except ValueError as error:
        content, why = None, str(error)
    else:
        why = f"it is {kind_of(content)}, not an object"
    if not isinstance(content, dict):
        raise BadInput(f"cannot read {path}, line {number}: {why}: correct or delete the line")
    return content


def as_id(value: object, expected: str = "text or a whole number") -> str:
    """The text of a JSON value as an id. Raises ValueError for all but text and whole numbers.

    `expected` is what the value must be, in the words of the error.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"is {kind_of(value)}, {shown(repr(value))[1:-1]}, and must be {expected}")
