"""Dumbbells: each query's value before and after, and which way it went."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.blocks import QueryRow
from owpc_ltr_report.charts.common import (
    AFTER,
    BEFORE,
    LOSS,
    QUIET,
    Spec,
    layered,
    names,
    numbers,
    rows_high,
)

_WENT = ("better", "same", "worse")
_SHAPES = ("triangle-right", "circle", "triangle-left")


def went(before: float, after: float, *, higher_is_better: bool) -> str:
    """Which way a query went."""
    gain = after - before if higher_is_better else before - after
    return "same" if gain == 0 else "better" if gain > 0 else "worse"


def dumbbells(
    rows: Sequence[QueryRow], metric: str, *, higher_is_better: bool, ends: tuple[float, float]
) -> Spec:
    """A hollow circle before, a filled mark after; the page draws other rows by it too."""
    values = [
        {
            "query": row.text or row.query_id,
            "before": row.before,
            "after": row.after,
            "went": went(row.before, row.after, higher_is_better=higher_is_better),
        }
        for row in rows
    ]
    y = names("query")
    scale = {"domain": list(ends), "zero": False}
    colour = {
        "field": "went",
        "type": "nominal",
        "scale": {"domain": list(_WENT), "range": [AFTER, QUIET, LOSS]},
        "legend": None,
    }
    # Marks point where the query went; colours say whether that is good.
    shapes = _SHAPES if higher_is_better else _SHAPES[::-1]
    shape = {**colour, "scale": {"domain": list(_WENT), "range": list(shapes)}}
    tooltip = [
        {"field": "query", "title": "query"},
        {"field": "before", "title": "before", "format": ".4f"},
        {"field": "after", "title": "after", "format": ".4f"},
    ]
    return layered(
        values,
        [
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {
                    "y": y,
                    "x": numbers("before", metric, scale=scale),
                    "x2": {"field": "after"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": False, "size": 70, "color": BEFORE},
                "encoding": {
                    "y": y,
                    "x": numbers("before", metric, scale=scale),
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                "encoding": {
                    "y": y,
                    "x": numbers("after", metric, scale=scale),
                    "color": colour,
                    "shape": shape,
                    "tooltip": tooltip,
                },
            },
        ],
        height=rows_high(len(rows)),
    )
