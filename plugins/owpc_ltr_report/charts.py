"""Charts: functions from figures to Vega-Lite specifications (plain JSON), and to SVG pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr_report import chart_style as style
from owpc_ltr_report.chart_style import AFTER, INK, LOSS, QUIET, Spec

VEGA_LITE = "6.4"
"""The version of Vega-Lite of the specifications."""
Points = Sequence[tuple[float, float]]
Intervals = Sequence[tuple[int, float, float, float]]
"""Rows of (x, value, low, high)."""


@dataclass(frozen=True)
class QueryRow:
    """A query's value of a metric, before and after."""

    query_id: str
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class Difference:
    """A row of a forest plot: a difference with its interval and outcome."""

    label: str
    value: float
    low: float
    high: float
    outcome: Outcome


def bars(rows: Sequence[Sequence[Any]], title: str, *, digits: str = ".3~g") -> Spec:
    """A horizontal bar for each (name, value), or (name, value, low, high) with its interval.

    Negative ones point left, in the colour of losses.
    """
    values = [dict(zip(("name", "value", "low", "high"), row, strict=False)) for row in rows]
    y = _names("name", [row[0] for row in rows])
    tooltip = _tooltip(("name", "name"), ("value", title, digits))
    bar = _layer(
        style.BAR, y=y, x=_numbers("value", title), tooltip=tooltip, color=style.BAR_COLOUR
    )
    rule = {**style.RULE, "color": INK, "strokeWidth": 1.5}
    ends = _layer(rule, y=y, x=_numbers("low", title), x2={"field": "high"})
    layers = [bar, ends] if all("high" in value for value in values) else [bar]
    return _layered(values, layers, _rows_height(rows))


def columns(rows: Sequence[tuple[str | float, float]], x: str, y: str) -> Spec:
    """Upright bars, in the order given."""
    axis = {"labelAngle": 0, "labelOverlap": True}
    across = {"field": "x", "type": "ordinal", "title": x, "sort": None, "axis": axis}
    tooltip = _tooltip(("x", x), ("y", y, ".4~g"))
    layer = _layer(style.COLUMN, x=across, y=_numbers("y", y), tooltip=tooltip)
    return _layered([{"x": name, "y": value} for name, value in rows], [layer], 190)


def share_by_rank(rows: Intervals, y: str) -> Spec:
    """A line of shares by rank, with a band of their intervals."""
    axis = {"format": "d", "tickMinStep": 1}
    x = _numbers("x", "rank", zero=False, axis=axis, scale={"nice": False})
    up = _numbers("value", y, axis={"format": "~%", "tickCount": 5}, scale={"domain": [0, 1]})
    return _band(rows, x, up, ("d", ".1%"))


def learning_curve(rows: Intervals, x: str, y: str) -> Spec:
    """A line of a metric by the number of training queries, with a band of its intervals."""
    axis = {"format": ",d", "values": [row[0] for row in rows]}
    across = _numbers("x", x, scale={"type": "log"}, axis=axis)
    up = _numbers("value", y, zero=False, axis={"format": "~g", "tickCount": 5})
    return _band(rows, across, up, (",", ".4f"))


def _band(rows: Intervals, x: Spec, y: Spec, digits: tuple[str, str]) -> Spec:
    """A line through (x, value) and an area from low to high; `digits` are tooltip formats."""
    of_x, of_y = digits
    names = ("value", y["title"]), ("low", "at least"), ("high", "at most")
    tooltip = _tooltip(("x", x["title"], of_x), *((*name, of_y) for name in names))
    line = {"type": "line", "color": AFTER, "point": {"color": AFTER}}
    layers = [
        _layer(style.AREA, x=x, y={**y, "field": "low"}, y2={"field": "high"}),
        _layer(line, x=x, y=y, tooltip=tooltip),
    ]
    values = [dict(zip(("x", "value", "low", "high"), row, strict=True)) for row in rows]
    return _layered(values, layers, 230)


def lines(
    points: Mapping[str, Points], x: str, y: str, *, log_x: bool = False, log_y: bool = False,
    marks: bool = True, zero: bool = False, ticks: Sequence[float] = (),
) -> Spec:  # fmt: skip
    """A line through the points of each series; several have a legend, colours and dashes."""
    names = list(points)
    values = [{"series": name, "x": a, "y": b} for name in names for a, b in points[name]]
    # "~g" writes whole numbers as 1e+1.
    whole = not log_x and all(a == int(a) for part in points.values() for a, _ in part)
    axis: Spec = {"format": "d", "tickMinStep": 1} if whole else {"format": "~g"}
    axis |= {"values": list(ticks)} if ticks else {}
    series = [("series", "series")] if len(points) > 1 else []
    up: Spec = {"axis": {"format": "~g", "tickCount": 5}, "scale": {"type": "log"} if log_y else {}}
    encoding = {
        "x": _numbers(
            "x", x, zero=False, axis=axis, scale={"type": "log"} if log_x else {"nice": False}
        ),
        "y": _numbers("y", y, zero=zero, **up),
        "tooltip": _tooltip(*series, ("x", x, ".4~g"), ("y", y, ".4~g")),
    }
    layers = [_layer({"type": "line"}, **encoding, **_series("series", names))]
    if marks:
        shapes = _series("series", names, shape=True)
        layers.append(_layer({**style.POINT, "size": 60}, **encoding, **shapes))
    return _layered(values, layers, 240)


def feature_curve(points: Points, missing: float | None, domain: tuple[float, float]) -> Spec:
    """A feature's contribution by its value; a dashed line shows that of a missing value.

    `domain` is the range of the vertical axis, which all curves of a gallery share.
    """
    scale = {"domain": list(domain), "zero": False}
    # A line of few values has dots: of one value it would be invisible.
    dots = {"color": AFTER} if len(points) < 4 else False
    layers = [
        _rule("y", 0, QUIET, [2, 3]),
        _layer(
            {"type": "line", "color": AFTER, "strokeWidth": 2, "point": dots},
            x=_numbers("x", None, zero=False, axis={"format": "~s", "tickCount": 4}),
            y=_numbers("y", None, scale=scale, axis={"format": "~g", "tickCount": 4}),
            tooltip=_tooltip(("x", "value", ".4~g"), ("y", "score", "+.4~g")),
        ),
    ]
    if missing is not None:
        layers.append(_rule("y", missing, LOSS, [6, 3]))
    return _layered([{"x": x, "y": y} for x, y in points], layers, 110)


def histogram(
    edges: Sequence[float], shares: Mapping[str, Sequence[float]], x: str, y: str
) -> Spec:
    """The share of each group in each bin; an edge starts its bin, and the last one ends all."""
    values = [
        {"group": name, "x": edge, "y": share}
        for name, of_bins in shares.items()
        for edge, share in zip(edges, [*of_bins, 0.0], strict=True)
    ]
    of_bin = ("x", f"{x}, from", ".3~g")
    encoding = {
        "x": _numbers("x", x, zero=False, axis={"format": "~g"}),
        "y": _numbers("y", y, axis={"format": "~%", "tickCount": 4}, stack=None),
        "tooltip": _tooltip(("group", "documents"), of_bin, ("y", "share", ".1%")),
    }
    series = _series("group", list(shares))
    step = {"interpolate": "step-after"}
    area = {"type": "area", **step, "fillOpacity": 0.18, "line": False}
    layers = [
        _layer(area, **encoding, color=series["color"]),
        _layer({"type": "line", **step}, **encoding, **series),
    ]
    return _layered(values, layers, 220)


def forest(rows: Sequence[Difference], title: str) -> Spec:
    """A forest plot: one row per interval, a line at zero; colour and shape show the outcome."""
    y = _names("label", [row.label for row in rows])
    colour = _categories("outcome", style.OUTCOME_COLOURS)
    tooltip = _tooltip(
        ("label", "ranker"), ("value", "difference", "+.4f"), ("low", "at least", "+.4f"),
        ("high", "at most", "+.4f"), ("outcome", "verdict"),
    )  # fmt: skip
    shape = _categories("outcome", style.OUTCOME_SHAPES)
    ends = {"x": _numbers("low", title), "x2": {"field": "high"}}
    point = {**style.POINT, "size": 130, "opacity": 1}
    layers = [
        _rule("x", 0, INK, [4, 3]),
        _layer({**style.RULE, "strokeWidth": 3}, y=y, **ends, color=colour),
        _layer(point, y=y, x=_numbers("value", title), color=colour, shape=shape, tooltip=tooltip),
    ]
    return _layered([vars(row) for row in rows], layers, _rows_height(rows) + 14)


def changes(rows: Sequence[tuple[str, int, int]]) -> Spec:
    """Bars of (label, queries, side); the side −1, 0 or 1 (worse, same, better) has its colour."""
    y = _names("label", [label for label, _, _ in rows])
    # The longest bar leaves room for its number, on phones too.
    domain = [0, max(1.25 * max(count for _, count, _ in rows), 1)]
    axis = {"format": ",d", "tickCount": 5}
    x = _numbers("queries", "queries", axis=axis, scale={"domain": domain})
    colour = _categories("side", style.CHANGE_COLOURS)
    tooltip = _tooltip(("label", "change"), ("queries", "queries"))
    number = {"type": "text", "align": "left", "dx": 5, "fontSize": 12, "color": INK}
    layers = [
        _layer({**style.BAR, "height": {"band": 0.7}}, y=y, x=x, color=colour, tooltip=tooltip),
        _layer(number, y=y, x=x, text={"field": "queries", "format": ","}),
    ]
    sides = list(style.CHANGE_COLOURS)
    values = [{"label": a, "queries": count, "side": sides[side + 1]} for a, count, side in rows]
    return _layered(values, layers, _rows_height(rows))


def dumbbells(
    rows: Sequence[QueryRow], metric: str, *, higher_is_better: bool, domain: tuple[float, float]
) -> Spec:
    """A hollow circle before, a filled mark after; the page redraws it with other rows."""
    y, scale = _names("query"), {"domain": list(domain), "zero": False}
    colour = _categories("direction", style.CHANGE_COLOURS)
    # Marks point where the value went; colours say whether that is good.
    shapes = style.CHANGE_SHAPES
    if not higher_is_better:
        shapes = dict(zip(shapes, reversed(shapes.values()), strict=True))
    tooltip = _tooltip(("query", "query"), ("before", "before", ".4f"), ("after", "after", ".4f"))
    before = {"y": y, "x": _numbers("before", metric, scale=scale)}
    after = {"y": y, "x": _numbers("after", metric, scale=scale), "color": colour}
    hollow = {"type": "point", "filled": False, "size": 70, "color": style.BEFORE}
    filled = {**style.POINT, "size": 90, "opacity": 1}
    shape = _categories("direction", shapes)
    layers = [
        _layer({**style.RULE, "strokeWidth": 2}, **before, x2={"field": "after"}, color=colour),
        _layer(hollow, **before, tooltip=tooltip),
        _layer(filled, **after, shape=shape, tooltip=tooltip),
    ]
    sign = 1 if higher_is_better else -1
    values = [
        {
            "query": row.text or row.query_id, "before": row.before, "after": row.after,
            "direction": _direction(sign * (row.after - row.before)),
        }
        for row in rows
    ]  # fmt: skip
    return _layered(values, layers, _rows_height(rows))


def _direction(gain: float) -> str:
    return "same" if gain == 0 else "better" if gain > 0 else "worse"


def folds_and_means(
    dots: Sequence[tuple[str, str, float]], means: Mapping[str, float], title: str
) -> Spec:
    """A dot for each (name, fold, value), and the mean of each name as a tick."""
    y = _names("name", list(means))
    tooltip = _tooltip(("name", "settings"), ("fold", "fold"), ("value", title, ".4f"))
    dot = {**style.POINT, "size": 60, "opacity": 0.6, "color": AFTER}
    tick = {"type": "tick", "thickness": 3, "color": INK}
    layers = [
        _layer(dot, y=y, x=_numbers("value", title, zero=False), tooltip=tooltip),
        _layer(tick, y=y, x=_numbers("mean", title, zero=False)),
    ]
    values = [{"name": n, "fold": fold, "value": v, "mean": means[n]} for n, fold, v in dots]
    return _layered(values, layers, _rows_height(means))


def svg_of(spec: Mapping[str, Any]) -> str:
    """A chart's specification as an SVG picture in the colours of a light page."""
    import vl_convert

    config = {"view": {"stroke": None}}
    text = json.dumps({**spec, "width": style.SVG_WIDTH, "background": "white", "config": config})
    coloured = re.sub(r"var\((--[a-z]+)\)", lambda found: _light_colours()[found[1]], text)
    made: Any = vl_convert.vegalite_to_svg(json.loads(coloured), vl_version=VEGA_LITE)
    return str(made)


@cache
def _light_colours() -> dict[str, str]:
    """The colours of the light page, by their names in the style sheet."""
    text = (files("owpc_ltr_report") / "templates" / "colours.css").read_text(encoding="utf-8")
    light = text[text.index("{") : text.index("}")]
    return dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6});", light))


def _layered(rows: Sequence[Mapping[str, Any]], layers: Sequence[Spec], height: int) -> Spec:
    """Layers over the same rows, as wide as the page allows."""
    values = [dict(row) for row in rows]
    return {"data": {"values": values}, "width": "container", "height": height, "layer": layers}


def _layer(mark: Spec, **encoding: Any) -> Spec:
    return {"mark": mark, "encoding": encoding}


def _rows_height(rows: Any) -> int:
    return style.ROW_HEIGHT * max(len(rows), 1)


def _names(field: str, order: Sequence[str] | None = None) -> Spec:
    """An axis of names, in this order or that of the data."""
    kind = {"field": field, "type": "nominal", "title": None}
    return {**kind, "sort": None if order is None else list(order), "axis": style.NAME_AXIS}


def _numbers(
    field: str, title: str | None, *, zero: bool = True, scale: Spec | None = None,
    axis: Spec | None = None, **more: Any,
) -> Spec:  # fmt: skip
    """An axis of numbers."""
    given = scale or {}
    # Neither has a meaning on a logarithmic scale.
    usual = {} if given.get("type") == "log" else {"zero": zero, "nice": True}
    axis = {**style.NUMBER_AXIS, **(axis or {})}
    kind = {"field": field, "type": "quantitative", "title": title}
    return {**kind, "scale": {**usual, **given}, "axis": axis, **more}


def _rule(axis: str, value: float, colour: str, dash: list[int]) -> Spec:
    """A straight line at a value of an axis."""
    mark = {**style.RULE, "color": colour, "strokeDash": dash}
    return _layer(mark, **{axis: {"datum": value, "type": "quantitative"}})


def _tooltip(*fields: tuple[str, ...]) -> list[Spec]:
    """What the pointer shows of a mark: (field, title), of numbers (field, title, format)."""
    return [dict(zip(("field", "title", "format"), one, strict=False)) for one in fields]


def _categories(field: str, values: Mapping[Any, Any], legend: Spec | None = None) -> Spec:
    """A colour or shape for each category."""
    scale = {"domain": list(values), "range": list(values.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def _series(field: str, names: Sequence[str], *, shape: bool = False) -> dict[str, Spec]:
    """Colours with dashes or shapes, so that no series differs by its colour alone."""
    legend = None if len(names) < 2 else {"orient": "top", "title": None}
    second = ("shape", style.SHAPES) if shape else ("strokeDash", style.DASHES)
    return {
        channel: _categories(field, {n: of[i % len(of)] for i, n in enumerate(names)}, legend)
        for channel, of in (("color", style.SERIES), second)
    }
