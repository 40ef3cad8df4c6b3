"""Text for terminals and logs: on one line, cut, control characters escaped, without secrets.

Secrets are replaced by *** (see `redaction`).
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable
from contextvars import ContextVar
from reprlib import Repr
from typing import Any

from owpc_ltr.redaction import redacted

SPELLING: ContextVar[Callable[[str], str]] = ContextVar("spelling", default=str)
"""What becomes of a sentence before it is wrapped: a command names its options."""


def spelled(sentence: str) -> str:
    """A sentence of ours in the words of the caller; data, such as cells of a table, are none."""
    return SPELLING.get()(sentence)


_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Joiners (U+200C, U+200D) are part of words and pictures, and stay.
_STEERING = re.compile(f"[{_INVISIBLE}]")

_STEERING_LINES = re.compile(f"(?![\n\t])[{_INVISIBLE}]")

_LONGEST, _END = 1200, 500

REPR_LINES, REPR_CHARACTERS = 15, 1000
"""How long the repr of a public object is, at most."""


class ShortRepr:
    """Of a dataclass: its repr is the beginning of its text; without a text, its fields, cut."""

    def __repr__(self) -> str:
        cls: Any = type(self)
        if cls.__str__ is not object.__str__:
            return shortened(str(self))
        fields = [field.name for field in dataclasses.fields(cls) if field.repr]
        short = Repr()
        short.maxother = short.maxstring = 60
        short.maxlevel = 2
        texts = (f"{name}={' '.join(short.repr(getattr(self, name)).split())}" for name in fields)
        return shortened(f"{cls.__name__}({', '.join(texts)})")


def shortened(text: str) -> str:
    r"""The first lines of a text, as many as a repr shows, and how many lines follow.

    >>> shortened("\n".join("abcdefghijklmnopqrstuvwxyz")).splitlines()[-2:]
    ['n', '… and 12 more lines: print it']
    """
    lines = text.split("\n")
    room, count = REPR_CHARACTERS - 60, 0
    for line in lines[: REPR_LINES - 1]:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1
    if count == len(lines) or (len(lines) <= REPR_LINES and len(text) <= REPR_CHARACTERS):
        return text
    if not count:
        return f"{text[: REPR_CHARACTERS - 60]} … print it for the rest"
    return "\n".join([*lines[:count], f"… and {len(lines) - count} more lines: print it"])


def cut(text: str, longest: int) -> str:
    """A text of at most so many characters: of a longer one the beginning, and `…`.

    >>> cut("ranking", 5)
    'rank…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def printable(text: str) -> str:
    r"""Text on one line, without secrets: what controls, breaks or turns a line is escaped.

    >>> printable("a\x1b[31mb\nc\u202e")
    'a\\x1b[31mb\\nc\\u202e'
    """
    return _STEERING.sub(_escaped, redacted(text))


def message_line(text: str) -> str:
    """A message on one line of at most 1,200 characters: its middle is left out.

    What is wrong stands at its beginning, and what to do at its end.

    >>> len(message_line(f"cannot read {'x' * 5000}: check the name"))
    1200
    """
    line = printable(text)
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST - _END - 3]} … {line[-_END:]}"


def printable_lines(text: str) -> str:
    r"""The same, where line breaks and tabs are meant.

    >>> printable_lines("a\x1b[31m\n\tb")
    'a\\x1b[31m\n\tb'
    """
    return _STEERING_LINES.sub(_escaped, redacted(text))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def normalised_text(text: str) -> str:
    r"""The text without case, superfluous white space and compatibility forms (NFKC).

    >>> normalised_text("  ALIEN\u00a0３ ")
    'alien 3'
    """
    if not text.isascii():
        # In parts: the capital of a Greek letter with two marks has them in another order.
        plain = unicodedata.normalize("NFKD", text)
        # Of letters that have one capital, case folding alone keeps two apart (dotless i).
        text = unicodedata.normalize("NFKC", plain.upper().casefold())
    return " ".join(text.lower().split())
