"""Differences with their intervals: the plot, and the table of the same figures."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.blocks import Chart, Table
from owpc_ltr_report.charts.forest import LEGEND, Interval, forest
from owpc_ltr_report.figures import signed


def differences_chart(
    name: str,
    title: str,
    rows: Sequence[Interval],
    what: str,
    words: str,
    caption: str,
    of: str,
) -> Chart:
    """The intervals of differences of `what`; `of` heads the labels in the captioned table."""
    return Chart(
        name,
        title,
        forest(rows, f"difference of {what}"),
        words,
        Table(
            caption,
            (of, "difference", "95 % low", "95 % high", "verdict"),
            tuple(
                (row.label, signed(row.value), signed(row.low), signed(row.high), row.outcome)
                for row in rows
            ),
        ),
        LEGEND,
    )
