"""LETOR and SVMrank text, read and written."""

from __future__ import annotations

import gzip
import lzma
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data import letor_kernel as kernel
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor_kernel import (
    fault_of,
    feature_beyond,
    is_judgment,
    numbers_from_0,
)
from owpc_ltr.data.options import judgment_list, row_number
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import ByteSource, first_unseen, lines_in, open_bytes, shown, why_unseen
from owpc_ltr.files.output import open_output

BLOCK = 1 << 20
_LONGEST_LINE = 1 << 25


class TextPiece:
    """A piece of text as a source of bytes, and the source of what comes after it, if any."""

    def __init__(self, text: bytes, following: ByteSource | None = None) -> None:
        self._text, self._taken, self._rest = memoryview(text), 0, following

    @property
    def taken(self) -> int:
        """Bytes that were read; of the source behind it too, and of what stands before that."""
        if self._rest is None:
            return self._taken
        return self._rest.taken - (len(self._text) - self._taken)

    @property
    def share(self) -> float:
        """The share of all bytes that was read: by it, room is made for what is to come."""
        if self._rest is None:
            return self._taken / max(len(self._text), 1)
        return self._rest.share

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is."""
        got = self._text[self._taken : self._taken + len(buffer)]
        if not len(got) and self._rest is not None:
            return self._rest.readinto(buffer)
        buffer[: len(got)] = got
        self._taken += len(got)
        return len(got)


class _NumbersFromZero(BadInput):
    """The features of a file are numbered from 0, and it was read as if they were from 1."""


class Reader:
    """The state of reading a whole text, or one piece of whole queries.

    The features' numbers begin at `first`; where that is 1 and one is 0, `_NumbersFromZero` is
    raised.
    """

    def __init__(
        self, path: Path, n_features: int | None, max_feature_number: int | None, first: int = 1
    ) -> None:
        self.path = path
        self.first = first
        self.n_features = n_features
        self.max_feature_number = max_feature_number
        most = min(max_feature_number or MOST_FEATURES, kernel.LARGEST_INDEX)
        self.rows = Rows(path, n_features or 0, most, max_feature_number or 0)
        self.ids = Strings("document ids")
        self.comments = Strings("comments")
        self.queries = Strings("query ids")
        self.begun: list[NDArray[np.int64]] = []
        self.query = np.zeros(kernel.LONGEST_QUERY, np.uint8)
        self.powers = powers_of_ten()
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.state[kernel.QUERY_LENGTH] = -1
        self.state[kernel.FIRST_INDEX] = first
        self._buffers: tuple[NDArray[Any], ...] = ()

    def read(self, source: ByteSource | TextPiece, block: int) -> None:
        """Parse everything, a block of whole lines at a time."""
        buffer = bytearray(block)
        remaining = 0
        while got := source.readinto(memoryview(buffer)[remaining:]):
            filled = remaining + got
            if self.state[kernel.LINE] == 0:
                _refuse_marks(self.path, bytes(buffer[: min(filled, 4096)]))
            stop = buffer.rfind(b"\n", 0, filled) + 1
            if stop:
                self._parse(np.frombuffer(buffer, np.uint8, stop), source, source.taken - filled)
            remaining = filled - stop
            buffer[:remaining] = buffer[stop:filled]
            if remaining == len(buffer):
                if len(buffer) >= _LONGEST_LINE:
                    raise self._bad(0, f"the line is longer than {_LONGEST_LINE >> 20} MiB")
                buffer += bytes(len(buffer))
        if buffer[:remaining].strip(b" \t"):
            raise self._bad(
                0,
                f"the last line, {shown(bytes(buffer[:remaining]))}, has no line end: the file may "
                "be cut; if it is whole, end it with a new line",
            )

    def beside(self, line: int) -> Reader:
        """A reader for a piece that begins after so many lines, with a query."""
        reader = Reader(self.path, self.n_features, self.max_feature_number, self.first)
        reader.state[kernel.LINE] = line
        return reader

    def take(self, piece: Reader, size: int, share: float) -> None:
        """Append a piece of `size` bytes that another reader has read.

        `share` is the share of the text that was read up to its end.
        """
        rows, first = self.rows, int(self.state[kernel.ROW])
        count, width = int(piece.state[kernel.ROW]), int(piece.state[kernel.WIDTH])
        if width > rows.width:
            rows.widen(first, width, rows.text + size)
        if first + count > rows.capacity:
            rows.lengthen(first + count, share, rows.text + size)
        rows.text += size
        new = slice(first, first + count)
        piece_rows = piece.rows
        rows.features[new, :width] = piece_rows.features[:count, :width]
        rows.features[new, width:] = 0
        rows.labels[new] = piece_rows.labels[:count]
        rows.id_ends[new] = piece_rows.id_ends[:count] + len(self.ids.content)
        rows.comment_ends[new] = piece_rows.comment_ends[:count] + len(self.comments.content)
        for part in piece.begun:
            part[:, 0] += first
            part[:, 2] += len(self.queries.content)
        self.begun += piece.begun
        for name in ("ids", "comments", "queries"):
            getattr(self, name).content += getattr(piece, name).content
        self.state[kernel.ROW] += count
        self.state[kernel.LINE] = piece.state[kernel.LINE]
        self.state[kernel.WIDTH] = max(self.state[kernel.WIDTH], width)
        self.state[kernel.QUERY_LENGTH] = -1

    def _parse(self, text: NDArray[np.uint8], source: ByteSource | TextPiece, before: int) -> None:
        """Parse a block of whole lines, which stands after `before` bytes of the source."""
        state, rows = self.state, self.rows
        buffers = self._buffers_for(len(text))
        first_line = int(state[kernel.LINE])
        state[list(kernel.COUNTERS_OF_BLOCK)] = 0
        state[kernel.TOTAL_ID_BYTES] = len(self.ids.content)
        state[kernel.TOTAL_COMMENT_BYTES] = len(self.comments.content)
        while True:
            targets = rows.features, rows.labels, rows.id_ends, rows.comment_ends
            result = kernel.read_lines(text, state, self.query, targets, buffers, self.powers)
            at = int(state[kernel.POSITION])
            if result == kernel.DONE:
                break
            if result == kernel.FULL:
                share = source.share * (before + at) / source.taken
                rows.lengthen(int(state[kernel.ROW]), share, before + at)
                continue
            line = _line_at(text, at)
            if result == kernel.WRONG and self.first and numbers_from_0(line):
                fault = self._bad(0, "a feature has index 0, and none has it before")
                raise _NumbersFromZero(f"{fault}: number all from 0, or all from 1")
            if result == kernel.WRONG:
                raise self._bad(0, fault_of(line))
            shift = 1 - self.first
            if self.n_features is not None:
                raise self._bad(0, feature_beyond(line, self.n_features - shift, self.n_features))
            needed = widest(line) + shift
            if needed > rows.most:
                raise self._bad(
                    0,
                    f"feature {needed:,} is beyond {rows.most:,}, the most that are read: is it an "
                    f"id? number the features from 1 on, or give `max_feature_number={needed}`",
                )
            rows.widen(int(state[kernel.ROW]), needed, before + at + len(line) - 1)
        self._settle(text, buffers[-1][: state[kernel.UNSURE_TOKENS]], first_line)
        self._keep(text, buffers, first_line)

    def _buffers_for(self, size: int) -> tuple[NDArray[Any], ...]:
        """The buffers for ids, comments, queries, begun queries and unsure tokens of a block."""
        # A line takes 8 bytes or more, a token 4, and a row number fewer than twice its line.
        if not self._buffers or len(self._buffers[0]) < 2 * size + 64:
            strings = (np.empty(2 * size + 64, np.uint8) for _ in range(3))
            tokens = np.empty((size // 4 + 1, 4), np.int64)
            self._buffers = (*strings, np.empty((size // 8 + 1, 3), np.int64), tokens)
        return self._buffers

    def _settle(self, text: NDArray[np.uint8], unsure: NDArray[np.int64], first_line: int) -> None:
        """Read the few tokens exactly that compiled code could not decide."""
        for row, column, begin, end in unsure.tolist():
            token = text[begin:end].tobytes().decode()
            value = (kernel.nearest_float32 if column < 0 else kernel.feature_value)(token)
            if np.isinf(value):
                before = text[:begin].tobytes()
                line = _line_at(text, before.rfind(b"\n") + 1)
                raise self._bad(first_line + before.count(b"\n") + 1, fault_of(line))
            if column < 0:
                self.rows.labels[row] = value
            else:
                self.rows.features[row, column] = value

    def _keep(
        self, text: NDArray[np.uint8], buffers: tuple[NDArray[Any], ...], first_line: int
    ) -> None:
        """Take over the queries and the strings of a block, which must be UTF-8."""
        ids, comments, queries, begun, _ = buffers
        begun = begun[: self.state[kernel.QUERIES]].copy()
        begun[:, 2] += len(self.queries.content)
        self.begun.append(begun)
        for strings, used, counter in (
            (self.ids, ids, kernel.ID_BYTES),
            (self.comments, comments, kernel.COMMENT_BYTES),
            (self.queries, queries, kernel.QUERY_BYTES),
        ):
            content = used[: self.state[counter]].tobytes()
            try:
                content.decode()
            except UnicodeDecodeError:
                number, line = _first_undecodable(text.tobytes())
                raise self._bad(first_line + number, f"{shown(line)} is not UTF-8") from None
            strings.content += content

    def dataset(self) -> RankingDataset:
        """The dataset that was read. Raises BadInput if it is empty, or if a query comes back."""
        count = int(self.state[kernel.ROW])
        if count == 0:
            raise BadInput(f"cannot read {self.path}: it has no line with a document")
        width = self.n_features or int(self.state[kernel.WIDTH])
        if width == 0:
            raise BadInput(
                f"cannot read {self.path} as a dataset: its lines have no features; if it is a "
                "judgment list, log features for it"
            )
        begun = np.concatenate(self.begun)
        query_ids = self.queries.array(self.path, begun[:, 2])
        self._refuse_split(query_ids.to_pylist(), begun[:, 1])
        rows = self.rows
        rows.finish(count, width)
        comments = self.comments.content
        doc_ids = self.ids.array(self.path, rows.id_ends)
        self._refuse_unseen("query id", self.queries, query_ids)
        self._refuse_unseen("document id", self.ids, doc_ids)
        return RankingDataset(
            features=rows.features,
            labels=rows.labels,
            offsets=np.append(begun[:, 0], count),
            query_ids=query_ids,
            feature_names=tuple(str(index + self.first) for index in range(width)),
            doc_ids=doc_ids,
            comments=self.comments.array(self.path, rows.comment_ends) if comments else None,
        )

    def _refuse_split(self, queries: list[str], lines: NDArray[np.int64]) -> None:
        if len(set(queries)) == len(queries):
            return
        first: dict[str, int] = {}
        for query, line in zip(queries, lines.tolist(), strict=True):
            if query in first:
                raise self._bad(
                    line,
                    f"query {shown(query)} comes back, after its lines from {first[query]} on: put "
                    "all lines of a query next to each other",
                )
            first[query] = line

    def _refuse_unseen(self, what: str, strings: Strings, ids: pa.StringArray) -> None:
        row = first_unseen(strings.content, ids)
        if row is None:
            return
        value = str(ids[row])
        lines = enumerate(lines_in(self.path), 1)
        line = next(number for number, text in lines if value.encode() in text)
        raise self._bad(line, f"the {what} {shown(value)} {why_unseen(value)}")

    def _bad(self, line: int, what: str) -> BadInput:
        return BadInput(
            f"cannot read {self.path}, line {line or int(self.state[kernel.LINE]) + 1}: {what}"
        )


def _refuse_marks(path: Path, head: bytes) -> None:
    mark = b"\xef\xbb\xbf"
    if head.startswith(mark):
        judgments = is_judgment(head.removeprefix(mark).partition(b"\n")[0])
        why = (
            judgment_list()
            if judgments
            else "it begins with a byte order mark: save it as UTF-8 without one"
        )
        raise BadInput(f"cannot read {path}, line 1: {why}")
    if head.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise BadInput(f"cannot read {path}: it is compressed twice: unpack it once")
    if b"\0" in head:
        line = head.count(b"\n", 0, head.index(b"\0")) + 1
        raise BadInput(f"cannot read {path}, line {line}: a zero byte: it is not a text file")


def _line_at(text: NDArray[np.uint8], at: int) -> bytes:
    """The line that begins at `at`, its end included."""
    following = text[at : at + _LONGEST_LINE].tobytes()
    return following[: following.index(b"\n") + 1]


def _first_undecodable(text: bytes) -> tuple[int, bytes]:
    for number, line in enumerate(text.split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return number, line[max(error.start - 8, 0) : error.end + 8]
    raise AssertionError("strings that begin with characters are UTF-8 when their join is")


def powers_of_ten() -> Vector:
    """10⁻³⁰⁰ … 10³⁰⁰, each the nearest float64."""
    exponents = range(-kernel.LARGEST_POWER, kernel.LARGEST_POWER + 1)
    return np.array([float(f"1e{exponent}") for exponent in exponents])


_FIRST_ROWS = 1024
_SMALL = 1 << 24
"""Cells of a matrix that is never too large."""
_INDEX = re.compile(rb"[ \t](\d{1,7}):")
MOST_FEATURES = 10_000
"""The most features that are read unless more are asked for."""
_LARGEST_RATIO = 400
"""Bytes of a matrix for each byte of its text, unless more are asked for."""


class Rows:
    """One row a document: features, label, and where its strings end.

    `features` is (capacity, width); rows beyond those that were read hold nothing. Unless the
    number of features is `requested`, a matrix far larger than its text is refused.
    """

    def __init__(
        self, path: Path, width: int, most: int = kernel.LARGEST_INDEX, requested: int = 0
    ) -> None:
        self.path = path
        self.width = width
        self.most = most
        self.text = 0
        """Bytes of text that the rows so far were read from."""
        self._requested = bool(width or requested)
        self.capacity = 0
        self._cells: Labels = np.empty(0, np.float32)
        self.labels: Labels = np.empty(0, np.float32)
        self.id_ends: NDArray[np.int64] = np.empty(0, np.int64)
        self.comment_ends: NDArray[np.int64] = np.empty(0, np.int64)
        self._hold(_FIRST_ROWS if width * _FIRST_ROWS <= _SMALL else 16)

    @property
    def features(self) -> Matrix:
        """A view that lasts until the rows grow."""
        return self._cells[: self.capacity * self.width].reshape(self.capacity, self.width)

    def lengthen(self, rows: int, share: float, text: int) -> None:
        """Make room for more rows, where `rows` of them took this share and text of the file."""
        self.text = text
        least = rows + max(rows // 8, 16)
        expected = max(least, int(rows / share * 1.02) + 16)
        fits = self._fits(expected, self.width) and self._is_modest(expected, text / share)
        self._hold(expected if fits else least, rows)

    def widen(self, rows: int, needed: int, text: int) -> None:
        """Make room for so many features, which a line after `rows` and their text has."""
        self.text = text
        # Later lines of a sparse file go a little further each: not one widening for each of them.
        width = needed if rows == 0 else min(max(needed, self.width * 5 // 4), self.most)
        if self.capacity * width > _SMALL:
            # What was expected of narrower rows would be too much: it is asked for again.
            self.capacity = rows + max(rows // 8, 16)
        old, self.width = self.width, width
        self._hold(self.capacity, rows)
        if rows:
            _lay_out(self._cells, rows, old, width)

    def finish(self, rows: int, width: int) -> None:
        """Cut everything to what was read."""
        if width != self.width:
            _lay_out(self._cells, rows, self.width, width)
        self.width = width
        self._hold(rows)

    def _fits(self, capacity: int, width: int) -> bool:
        import psutil

        free: int = psutil.virtual_memory().available
        return (capacity * width - self._cells.size) * 4 < free

    def _is_modest(self, rows: int, text: float) -> bool:
        """Whether the matrix of rows is not far larger than their text, or was requested."""
        most = max(_SMALL, _LARGEST_RATIO * text / 4)
        return self._requested or rows * self.width <= most

    def _hold(self, capacity: int, rows: int = 0) -> None:
        if not self._is_modest(rows, self.text):
            raise BadInput(
                f"cannot read {self.path}: {rows:,} rows of {self.width:,} features take "
                f"{rows * self.width * 4 / 1e9:.1f} GB, more than {_LARGEST_RATIO} times their "
                f"text of {self.text:,} bytes: are the feature numbers ids? number the features "
                f"from 1 on, or give `max_feature_number={self.width}` to read it all the same"
            )
        if capacity * self.width > _SMALL and not self._fits(capacity, self.width):
            raise BadInput(
                f"cannot read {self.path}: {capacity:,} rows of {self.width:,} features take "
                f"{capacity * self.width * 4 / 1e9:.1f} GB, which is more than the memory that is "
                "free: are the feature numbers ids? number the features from 1 on, or cut the file"
            )
        self.capacity = capacity
        self._cells.resize(capacity * self.width, refcheck=False)
        for array in (self.labels, self.id_ends, self.comment_ends):
            array.resize(capacity, refcheck=False)


def widest(line: bytes) -> int:
    """The largest feature number of a line, among those that can be one."""
    numbers = (int(match.group(1)) for match in _INDEX.finditer(line.partition(b"#")[0]))
    return max(number for number in numbers if number <= kernel.LARGEST_INDEX)


class Strings:
    """The bytes of strings, one after the other, with where each ends."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.content = bytearray()

    def array(self, path: Path, ends: NDArray[np.int64]) -> pa.StringArray:
        """The strings, nothing copied but the ends."""
        if len(self.content) >= 2**31:
            raise BadInput(
                f"cannot read {path}: its {self.what} take {len(self.content) / 1e9:.1f} GB, of "
                "2.1 GB that fit: cut the file in two"
            )
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = ends
        buffers = pa.py_buffer(offsets), pa.py_buffer(self.content)
        return pa.StringArray.from_buffers(len(ends), *buffers)


@compiled
def _lay_out(cells: Labels, rows: int, old: int, new: int) -> None:
    """Change, in place, the width of the rows of a row-major matrix from `old` to `new`.

    New columns are 0; columns beyond `new` are lost.
    """
    if new < old:
        for row in range(rows):
            for column in range(new):
                cells[row * new + column] = cells[row * old + column]
        return
    for row in range(rows - 1, -1, -1):
        for column in range(new - 1, old - 1, -1):
            cells[row * new + column] = 0
        for column in range(old - 1, -1, -1):
            cells[row * new + column] = cells[row * old + column]


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
    SVMrank; `NULL` is a missing value (NaN), as in LETOR's own files, and so is the largest number
    of a double (1.797e308), as in Istella's. Query ids may be any text
    without blanks and '#'. The document id is X of a comment `docid = X …`, else the comment's
    first word (RankLib), else the row's number within its query. Blank lines, and lines that are
    comments, are passed over. Feature names are "1", "2", … to the largest index, or to
    `n_features`; or "0", "1", … where a feature has index 0, as scikit-learn, LightGBM and XGBoost
    write them. 10,000 features are read unless `max_feature_number` says more: left out, a matrix
    more than 400 times as large as its text is refused too, beyond 64 MiB. The text is never held
    whole: `block` bytes of it are (more for longer lines, of up to 32 MiB). With several `threads`
    (default: the cores there are, up to four) pieces of large files are read side by side, to the
    same dataset.

    Raises BadInput, naming file, line and value, where anything is not as said, where a query's
    lines do not stand together, and where the last line has no end (the file may be cut).
    """
    path = Path(path)
    threads = _cores() if threads is None else threads

    def read(first: int) -> RankingDataset:
        reader = Reader(path, n_features, max_feature_number, first)
        with open_bytes(path) as source:
            _read_side_by_side(reader, source, block, threads)
        return reader.dataset()

    try:
        return read(1)
    except _NumbersFromZero:
        return read(0)


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

    def widest_part(first: int) -> int:
        read = _stream(path, n_features, max_feature_number, piece, first)
        # Where the width is known, the first part tells from which number the features begin.
        looked_at = islice(read, None if n_features is None else 1)
        return max((part.n_features for part in looked_at), default=0)

    first = 1
    try:
        width = widest_part(1)
    except _NumbersFromZero:
        width, first = widest_part(0), 0
    if not width:
        raise BadInput(f"cannot read {path}: it has no line with a document")
    return _stream(path, width, max_feature_number, piece, first)


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
    path: Path, n_features: int | None, max_feature_number: int | None, piece: int, first: int
) -> Iterator[RankingDataset]:
    lines = 0
    with open_bytes(path) as source:
        for text in _pieces(source, piece):
            reader = Reader(path, n_features, max_feature_number, first)
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
    with open_output(path, packs=True) as file, _compressing(path, file) as out:
        for start in range(0, dataset.n_documents, step):
            part = slice(start, start + step)
            queries = dataset.query_ids.take(rows[part])
            out.write(_lines_of(labels[part], queries, dataset.features[part], comments[part]))


def _lines_of(
    labels: pa.StringArray,
    queries: pa.StringArray,
    features: NDArray[np.float32],
    comments: pa.StringArray,
) -> memoryview:
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


def _ids_in(comments: pa.StringArray, numbers: pa.StringArray) -> pa.StringArray:
    """The document id that reading these comments gives."""
    named = pc.struct_field(pc.extract_regex(comments, _DOCID), "id")
    word = pc.struct_field(pc.extract_regex(comments, _FIRST_WORD), "id")
    ids = pc.fill_null(named, word)
    return pc.if_else(pc.equal(ids, ""), numbers, ids)


def _row_numbers(dataset: RankingDataset) -> Any:
    """The row's number within its query, from 1, as text."""
    starts = np.repeat(dataset.offsets[:-1], np.diff(dataset.offsets))
    return pc.cast(pa.array(np.arange(dataset.n_documents) - starts + 1), pa.string())


def _refuse_pattern(path: Path, what: str, values: pa.StringArray, pattern: str) -> None:
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
