"""Forest plot: differences with their intervals, and where no difference lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owpc_ltr.evaluation.verdict import Outcome
from owpc_ltr_report.charts.common import (
    AFTER,
    INK,
    LOSS,
    QUIET,
    Spec,
    layered,
    names,
    numbers,
    rows_high,
)


@dataclass(frozen=True)
class Interval:
    """A row of the plot: a difference, how far it may be off, and what may be said of it."""

    label: str
    value: float
    low: float
    high: float
    outcome: Outcome


_COLOURS = {
    Outcome.BETTER: AFTER,
    Outcome.NO_DIFFERENCE: QUIET,
    Outcome.WORSE: LOSS,
    Outcome.CANNOT_TELL: QUIET,
}
_SHAPES = {
    Outcome.BETTER: "triangle-right",
    Outcome.NO_DIFFERENCE: "circle",
    Outcome.WORSE: "triangle-left",
    Outcome.CANNOT_TELL: "diamond",
}
LEGEND = ("▶ better", "● no significant difference", "◀ worse", "◆ cannot tell")
"""The shapes in words."""


def forest(rows: Sequence[Interval], title: str) -> Spec:
    """One row an interval; a rule stands at zero. Colour and shape say the outcome."""
    values = [vars(row) for row in rows]
    y = names("label", [row.label for row in rows])
    outcomes = list(_COLOURS)
    colour = {
        "field": "outcome",
        "type": "nominal",
        "scale": {"domain": outcomes, "range": list(_COLOURS.values())},
        "legend": None,
    }
    shape = {**colour, "scale": {"domain": outcomes, "range": list(_SHAPES.values())}}
    return layered(
        values,
        [
            {
                "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3]},
                "encoding": {"x": {"datum": 0, "type": "quantitative"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {
                    "y": y,
                    "x": numbers("low", title),
                    "x2": {"field": "high"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1},
                "encoding": {
                    "y": y,
                    "x": numbers("value", title),
                    "color": colour,
                    "shape": shape,
                    "tooltip": [
                        {"field": "label", "title": "ranker"},
                        {"field": "value", "title": "difference", "format": "+.4f"},
                        {"field": "low", "title": "at least", "format": "+.4f"},
                        {"field": "high", "title": "at most", "format": "+.4f"},
                        {"field": "outcome", "title": "verdict"},
                    ],
                },
            },
        ],
        height=rows_high(len(rows)) + 14,
    )
