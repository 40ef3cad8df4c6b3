"""JSON values as engines take them: every number finite, every key once, every text in Unicode."""

from __future__ import annotations

import json
import math
from typing import Any


class NoJson(ValueError):
    """A text that breaks the syntax of JSON."""


def read_json_value(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, which says in a few words why, for all else.

    It is a `NoJson` where the syntax is broken.

    >>> read_json_value('{"vector": [0.5, -1e-3]}')
    {'vector': [0.5, -0.001]}
    >>> read_json_value("[1e999]")
    Traceback (most recent call last):
    ValueError: 1e999 is no finite number
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
        raise ValueError("half a surrogate pair stands in it, which is no character")
    return value


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object (for `object_pairs_hook`). Raises ValueError for a key that stands twice in it."""
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = "".join(c if c.isprintable() else "?" for c in key[:60])
                raise ValueError(f"the key '{shown}' stands twice in one object: leave one of them")
            seen.add(key)
    return content


def json_text(value: Any) -> str:
    """The value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_structure(value: Any) -> bool:
    """Whether it is a list or an object, which no text can stand for."""
    return isinstance(value, list | tuple | dict)


def kind_of(value: Any) -> str:
    """What a JSON value is, in words.

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


def not_finite(value: Any) -> float | None:
    """A number in the value that is NaN or infinite, if there is one."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((bad for part in value if (bad := not_finite(part)) is not None), None)
    return None


def _half_a_pair(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:40]} is no finite number")
    return number
