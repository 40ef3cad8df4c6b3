"""Reader: the state of one reading of LETOR text, a block of whole lines after another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import kernel
from owpc_ltr.data.letor.rows import MOST_FEATURES, Rows, Strings, widest
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import first_unseen, line_of, open_bytes, shown, why_unseen

BLOCK = 1 << 20
_LONGEST_LINE = 1 << 25


class Source(Protocol):
    """Bytes one after another, and how many of them were taken."""

    @property
    def taken(self) -> int:
        """Bytes that were read."""
        ...

    @property
    def share(self) -> float:
        """The share of all bytes that was read, above 0."""
        ...

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is; 0 at the end."""
        ...


class Reader:
    """What was read so far: of a whole text, or of one piece of whole queries."""

    def __init__(self, path: Path, n_features: int | None, max_features: int | None) -> None:
        self.path = path
        self.n_features = n_features
        self.max_features = max_features
        most = min(max_features or MOST_FEATURES, kernel.LARGEST_INDEX)
        self.rows = Rows(path, n_features or 0, most, max_features or 0)
        self.ids = Strings("document ids")
        self.comments = Strings("comments")
        self.queries = Strings("query ids")
        self.begun: list[NDArray[np.int64]] = []
        self.query = np.zeros(kernel.LONGEST_QUERY, np.uint8)
        self.powers = kernel.powers_of_ten()
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.state[kernel.QUERY_LENGTH] = -1
        self._buffers: tuple[NDArray[Any], ...] = ()

    def read(self, source: Source, block: int) -> None:
        """Parse everything, a block of whole lines at a time."""
        buffer = bytearray(block)
        kept = 0
        while got := source.readinto(memoryview(buffer)[kept:]):
            filled = kept + got
            if self.state[kernel.LINE] == 0:
                _refuse_marks(self.path, bytes(buffer[: min(filled, 4096)]))
            stop = buffer.rfind(b"\n", 0, filled) + 1
            if stop:
                self._parse(np.frombuffer(buffer, np.uint8, stop), source, source.taken - filled)
            kept = filled - stop
            buffer[:kept] = buffer[stop:filled]
            if kept == len(buffer):
                if len(buffer) >= _LONGEST_LINE:
                    raise self._bad(0, f"the line is longer than {_LONGEST_LINE >> 20} MiB")
                buffer += bytes(len(buffer))
        if buffer[:kept].strip(b" \t"):
            raise self._bad(
                0,
                f"the last line, {shown(bytes(buffer[:kept]))}, has no line end: the file may be "
                "cut; if it is whole, end it with a new line",
            )

    def beside(self, line: int) -> Reader:
        """A reader for a piece that begins after so many lines, with a query."""
        other = Reader(self.path, self.n_features, self.max_features)
        other.state[kernel.LINE] = line
        return other

    def take(self, piece: Reader, size: int, share: float) -> None:
        """Put a piece of `size` bytes, which was read beside, behind what is there.

        `share` is how much of all text was read with it.
        """
        rows, first = self.rows, int(self.state[kernel.ROW])
        count, width = int(piece.state[kernel.ROW]), int(piece.state[kernel.WIDTH])
        if width > rows.width:
            rows.widen(first, width, rows.text + size)
        if first + count > rows.capacity:
            rows.lengthen(first + count, share, rows.text + size)
        rows.text += size
        new = slice(first, first + count)
        own = piece.rows
        rows.features[new, :width] = own.features[:count, :width]
        rows.features[new, width:] = 0
        rows.labels[new] = own.labels[:count]
        rows.id_ends[new] = own.id_ends[:count] + len(self.ids.content)
        rows.comment_ends[new] = own.comment_ends[:count] + len(self.comments.content)
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

    def _parse(self, text: NDArray[np.uint8], source: Source, before: int) -> None:
        """Parse a block of whole lines, which stands after `before` bytes of the source."""
        state, rows = self.state, self.rows
        buffers = self._buffers_for(len(text))
        first_line = int(state[kernel.LINE])
        for counter in (
            kernel.POSITION,
            kernel.ID_BYTES,
            kernel.COMMENT_BYTES,
            kernel.QUERY_BYTES,
            kernel.QUERIES,
            kernel.UNSURE_TOKENS,
        ):
            state[counter] = 0
        state[kernel.TOTAL_ID_BYTES] = len(self.ids.content)
        state[kernel.TOTAL_COMMENT_BYTES] = len(self.comments.content)
        while True:
            result = kernel.read_lines(
                text,
                state,
                self.query,
                rows.features,
                rows.labels,
                rows.id_ends,
                rows.comment_ends,
                *buffers,
                self.powers,
            )
            at = int(state[kernel.POSITION])
            if result == kernel.DONE:
                break
            if result == kernel.FULL:
                share = source.share * (before + at) / source.taken
                rows.lengthen(int(state[kernel.ROW]), share, before + at)
                continue
            line = _line_at(text, at)
            if result == kernel.WRONG:
                raise self._bad(0, _fault_of(line))
            if self.n_features is not None:
                raise self._bad(0, _feature_beyond(line, self.n_features))
            needed = widest(line)
            if needed > rows.most:
                raise self._bad(
                    0,
                    f"feature {needed:,} is beyond {rows.most:,}, the most that are read: is it an "
                    f"id? number the features from 1 on, or give --max-features {needed} "
                    "(max_features=…)",
                )
            rows.widen(int(state[kernel.ROW]), needed, before + at + len(line) - 1)
        ids, comments, queries, begun, unsure = buffers
        self._settle(text, unsure[: state[kernel.UNSURE_TOKENS]], first_line)
        self._keep(text, (ids, comments, queries), begun[: state[kernel.QUERIES]], first_line)

    def _buffers_for(self, size: int) -> tuple[NDArray[Any], ...]:
        """What takes the ids, comments, queries, begun queries and unsure tokens of a block."""
        # A line takes 8 bytes or more, a token 4, and a row number fewer than twice its line.
        if not self._buffers or len(self._buffers[0]) < 2 * size + 64:
            strings = (np.empty(2 * size + 64, np.uint8) for _ in range(3))
            tokens = np.empty((size // 4 + 1, 4), np.int64)
            self._buffers = (*strings, np.empty((size // 8 + 1, 3), np.int64), tokens)
        return self._buffers

    def _settle(self, text: NDArray[np.uint8], unsure: NDArray[np.int64], first_line: int) -> None:
        """Read exactly the few tokens that compiled code left."""
        for row, column, begin, end in unsure.tolist():
            value = kernel.nearest_float32(text[begin:end].tobytes().decode())
            if np.isinf(value):
                before = text[:begin].tobytes()
                line = _line_at(text, before.rfind(b"\n") + 1)
                raise self._bad(first_line + before.count(b"\n") + 1, _fault_of(line))
            if column < 0:
                self.rows.labels[row] = value
            else:
                self.rows.features[row, column] = value

    def _keep(
        self,
        text: NDArray[np.uint8],
        buffers: tuple[NDArray[np.uint8], ...],
        begun: NDArray[np.int64],
        first_line: int,
    ) -> None:
        """Take over the strings of a block, which must be UTF-8."""
        counters = (kernel.ID_BYTES, kernel.COMMENT_BYTES, kernel.QUERY_BYTES)
        begun[:, 2] += len(self.queries.content)
        self.begun.append(begun.copy())
        for strings, used, counter in zip(
            (self.ids, self.comments, self.queries), buffers, counters, strict=True
        ):
            content = used[: self.state[counter]].tobytes()
            try:
                content.decode()
            except UnicodeDecodeError:
                number, line = _first_undecodable(text.tobytes())
                raise self._bad(first_line + number, f"{shown(line)} is not UTF-8") from None
            strings.content += content

    def dataset(self) -> RankingDataset:
        """What was read. Raises BadInput where it is nothing, or a query comes back."""
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
        document_ids = self.ids.array(self.path, rows.id_ends)
        self._refuse_unseen("query id", self.queries, query_ids)
        self._refuse_unseen("document id", self.ids, document_ids)
        return RankingDataset(
            features=rows.features,
            labels=rows.labels,
            offsets=np.append(begun[:, 0], count),
            query_ids=query_ids,
            feature_names=tuple(str(index + 1) for index in range(width)),
            document_ids=document_ids,
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
        found = first_unseen(strings.content, ids)
        if found is None:
            return
        value = str(ids[found])
        with open_bytes(self.path) as source:
            line = line_of(source, value.encode())
        raise self._bad(line, f"the {what} {shown(value)} {why_unseen(value)}")

    def _bad(self, line: int, what: str) -> BadInput:
        return BadInput(
            f"cannot read {self.path}, line {line or int(self.state[kernel.LINE]) + 1}: {what}"
        )


def _refuse_marks(path: Path, head: bytes) -> None:
    if head.startswith(b"\xef\xbb\xbf"):
        raise BadInput(
            f"cannot read {path}, line 1: it begins with a byte order mark: save it as UTF-8 "
            "without one"
        )
    if head.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise BadInput(f"cannot read {path}: it is compressed twice: unpack it once")
    if b"\0" in head:
        line = head.count(b"\n", 0, head.index(b"\0")) + 1
        raise BadInput(f"cannot read {path}, line {line}: a zero byte: it is not a text file")


def _first_undecodable(text: bytes) -> tuple[int, bytes]:
    for number, line in enumerate(text.split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return number, line[max(error.start - 8, 0) : error.end + 8]
    raise AssertionError("strings that begin with characters are UTF-8 when their join is")


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?=[ \t\r\n#])")
_TOKEN = re.compile(rb"[^ \t\r\n]*")
_ID = re.compile(rb"[^\x00-\x20#]*")
_FEATURE = re.compile(rb"(\d+):(NULL(?=[ \t\r\n#]))?")
_COMMENT = re.compile(rb"#?([^\x00-\x08\x0a-\x1f]*)\r?")


def _line_at(text: NDArray[np.uint8], at: int) -> bytes:
    """The line that begins at `at`, its end included."""
    rest = text[at : at + _LONGEST_LINE].tobytes()
    return rest[: rest.index(b"\n") + 1]


def _fault_of(line: bytes) -> str:  # noqa: PLR0911 - one for each fault
    """What is wrong with a line that compiled code has refused, in words."""
    at = _after_blanks(line, 0)
    label, token = _NUMBER.match(line, at), _token(line, at)
    if label is None:
        return f"the label {token} is not a number: a line is 'label qid:ID 1:value …  # comment'"
    if np.isinf(kernel.nearest_float32(label.group().decode())):
        return f"the label {token} is beyond float32"
    if line[at : at + 1] == b"-" and re.search(rb"[1-9]", label.group(1)):
        return (
            f"the label {token} is negative: 0 is irrelevant; leave unjudged documents out, or "
            "shift all labels"
        )
    name = _after_blanks(line, label.end()) + 4
    token = _token(line, name - 4)
    if line[name - 4 : name] != b"qid:":
        return f"{token} stands where qid:ID must: give each line its query, right after the label"
    at = name + len(_ID.findall(line, name)[0])
    if line[at] == ord("#"):
        return (
            f"the query id {token} has a '#', which begins a comment: put a blank before it, or "
            "rename the query"
        )
    if line[at] not in b" \t\r\n":
        return _control(line, at)
    if at == name:
        return "the query id after 'qid:' is empty"
    if at - name > kernel.LONGEST_QUERY:
        return f"a query id is longer than {kernel.LONGEST_QUERY} bytes"
    last = 0
    while line[at := _after_blanks(line, at)] not in b"\n#\r":
        token, feature = _token(line, at), _FEATURE.match(line, at)
        if feature is None:
            return f"{token} is not a feature: write index:value"
        index = int(feature.group(1)[-20:])
        if index == 0:
            return f"the feature {token} has index 0: indices begin at 1"
        if index == last:
            return f"the feature {token} repeats the index before it"
        if index < last:
            return f"the feature {token} has a smaller index than the one before it: sort them"
        if index > kernel.LARGEST_INDEX:
            return (
                f"the feature {token} is beyond index {kernel.LARGEST_INDEX:,}: number the "
                "features from 1 on"
            )
        last, value = index, _NUMBER.match(line, feature.end())
        if value is None and feature.group(2) is None:
            return f"the feature {token} has no decimal number for a value; a missing value is NULL"
        if value and np.isinf(kernel.nearest_float32(value.group().decode())):
            return f"the feature {token} has a value beyond float32"
        at = value.end() if value else feature.end()
    comment = _COMMENT.match(line, at)
    end = comment.end() if comment else at
    if line[end] != ord("\n"):
        return _control(line, comment.end(1) if comment else at)
    bad = name if line[name] & 0xC0 == 0x80 else comment.start(1) if comment else at
    return f"{_token(line, bad)} is not UTF-8: save the file as UTF-8"


def _feature_beyond(line: bytes, n_features: int) -> str:
    """The complaint about the first feature of a line that is beyond those asked for."""
    found = re.finditer(rb"[ \t](\d+):", line)
    beyond = next(one.start(1) for one in found if int(one.group(1)) > n_features)
    return (
        f"the feature {_token(line, beyond)} is beyond the {n_features} features that were asked "
        "for"
    )


def _control(line: bytes, at: int) -> str:
    return (
        f"a control character, byte 0x{line[at]:02x}: is it a text file with lines that end in LF "
        "or CRLF?"
    )


def _token(line: bytes, at: int) -> str:
    """What stands at `at` up to a blank, as an error shows it."""
    found = _TOKEN.match(line, at)
    return shown(found.group()) if found and found.group() else "the end of the line"


def _after_blanks(line: bytes, at: int) -> int:
    while line[at] in b" \t":
        at += 1
    return at
