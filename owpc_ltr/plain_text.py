"""Plain text for terminals and messages: sanitized, without secrets, wrapped, in tables.

Control characters are escaped, and secrets are replaced by ***.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import os
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from reprlib import Repr
from typing import Any
from urllib.parse import quote

_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Joiners (U+200C, U+200D) are part of words and pictures, and stay.
_STEERING = re.compile(f"[{_INVISIBLE}]")
_STEERING_LINES = re.compile(f"(?![\n\t])[{_INVISIBLE}]")
_USERINFO = re.compile(r"(?<=//)[^\s\"'<>]*@")
_AUTHORIZATION = re.compile(
    r"(?i)\b(basic|bearer|apikey)\s+[A-Za-z0-9+/=._~-]{6,}|(?<=aws4-hmac-sha256 )[^\r\n'\"]+"
    r"|(?<=signature=)[0-9a-f]+|(?<=security-token[:=])\s*[^\s,'\"]+"
)
_SECRET_NAME = re.compile(r"(?i)passw|secret|token|api_?key|credential")
BLACK = "***"
_LONGEST, _END = 1200, 500

_NARROWEST = 12
"""Columns of text are not made narrower than this."""


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
    r"""Text on one line: control characters, line breaks and marks of direction are escaped.

    >>> printable("a\x1b[31mb\nc\u202e")
    'a\\x1b[31mb\\nc\\u202e'
    """
    return _STEERING.sub(_escaped, text)


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
    return _STEERING_LINES.sub(_escaped, text)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without these secrets in any usual form, userinfo of addresses, and signatures.

    >>> redacted("GET http://me:pw/x@host/ as s3cret", ["s3cret"])
    'GET http://***@host/ as ***'
    """
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, BLACK)
    text = _USERINFO.sub(f"{BLACK}@", text)
    return _AUTHORIZATION.sub(lambda match: f"{match[1] or ''} {BLACK}".strip(), text)


def secrets_of(environ: Mapping[str, str] = os.environ) -> list[str]:
    """What the environment holds under names of secrets, and addresses with a password."""
    held = [value for name, value in environ.items() if _SECRET_NAME.search(name) and value]
    user, password = environ.get("OWPC_LTR_USER"), environ.get("OWPC_LTR_PASSWORD")
    pairs = [f"{user}:{password}"] if user and password else []
    return [*held, *pairs, *(value for value in environ.values() if _USERINFO.search(value))]


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose columns fit their content; numbers are aligned to the right.

    One that is wider than the terminal, or 80 columns, wraps the text of its widest columns.
    """
    cells = [[_cell(value) for value in row] for row in (headers, *rows)]
    right = [
        bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        for index in range(len(headers))
    ]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], right)
    lines = []
    for row in cells:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            padded = (
                part.rjust(width) if number else part.ljust(width)
                for part, width, number in zip(line, widths, right, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def wrapped_text(text: str, first: str = "", others: str = "  ") -> str:
    """Text on as many lines as it takes, none wider than the terminal, or 80 columns.

    `first` stands before the first line, `others` before the rest.
    """
    return "\n".join(
        textwrap.wrap(
            printable(text),
            columns(),
            initial_indent=first,
            subsequent_indent=others,
            break_on_hyphens=False,
        )
    )


def columns() -> int:
    """How wide text may be: the terminal, at least 80; in a pipe COLUMNS, or 80."""
    return max(80, shutil.get_terminal_size((80, 24)).columns)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _forms(secret: str) -> list[str]:
    """How a secret may stand in a text: as it is, quoted, escaped, in base64."""
    raw = secret.encode("utf-8", "surrogateescape")
    forms = [secret, repr(secret)[1:-1], quote(raw, safe=""), quote(raw)]
    forms += [base64.b64encode(raw).decode(), printable(secret)]
    # A message may hold a line of it only.
    return forms + [line for line in secret.splitlines() if len(line) > 3]


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def _fitting(widths: list[int], fixed: Sequence[bool]) -> list[int]:
    """Widths of columns that fit a line: the widest column of text is narrowed first."""
    widths = list(widths)
    room = columns() - 2 * (len(widths) - 1)
    while sum(widths) > room:
        texts = [i for i, number in enumerate(fixed) if not number and widths[i] > _NARROWEST]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4f}"
    return printable(str(value))


def normalised_text(text: str) -> str:
    r"""The text without case, superfluous white space and compatibility forms (NFKC).

    >>> normalised_text("  ALIEN\u00a0３ ")
    'alien 3'
    """
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        # Of letters that have one capital, case folding alone keeps two apart (dotless i).
        text = unicodedata.normalize("NFKC", plain.upper().casefold())
    return " ".join(text.lower().split())
