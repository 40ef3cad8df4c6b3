"""Tables for people: no cell is a formula, and what is read again reads back as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr.data.judgments import JudgedQuery, Judgments, write_judgments
from owpc_ltr.data.judgments.pools import read_queries, write_sheet
from owpc_ltr.evaluation.proxy_labels import read_strata, write_strata
from owpc_ltr.files.spreadsheets import inert_cell, marked_cell, read_cell

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1+1", "''-x", "x;=1+1", "'a", "-5"]
TEXTS = st.one_of(st.text(alphabet="'=+-@\t\r1a.e", max_size=6), st.sampled_from(FORMULAS))


def is_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell[:1] in {"=", "+", "-", "@", "\t", "\r"}
    return False


@given(TEXTS)
def test_a_cell_is_no_formula_and_reads_back(text: str) -> None:
    assert read_cell(inert_cell(text)) == text
    assert read_cell(marked_cell(text)) == text
    assert inert_cell(text)[:1] not in {"=", "@", "\t", "\r"}
    assert inert_cell(text) in {text, f"'{text}"}


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
    found = ltr.read_judgments(path)
    assert [query.params["query"] for query in found.queries] == FORMULAS
    assert [query.params["=param"] for query in found.queries] == FORMULAS
    assert [query.document_ids for query in found.queries] == [q.document_ids for q in queries]
    assert [query.params["query"] for query in read_queries(path)] == FORMULAS


def test_strata_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_strata(FORMULAS, FORMULAS[::-1], tmp_path / "strata.csv")
    assert read_strata(tmp_path / "strata.csv") == dict(zip(FORMULAS, FORMULAS[::-1], strict=True))
    with (tmp_path / "strata.csv").open(newline="") as file:
        assert not [cell for row in csv.reader(file) for cell in row if is_formula(cell)]


def test_tables_of_judgments_keep_their_ids(tmp_path: Path) -> None:
    """They are read by programs: only what reading would change is marked."""
    query = JudgedQuery("q", {"query": "=1"}, FORMULAS, np.zeros(len(FORMULAS), np.float32))
    write_judgments(Judgments([query]), tmp_path / "a.tsv")
    (found,) = ltr.read_judgments(tmp_path / "a.tsv").queries
    assert found.document_ids == FORMULAS
    assert found.params["query"] == "=1"
    assert "\t+1+1\t" in (tmp_path / "a.tsv").read_text()
