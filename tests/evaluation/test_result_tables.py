"""Tables of results as LaTeX and for spreadsheets: escaped, and read back as they were."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr import save_model
from owpc_ltr.data.blocks import Table, escaped, latex_of
from owpc_ltr.data.judgment_tables import read_queries, write_judgments, write_sheet
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.comparison_result import latex_cells
from owpc_ltr.files.tables import inert_cell, inert_column, read_column
from tests.commands import Run
from tests.rankers import judged, linear

DATA = judged()
RANKERS = {
    "my_best & only": linear(1.0, 0.1),
    "dull 100%": linear(0.1, 1.0),
    "raw": "feature:likes",
}


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.endswith(r"\\")]
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines]


def test_a_comparison_as_a_table() -> None:
    comparison = ltr.compare(
        RANKERS, data=DATA, metrics=("ndcg@5", "pairwise-error"), baseline="raw", resamples=500
    )
    table = comparison.to_latex()
    assert r"\begin{tabular}{lrr}" in table
    assert table.count(r"\toprule") == table.count(r"\bottomrule") == 1
    header, *rows = rows_of(table)
    assert header == ["", "ndcg@5", "pairwise-error"]
    assert [row[0] for row in rows] == [r"my\_best \& only", r"dull 100\%", "raw"]
    shown = {(pair.a, pair.metric) for pair in comparison.pairs if pair.better is not None}
    assert ("my_best & only", "ndcg@5") in shown
    for ranker, row in zip(comparison.rankers, rows, strict=True):
        for measurement, cell in zip(ranker.measured, row[1:], strict=True):
            assert f"{measurement.mean:.4f}" in cell
            assert (r"^{\dagger}" in cell) == ((ranker.name, str(measurement.metric)) in shown)
            values = [f"{other.measured[0].mean:.4f}" for other in comparison.rankers]
            if str(measurement.metric) == "ndcg@5":
                assert (r"\textbf" in cell) == (f"{measurement.mean:.4f}" == max(values))
    # Of an error, the smallest is the best.
    errors = [ranker.measured[1].mean for ranker in comparison.rankers]
    assert r"\textbf" in rows[int(np.argmin(errors))][2]
    assert (
        r"\dagger" not in ltr.compare(RANKERS, data=DATA, metrics="map", resamples=500).to_latex()
    )


@given(st.text(max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_no_name_breaks_a_table(name: str, first: float, second: float) -> None:
    rows = list(zip([name, "other"], latex_cells([first, second]), strict=True))
    table = latex_of(Table(["", name], rows), [name])
    assert len(table.splitlines()) == 9
    plain = re.sub(r"\\text(?:backslash|asciitilde|asciicircum)\{\}|\\[&%$#_{}]", "", escaped(name))
    assert not set(plain) & set("\\&%$#_{}~^\n")


def test_values_that_print_alike_are_all_the_best_and_nan_is_none() -> None:
    cells = latex_cells([0.50001, 0.50002, float("nan"), 0.4])
    assert cells == [r"\textbf{0.5000}", r"\textbf{0.5000}", "nan", "0.4000"]


def test_the_command_writes_the_table(run: Run, tmp_path: Path) -> None:
    write_letor(DATA, tmp_path / "data.txt")
    save_model(linear(1.0, 0.1), tmp_path / "a.json")
    words = ("--data", "data.txt", "--metric", "map", "--resamples", "200")
    code, _, err = run("compare", "feature:1", "feature:2", *words, "--latex", "c.tex")
    assert (code, "error" in err) == (0, False)
    assert [row[0] for row in rows_of(Path("c.tex").read_text())] == ["", "feature:1", "feature:2"]
    assert run("compare", "feature:1", "feature:2", *words, "--latex", "no/c.tex")[0] == 2


FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1+1", "''-x", "x;=1+1", "'a", "-5"]
TEXTS = st.one_of(st.text(alphabet="'=+-@\t\r1a.e", max_size=6), st.sampled_from(FORMULAS))


def is_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell[:1] in {"=", "+", "-", "@", "\t", "\r"}
    return False


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_a_column_has_no_formula_and_reads_back(called: str, cells: list[str]) -> None:
    name, *inert = map(str, inert_column(called, cells))
    assert read_column(name, inert) == (called, cells)
    assert not [cell for cell in (name, *inert) if is_formula(cell)]


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_ids_of_a_foreign_table_keep_their_quotation_marks(tmp_path: Path, form: str) -> None:
    """Its author did not escape anything: `'=x` and `=x` are two documents."""
    ids = ["'=x", "=x", "'-1", "''@a", "'b"]
    mark = {"csv": ",", "tsv": "\t"}[form]
    rows = [
        ("query", "doc_id", "grade"),
        *(("rambo", doc_id, str(n)) for n, doc_id in enumerate(ids)),
    ]
    path = tmp_path / f"judged.{form}"
    path.write_text("".join(f"{mark.join(row)}\n" for row in rows))
    (query,) = ltr.read_judgments(path).queries
    assert dict(zip(query.doc_ids, query.grades.tolist(), strict=True)) == {
        doc_id: float(n) for n, doc_id in enumerate(ids)
    }
    path.write_text(f"query_id{mark}query\n'=x{mark}'=x\n=x{mark}=x\n")
    assert [each.query_id for each in read_queries(path)] == ["'=x", "=x"]


def test_a_sheet_where_one_document_is_written_in_two_ways_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    path.write_text("query,'doc_id,grade\nrambo,'=x,2\nrambo,=x,0\n")
    with pytest.raises(BadInput, match="has both ''=x' and '=x'"):
        ltr.read_judgments(path)


@pytest.mark.parametrize("number", ["-1", "+2", "-0.5", "-1e-7", "-.5", "3"])
def test_numbers_stay_numbers(number: str) -> None:
    assert inert_cell(number) == number


def sheet_of(path: Path) -> list[JudgedQuery]:
    queries = [
        JudgedQuery(f"q{n}", {"query": text, "keywords": text, "=param": text}, [text.strip()],
                    np.zeros(1, np.float32))
        for n, text in enumerate(FORMULAS)
    ]  # fmt: skip
    shown = {text: {"title": f"{text}\x1b[31m"} for text in FORMULAS}
    write_sheet(queries, ["title", "@note"], shown, path)
    return queries


def test_a_grading_sheet_has_no_formula_and_is_read_as_it_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    queries = sheet_of(path)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert not [cell for row in rows for cell in row if is_formula(cell)]
    assert not [cell for row in rows for cell in row if "\x1b" in cell]
    # Another delimiter makes no formula of a part of a cell: it is within quotes.
    assert '"x;=1+1"' in path.read_text()
    graded = [rows[0], *([*row[:-1], "2"] for row in rows[1:])]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(graded)
    judgments = ltr.read_judgments(path)
    assert [query.params["query"] for query in judgments.queries] == FORMULAS
    assert [query.params["=param"] for query in judgments.queries] == FORMULAS
    assert [query.doc_ids for query in judgments.queries] == [q.doc_ids for q in queries]
    assert [query.params["query"] for query in read_queries(path)] == FORMULAS


def test_tables_of_judgments_keep_their_ids(tmp_path: Path) -> None:
    """They are read by programs: nothing is escaped in them."""
    query = JudgedQuery("q", {"query": "=1"}, FORMULAS, np.zeros(len(FORMULAS), np.float32))
    write_judgments(Judgments([query]), tmp_path / "a.tsv")
    (judged_query,) = ltr.read_judgments(tmp_path / "a.tsv").queries
    assert judged_query.doc_ids == FORMULAS
    assert judged_query.params["query"] == "=1"
    assert {"\t+1+1\t", "\t'=1+1\t"} == {
        part for part in ("\t+1+1\t", "\t'=1+1\t") if part in (tmp_path / "a.tsv").read_text()
    }
