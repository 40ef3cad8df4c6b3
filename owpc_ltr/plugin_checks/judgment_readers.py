"""The contract of a judgment reader."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.judgments.duplicates import group_judgments
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.files.text import read_head, shown
from owpc_ltr.host.judgment_lists import first_to_recognise, judgment_readers
from owpc_ltr.host.registry import Registry, installed
from owpc_ltr.plugin_checks.samples import require
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
    reader: JudgmentReader, write: Writer, registry: Registry | None = None
) -> list[str]:
    """Check everything that a judgment reader promises, on files that `write` makes.

    Its own example and files are recognised, those of the other readers in the registry (without
    one, of what is installed) are left to them. What is written reads back: every judgment, in
    order, ids and fractions as they stand, packed or not. A grade that is no number, an id that
    is empty or has blanks around it, and a file that is cut are refused, naming file and line,
    and never read as something else.

    Raises AssertionError. Returns a sentence for each kind of value that `write` says the format
    cannot hold, and that was skipped.
    """
    with tempfile.TemporaryDirectory() as folder:
        check = _Check(reader, write, Path(folder))
        check.recognition(installed() if registry is None else registry)
        check.round_trip("plain judgments", PLAIN)
        check.packed()
        check.cuts()
        skipped = []
        for what, rows in LISTS.items():
            if not check.round_trip(what, rows, may_skip=True):
                skipped.append(f"{reader.name} cannot hold {what}")
        unheld = [what for what, rows, value in bad_lists() if not check.refuses(rows, value)]
    grades = [what for what in unheld if what.startswith("the grade")]
    require(len(grades) < len(BAD_GRADES), f"{check.who}: its writer cannot write a bad grade")
    return skipped + [f"{reader.name} cannot hold {what}" for what in unheld]


def check_example(reader: JudgmentReader, registry: Registry | None = None) -> list[str]:
    """Check what its own example can tell of a reader, for which nobody wrote a writer.

    The example is recognised and read, those of other readers are left to them, and a cut one is
    refused or reads as what is before the cut. Raises AssertionError. Returns a sentence on what
    was skipped: all else needs a writer.
    """
    with tempfile.TemporaryDirectory() as folder:
        check = _Check(reader, lambda _: reader.example(), Path(folder))
        check.recognition(installed() if registry is None else registry)
        check.cuts()
    return [
        f"{reader.name} was checked on its example alone: with a method write(rows) -> bytes, as "
        "check_judgment_reader takes, hard ids and bad grades are checked too"
    ]


@dataclass(frozen=True)
class _Check:
    reader: JudgmentReader
    write: Writer
    folder: Path

    @property
    def who(self) -> str:
        """The reader, as sentences name it."""
        return f"judgment reader '{self.reader.name}'"

    @property
    def _ids_are_texts(self) -> bool:
        return bool(getattr(self.reader, "ids_are_texts", False))

    def _expected(self, rows: Sequence[Judged]) -> list[tuple[str, str, list[str], list[float]]]:
        if self._ids_are_texts:
            rows = [replace(row, query_id=row.query) for row in rows]
        return _expected(rows)

    def recognition(self, registry: Registry) -> None:
        """Check that every example goes to its own reader, this one among them."""
        others = [r for r in judgment_readers(registry) if r.name != self.reader.name]
        for content, owner in (
            *((other.example(), other) for other in others),
            (self.reader.example(), self.reader),
            (self.write(PLAIN), self.reader),
        ):
            chosen = self._chosen([self.reader, *others], content)
            require(
                chosen is owner,
                f"{self.who}, asked with precedence {self.reader.precedence}: a file of "
                f"'{owner.name}' was taken for {chosen.name if chosen else 'none'!r}",
            )
        for content in NO_TEXT:
            self._chosen([self.reader], content)
        self._accepted("its own example", self.reader.example())

    def round_trip(self, what: str, rows: Sequence[Judged], may_skip: bool = False) -> bool:
        """Check that the rows read back as they are; whether the format can hold them."""
        try:
            content = self.write(rows)
        except (ValueError, BadInput):
            require(may_skip, f"{self.who}: its writer cannot write {what}")
            return False
        found = _told(self._accepted(what, content))
        require(
            found == self._expected(rows),
            f"{self.who} read {what} as {{}}, where {{}} was written",
            found,
            self._expected(rows),
        )
        return True

    def packed(self) -> None:
        """Check that a packed file reads as the plain one, and is refused where it is cut."""
        packed = gzip.compress(self.write(PLAIN))
        require(
            _told(self._accepted("a file that gzip has packed", packed)) == self._expected(PLAIN),
            f"{self.who} reads a file that gzip has packed as another",
        )
        self._refusal(packed[:-9], "a packed file that is cut", None)

    def cuts(self) -> None:
        """Check that a cut file is refused, or reads as the judgments before the cut."""
        content = self.write(PLAIN)
        whole = _flat(self._read(content))
        for end in sorted({*np.linspace(1, len(content) - 2, 60).astype(int).tolist()}):
            try:
                found = _flat(self._read(content[:end]))
            except BadInput:
                continue
            # The last value of a text may be cut, and nobody can tell.
            require(
                0 < len(found) <= len(whole) and found[:-1] == whole[: len(found) - 1],
                f"{self.who} read the first {end} of {len(content)} bytes as {{}}, where the whole "
                "file has {}",
                found,
                whole,
            )

    def refuses(self, rows: Sequence[Judged], value: str) -> bool:
        """Check that the row `BAD_AT` is refused, by its line; whether the format can hold it."""
        if self._ids_are_texts and rows[BAD_AT].query_id != PLAIN[BAD_AT].query_id:
            return False
        try:
            content = self.write(rows)
        except (ValueError, BadInput):
            return False
        lines = self.reader.read(self._file(self.write(PLAIN)), TOPICS)
        if value == "-1" and lines.negative == "zero":
            read = self._read(content)
            require(
                read.notes and _told(read) == self._expected(changed(grade="0")),
                f"{self.who} claims to read negative grades as 0, with a note, and read {{}}",
                _told(read),
            )
            return True
        self._refusal(
            content, f"the value {shown(value)}", f"{lines.place} {lines.numbers[BAD_AT]}:"
        )
        return True

    def _refusal(self, content: bytes, what: str, where: str | None) -> None:
        path = self._file(content)
        try:
            found = self._read(content)
        except BadInput as error:
            text = str(error)
            require(
                str(path) in text and "\n" not in text and (where is None or where in text),
                f"{self.who} must refuse {what} in one line that names file and line "
                f"('{where or path}'), and said: {{}}",
                text,
            )
            return
        raise AssertionError(f"{self.who} must refuse {what}, and read it as {_told(found)}")

    def _chosen(self, readers: list[JudgmentReader], content: bytes) -> JudgmentReader | None:
        path = self._file(content)
        try:
            return first_to_recognise(readers, path, read_head(path))
        except OwpcLtrError as error:
            raise AssertionError(f"{self.who}, asked for its files: {error}") from error

    def _accepted(self, what: str, content: bytes) -> Judgments:
        try:
            return self._read(content)
        except OwpcLtrError as error:
            raise AssertionError(f"{self.who} must read {what}, and said: {error}") from error

    def _read(self, content: bytes) -> Judgments:
        path = self._file(content)
        try:
            return group_judgments(self.reader.read(path, TOPICS))
        except OwpcLtrError:
            raise
        except Exception as error:
            raise AssertionError(
                f"{self.who} broke on {shown(content)}: {type(error).__name__}: {error}"
            ) from error

    def _file(self, content: bytes) -> Path:
        path = self.folder / "judgments"
        path.write_bytes(content)
        return path


def _told(judgments: Judgments) -> list[tuple[str, str, list[str], list[float]]]:
    return [
        (query.query_id, query.params.get("query", ""), query.document_ids, query.grades.tolist())
        for query in judgments.queries
    ]


def _expected(rows: Sequence[Judged]) -> list[tuple[str, str, list[str], list[float]]]:
    queries: dict[str, tuple[str, str, list[str], list[float]]] = {}
    for row in rows:
        told = queries.setdefault(row.query_id, (row.query_id, row.query, [], []))
        told[2].append(row.document_id)
        told[3].append(float(np.float32(row.grade)))
    return list(queries.values())


def _flat(judgments: Judgments) -> list[tuple[str, str, str, float]]:
    return [
        (query, text, document, grade)
        for query, text, documents, grades in _told(judgments)
        for document, grade in zip(documents, grades, strict=True)
    ]


PLAIN = (
    Judged("q1", "rambo", "7555", "4"),
    Judged("q1", "rambo", "1370", "0"),
    Judged("q2", "rocky", "60375", "3"),
    Judged("q2", "rocky", "7555", "1"),
    Judged("q3", "first blood", "1368", "2"),
)
LISTS = {
    "grades that are fractions": tuple(replace(row, grade=row.grade + ".375") for row in PLAIN),
    "ids with quotes": tuple(replace(row, document_id=f"'a\"{row.grade}") for row in PLAIN),
    "ids with blanks": tuple(replace(row, document_id=f"a {row.grade}  b") for row in PLAIN),
    "ids with a comma, a semicolon, a tab": tuple(
        replace(row, document_id=f"a,{row.grade};b\tc") for row in PLAIN
    ),
    "ids beyond ASCII": tuple(
        replace(row, query_id=f"é{row.query_id}", document_id=f"\u65e5\U0001f3ac{row.grade}")
        for row in PLAIN
    ),
    "ids that look like numbers": tuple(
        replace(row, document_id=f"00{row.grade}.10") for row in PLAIN
    ),
    "queries whose judgments lie apart": (*PLAIN[::2], *PLAIN[1::2]),
}
NO_TEXT = (b"\xff\xfe\x00\x80\n\xe9", b"\x00", b"\n \n")
BAD_AT = 3
BAD_GRADES = ("nan", "inf", "1e39", "-1", "good", "")
BAD_IDS = ("", " 7", "7 ")


def bad_lists() -> list[tuple[str, tuple[Judged, ...], str]]:
    """The plain list with one value that must be refused, and what the value is."""
    return [
        *((f"the grade {shown(bad)}", changed(grade=bad), bad) for bad in BAD_GRADES),
        *((f"the document id {shown(bad)}", changed(document_id=bad), bad) for bad in BAD_IDS),
        *((f"the query id {shown(bad)}", changed(query_id=bad), bad) for bad in BAD_IDS),
    ]


def changed(**values: str) -> tuple[Judged, ...]:
    """The plain list with other values in the row `BAD_AT`."""
    return (*PLAIN[:BAD_AT], replace(PLAIN[BAD_AT], **values), *PLAIN[BAD_AT + 1 :])


TOPICS = {
    row.query_id: row.query
    for rows in (PLAIN, *LISTS.values(), *(rows for _, rows, _ in bad_lists()))
    for row in rows
}
