"""A learning curve: a metric over the queries that were learned from, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.reporting.charts.common import AFTER, Spec, layered, numbers


def learning(rows: Sequence[tuple[int, float, float, float]], x: str, y: str) -> Spec:
    """A line through (queries, mean), a band from low to high."""
    values = [
        {"queries": queries, "mean": mean, "low": low, "high": high}
        for queries, mean, low, high in rows
    ]
    ticks = {"format": ",d", "values": [row[0] for row in rows]}
    across = numbers("queries", x, scale={"type": "log"}, axis=ticks)
    up = numbers("mean", y, zero=False, axis={"format": "~g", "tickCount": 5})
    return layered(
        values,
        [
            {
                "mark": {"type": "area", "color": AFTER, "opacity": 0.18},
                "encoding": {"x": across, "y": {**up, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": AFTER, "point": {"color": AFTER}},
                "encoding": {
                    "x": across,
                    "y": up,
                    "tooltip": [
                        {"field": "queries", "title": x, "format": ","},
                        {"field": "mean", "title": y, "format": ".4f"},
                        {"field": "low", "title": "at least", "format": ".4f"},
                        {"field": "high", "title": "at most", "format": ".4f"},
                    ],
                },
            },
        ],
        height=230,
    )
