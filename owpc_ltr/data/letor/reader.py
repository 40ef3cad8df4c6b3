"""Reader: the state of one reading of LETOR text, a block of whole lines after another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.invisible import first_unseen, why_unseen
from owpc_ltr.data.letor import codes
from owpc_ltr.data.letor.decimals import nearest_float32, powers_of_ten
from owpc_ltr.data.letor.kernel import read_lines
from owpc_ltr.data.letor.messages import complaint, too_wide
from owpc_ltr.data.letor.rows import MOST_FEATURES, Rows, Strings, widest
from owpc_ltr.data.letor.source import Source
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import line_of, open_bytes, shown

BLOCK = 1 << 20
_LONGEST_LINE = 1 << 25


class Reader:
    """What was read so far: of a whole text, or of one piece of whole queries."""

    def __init__(self, path: Path, n_features: int | None, max_features: int | None) -> None:
        self.path = path
        self.n_features = n_features
        self.max_features = max_features
        most = min(max_features or MOST_FEATURES, codes.LARGEST_INDEX)
        self.rows = Rows(path, n_features or 0, most, max_features or 0)
        self.ids = Strings("document ids")
        self.comments = Strings("comments")
        self.queries = Strings("query ids")
        self.begun: list[NDArray[np.int64]] = []
        self.query = np.zeros(codes.LONGEST_QUERY, np.uint8)
        self.powers = powers_of_ten()
        self.state = np.zeros(codes.STATE_SIZE, np.int64)
        self.state[codes.QUERY_LENGTH] = -1

    def read(self, source: Source, block: int) -> None:
        """Parse everything, a block of whole lines at a time."""
        buffer = bytearray(block)
        kept = 0
        while got := source.readinto(memoryview(buffer)[kept:]):
            filled = kept + got
            if self.state[codes.LINE] == 0:
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
        other.state[codes.LINE] = line
        return other

    def take(self, piece: Reader, size: int, share: float) -> None:
        """Put a piece of `size` bytes, which was read beside, behind what is there.

        `share` is how much of all text was read with it.
        """
        rows, first = self.rows, int(self.state[codes.ROW])
        count, width = int(piece.state[codes.ROW]), int(piece.state[codes.WIDTH])
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
        self.state[codes.ROW] += count
        self.state[codes.LINE] = piece.state[codes.LINE]
        self.state[codes.WIDTH] = max(self.state[codes.WIDTH], width)
        self.state[codes.QUERY_LENGTH] = -1

    def _parse(self, text: NDArray[np.uint8], source: Source, before: int) -> None:
        """Parse a block of whole lines, which stands after `before` bytes of the source."""
        # A line takes 8 bytes or more, a token 4, and a row number fewer than twice its line.
        scratch = [np.empty(2 * len(text) + 64, np.uint8) for _ in range(3)]
        begun = np.empty((len(text) // 8 + 1, 3), np.int64)
        unsure = np.empty((len(text) // 4 + 1, 4), np.int64)
        state, rows = self.state, self.rows
        first_line = int(state[codes.LINE])
        for counter in (
            codes.POSITION,
            codes.ID_BYTES,
            codes.COMMENT_BYTES,
            codes.QUERY_BYTES,
            codes.QUERIES,
            codes.UNSURE_TOKENS,
        ):
            state[counter] = 0
        state[codes.TOTAL_ID_BYTES] = len(self.ids.content)
        state[codes.TOTAL_COMMENT_BYTES] = len(self.comments.content)
        while True:
            result = read_lines(
                text,
                state,
                self.query,
                rows.features,
                rows.labels,
                rows.id_ends,
                rows.comment_ends,
                *scratch,
                begun,
                unsure,
                self.powers,
            )
            at = int(state[codes.POSITION])
            if result == codes.DONE:
                break
            if result == codes.FULL:
                share = source.share * (before + at) / source.taken
                rows.lengthen(int(state[codes.ROW]), share, before + at)
                continue
            content = text.tobytes()
            line = first_line + content.count(b"\n", 0, at) + 1
            if result != codes.WIDER or self.n_features is not None:
                raise self._bad(line, complaint(result, content, at, rows.width))
            end = content.index(b"\n", at)
            needed = widest(content[at:end])
            if needed > rows.most:
                raise self._bad(line, too_wide(needed, rows.most))
            rows.widen(int(state[codes.ROW]), needed, before + end)
        self._settle(text, unsure[: state[codes.UNSURE_TOKENS]], first_line)
        self._keep(text, scratch, begun[: state[codes.QUERIES]], first_line)

    def _settle(self, text: NDArray[np.uint8], unsure: NDArray[np.int64], first_line: int) -> None:
        """Read exactly the few tokens that compiled code left."""
        features = self.rows.features
        for row, column, begin, end in unsure.tolist():
            value = nearest_float32(text[begin:end].tobytes().decode())
            if np.isinf(value):
                line = first_line + text[:begin].tobytes().count(b"\n") + 1
                error = codes.LARGE_LABEL if column < 0 else codes.LARGE_VALUE
                token = begin if column < 0 else begin - len(f"{column + 1}:")
                raise self._bad(line, complaint(error, text.tobytes(), token, 0))
            if column < 0:
                self.rows.labels[row] = value
            else:
                features[row, column] = value

    def _keep(
        self,
        text: NDArray[np.uint8],
        scratch: list[NDArray[np.uint8]],
        begun: NDArray[np.int64],
        first_line: int,
    ) -> None:
        """Take over the strings of a block, which must be UTF-8."""
        counters = (codes.ID_BYTES, codes.COMMENT_BYTES, codes.QUERY_BYTES)
        begun[:, 2] += len(self.queries.content)
        self.begun.append(begun.copy())
        for strings, used, counter in zip(
            (self.ids, self.comments, self.queries), scratch, counters, strict=True
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
        count = int(self.state[codes.ROW])
        if count == 0:
            raise BadInput(f"cannot read {self.path}: it has no line with a document")
        width = self.n_features or int(self.state[codes.WIDTH])
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
            f"cannot read {self.path}, line {line or int(self.state[codes.LINE]) + 1}: {what}"
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
