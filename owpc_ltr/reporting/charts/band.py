"""A band: a line of a figure by rank, and how far each point may be off."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.reporting.charts.common import AFTER, Spec, layered, numbers


def band(rows: Sequence[tuple[int, float, float, float]], x: str, y: str) -> Spec:
    """A line through (rank, value), an area from low to high."""
    values = [
        {"rank": rank, "value": value, "low": low, "high": high} for rank, value, low, high in rows
    ]
    across = numbers(
        "rank", x, zero=False, axis={"format": "d", "tickMinStep": 1}, scale={"nice": False}
    )
    up = numbers("value", y, axis={"format": "~%", "tickCount": 5}, scale={"domain": [0, 1]})
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
                        {"field": "rank", "title": x},
                        {"field": "value", "title": y, "format": ".1%"},
                        {"field": "low", "title": "at least", "format": ".1%"},
                        {"field": "high", "title": "at most", "format": ".1%"},
                    ],
                },
            },
        ],
        height=230,
    )
