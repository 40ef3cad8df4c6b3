"""A learning curve: a metric over the queries that were learned from, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.band import band
from owpc_ltr_report.charts.common import Spec, numbers


def learning(rows: Sequence[tuple[int, float, float, float]], x: str, y: str) -> Spec:
    """A line through (queries, mean), a band from low to high."""
    ticks = {"format": ",d", "values": [row[0] for row in rows]}
    across = numbers("x", x, scale={"type": "log"}, axis=ticks)
    up = numbers("value", y, zero=False, axis={"format": "~g", "tickCount": 5})
    return band(rows, across, up, (",", ".4f"))
