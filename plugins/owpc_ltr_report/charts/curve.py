"""A curve: what one feature gives, with what its absence gives at the side."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.charts.common import AFTER, LOSS, QUIET, Spec, layered, numbers


def curve(
    points: Sequence[tuple[float, float]], missing: float | None, ends: tuple[float, float]
) -> Spec:
    """The line, a rule at 0, and a dashed rule where a missing value stands; curves share ends."""
    values = [{"x": across, "y": up} for across, up in points]
    scale = {"domain": list(ends), "zero": False}
    x = numbers("x", "value", zero=False, axis={"format": "~s", "tickCount": 4})
    x["title"] = None
    y = numbers("y", "score", scale=scale, axis={"format": "~g", "tickCount": 4})
    y["title"] = None
    tooltip = [
        {"field": "x", "title": "value", "format": ".4~g"},
        {"field": "y", "title": "score", "format": "+.4~g"},
    ]
    layers = [
        {
            "mark": {"type": "rule", "color": QUIET, "strokeDash": [2, 3]},
            "encoding": {"y": {"datum": 0, "type": "quantitative"}},
        },
        {
            "mark": {
                "type": "line",
                "color": AFTER,
                "strokeWidth": 2,
                # A line of one value is a dot.
                "point": {"color": AFTER} if len(points) < 4 else False,
            },
            "encoding": {"x": x, "y": y, "tooltip": tooltip},
        },
    ]
    if missing is not None:
        layers.append(
            {
                "mark": {"type": "rule", "color": LOSS, "strokeDash": [6, 3]},
                "encoding": {"y": {"datum": missing, "type": "quantitative"}},
            }
        )
    return layered(values, layers, height=110)
