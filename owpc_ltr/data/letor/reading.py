"""LETOR text → datasets: blocks of whole lines, each parsed by compiled code.

Large texts are cut into pieces of whole queries, which threads read side by side. Only what is
right is taken over from a piece. What is not, a query or a line that goes through a whole piece,
and the end of the text are read by the one reader that all of it is put together in: what it
refuses, and how, does not depend on threads.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import kernel
from owpc_ltr.data.letor.reader import BLOCK, Reader, Source
from owpc_ltr.errors import BadInput
from owpc_ltr.files.regular_file import open_regular
from owpc_ltr.files.text import ByteSource, open_bytes

PIECE = 8 << 20
_LONGEST = 4
"""Pieces through which a query may go before the rest is left to one reader."""
_LINES = 5000
"""Lines from the end of a piece in which it may be cut: a query may have millions of short ones."""
_MOST_THREADS = 4
_STREAMED = 32 << 20
_QUERY = re.compile(rb"^[^#\n]*?[ \t]qid:([^ \t#\n]+)")


def read_letor(
    path: Path | str,
    *,
    n_features: int | None = None,
    max_features: int | None = None,
    block: int = BLOCK,
    threads: int | None = None,
) -> RankingDataset:
    """The dataset in a LETOR/SVMrank text file: `label qid:ID 1:value 2:value … # comment`.

    Plain, gzip, xz or zstandard, told by content. A feature that a line leaves out is 0, as in
    SVMrank; `NULL` is a missing value (NaN), as in LETOR's own files. Query ids may be any text
    without blanks and '#'. The document id is X of a comment `docid = X …`, else the comment's
    first word (RankLib), else the row's number within its query. Blank lines, and lines that are
    comments, are passed over. Feature names are "1", "2", … to the largest index, or to
    `n_features`, of which 10,000 are read unless `max_features` says more: left out, a matrix more
    than 400 times as large as its text is refused too, beyond 64 MiB. The text is never held
    whole: `block` bytes of it are (more for longer lines, of up to 32 MiB). With several `threads`
    (default: the cores there are, up to four) pieces of large files are read side by side, to the
    same dataset.

    Raises BadInput, naming file, line and value, where anything is not as said, where a query's
    lines do not stand together, and where the last line has no end (the file may be cut).
    """
    path = Path(path)
    reader = Reader(path, n_features, max_features)
    with open_bytes(path) as source:
        _read_side_by_side(reader, source, block, _cores() if threads is None else threads)
    return reader.dataset()


def stream_letor(
    path: Path,
    *,
    n_features: int | None = None,
    max_features: int | None = None,
    piece: int = _STREAMED,
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


def line_of_row(path: Path, row: int) -> int | None:
    """The line, counted from 1, of document number `row`, counted from 0; None in Parquet.

    Blank lines and lines that are comments hold no document.
    """
    with open_regular(path) as file:
        if file.read(4) == b"PAR1":
            return None
    block, rest, line = memoryview(bytearray(1 << 20)), b"", 0
    with open_bytes(path) as source:
        while got := source.readinto(block):
            *lines, rest = (rest + block[:got]).split(b"\n")
            for text in lines:
                line += 1
                bare = text.strip(b" \t\r")
                if bare and not bare.startswith(b"#"):
                    if row == 0:
                        return line
                    row -= 1
    return None


def _cores() -> int:
    """The cores that this process may use, up to as many as a disk and one thread can feed."""
    # Not every system tells which cores a process may use.
    allowed = getattr(os, "sched_getaffinity", lambda _process: range(os.cpu_count() or 1))
    return min(len(allowed(0)), _MOST_THREADS)


def _read_side_by_side(whole: Reader, source: Source, block: int, threads: int) -> None:
    """Read everything into `whole`, by so many threads. Raises BadInput, as it does."""
    if threads == 1:
        whole.read(source, block)
        return
    buffer, kept, line = memoryview(bytearray(PIECE)), b"", 0
    waiting: deque[tuple[bytes, Future[Reader | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while got := source.readinto(buffer):
                text = kept + bytes(buffer[:got])
                if got < len(buffer) or len(text) > _LONGEST * PIECE:
                    kept = text
                    break
                cut = last_query(text, _LINES)
                if not cut:
                    kept = text
                    continue
                piece, kept = text[:cut], text[cut:]
                waiting.append((piece, pool.submit(_apart, whole, piece, line, block)))
                line += piece.count(b"\n")
                if len(waiting) > threads:
                    _take(whole, *waiting.popleft(), source, block)
            while waiting:
                _take(whole, *waiting.popleft(), source, block)
        finally:
            for _, future in waiting:
                future.cancel()
    whole.read(TextPiece(kept, source), block)


def _apart(whole: Reader, piece: bytes, line: int, block: int) -> Reader | None:
    """A piece by itself, whose first line follows so many others; None where it is not right."""
    reader = whole.beside(line)
    try:
        reader.read(TextPiece(piece), block)
    except BadInput:
        return None
    return reader


def _take(
    whole: Reader, piece: bytes, future: Future[Reader | None], source: Source, block: int
) -> None:
    """Put the next piece behind what is there."""
    reader = future.result()
    if reader is None:
        whole.read(TextPiece(piece), block)
        whole.state[kernel.QUERY_LENGTH] = -1
    else:
        whole.take(reader, len(piece), source.share)


def _stream(
    path: Path, n_features: int | None, max_features: int | None, piece: int
) -> Iterator[RankingDataset]:
    lines = 0
    with open_bytes(path) as source:
        for text in _pieces(source, piece):
            reader = Reader(path, n_features, max_features)
            reader.state[kernel.LINE] = lines
            reader.read(TextPiece(text), BLOCK)
            lines = int(reader.state[kernel.LINE])
            if reader.state[kernel.ROW]:
                yield reader.dataset()


def _pieces(source: ByteSource, size: int) -> Iterator[bytes]:
    """The text, cut before the first line of some query every so many bytes."""
    buffer, kept = memoryview(bytearray(size)), b""
    while got := source.readinto(buffer):
        text = kept + bytes(buffer[:got])
        cut = last_query(text)
        if cut:
            yield text[:cut]
        kept = text[cut:]
    if kept:
        yield kept


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
