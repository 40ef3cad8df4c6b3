"""A share by rank, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.band import band
from owpc_ltr_report.charts.common import Spec, numbers


def by_rank(rows: Sequence[tuple[int, float, float, float]], y: str) -> Spec:
    """A line through (rank, share), a band from low to high."""
    whole = {"format": "d", "tickMinStep": 1}
    across = numbers("x", "rank", zero=False, axis=whole, scale={"nice": False})
    up = numbers("value", y, axis={"format": "~%", "tickCount": 5}, scale={"domain": [0, 1]})
    return band(rows, across, up, ("d", ".1%"))
