"""Tables and charts: functions from rows of figures to Vega-Lite specifications.

The layers of each kind are in `templates/charts.json.jinja`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule

VEGA_LITE = "6.4"
"""The version of Vega-Lite of the specifications."""
Spec = dict[str, Any]
Points = Sequence[tuple[float, float]]
Row = Sequence[Any]
OUTCOME_LEGEND = ("▶ better", "● no significant difference", "◀ worse", "◆ cannot tell")
_SVG_WIDTH = 620
_OBJECT_PROPERTIES = {
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
    *("toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__"),
    *("__lookupGetter__", "__lookupSetter__"),
}
"""Properties of every JavaScript object: the chart library takes a value of such a name for one."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers: texts, numbers, tuples of lines, None for a dash."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification, with its content as a sentence and as a table.

    `name` is unique on a page. Colours of the specification are `var(--…)` of `colours.css`.
    """

    name: str
    title: str
    spec: Spec
    sentence: str
    table: Table
    legend: Sequence[str] = ()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The chart as SVG, for notebooks, editors and nbconvert."""
        return {"image/svg+xml": svg_of(self.spec), "text/plain": f"{self.title}: {self.sentence}"}


def bars(rows: Sequence[Row], title: str, digits: str = ".3~g") -> Spec:
    """A horizontal bar for each (name, value), or (name, value, low, high) with its interval.

    Negative ones point left, in the colour of losses.
    """
    names, intervals = [row[0] for row in rows], all(len(row) > 2 for row in rows)
    words = {"names": names, "title": title, "digits": digits, "intervals": intervals}
    return _spec("bars", "name value low high", rows, words)


def columns(rows: Sequence[Row], x: str, y: str) -> Spec:
    """An upright bar for each (name, value), in the order given."""
    return _spec("columns", "x y", rows, {"x": x, "y": y}, 190)


def share_by_rank(rows: Sequence[Row], y: str) -> Spec:
    """A line of (rank, share, low, high), with a band of the intervals."""
    return _spec("share_by_rank", "x value low high", rows, {"y": y}, 230)


def learning_curve(rows: Sequence[Row], x: str, y: str) -> Spec:
    """A line of (training queries, metric, low, high), with a band of the intervals."""
    words = {"x": x, "y": y, "ticks": [row[0] for row in rows]}
    return _spec("learning_curve", "x value low high", rows, words, 230)


def lines(
    points: Mapping[str, Points], x: str, y: str, *, log_x: bool = False, log_y: bool = False,
    marks: bool = True, zero: bool = False, ticks: Sequence[float] = (),
) -> Spec:  # fmt: skip
    """A line through the points of each series; several have a legend, colours and dashes."""
    rows = [(name, a, b) for name, of in points.items() for a, b in of]
    words = {
        "names": list(points), "x": x, "y": y, "log_x": log_x, "log_y": log_y, "marks": marks,
        "whole": not log_x and all(a == int(a) for _, a, _ in rows), "zero": zero, "ticks": ticks,
    }  # fmt: skip
    return _spec("lines", "series x y", rows, words, 240)


def feature_curve(points: Points, missing: float | None, domain: tuple[float, float]) -> Spec:
    """A feature's contribution by its value; a dashed line shows that of a missing value.

    `domain` is the range of the vertical axis, which all curves of a gallery share.
    """
    words = {"few": len(points) < 4, "missing": missing, "domain": domain}
    return _spec("feature_curve", "x y", points, words, 110)


def histogram(
    edges: Sequence[float], shares: Mapping[str, Sequence[float]], x: str, y: str
) -> Spec:
    """The share of two groups in each bin; an edge starts its bin, and the last one ends all."""
    rows = [
        (group, edge, share)
        for group, of_bins in shares.items()
        for edge, share in zip(edges, [*of_bins, 0.0], strict=True)
    ]
    return _spec("histogram", "group x y", rows, {"names": list(shares), "x": x, "y": y}, 220)


def forest(rows: Sequence[Row], title: str) -> Spec:
    """A forest plot of (label, value, low, high, outcome): colour and shape show the outcome."""
    words = {"names": [row[0] for row in rows], "title": title}
    return _spec("forest", "label value low high outcome", rows, words, _height(rows) + 14)


def changes(rows: Sequence[tuple[str, int, str]]) -> Spec:
    """Bars of (label, queries, side), with their number; worse, same and better have a colour."""
    most = max(1.25 * max(count for _, count, _ in rows), 1)
    words = {"names": [row[0] for row in rows], "most": most}
    return _spec("changes", "label queries side", rows, words)


def dumbbells(
    rows: Sequence[tuple[str, float, float]], metric: str, *,
    higher_is_better: bool, domain: tuple[float, float],
) -> Spec:  # fmt: skip
    """(query, before, after): a hollow circle, a filled mark; the page redraws it for others."""
    values = [
        (name, old, new, "same" if old == new else ("better" if up else "worse"))
        for name, old, new in rows
        for up in [(new > old) == higher_is_better]
    ]
    words = {"metric": metric, "higher_is_better": higher_is_better, "domain": domain}
    return _spec("dumbbells", "query before after direction", values, words)


def folds_and_means(rows: Sequence[tuple[str, str, float, float]], title: str) -> Spec:
    """A dot for each (name, fold, value, mean of the name), and the mean of each name as a tick."""
    words = {"names": [row[0] for row in rows], "title": title}
    height = _height({row[0] for row in rows})
    return _spec("folds_and_means", "name fold value mean", rows, words, height)


def svg_of(spec: Mapping[str, Any]) -> str:
    """A chart's specification as an SVG picture in the colours of a light page."""
    import vl_convert

    config = {"view": {"stroke": None}}
    text = json.dumps({**spec, "width": _SVG_WIDTH, "background": "white", "config": config})
    light = _template("colours.css").partition("}")[0]
    colours = dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6});", light))
    coloured = re.sub(r"var\((--[a-z]+)\)", lambda found: colours[found[1]], text)
    return str(vl_convert.vegalite_to_svg(json.loads(coloured), vl_version=VEGA_LITE))


def _spec(
    kind: str, fields: str, rows: Sequence[Row], words: Mapping[str, Any], height: int = 0
) -> Spec:
    """The layers of a kind over rows of these fields, as wide as the page allows."""
    spec = {
        "data": {"values": [dict(zip(fields.split(), row, strict=False)) for row in rows]},
        "width": "container",
        "height": height or _height(rows),
        "layer": json.loads(getattr(_layers(), kind)(**words)),
    }
    return dict(_drawable(spec))


def _drawable(part: Any) -> Any:
    """A specification in which an invisible word joiner ends the names of object properties."""
    if isinstance(part, dict):
        return {key: _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(value) for value in part]
    return f"{part}\u2060" if isinstance(part, str) and part in _OBJECT_PROPERTIES else part


def _height(rows: Any) -> int:
    return 26 * max(len(rows), 1)


@cache
def _layers() -> TemplateModule:
    from jinja2 import Environment, StrictUndefined

    made = Environment(undefined=StrictUndefined, trim_blocks=True)  # noqa: S701 - this is JSON
    return made.from_string(_template("charts.json.jinja")).module


def _template(name: str) -> str:
    return (files("owpc_ltr_report") / "templates" / name).read_text(encoding="utf-8")
