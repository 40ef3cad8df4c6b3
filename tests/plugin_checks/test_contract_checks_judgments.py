"""The contract check of judgment readers: honest ones pass, each liar is caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_judgments.tables import Csv, Parquet

from owpc_ltr import read_judgments
from owpc_ltr.data.judgment_tables import parse_table
from owpc_ltr.data.judgments import JudgmentLines, group_judgments
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.files.input import read_text
from owpc_ltr.host.judgment_lists import reader_of_file
from owpc_ltr.host.registry import Plugin, Registry, installed
from owpc_ltr.plugin_checks import Judged, check_judgment_reader
from owpc_ltr.protocols import JudgmentReader
from tests.judgment_writers import IDS, WRITERS, table
from tests.liars import lying, lying_class, named


def bars(rows: Sequence[Judged]) -> bytes:
    return b"%bars\n" + table(rows, "|")


@dataclass(frozen=True)
class Bars:
    """An honest reader of a third-party format: CSV with bars, below a line that says so."""

    name: ClassVar[str] = "bars"
    precedence: ClassVar[int] = 10

    def recognises(self, _path: Path, head: bytes) -> bool:
        return head.startswith(b"%bars\n")

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        mark, _, text = read_text(path).partition("\n")
        if mark != "%bars":
            raise BadInput(f"cannot read {path}, line 1: {mark!r} is not '%bars'")
        # A line of our own, so that lines are counted as the file has them.
        return self.altered(parse_table("\n" + text, path, "|", topics))

    def altered(self, lines: JudgmentLines) -> JudgmentLines:
        return lines

    def example(self) -> bytes:
        return bars([Judged("q1", "rambo", "7555", "4")])


class IsNeverCut(Bars):
    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        try:
            return super().read(path, topics)
        except BadInput:
            texts = ["rambo", "rambo"]
            params = {"keywords": texts, "query": texts}
            return JudgmentLines(path, [1, 2], ["q1", "q1"], ["a", "b"], ["0", "0"], params)


class ReadsNoPackedFile(Bars):
    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        path.read_bytes().decode()
        return super().read(path, topics)


class BreaksOnBinary(Bars):
    def recognises(self, _path: Path, head: bytes) -> bool:
        return head.decode().startswith("%bars\n")


AsksAsCsvDoes = lying_class(Bars, "AsksAsCsvDoes", precedence=100)


def telling(name: str, alter: Callable[[JudgmentLines, JudgmentLines], JudgmentLines]) -> Any:
    """A liar that tells other lines than it read."""
    return lying(Bars, name, altered=alter)


def columned(name: str, column: str, change: Callable[[str], str]) -> Any:
    """A liar that changes each value of a column."""

    def with_changes(lines: JudgmentLines, _: JudgmentLines) -> JudgmentLines:
        changed: Any = [change(value) for value in getattr(lines, column).to_pylist()]
        return replace(lines, **{column: changed})

    return telling(name, with_changes)


def first(lines: JudgmentLines, end: int) -> JudgmentLines:
    names = ("numbers", "query_ids", "doc_ids", "grades")
    params = {name: values[:end] for name, values in lines.params.items()}
    return replace(lines, params=params, **{name: getattr(lines, name)[:end] for name in names})


LIARS = [
    (telling("DropsTheLast", lambda lines, _: first(lines, max(1, len(lines.numbers) - 1))),
     "read plain judgments as"),
    (telling("ReadsNothing", lambda lines, _: first(lines, 0)),
     "must read its own example, and said"),
    (columned("StripsIds", "doc_ids", str.strip), "must refuse the document id ' 7'"),
    (columned("LowersIds", "doc_ids", lambda name: name.lstrip("0")),
     "read ids that look like numbers as"),
    (columned("ReadsBadGradesAsZero", "grades",
              lambda grade: grade if grade.replace(".", "").isdigit() else "0"),
     "must refuse the grade 'nan'"),
    (columned("RoundsGrades", "grades", lambda grade: grade.partition(".")[0]),
     "read grades that are fractions as"),
    (columned("SilentOnSpam", "grades", lambda grade: grade.lstrip("-")),
     "must refuse the grade '-1'"),
    (telling("NamesAnotherLine", lambda lines, _: replace(lines, path=Path("elsewhere"))),
     "in one line that names file and line"),
    (IsNeverCut(), "must refuse a compressed file that is cut"),
    (ReadsNoPackedFile(), "broke on"),
    (lying(Bars, "RecognisesEverything", recognises=lambda *_: True), "was taken for 'bars'"),
    (AsksAsCsvDoes(), "it looks like bars and like csv"),
    (lying(Bars, "AsksTooLate", precedence=200), "a file of 'bars' was taken for 'csv'"),
    (BreaksOnBinary(), "failed to tell"),
    (lying(Bars, "HasIdsAndDeniesThem", ids_are_texts=True), "read plain judgments as"),
]  # fmt: skip


def test_an_honest_reader_passes() -> None:
    assert check_judgment_reader(Bars(), bars) == []


def test_what_a_format_cannot_hold_is_said() -> None:
    skipped = check_judgment_reader(Parquet(), WRITERS["parquet"])
    assert skipped == ["parquet cannot hold the grade 'good'", "parquet cannot hold the grade ''"]


@pytest.mark.parametrize(("liar", "sentence"), LIARS, ids=named)
def test_each_liar_is_caught(liar: JudgmentReader, sentence: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_judgment_reader(liar, bars)
    assert sentence in str(raised.value)
    assert "judgment reader 'bars'" in str(raised.value)


def test_a_writer_of_good_files_alone_is_refused() -> None:
    def good(rows: Sequence[Judged]) -> bytes:
        if not all(row.grade.replace(".", "").isdigit() for row in rows):
            raise ValueError("a bad grade")
        return bars(rows)

    with pytest.raises(AssertionError, match="its writer cannot write a bad grade"):
        check_judgment_reader(Bars(), good)


def test_a_cut_file_that_reads_as_something_else_is_caught() -> None:
    class Lenient(IsNeverCut):
        def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
            if path.read_bytes()[:2] == b"\x1f\x8b":
                return Bars.read(self, path, topics)
            return super().read(path, topics)

    with pytest.raises(AssertionError, match=r"read the first 1 of \d+ bytes as"):
        check_judgment_reader(Lenient(), bars)


def with_bars(cls: type[Any] = Bars) -> Registry:
    ours = installed().all("judgment-reader")
    return Registry([*ours, Plugin("judgment-reader", "bars", cls, "bars 1.0")])


def test_a_third_party_reader_is_asked_like_ours(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bars([Judged("q1", "rambo", "7555", "4")]))
    judgments = read_judgments(tmp_path / "a", registry=with_bars())
    assert judgments.queries[0].doc_ids == ["7555"]
    assert read_judgments(tmp_path / "a", format="bars", registry=with_bars()).n_judgments == 1
    with pytest.raises(BadInput, match="no column is called"):
        read_judgments(tmp_path / "a")


def test_an_unknown_format_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(
        UsageError,
        match=r"^there is no format 'json': use csv, tsv, qrels, ranklib, jsonl, "
        r"(ratings, )?quepid, srw, bars, parquet$",
    ):
        read_judgments("a", format="json", registry=with_bars())


def test_a_reader_that_breaks_while_it_is_asked_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\n")
    with pytest.raises(PluginError, match=r"judgment reader 'bars' \(.*BreaksOnBinary\) failed"):
        read_judgments(tmp_path / "a", registry=with_bars(BreaksOnBinary))


def test_a_file_that_two_readers_claim_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(Bars().example())
    with pytest.raises(BadInput, match="it looks like bars and like csv: name its format"):
        read_judgments(tmp_path / "a", registry=with_bars(AsksAsCsvDoes))


def test_a_file_that_nobody_recognises_is_refused_with_the_installed_formats(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(Csv().example())
    only = Registry([Plugin("judgment-reader", "parquet", Parquet, "a")])
    with pytest.raises(BadInput, match="of no format that an installed judgment reader knows: par"):
        read_judgments(tmp_path / "a", registry=only)


def test_a_head_ends_with_a_whole_line_however_long_the_lines_are(tmp_path: Path) -> None:
    rows = [Judged("1", "x", "d" * 3000 + str(i), "1") for i in range(900)]
    (tmp_path / "a").write_bytes(b"\n" * 200_000 + WRITERS["qrels"](rows))
    (tmp_path / "topics").write_text("1\tx\n")
    assert read_judgments(tmp_path / "a", topics=tmp_path / "topics").n_judgments == 900


def test_columns_of_different_length_are_a_fault_of_the_reader() -> None:
    with pytest.raises(ValueError, match="2 judgments have columns of 2, 1, 2 values"):
        JudgmentLines(Path("a"), [1, 2], ["q", "q"], ["d"], ["1", "2"], {})


def test_a_reader_that_gives_nothing_is_refused_by_the_host() -> None:
    with pytest.raises(BadInput, match="cannot read a: it has no judgment"):
        group_judgments(JudgmentLines(Path("a"), [], [], [], [], {}))


def test_lists_and_columns_say_the_same() -> None:
    lists: dict[str, Any] = {
        "query_ids": ["q", "q"],
        "doc_ids": ["d", "e"],
        "grades": ["1", "+2."],
    }
    lines = JudgmentLines(Path("a"), [1, 2], **lists, params={})
    columns = {name: pa.array(values) for name, values in lists.items()}
    lines_of_columns = JudgmentLines(Path("a"), [1, 2], **columns, params={})
    assert lines.read_grades().tolist() == lines_of_columns.read_grades().tolist() == [1, 2]
    assert lines.doc_ids.equals(lines_of_columns.doc_ids)


grades = st.floats(0, 2**60, width=32).map(repr)


@st.composite
def judged(draw: st.DrawFn) -> list[Judged]:
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(["q1", "é", "'"]), IDS), min_size=1, unique=True)
    )
    return [Judged(query, f"text of {query}", doc, draw(grades)) for query, doc in pairs]


READERS: list[JudgmentReader] = [plugin.cls() for plugin in installed().all("judgment-reader")]
FORMS = [
    (reader, form) for reader in READERS for form in WRITERS if form.split(" ")[0] == reader.name
]


@pytest.mark.parametrize(("reader", "form"), FORMS, ids=lambda case: getattr(case, "name", case))
@given(rows=judged())
def test_every_format_gives_back_what_was_written(
    reader: JudgmentReader, form: str, rows: list[Judged], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(WRITERS[form](rows))
    (tmp_path / "topics").write_text("q1\ttext of q1\né\ttext of é\n'\ttext of '\n")
    judgments = read_judgments(tmp_path / "a", format=reader.name, topics=tmp_path / "topics")
    grades_by_document = {
        (query.query_id, query.params["query"], document): grade
        for query in judgments.queries
        for document, grade in zip(query.doc_ids, query.grades.tolist(), strict=True)
    }
    if reader.name == "quepid":
        assert reader_of_file(installed(), tmp_path / "a").name == "quepid"
    by_text = getattr(reader, "ids_are_texts", False)
    assert grades_by_document == {
        (r.query if by_text else r.query_id, r.query, r.document_id): float(r.grade) for r in rows
    }
