"""Pieces of a LETOR text, cut before the first line of a query."""

from __future__ import annotations

import re

from owpc_ltr.data.letor.source import Source

_QUERY = re.compile(rb"^[^#\n]*?[ \t]qid:([^ \t#\n]+)")


class TextPiece:
    """A piece of text as a source of bytes, and what comes after it, if that is given."""

    def __init__(self, text: bytes, rest: Source | None = None) -> None:
        self._text, self._given, self._rest = memoryview(text), 0, rest

    @property
    def taken(self) -> int:
        """Bytes that were read; of the source behind it too, and of what stands before that."""
        if self._rest is None:
            return self._given
        return self._rest.taken - (len(self._text) - self._given)

    @property
    def share(self) -> float:
        """The share of all bytes that was read: by it, room is made for what is to come."""
        if self._rest is None:
            return self._given / max(len(self._text), 1)
        return self._rest.share

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is."""
        got = self._text[self._given : self._given + len(buffer)]
        if not len(got) and self._rest is not None:
            return self._rest.readinto(buffer)
        buffer[: len(got)] = got
        self._given += len(got)
        return len(got)


def last_query(text: bytes, lines: int | None = None) -> int:
    """Where the last query's first line begins; 0 where no other one is before it.

    Nor is it looked for in more than so many of the last `lines` that may be of a query.
    """
    end, start = text.rfind(b"\n") + 1, 0
    last: bytes | None = None
    seen = 0
    # Blank lines and comments, which come in millions, are passed over at once.
    while seen != lines and (named := text.rfind(b"qid:", 0, end)) >= 0:
        seen += 1
        begin = text.rfind(b"\n", 0, named) + 1
        found = _QUERY.match(text[begin:end])
        if found is not None:
            if last is not None and found.group(1) != last:
                return start
            last, start = found.group(1), begin
        end = begin
    return 0
