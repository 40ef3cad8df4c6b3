"""Spread: a dot for each fold of a name, and a rule at their mean."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.common import (
    AFTER,
    INK,
    Spec,
    layered,
    names,
    numbers,
    rows_high,
)


def spread(
    dots: Sequence[tuple[str, str, float]], means: Sequence[tuple[str, float]], title: str
) -> Spec:
    """Dots of (name, fold, value), and the mean of each name as a tick."""
    of_name = dict(means)
    order = [name for name, _ in means]
    values = [
        {"name": name, "fold": fold, "value": value, "mean": of_name[name]}
        for name, fold, value in dots
    ]
    y = names("name", order)
    return layered(
        values,
        [
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 60,
                    "opacity": 0.6,
                    "color": AFTER,
                },
                "encoding": {
                    "y": y,
                    "x": numbers("value", title, zero=False),
                    "tooltip": [
                        {"field": "name", "title": "settings"},
                        {"field": "fold", "title": "fold"},
                        {"field": "value", "title": title, "format": ".4f"},
                    ],
                },
            },
            {
                "mark": {"type": "tick", "thickness": 3, "color": INK},
                "encoding": {"y": y, "x": numbers("mean", title, zero=False)},
            },
        ],
        height=rows_high(len(order)),
    )
