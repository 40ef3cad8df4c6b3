"""Characters of ids that nobody sees: with them, two ids that look alike are two.

Zero-width spaces and joiners of words, byte order marks, and what turns the direction of text.
Those that join and part letters (U+200C, U+200D) are seen in Persian, Hindi and emoji: they stay.
"""

from __future__ import annotations

import re

import pyarrow as pa

INVISIBLE = r"[\x{200b}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{feff}]"
"""For Arrow's regular expressions."""
_PYTHON = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", INVISIBLE))
_BEGIN = (b"\xe2\x80", b"\xe2\x81", b"\xef\xbb\xbf")
"""The bytes with which they begin, beside a few others."""


def why_unseen(text: str) -> str | None:
    """What is wrong with an id that has one of these characters; None for others."""
    found = _PYTHON.search(text)
    if found is None:
        return None
    return (
        f"has a character in it that cannot be seen (U+{ord(found.group()):04X}): two ids that "
        "look alike would be two"
    )


def first_unseen(content: bytes | bytearray, ids: pa.StringArray) -> int | None:
    """The first of the ids, whose bytes are the content, with such a character in it."""
    if not any(begin in content for begin in _BEGIN):
        return None
    found = (row for row, text in enumerate(ids.to_pylist()) if _PYTHON.search(text))
    return next(found, None)
