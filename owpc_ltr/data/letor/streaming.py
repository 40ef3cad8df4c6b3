"""LETOR text → datasets of whole queries, one after another, a piece of text at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import codes
from owpc_ltr.data.letor.reading import BLOCK, Reader
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import ByteSource, open_bytes

_PIECE = 32 << 20
_QUERY = re.compile(rb"^[^#\n]*?[ \t]qid:([^ \t#\n]+)")


def stream_letor(
    path: Path,
    *,
    n_features: int | None = None,
    max_features: int | None = None,
    piece: int = _PIECE,
) -> Iterator[RankingDataset]:
    """The queries of a text as `read_letor` reads it, without ever holding all of them.

    Unless `n_features` says how many there are, the text is read twice: first for the width. A
    query that comes back far from its other lines is not noticed here.
    """
    if n_features is None:
        read = _stream(path, None, max_features, piece)
        n_features = max((part.n_features for part in read), default=0)
    if not n_features:
        raise BadInput(f"cannot read {path}: it has no line with a document")
    return _stream(path, n_features, max_features, piece)


def _stream(
    path: Path, n_features: int | None, max_features: int | None, piece: int
) -> Iterator[RankingDataset]:
    lines = 0
    with open_bytes(path) as source:
        for text in _pieces(source, piece):
            reader = Reader(path, n_features, max_features)
            reader.state[codes.LINE] = lines
            reader.read(_Text(text), BLOCK)
            lines = int(reader.state[codes.LINE])
            if reader.state[codes.ROW]:
                yield reader.dataset()


class _Text:
    """A piece of text as a source of bytes."""

    share = 1.0

    def __init__(self, text: bytes) -> None:
        self.text, self.taken = memoryview(text), 0

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is."""
        got = self.text[self.taken : self.taken + len(buffer)]
        buffer[: len(got)] = got
        self.taken += len(got)
        return len(got)


def _pieces(source: ByteSource, size: int) -> Iterator[bytes]:
    """The text, cut before the first line of some query every so many bytes."""
    buffer, kept = memoryview(bytearray(size)), b""
    while got := source.readinto(buffer):
        text = kept + bytes(buffer[:got])
        cut = _last_query(text)
        if cut:
            yield text[:cut]
        kept = text[cut:]
    if kept:
        yield kept


def _last_query(text: bytes) -> int:
    """Where the last query's first line begins; 0 where no other one is before it."""
    end, start = text.rfind(b"\n") + 1, 0
    last: bytes | None = None
    while end > 0:
        begin = text.rfind(b"\n", 0, end - 1) + 1
        found = _QUERY.match(text[begin:end])
        if found is not None:
            if last is not None and found.group(1) != last:
                return start
            last, start = found.group(1), begin
        end = begin
    return 0
