"""The pool: how much there is to judge, and for which queries."""

from __future__ import annotations

from owpc_ltr.data.judgments.topics import query_text
from owpc_ltr.engine.search.judgment_pool import Pooled
from owpc_ltr_report.blocks import Chart, Section, Table, Tile, Tiles
from owpc_ltr_report.charts.bars import bars
from owpc_ltr_report.verdict import NEUTRAL, Verdict

_DRAWN = 20


def pooling_section(found: Pooled) -> Section:
    """Documents to grade by query, those of most work first."""
    rows = sorted(
        (
            (query_text(query.params) or query.query_id, len(query.document_ids))
            for query in found.queries
        ),
        key=lambda row: -row[1],
    )
    tiles = Tiles(
        (
            Tile("to grade", f"{found.n_documents:,} documents", f"of {len(rows):,} queries"),
            Tile("left out", f"{found.judged:,}", "that are judged already"),
            Tile("left out", f"{found.absent:,}", "that are not in the index"),
        )
    )
    chart = Chart(
        "pool",
        "Documents to grade, by query",
        bars([(name, float(count)) for name, count in rows[:_DRAWN]], "documents", digits=",d"),
        f"Of {len(rows):,} queries the {min(len(rows), _DRAWN)} with the most work are drawn.",
        Table("Documents to grade", ("query", "documents"), tuple(rows)),
    )
    lead = (
        "The documents that rankers bring to the top: their grades decide which ranker is better."
    )
    return Section("pool", "Judging", "What is to be judged?", lead, (tiles, chart))


def pooling_verdict(found: Pooled) -> Verdict:
    """The verdict of a page that is of this alone."""
    said = (
        f"{found.n_documents:,} documents of {len(found.queries):,} queries are to be graded, "
        f"before anything can be said of the rankers that found them."
    )
    return Verdict(NEUTRAL, said, (), heading="To be judged")
