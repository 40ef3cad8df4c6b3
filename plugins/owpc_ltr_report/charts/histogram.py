"""Histograms of several groups over the same bins, as shares of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from owpc_ltr_report.charts.common import Spec, layered, numbers, series


def histogram(
    edges: Sequence[float], shares: Mapping[str, Sequence[float]], x: str, y: str
) -> Spec:
    """Steps of each group; an edge begins its bin, and the last one ends all."""
    values = [
        {"group": name, "x": edge, "y": share}
        for name, of_bins in shares.items()
        for edge, share in zip(edges, [*of_bins, 0.0], strict=True)
    ]
    encoding = {
        "x": numbers("x", x, zero=False, axis={"format": "~g"}),
        "y": numbers("y", y, axis={"format": "~%", "tickCount": 4}, stack=None),
        **series("group", list(shares)),
        "tooltip": [
            {"field": "group", "title": "documents"},
            {"field": "x", "title": f"{x}, from", "format": ".3~g"},
            {"field": "y", "title": "share", "format": ".1%"},
        ],
    }
    mark = {"type": "area", "interpolate": "step-after", "fillOpacity": 0.18, "line": False}
    edge = {"type": "line", "interpolate": "step-after"}
    body = {name: part for name, part in encoding.items() if name != "strokeDash"}
    return layered(
        values, [{"mark": mark, "encoding": body}, {"mark": edge, "encoding": encoding}], height=220
    )
