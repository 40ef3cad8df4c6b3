"""LETOR text ↔ datasets: read whole or piece by piece, and written in one canonical form.

Blocks of whole lines are parsed by compiled code. Large texts are cut into pieces of whole queries,
which threads read side by side. Only what is right is taken over from a piece. What is not, a query
or a line that goes through a whole piece, and the end of the text are read by the one reader that
all of it is put together in: what it refuses, and how, does not depend on threads.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import kernel
from owpc_ltr.data.letor.reader import BLOCK, Reader, TextPiece
from owpc_ltr.data.options import row_number
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import ByteSource, open_bytes, shown
from owpc_ltr.files.output import open_output

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
    max_feature_number: int | None = None,
    block: int = BLOCK,
    threads: int | None = None,
) -> RankingDataset:
    """The dataset in a LETOR/SVMrank text file: `label qid:ID 1:value 2:value … # comment`.

    Plain, gzip, xz or zstandard, told by content. A feature that a line leaves out is 0, as in
    SVMrank; `NULL` is a missing value (NaN), as in LETOR's own files. Query ids may be any text
    without blanks and '#'. The document id is X of a comment `docid = X …`, else the comment's
    first word (RankLib), else the row's number within its query. Blank lines, and lines that are
    comments, are passed over. Feature names are "1", "2", … to the largest index, or to
    `n_features`, of which 10,000 are read unless `max_feature_number` says more: left out, a
    matrix more than 400 times as large as its text is refused too, beyond 64 MiB. The text is never
    held whole: `block` bytes of it are (more for longer lines, of up to 32 MiB). With several
    `threads` (default: the cores there are, up to four) pieces of large files are read side by
    side, to the same dataset.

    Raises BadInput, naming file, line and value, where anything is not as said, where a query's
    lines do not stand together, and where the last line has no end (the file may be cut).
    """
    path = Path(path)
    reader = Reader(path, n_features, max_feature_number)
    with open_bytes(path) as source:
        _read_side_by_side(reader, source, block, _cores() if threads is None else threads)
    return reader.dataset()


def stream_letor(
    path: Path,
    *,
    n_features: int | None = None,
    max_feature_number: int | None = None,
    piece: int = _STREAMED,
) -> Iterator[RankingDataset]:
    """The queries of a text as `read_letor` reads it, without ever holding all of them.

    Unless `n_features` says how many there are, the text is read twice: first for the width. A
    query that comes back far from its other lines is not noticed here.
    """
    if n_features is None:
        read = _stream(path, None, max_feature_number, piece)
        n_features = max((part.n_features for part in read), default=0)
    if not n_features:
        raise BadInput(f"cannot read {path}: it has no line with a document")
    return _stream(path, n_features, max_feature_number, piece)


def _cores() -> int:
    """The cores that this process may use, at most as many as a disk and one thread can supply."""
    # Not every system tells which cores a process may use.
    allowed = getattr(os, "sched_getaffinity", lambda _process: range(os.cpu_count() or 1))
    return min(len(allowed(0)), _MOST_THREADS)


def _read_side_by_side(whole: Reader, source: ByteSource, block: int, threads: int) -> None:
    """Read everything into `whole`, with several threads. Raises BadInput as `whole` does."""
    if threads == 1:
        whole.read(source, block)
        return
    buffer, remaining, line = memoryview(bytearray(PIECE)), b"", 0
    waiting: deque[tuple[bytes, Future[Reader | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while got := source.readinto(buffer):
                text = remaining + bytes(buffer[:got])
                if got < len(buffer) or len(text) > _LONGEST * PIECE:
                    remaining = text
                    break
                cut = last_query(text, _LINES)
                if not cut:
                    remaining = text
                    continue
                piece, remaining = text[:cut], text[cut:]
                waiting.append((piece, pool.submit(_apart, whole, piece, line, block)))
                line += piece.count(b"\n")
                if len(waiting) > threads:
                    _take(whole, *waiting.popleft(), source, block)
            while waiting:
                _take(whole, *waiting.popleft(), source, block)
        finally:
            for _, future in waiting:
                future.cancel()
    whole.read(TextPiece(remaining, source), block)


def _apart(whole: Reader, piece: bytes, line: int, block: int) -> Reader | None:
    """A reader of one piece, which begins after `line` lines; None if the piece has a fault."""
    reader = whole.beside(line)
    try:
        reader.read(TextPiece(piece), block)
    except BadInput:
        return None
    return reader


def _take(
    whole: Reader, piece: bytes, future: Future[Reader | None], source: ByteSource, block: int
) -> None:
    """Append the next piece."""
    reader = future.result()
    if reader is None:
        whole.read(TextPiece(piece), block)
        whole.state[kernel.QUERY_LENGTH] = -1
    else:
        whole.take(reader, len(piece), source.share)


def _stream(
    path: Path, n_features: int | None, max_feature_number: int | None, piece: int
) -> Iterator[RankingDataset]:
    lines = 0
    with open_bytes(path) as source:
        for text in _pieces(source, piece):
            reader = Reader(path, n_features, max_feature_number)
            reader.state[kernel.LINE] = lines
            reader.read(TextPiece(text), BLOCK)
            lines = int(reader.state[kernel.LINE])
            if reader.state[kernel.ROW]:
                yield reader.dataset()


def _pieces(source: ByteSource, size: int) -> Iterator[bytes]:
    """The text, cut before the first line of some query every so many bytes."""
    buffer, remaining = memoryview(bytearray(size)), b""
    while got := source.readinto(buffer):
        text = remaining + bytes(buffer[:got])
        cut = last_query(text)
        if cut:
            yield text[:cut]
        remaining = text[cut:]
    if remaining:
        yield remaining


def last_query(text: bytes, lines: int | None = None) -> int:
    """The start of the last query's first line; 0 if no other query is before it.

    Nor is it looked for in more than so many of the last `lines` that may be of a query.
    """
    end, start = text.rfind(b"\n") + 1, 0
    last: bytes | None = None
    seen = 0
    # Blank lines and comments, which come in millions, are passed over at once.
    while seen != lines and (named := text.rfind(b"qid:", 0, end)) >= 0:
        seen += 1
        begin = text.rfind(b"\n", 0, named) + 1
        match = _QUERY.match(text[begin:end])
        if match is not None:
            if last is not None and match.group(1) != last:
                return start
            last, start = match.group(1), begin
        end = begin
    return 0


_CELLS = 1 << 20
_DOCID = r"^[ \t]*docid[ \t]*=[ \t]*(?P<id>[^ \t]*)"
_FIRST_WORD = r"^[ \t]*(?P<id>[^ \t]*)"


def write_letor(dataset: RankingDataset, path: Path | str) -> None:
    """Write `label qid:ID 1:value … N:value #comment`, whole or not at all.

    Every feature is written, with the shortest digits that read back as the same float32, and a
    missing value as NULL; a name in .gz or .xz is compressed. Comments are written as they are
    where the document id can be read from them; elsewhere `docid = X` is put before them; a row
    number needs none. What LETOR text cannot hold is left out: feature names, parameters, weights.
    Raises BadInput for an id or a comment that could not be read back, and for infinite values.
    """
    path = Path(path)
    _refuse_infinite(dataset)
    labels = pc.cast(pa.array(dataset.labels), pa.string())
    rows = pa.array(np.repeat(np.arange(dataset.n_queries), np.diff(dataset.offsets)))
    _refuse_pattern(path, "query id", dataset.query_ids, r"[\x00-\x20#]|^$")
    comments = _comments(dataset, path)
    step = max(_CELLS // max(dataset.n_features, 1), 1)
    with open_output(path) as file, _compressing(path, file) as out:
        for start in range(0, dataset.n_documents, step):
            part = slice(start, start + step)
            queries = dataset.query_ids.take(rows[part])
            out.write(_lines_of(labels[part], queries, dataset.features[part], comments[part]))


def _lines_of(labels: Any, queries: Any, features: NDArray[np.float32], comments: Any) -> Any:
    """The bytes of these rows."""
    parts: list[Any] = [labels, " qid:", queries]
    for column in range(features.shape[1]):
        values = pa.array(np.ascontiguousarray(features[:, column]), from_pandas=True)
        parts += [f" {column + 1}:", pc.fill_null(pc.cast(values, pa.string()), "NULL")]
    text = pc.binary_join_element_wise(*parts, comments, "\n", "")
    offsets = np.frombuffer(text.buffers()[1], np.int32)
    return memoryview(text.buffers()[2])[: offsets[len(text)]]


def _comments(dataset: RankingDataset, path: Path) -> Any:
    """Per row ` #…`, from which its document id can be read, or nothing."""
    empty = pa.array([""]).take(pa.array(np.zeros(dataset.n_documents, np.int64)))
    comments = empty if dataset.comments is None else dataset.comments
    _refuse_pattern(path, "comment", comments, r"[\x00-\x08\x0a-\x1f]")
    numbers = _row_numbers(dataset)
    ids = numbers if dataset.doc_ids is None else dataset.doc_ids
    readable = pc.equal(_ids_in(comments, numbers), ids)
    _refuse_pattern(path, "document id", pc.filter(ids, pc.invert(readable)), r"[\x00-\x20]|^$")
    named = pc.binary_join_element_wise(
        "docid = ", ids, pc.if_else(pc.equal(comments, ""), "", " "), comments, ""
    )
    text = pc.if_else(readable, comments, named)
    return pc.if_else(pc.equal(text, ""), "", pc.binary_join_element_wise(" #", text, ""))


def _ids_in(comments: Any, numbers: Any) -> Any:
    """The document id that reading these comments gives."""
    named = pc.struct_field(pc.extract_regex(comments, _DOCID), "id")
    word = pc.struct_field(pc.extract_regex(comments, _FIRST_WORD), "id")
    ids = pc.fill_null(named, word)
    return pc.if_else(pc.equal(ids, ""), numbers, ids)


def _row_numbers(dataset: RankingDataset) -> Any:
    """The row's number within its query, from 1, as text."""
    starts = np.repeat(dataset.offsets[:-1], np.diff(dataset.offsets))
    return pc.cast(pa.array(np.arange(dataset.n_documents) - starts + 1), pa.string())


def _refuse_pattern(path: Path, what: str, values: Any, pattern: str) -> None:
    bad = pc.index(pc.match_substring_regex(values, pattern), True).as_py()
    if bad >= 0:
        raise BadInput(
            f"cannot write {path}: the {what} {shown(values[bad].as_py())}: LETOR text cannot hold "
            "it; write Parquet"
        )


def _refuse_infinite(dataset: RankingDataset) -> None:
    infinite = np.isinf(dataset.features)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise BadInput(
            f"cannot write LETOR text: feature '{dataset.feature_names[column]}' of row "
            f"{row_number(row)} is infinite, which it does not hold: fix the feature"
        )


@contextmanager
def _compressing(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    if path.suffix == ".gz":
        # No name and no time in the header: equal datasets are equal files.
        with gzip.GzipFile("", "wb", 6, fileobj=file, mtime=0) as out:
            yield cast("IO[bytes]", out)
    elif path.suffix == ".xz":
        with lzma.LZMAFile(file, "wb") as compressed:
            yield compressed
    else:
        yield file
