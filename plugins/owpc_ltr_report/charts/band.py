"""A band: a line of a figure over ranks or sizes, and how far each point may be off."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.common import AFTER, Spec, layered


def band(
    rows: Sequence[tuple[int, float, float, float]], across: Spec, up: Spec, digits: tuple[str, str]
) -> Spec:
    """A line through (x, value), an area from low to high.

    `across` and `up` are the axes of `x` and `value`, `digits` their formats under the pointer.
    """
    values = [{"x": x, "value": value, "low": low, "high": high} for x, value, low, high in rows]
    of_x, of_value = digits
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
                        {"field": "x", "title": across["title"], "format": of_x},
                        {"field": "value", "title": up["title"], "format": of_value},
                        {"field": "low", "title": "at least", "format": of_value},
                        {"field": "high", "title": "at most", "format": of_value},
                    ],
                },
            },
        ],
        height=230,
    )
