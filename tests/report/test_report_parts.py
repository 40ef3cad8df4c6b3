"""What plugins offer for a page: sections and verdicts of their own results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import owpc_ltr
from owpc_ltr.data.blocks import Block, ChartData, FactList, Table, Tiles
from owpc_ltr.errors import PluginError
from owpc_ltr.host import report_parts
from owpc_ltr.host.report_parts import ReportPart, ReportSection, ReportVerdict
from tests.rankers import linear
from tests.report.samples import HOSTILE, Elements, check_harmless


@dataclass(frozen=True)
class Visits:
    """A result of a plugin's own, whose texts may be anything."""

    text: str


def sections(visits: Visits) -> list[ReportSection]:
    table = Table(["day", "visits"], [(visits.text, 3), ("Tuesday", None)], visits.text)
    blocks: list[Block] = [
        FactList([(visits.text, visits.text), ("left out", None)]),
        Tiles([(visits.text, visits.text, visits.text)]),
        table,
        ChartData(
            "visits",
            visits.text,
            visits.text,
            table,
            kind="bars",
            rows=[(visits.text, 3)],
            words={"title": "n"},
        ),
        f"warning: {visits.text}",
        visits.text,
    ]
    return [ReportSection("visits", "Visits", visits.text, visits.text, blocks)]


def verdict(visits: Visits) -> ReportVerdict:
    return ReportVerdict("better", visits.text, visits.text, visits.text, [visits.text])


def offer(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    monkeypatch.setattr(report_parts, "plugin_answers", lambda _: iter(answers))


def test_a_page_has_what_a_plugin_says_of_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, [ReportPart(Visits, sections, verdict, "visits (count them)")])
    page = owpc_ltr.report(Visits("Monday"))
    assert page.title == str(page) == "Monday"
    assert list(page.charts) == ["visits"]
    elements = Elements(page.html())
    assert elements.tables["Monday"] == [["day", "visits"], ["Monday", "3"], ["Tuesday", "–"]]
    styles = {
        style
        for style, text in elements.paragraphs
        if text in {"Monday", "Monday.", "Warning: Monday"}
    }
    assert styles >= {"", "lead", "warning"}
    assert "visits (count them)" not in page.html()


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_a_plugin_do_no_harm(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, [ReportPart(Visits, sections, verdict)])
    check_harmless(owpc_ltr.report(Visits(text)).html())


def test_a_page_without_the_result_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, [ReportPart(Visits, sections, absent="visits (count them)")])
    assert "; visits (count them).</p>" in owpc_ltr.report(linear(1.0, 0.0)).html()


def test_what_is_no_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, [Visits])
    with pytest.raises(PluginError, match="return a list of ReportPart"):
        owpc_ltr.report([])
