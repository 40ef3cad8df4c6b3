"""The contract of a judgment reader."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from owpc_ltr.data.judgments.grouping import group_judgments
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.files.input import read_head, shown
from owpc_ltr.host.judgment_lists import first_to_recognise, judgment_readers
from owpc_ltr.host.registry import Registry, installed
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.protocols import JudgmentReader


@dataclass(frozen=True)
class Judged:
    """One judgment, as a writer of samples is given it: the grade is text, which may be wrong."""

    query_id: str
    query: str
    document_id: str
    grade: str


Writer = Callable[[Sequence[Judged]], bytes]
"""A file of the reader's format; raises ValueError or BadInput for what the format cannot hold."""


def check_judgment_reader(
    reader: JudgmentReader, write: Writer | None = None, registry: Registry | None = None
) -> list[str]:
    """Check everything that a judgment reader promises, on files that `write` makes.

    Its own example and files are recognised, those of the other readers in the registry (without
    one, of what is installed) are left to them. What is written reads back: every judgment, in
    order, ids and fractions as they stand, compressed or not. A grade that is no number, an id
    that is empty or has blanks around it, and a file that is cut are refused, naming file and
    line, and never read as something else. Without `write`, all that the example can show.

    Raises AssertionError. Returns a sentence for each kind of value that `write` says the format
    cannot hold, and that was skipped.
    """
    require = Require("judgment-reader", reader)
    plain = reader.example() if write is None else write(_PLAIN)
    with tempfile.TemporaryDirectory() as folder:
        check = _Check(reader, plain, Path(folder), require)
        check.recognition(registry)
        if write is not None:
            unheld = list(check.files_of(write))
        else:
            unheld = [
                f"{reader.name} was checked on its example alone: with a method "
                "write(rows) -> bytes, as check_judgment_reader takes, hard ids and bad grades "
                "are checked too"
            ]
        check.cuts()
    return unheld


Row = tuple[str, str, str, float]


@dataclass(frozen=True)
class _Check:
    reader: JudgmentReader
    plain: bytes
    folder: Path
    require: Require

    def files_of(self, write: Writer) -> Iterator[str]:
        """Check what is written; a sentence for each kind of value that cannot be."""

        def written(rows: Sequence[Judged]) -> bytes | None:
            try:
                return write(rows)
            except (ValueError, BadInput):
                return None

        self.reads_as("plain judgments", self.plain, _PLAIN)
        packed = gzip.compress(self.plain)
        self.reads_as("a file compressed by gzip", packed, _PLAIN)
        self.refuses("a compressed file that is cut", packed[:-9])
        for what, rows in _LISTS.items():
            if content := written(rows):
                self.reads_as(what, content, rows)
            else:
                yield f"{self.reader.name} cannot hold {what}"
        refused = set()
        for what, column, value in _BAD:
            # An id that is a query's text is not read from the file's column of ids.
            by_text = getattr(self.reader, "ids_are_texts", False) and column == "query_id"
            if content := None if by_text else written(_changed(**{column: value})):
                self.bad_value(what, value, content)
                refused.add(column)
            else:
                yield f"{self.reader.name} cannot hold {what}"
        self.require("grade" in refused, "cannot be checked: its writer cannot write a bad grade")

    def recognition(self, registry: Registry | None) -> None:
        """Check that every example goes to its own reader, this one among them."""
        readers = judgment_readers(installed() if registry is None else registry)
        others = [reader for reader in readers if reader.name != self.reader.name]
        files = [(reader, reader.example()) for reader in (self.reader, *others)]
        for owner, content in (*files, (self.reader, self.plain)):
            chosen = self._chosen([self.reader, *others], content)
            self.require(
                chosen is owner,
                f"asked with precedence {self.reader.precedence}: a file of '{owner.name}' was "
                f"taken for {chosen.name if chosen else 'none'!r}",
            )
        for content in _NO_TEXT:
            self._chosen([self.reader], content)
        self._accepted("its own example", self.reader.example())

    def _chosen(self, readers: list[JudgmentReader], content: bytes) -> JudgmentReader | None:
        path = self._file(content)
        try:
            return first_to_recognise(readers, path, read_head(path))
        except OwpcLtrError as error:
            raise AssertionError(f"{self.require.who} asked for its files: {error}") from error

    def reads_as(self, what: str, content: bytes, rows: Sequence[Judged]) -> None:
        """Check that a file reads as these rows, the queries in the order of their first."""
        by_text = getattr(self.reader, "ids_are_texts", False)
        first = {row.query_id: place for place, row in reversed(list(enumerate(rows)))}
        expected: list[Row] = [
            (row.query if by_text else row.query_id, row.query, row.document_id,
             float(np.float32(row.grade)))
            for row in sorted(rows, key=lambda row: first[row.query_id])
        ]  # fmt: skip
        actual = self._accepted(what, content)
        self.require(
            actual == expected, f"read {what} as {{}}, where {{}} was written", actual, expected
        )

    def cuts(self) -> None:
        """Check that a cut file is refused, or reads as the judgments before the cut."""
        content, whole = self.plain, self._read(self.plain)
        for end in np.unique(np.linspace(1, len(content) - 2, 60).astype(int)):
            try:
                judgments = self._read(content[:end])
            except BadInput:
                continue
            # The last value of a text may be cut, and nobody can tell.
            self.require(
                0 < len(judgments) <= len(whole) and judgments[:-1] == whole[: len(judgments) - 1],
                f"read the first {end} of {len(content)} bytes as {judgments}, the whole as "
                f"{whole}",
            )

    def bad_value(self, what: str, value: str, content: bytes) -> None:
        """Check that a bad row is refused, by its line."""
        lines = self.reader.read(self._file(self.plain), _TOPICS)
        if value == "-1" and lines.negative == "zero":
            what = "negative grades, which it claims to read as 0,"
            self.reads_as(what, content, _changed(grade="0"))
            notes = group_judgments(self.reader.read(self._file(content), _TOPICS)).notes
            self.require(notes, f"reads {what} without a note")
        else:
            self.refuses(what, content, f"{lines.place} {lines.numbers[_BAD_AT]}:")

    def refuses(self, what: str, content: bytes, where: str = "") -> None:
        """Check that a file is refused in one line that names it, and a place in it."""
        try:
            judgments = self._read(content)
        except BadInput as error:
            text, path = str(error), str(self._file(content))
            self.require(
                path in text and "\n" not in text and where in text,
                f"must refuse {what} in one line that names file and line ('{where or path}'), "
                f"and said: {text}",
            )
        else:
            self.require(False, f"must refuse {what}, and read it as {judgments}")

    def _accepted(self, what: str, content: bytes) -> list[Row]:
        try:
            return self._read(content)
        except OwpcLtrError as error:
            raise AssertionError(
                f"{self.require.who} must read {what}, and said: {error}"
            ) from error

    def _read(self, content: bytes) -> list[Row]:
        path = self._file(content)
        try:
            judgments = group_judgments(self.reader.read(path, _TOPICS))
        except OwpcLtrError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise AssertionError(
                f"{self.require.who} broke on {shown(content)}: {reason}"
            ) from error
        return [
            (query.query_id, query.params.get("query", ""), document, grade)
            for query in judgments.queries
            for document, grade in zip(query.doc_ids, query.grades.tolist(), strict=True)
        ]

    def _file(self, content: bytes) -> Path:
        path = self.folder / "judgments"
        path.write_bytes(content)
        return path


_PLAIN = (
    Judged("q1", "rambo", "7555", "4"),
    Judged("q1", "rambo", "1370", "0"),
    Judged("q2", "rocky", "60375", "3"),
    Judged("q2", "rocky", "7555", "1"),
    Judged("q3", "first blood", "1368", "2"),
)


def _each(query_id: str = "{0.query_id}", document_id: str = "{0.document_id}",
          grade: str = "{0.grade}") -> tuple[Judged, ...]:  # fmt: skip
    return tuple(
        replace(row, query_id=query_id.format(row), document_id=document_id.format(row),
                grade=grade.format(row))
        for row in _PLAIN
    )  # fmt: skip


_LISTS = {
    "grades that are fractions": _each(grade="{0.grade}.375"),
    "ids with quotes": _each(document_id="'a\"{0.grade}"),
    "ids with blanks": _each(document_id="a {0.grade}  b"),
    "ids with a comma, a semicolon, a tab": _each(document_id="a,{0.grade};b\tc"),
    "ids beyond ASCII": _each("é{0.query_id}", "\u65e5\U0001f3ac{0.grade}"),
    "ids that look like numbers": _each(document_id="00{0.grade}.10"),
    "queries whose judgments lie apart": (*_PLAIN[::2], *_PLAIN[1::2]),
}
_NO_TEXT = (b"\xff\xfe\x00\x80\n\xe9", b"\x00", b"\n \n")
_BAD_AT = 3
_BAD_GRADES = ("nan", "inf", "1e39", "-1", "good", "")
_BAD_IDS = ("", " 7", "7 ")
_BAD = (
    *((f"the grade {shown(bad)}", "grade", bad) for bad in _BAD_GRADES),
    *((f"the document id {shown(bad)}", "document_id", bad) for bad in _BAD_IDS),
    *((f"the query id {shown(bad)}", "query_id", bad) for bad in _BAD_IDS),
)
"""Values that must be refused: what each is, and its column."""


def _changed(**values: str) -> tuple[Judged, ...]:
    """The plain list with other values in the row `_BAD_AT`."""
    return (*_PLAIN[:_BAD_AT], replace(_PLAIN[_BAD_AT], **values), *_PLAIN[_BAD_AT + 1 :])


_TOPICS = {
    row.query_id: row.query for rows in (_PLAIN, *_LISTS.values()) for row in rows
} | dict.fromkeys(_BAD_IDS, _PLAIN[_BAD_AT].query)
