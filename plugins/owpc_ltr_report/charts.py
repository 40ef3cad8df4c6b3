"""Charts: functions from figures to Vega-Lite specifications (plain JSON), and to SVG pictures.

Colours are names of `templates/colours.css`, which has them for light pages, dark pages and paper.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from owpc_ltr.evaluation.verdict import Outcome

VEGA_LITE = "6.4"
"""The version of Vega-Lite of the specifications."""
AFTER, BEFORE, LOSS = "var(--after)", "var(--before)", "var(--loss)"
"""Colours of the new ranker (and of bars), of what it is compared with, and of losses."""
INK, QUIET = "var(--ink)", "var(--quiet)"
SERIES = (AFTER, LOSS, "var(--third)", "var(--fourth)", QUIET)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4])
OUTCOME_LEGEND = ("▶ better", "● no significant difference", "◀ worse", "◆ cannot tell")
"""The shapes of `forest` in words."""
_OUTCOME_COLOURS = {
    Outcome.BETTER: AFTER,
    Outcome.NO_DIFFERENCE: QUIET,
    Outcome.WORSE: LOSS,
    Outcome.CANNOT_TELL: QUIET,
}
_OUTCOME_SHAPES = {
    Outcome.BETTER: "triangle-right",
    Outcome.NO_DIFFERENCE: "circle",
    Outcome.WORSE: "triangle-left",
    Outcome.CANNOT_TELL: "diamond",
}
_CHANGES = ("worse", "same", "better")
_CHANGE_COLOURS = dict(zip(_CHANGES, (LOSS, QUIET, AFTER), strict=True))
_CHANGE_SHAPES = dict(zip(_CHANGES, ("triangle-left", "circle", "triangle-right"), strict=True))
_ROW_HEIGHT = 26
_SVG_WIDTH = 620

Spec = dict[str, Any]
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
class DifferenceRow:
    """A row of a forest plot: a difference with its interval and outcome."""

    label: str
    value: float
    low: float
    high: float
    outcome: Outcome


def bars(rows: Sequence[tuple[str, float]], title: str, *, digits: str = ".3~g") -> Spec:
    """One horizontal bar per name; negative ones point left, in the colour of losses."""
    encoding = {
        "y": _names("name", [name for name, _ in rows]),
        "x": _numbers("value", title),
        "tooltip": _tooltip(("name", "name"), ("value", title, digits)),
        "color": {"condition": {"test": "datum.value < 0", "value": LOSS}, "value": AFTER},
    }
    values = [{"name": name, "value": value} for name, value in rows]
    layer = {"mark": {"type": "bar", "height": {"band": 0.62}}, "encoding": encoding}
    return _layered(values, [layer], height=_rows_height(len(rows)))


def bars_with_intervals(rows: Sequence[tuple[str, float, float, float]], title: str) -> Spec:
    """Bars of (name, value, low, high), with a line over each interval."""
    made = bars([row[:2] for row in rows], title)
    for value, (_, _, low, high) in zip(made["data"]["values"], rows, strict=True):
        value["low"], value["high"] = low, high
    mark = {"type": "rule", "color": INK, "strokeWidth": 1.5}
    made["layer"].append({"mark": mark, "encoding": _between("name", "low", "high", title, rows)})
    return made


def columns(rows: Sequence[tuple[str | float, float]], x: str, y: str) -> Spec:
    """Upright bars, in the order given."""
    encoding = {
        "x": {
            "field": "x", "type": "ordinal", "title": x, "sort": None,
            "axis": {"labelAngle": 0, "labelOverlap": True},
        },
        "y": _numbers("y", y),
        "tooltip": _tooltip(("x", x), ("y", y, ".4~g")),
    }  # fmt: skip
    mark = {"type": "bar", "color": AFTER, "width": {"band": 0.75}}
    values = [{"x": name, "y": value} for name, value in rows]
    return _layered(values, [{"mark": mark, "encoding": encoding}], height=190)


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
    tooltip = _tooltip(
        ("x", x["title"], of_x), ("value", y["title"], of_y), ("low", "at least", of_y),
        ("high", "at most", of_y),
    )  # fmt: skip
    area = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    line = {"type": "line", "color": AFTER, "point": {"color": AFTER}}
    values = [{"x": x, "value": value, "low": low, "high": high} for x, value, low, high in rows]
    layers = [
        {"mark": {"type": "area", "color": AFTER, "opacity": 0.18}, "encoding": area},
        {"mark": line, "encoding": {"x": x, "y": y, "tooltip": tooltip}},
    ]
    return _layered(values, layers, height=230)


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
) -> Spec:
    """A line through the points of each series; several have a legend, colours and dashes."""
    values: list[Spec] = [
        {"series": name, "x": across, "y": up}
        for name, part in points.items()
        for across, up in part
    ]
    # "~g" writes whole numbers as 1e+1.
    whole = not log_x and all(value["x"] == int(value["x"]) for value in values)
    axis: Spec = {"format": "d", "tickMinStep": 1} if whole else {"format": "~g"}
    axis |= {"values": list(ticks)} if ticks else {}
    scale = {"type": "log"} if log_x else {"nice": False}
    series = [("series", "series")] if len(points) > 1 else []
    encoding = {
        "x": _numbers("x", x, zero=False, axis=axis, scale=scale),
        "y": _numbers(
            "y", y, zero=zero, axis={"format": "~g", "tickCount": 5},
            scale={"type": "log"} if log_y else {},
        ),
        "tooltip": _tooltip(*series, ("x", x, ".4~g"), ("y", y, ".4~g")),
    }  # fmt: skip
    names = list(points)
    layers = [{"mark": {"type": "line"}, "encoding": {**encoding, **_series("series", names)}}]
    if marks:
        shapes = _series("series", names, shape=True)
        mark = {"type": "point", "filled": True, "size": 60}
        layers.append({"mark": mark, "encoding": {**encoding, **shapes}})
    return _layered(values, layers, height=240)


def feature_curve(points: Points, missing: float | None, domain: tuple[float, float]) -> Spec:
    """A feature's contribution by its value; a dashed line shows that of a missing value.

    `domain` is the range of the vertical axis, which all curves of a gallery share.
    """
    scale = {"domain": list(domain), "zero": False}
    encoding = {
        "x": _numbers("x", None, zero=False, axis={"format": "~s", "tickCount": 4}),
        "y": _numbers("y", None, scale=scale, axis={"format": "~g", "tickCount": 4}),
        "tooltip": _tooltip(("x", "value", ".4~g"), ("y", "score", "+.4~g")),
    }
    # A line of few values has dots: of one value it would be invisible.
    dots = {"color": AFTER} if len(points) < 4 else False
    line = {"type": "line", "color": AFTER, "strokeWidth": 2, "point": dots}
    layers = [
        _rule("y", 0, {"type": "rule", "color": QUIET, "strokeDash": [2, 3]}),
        {"mark": line, "encoding": encoding},
    ]
    if missing is not None:
        layers.append(_rule("y", missing, {"type": "rule", "color": LOSS, "strokeDash": [6, 3]}))
    return _layered([{"x": x, "y": y} for x, y in points], layers, height=110)


def histogram(
    edges: Sequence[float], shares: Mapping[str, Sequence[float]], x: str, y: str
) -> Spec:
    """The share of each group in each bin; an edge starts its bin, and the last one ends all."""
    values = [
        {"group": name, "x": edge, "y": share}
        for name, of_bins in shares.items()
        for edge, share in zip(edges, [*of_bins, 0.0], strict=True)
    ]
    encoding = {
        "x": _numbers("x", x, zero=False, axis={"format": "~g"}),
        "y": _numbers("y", y, axis={"format": "~%", "tickCount": 4}, stack=None),
        **_series("group", list(shares)),
        "tooltip": _tooltip(
            ("group", "documents"), ("x", f"{x}, from", ".3~g"), ("y", "share", ".1%")
        ),
    }
    area = {"type": "area", "interpolate": "step-after", "fillOpacity": 0.18, "line": False}
    line = {"type": "line", "interpolate": "step-after"}
    undashed = {name: part for name, part in encoding.items() if name != "strokeDash"}
    layers = [{"mark": area, "encoding": undashed}, {"mark": line, "encoding": encoding}]
    return _layered(values, layers, height=220)


def forest(rows: Sequence[DifferenceRow], title: str) -> Spec:
    """A forest plot: one row per interval, a line at zero; colour and shape show the outcome."""
    y = _names("label", [row.label for row in rows])
    colour = _categories("outcome", _OUTCOME_COLOURS)
    points = {
        "y": y, "x": _numbers("value", title), "color": colour,
        "shape": _categories("outcome", _OUTCOME_SHAPES),
        "tooltip": _tooltip(
            ("label", "ranker"), ("value", "difference", "+.4f"), ("low", "at least", "+.4f"),
            ("high", "at most", "+.4f"), ("outcome", "verdict"),
        ),
    }  # fmt: skip
    intervals = {"y": y, "x": _numbers("low", title), "x2": {"field": "high"}, "color": colour}
    layers = [
        _rule("x", 0, {"type": "rule", "color": INK, "strokeDash": [4, 3]}),
        {"mark": {"type": "rule", "strokeWidth": 3}, "encoding": intervals},
        {"mark": {"type": "point", "filled": True, "size": 130, "opacity": 1}, "encoding": points},
    ]
    return _layered([vars(row) for row in rows], layers, height=_rows_height(len(rows)) + 14)


def changes(rows: Sequence[tuple[str, int, int]]) -> Spec:
    """Bars of (label, queries, side); the side −1, 0 or 1 (worse, same, better) has its colour."""
    y = _names("label", [label for label, _, _ in rows])
    # The longest bar leaves room for its number, on phones too.
    domain = [0, max(1.25 * max(count for _, count, _ in rows), 1)]
    axis = {"format": ",d", "tickCount": 5}
    x = _numbers("queries", "queries", axis=axis, scale={"domain": domain})
    bar = {
        "y": y, "x": x, "color": _categories("side", _CHANGE_COLOURS),
        "tooltip": _tooltip(("label", "change"), ("queries", "queries")),
    }  # fmt: skip
    number = {"y": y, "x": x, "text": {"field": "queries", "format": ","}}
    text = {"type": "text", "align": "left", "dx": 5, "fontSize": 12, "color": INK}
    values = [
        {"label": label, "queries": count, "side": _CHANGES[side + 1]}
        for label, count, side in rows
    ]
    layers = [
        {"mark": {"type": "bar", "height": {"band": 0.7}}, "encoding": bar},
        {"mark": text, "encoding": number},
    ]
    return _layered(values, layers, height=_rows_height(len(rows)))


def change(before: float, after: float, *, higher_is_better: bool) -> str:
    """Whether a query got better, worse, or stayed the same."""
    gain = after - before if higher_is_better else before - after
    return "same" if gain == 0 else "better" if gain > 0 else "worse"


def dumbbells(
    rows: Sequence[QueryRow], metric: str, *, higher_is_better: bool, domain: tuple[float, float]
) -> Spec:
    """A hollow circle before, a filled mark after; the page redraws it with other rows."""
    y = _names("query")
    scale = {"domain": list(domain), "zero": False}
    colour = _categories("direction", _CHANGE_COLOURS)
    # Marks point where the value went; colours say whether that is good.
    shapes = _CHANGE_SHAPES
    if not higher_is_better:
        shapes = dict(zip(shapes, reversed(shapes.values()), strict=True))
    tooltip = _tooltip(("query", "query"), ("before", "before", ".4f"), ("after", "after", ".4f"))
    before = _numbers("before", metric, scale=scale)
    after = {
        "y": y, "x": _numbers("after", metric, scale=scale), "color": colour,
        "shape": _categories("direction", shapes), "tooltip": tooltip,
    }  # fmt: skip
    layers = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": y, "x": before, "x2": {"field": "after"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": False, "size": 70, "color": BEFORE},
            "encoding": {"y": y, "x": before, "tooltip": tooltip},
        },
        {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1}, "encoding": after},
    ]
    values = [
        {
            "query": row.text or row.query_id, "before": row.before, "after": row.after,
            "direction": change(row.before, row.after, higher_is_better=higher_is_better),
        }
        for row in rows
    ]  # fmt: skip
    return _layered(values, layers, height=_rows_height(len(rows)))


def folds_and_means(
    dots: Sequence[tuple[str, str, float]], means: Sequence[tuple[str, float]], title: str
) -> Spec:
    """A dot for each (name, fold, value), and the mean of each name as a tick."""
    of_name = dict(means)
    y = _names("name", list(of_name))
    dot = {"type": "point", "filled": True, "size": 60, "opacity": 0.6, "color": AFTER}
    tooltip = _tooltip(("name", "settings"), ("fold", "fold"), ("value", title, ".4f"))
    values = [
        {"name": name, "fold": fold, "value": value, "mean": of_name[name]}
        for name, fold, value in dots
    ]
    layers = [
        {
            "mark": dot,
            "encoding": {"y": y, "x": _numbers("value", title, zero=False), "tooltip": tooltip},
        },
        {
            "mark": {"type": "tick", "thickness": 3, "color": INK},
            "encoding": {"y": y, "x": _numbers("mean", title, zero=False)},
        },
    ]
    return _layered(values, layers, height=_rows_height(len(of_name)))


def svg_of(spec: Mapping[str, Any]) -> str:
    """A chart's specification as an SVG picture in the colours of a light page."""
    import vl_convert

    config = {"view": {"stroke": None}}
    text = json.dumps({**spec, "width": _SVG_WIDTH, "background": "white", "config": config})
    coloured = re.sub(r"var\((--[a-z]+)\)", lambda found: _light_colours()[found[1]], text)
    made: Any = vl_convert.vegalite_to_svg(json.loads(coloured), vl_version=VEGA_LITE)
    return str(made)


@cache
def _light_colours() -> dict[str, str]:
    """The colours of the light page, by their names in the style sheet."""
    style = (files("owpc_ltr_report") / "templates" / "colours.css").read_text(encoding="utf-8")
    light = style[style.index("{") : style.index("}")]
    return dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6});", light))


def _layered(rows: Sequence[Mapping[str, Any]], layers: Sequence[Spec], *, height: int) -> Spec:
    """Layers over the same rows, as wide as the page allows."""
    values = [dict(row) for row in rows]
    return {
        "data": {"values": values}, "width": "container", "height": height, "layer": list(layers),
    }  # fmt: skip


def _rows_height(count: int) -> int:
    return _ROW_HEIGHT * max(count, 1)


def _names(field: str, order: Sequence[str] | None = None) -> Spec:
    """An axis of names, in this order or that of the data."""
    return {
        "field": field,
        "type": "nominal",
        "sort": None if order is None else list(order),
        "title": None,
        "axis": {"grid": False, "ticks": False, "domain": False, "labelPadding": 8},
    }


def _numbers(field: str, title: str | None, *, zero: bool = True, **more: Any) -> Spec:
    """An axis of numbers."""
    given = more.pop("scale", {})
    # Neither has a meaning on a logarithmic scale.
    usual = {} if given.get("type") == "log" else {"zero": zero, "nice": True}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {**usual, **given},
        "axis": {"tickCount": 6, "labelOverlap": True, **more.pop("axis", {})},
        **more,
    }


def _between(name: str, low: str, high: str, title: str, rows: Sequence[Any]) -> Spec:
    """From one field to another, in the row of a name."""
    y = _names(name, [row[0] for row in rows])
    return {"y": y, "x": _numbers(low, title), "x2": {"field": high}}


def _rule(axis: str, value: float, mark: Spec) -> Spec:
    """A straight line at a value of an axis."""
    return {"mark": mark, "encoding": {axis: {"datum": value, "type": "quantitative"}}}


def _tooltip(*fields: tuple[str, ...]) -> list[Spec]:
    """What the pointer shows of a mark: (field, title), of numbers (field, title, format)."""
    return [dict(zip(("field", "title", "format"), one, strict=False)) for one in fields]


def _categories(field: str, values: Mapping[Any, str]) -> Spec:
    """A colour or shape for each category, without a legend."""
    scale = {"domain": list(values), "range": list(values.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def _series(field: str, values: Sequence[str], *, shape: bool = False) -> dict[str, Spec]:
    """Colours with dashes or shapes, so that no series differs by its colour alone."""
    marks = SHAPES if shape else DASHES
    scales = {
        "color": [SERIES[place % len(SERIES)] for place in range(len(values))],
        "shape" if shape else "strokeDash": [marks[n % len(marks)] for n in range(len(values))],
    }
    legend = None if len(values) < 2 else {"orient": "top", "title": None}
    return {
        channel: {
            "field": field,
            "type": "nominal",
            "scale": {"domain": list(values), "range": range_},
            "legend": legend,
        }
        for channel, range_ in scales.items()
    }
