"""Lines of a sheet that nobody has graded: said, and left out only where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from owpc_ltr.data.judgments.lines import JudgmentLines, judged_lines
from owpc_ltr.errors import BadInput


def lines(*grades: str) -> JudgmentLines:
    n = len(grades)
    texts = [f"text {row}" for row in range(n)]
    return JudgmentLines(
        Path("sheet.csv"), list(range(2, n + 2)), [f"q{row}" for row in range(n)],
        [f"d{row}" for row in range(n)], grades, {"query": texts},
    )  # fmt: skip


def test_lines_without_a_grade_are_counted_and_refused() -> None:
    with pytest.raises(BadInput, match=r"line 3: .*2 of 4 lines have none: .*--skip-unjudged"):
        judged_lines(lines("1", "", "0", " "), skip=False)


def test_lines_without_a_grade_are_left_out_where_that_is_asked_for() -> None:
    kept, notes = judged_lines(lines("1", "", "0", ""), skip=True)
    assert list(kept.numbers) == [2, 4]
    assert [kept.document_ids[row].as_py() for row in (0, 1)] == ["d0", "d2"]
    assert kept.read_grades().tolist() == [1.0, 0.0]
    assert [kept.params["query"][row].as_py() for row in (0, 1)] == ["text 0", "text 2"]
    assert notes == ["2 lines without a grade were left out"]


def test_where_all_is_graded_nothing_changes() -> None:
    whole = lines("1", "0")
    assert judged_lines(whole, skip=True) == (whole, [])


def test_a_sheet_that_nobody_has_touched_is_refused() -> None:
    with pytest.raises(BadInput, match="none of its 2 lines has a grade yet"):
        judged_lines(lines("", ""), skip=True)
