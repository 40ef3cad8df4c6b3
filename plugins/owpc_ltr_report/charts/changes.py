"""Changes: how many queries got worse or better, by how much."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.common import (
    AFTER,
    LOSS,
    QUIET,
    Spec,
    layered,
    names,
    numbers,
    rows_high,
)

_SIDES = ("worse", "same", "better")


def changes(rows: Sequence[tuple[str, int, int]]) -> Spec:
    """Bars of (label, queries, side): the side is −1, 0 or 1, and has its colour."""
    values = [
        {"label": label, "queries": count, "side": _SIDES[side + 1]} for label, count, side in rows
    ]
    y = names("label", [label for label, _, _ in rows])
    # The longest bar leaves room for its number, on phones too.
    ends = [0, max(1.25 * max(count for _, count, _ in rows), 1)]
    x = numbers("queries", "queries", axis={"format": ",d", "tickCount": 5}, scale={"domain": ends})
    colour = {
        "field": "side",
        "type": "nominal",
        "scale": {"domain": list(_SIDES), "range": [LOSS, QUIET, AFTER]},
        "legend": None,
    }
    tooltip = [{"field": "label", "title": "change"}, {"field": "queries", "title": "queries"}]
    count = {"type": "text", "align": "left", "dx": 5, "fontSize": 12}
    return layered(
        values,
        [
            {
                "mark": {"type": "bar", "height": {"band": 0.7}},
                "encoding": {"y": y, "x": x, "color": colour, "tooltip": tooltip},
            },
            {
                "mark": {**count, "color": "var(--ink)"},
                "encoding": {"y": y, "x": x, "text": {"field": "queries", "format": ","}},
            },
        ],
        height=rows_high(len(rows)),
    )
