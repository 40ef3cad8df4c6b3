"""Bars: named numbers, to the left of zero or to the right; with intervals where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.common import (
    AFTER,
    INK,
    LOSS,
    Spec,
    layered,
    names,
    numbers,
    rows_high,
)

Named = tuple[str, float]


def bars(rows: Sequence[Named], title: str, *, digits: str = ".3~g") -> Spec:
    """One row a name; negative numbers have another colour, and another side."""
    values = [{"name": name, "value": value} for name, value in rows]
    encoding = {
        "y": names("name", [name for name, _ in rows]),
        "x": numbers("value", title),
        "tooltip": [
            {"field": "name", "title": "name"},
            {"field": "value", "title": title, "format": digits},
        ],
        "color": {
            "condition": {"test": "datum.value < 0", "value": LOSS},
            "value": AFTER,
        },
    }
    mark = {"type": "bar", "height": {"band": 0.62}}
    return layered(values, [{"mark": mark, "encoding": encoding}], height=rows_high(len(rows)))


def bars_with_intervals(rows: Sequence[tuple[str, float, float, float]], title: str) -> Spec:
    """The same, of (name, value, low, high): a rule is as long as the interval."""
    made = bars([row[:2] for row in rows], title)
    low_high = {name: (low, high) for name, _, low, high in rows}
    for value in made["data"]["values"]:
        value["low"], value["high"] = low_high[value["name"]]
    made["layer"].append(
        {
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5},
            "encoding": {
                "y": names("name", [row[0] for row in rows]),
                "x": numbers("low", title),
                "x2": {"field": "high"},
            },
        }
    )
    return made


def columns(rows: Sequence[tuple[str | float, float]], x: str, y: str) -> Spec:
    """Upright bars, in the order given."""
    values = [{"x": name, "y": value} for name, value in rows]
    place = {
        "field": "x",
        "type": "ordinal",
        "title": x,
        "sort": None,
        "axis": {"labelAngle": 0, "labelOverlap": True},
    }
    return layered(
        values,
        [
            {
                "mark": {"type": "bar", "color": AFTER, "width": {"band": 0.75}},
                "encoding": {
                    "x": place,
                    "y": numbers("y", y),
                    "tooltip": [
                        {"field": "x", "title": x},
                        {"field": "y", "title": y, "format": ".4~g"},
                    ],
                },
            }
        ],
        height=190,
    )
