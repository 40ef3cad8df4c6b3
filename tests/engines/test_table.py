"""The table of engines: made of what tests recorded, and never of what failed or did not run."""

from __future__ import annotations

import pytest
from owpc_ltr_node.release import Release

from tests.engine.lacking import lacked
from tests.engines.table import BEGIN, END, ENGINES, HALF, HERE, PAGE, ROWS, cells_of, table
from tests.engines.table import with_table as with_this

CASE = '<testcase name="{name}"><properties>{properties}</properties>{result}</testcase>'


def report(*cases: tuple[str, str | None, str]) -> str:
    made = ""
    for name, figure, result in cases:
        properties = f'<property name="capability" value="{name}"/>'
        if figure is not None:
            properties += f'<property name="figure" value="{figure}"/>'
        made += CASE.format(name=name, properties=properties, result=result)
    return f"<testsuites><testsuite>{made}<testcase name='plain'/></testsuite></testsuites>"


def test_a_cell_is_the_figure_or_what_became_of_the_test() -> None:
    cells = cells_of(
        report(
            ("parity", "2e-07", ""),
            ("verify", None, ""),
            ("scripts", "yes", '<failure message="x"/>'),
            ("road", None, '<skipped message="no data"/>'),
        )
    )
    assert cells == {"parity": "2e-07", "verify": "yes", "scripts": "failed", "road": "not run"}


def test_of_several_cases_the_first_figure_stays_and_a_failure_wins() -> None:
    good, bad = ("values", "9", ""), ("values", "8", '<error message="x"/>')
    assert cells_of(report(good, ("values", "7", ""))) == {"values": "9"}
    assert cells_of(report(good, bad)) == {"values": "failed"}


def test_a_capability_that_one_engine_lacks_is_a_row_all_the_same() -> None:
    made = table({"opensearch:3.8.0": {"a": "yes", "b": "1"}, "elasticsearch:9.2.0": {"a": "no"}})
    assert made.splitlines() == [
        "| | OpenSearch 3.8.0 | Elasticsearch 9.2.0 |",
        "|---|---|---|",
        "| a | yes | no |",
        "| b | 1 | not run |",
    ]


def test_the_page_around_the_table_stays() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    made = with_this(page, "new")
    assert made == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert with_this(made, "new") == made


def test_every_engine_can_be_started_and_every_file_is_there() -> None:
    for engine in ENGINES:
        assert str(Release(*engine.split(":"))).replace(" ", ":") == engine
    assert all((HERE / f"test_{name}.py").is_file() for name in ROWS)
    assert all((HERE.parent / "engine" / f"test_{name}.py").is_file() for name in HALF)
    assert PAGE.read_text().count(BEGIN) == PAGE.read_text().count(END) == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("script_lang not supported [painless] (illegal_argument_exception, 400)", "no scripts"),
        ("no handler found for uri [/a/_update_by_query?refresh=true]", "no reindexing"),
        ("the analyzer [english] has not been configured", "no english analysis"),
        (
            "by which features come: that needs OpenSearch 3.2 or Elasticsearch 8.8 or later",
            "no scores of a window",
        ),
        ("unknown query [rank_feature]", "no rank features"),
        ("no handler found for uri [/a/_search]", None),
        ("script_lang not supported [python]", None),
        ("assert 1 == 2", None),
    ],
)
def test_only_what_a_node_lacks_is_skipped(words: str, what: str | None) -> None:
    assert lacked(words) == what
