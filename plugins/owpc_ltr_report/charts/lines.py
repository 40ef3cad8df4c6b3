"""Lines: how a number goes with another one, one line a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from owpc_ltr_report.charts.common import Spec, layered, numbers, series

Points = Sequence[tuple[float, float]]


def lines(
    points: Mapping[str, Points],
    x: str,
    y: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    marks: bool = True,
    zero: bool = False,
    ticks: Sequence[float] = (),
    height: int = 240,
) -> Spec:
    """A line through the points of each series; several have a legend, colours and dashes."""
    values: list[Spec] = [
        {"series": name, "x": across, "y": up}
        for name, part in points.items()
        for across, up in part
    ]
    # Of whole numbers "~g" makes 1e+1.
    whole = not log_x and all(value["x"] == int(value["x"]) for value in values)
    axis: Spec = {"format": "d", "tickMinStep": 1} if whole else {"format": "~g"}
    axis |= {"values": list(ticks)} if ticks else {}
    scale = {"type": "log"} if log_x else {"nice": False}
    encoding = {
        "x": numbers("x", x, zero=False, axis=axis, scale=scale),
        "y": numbers(
            "y", y, zero=zero, axis={"format": "~g", "tickCount": 5},
            scale={"type": "log"} if log_y else {},
        ),
        "tooltip": [
            *([{"field": "series", "title": "series"}] if len(points) > 1 else []),
            {"field": "x", "title": x, "format": ".4~g"},
            {"field": "y", "title": y, "format": ".4~g"},
        ],
    }  # fmt: skip
    named = list(points)
    layers = [{"mark": {"type": "line"}, "encoding": {**encoding, **series("series", named)}}]
    if marks:
        coloured = series("series", named, shape=True)
        layers.append(
            {
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {
                    **encoding,
                    **coloured,
                },
            }
        )
    return layered(values, layers, height=height)
