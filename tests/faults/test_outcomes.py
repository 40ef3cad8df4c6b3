"""The table has every cell that ran, and the page is written only from a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.outcomes import BEGIN, END, Outcomes, Table, write_block
from tests.faults.tables import tables

CELLS = frozenset({("index", "reset"), ("index", "401"), ("upload", "reset")})
TABLE = Table("Writes", ["index", "upload"], ["reset", "401"], CELLS, {("upload", "reset"): "why"})
MARKDOWN = """3 cells, struck 4 times: 2 keep every promise, 1 do not.

### Writes

| fault | index | upload |
|---|---|---|
| reset | 0 4 | 0 ✗ |
| 401 | 4 |  |

✗ does not keep its promise yet:

- why: upload × reset
"""


def filled() -> Outcomes:
    outcomes = Outcomes(lambda: [TABLE])
    outcomes.add("index", "reset", 4, True, 1)
    outcomes.add("index", "reset", 0, True, 1)
    outcomes.add("index", "401", 4, True, 1)
    outcomes.add("upload", "reset", 0, False, 1)
    return outcomes


def test_the_table_shows_codes_and_what_does_not_hold() -> None:
    assert "\n".join(filled().lines([TABLE])) + "\n" == MARKDOWN


def test_the_order_of_outcomes_does_not_show() -> None:
    turned = Outcomes(lambda: [TABLE])
    for cell, codes in reversed(filled().codes.items()):
        for code in reversed(codes):
            turned.add(*cell, code, cell not in filled().broken, 1)
    assert list(turned.lines([TABLE])) == list(filled().lines([TABLE]))


def test_a_table_is_whole_with_every_cell_and_no_new_fault() -> None:
    assert filled().is_whole([TABLE])
    lacking = filled()
    del lacking.codes["index", "401"]
    assert not lacking.is_whole([TABLE])
    failing = filled()
    failing.add("index", "401", 1, False, 1)
    assert not failing.is_whole([TABLE])


def test_a_block_is_put_between_its_marks_and_nothing_else_is_touched(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n\n{END}after\n")
    write_block(page, "new\n")
    write_block(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\nnew\n\n{END}after\n"
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place"):
        write_block(page, "new\n")


def test_the_matrix_has_the_cells_that_it_should() -> None:
    cells = [cell for table in tables() for cell in table.cells]
    assert len(cells) == len(set(cells)) >= 700
    for table in tables():
        assert {stage for stage, _ in table.cells} == set(table.stages)
        assert {fault for _, fault in table.cells} == set(table.faults)
        assert table.known.keys() <= table.cells
