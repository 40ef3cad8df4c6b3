"""Tables and charts: rows of figures as Vega-Lite specifications.

The kinds of charts are macros of `templates/charts.json.jinja`.
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


def drawing(kind: str, rows: Sequence[Row], **words: Any) -> Spec:
    """A chart over rows, as wide as the page allows: the macro `kind` of `charts.json.jinja`.

    `words` are its other variables.
    """
    return dict(_drawable(json.loads(getattr(_kinds(), kind)(rows, **words))))


def lines(points: Mapping[str, Points], x: str, y: str, **words: Any) -> Spec:
    """A line through the points of each series; several have a legend, colours and dashes."""
    rows = [(name, a, b) for name, of in points.items() for a, b in of]
    whole = all(float(a).is_integer() for _, a, _ in rows)
    return drawing("lines", rows, names=list(points), x=x, y=y, whole=whole, **words)


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
    return drawing("dumbbells", values, **words)


def svg_of(spec: Mapping[str, Any]) -> str:
    """A chart's specification as an SVG picture in the colours of a light page."""
    import vl_convert

    config = {"view": {"stroke": None}}
    text = json.dumps({**spec, "width": _SVG_WIDTH, "background": "white", "config": config})
    light = template("colours.css").partition("}")[0]
    colours = dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6});", light))
    coloured = re.sub(r"var\((--[a-z]+)\)", lambda found: colours[found[1]], text)
    return str(vl_convert.vegalite_to_svg(json.loads(coloured), vl_version=VEGA_LITE))


def _drawable(part: Any) -> Any:
    """A specification in which an invisible word joiner ends the names of object properties."""
    if isinstance(part, dict):
        return {key: _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(value) for value in part]
    return f"{part}\u2060" if isinstance(part, str) and part in _OBJECT_PROPERTIES else part


@cache
def _kinds() -> TemplateModule:
    from jinja2 import Environment, StrictUndefined

    made = Environment(undefined=StrictUndefined, trim_blocks=True)  # noqa: S701 - this is JSON
    made.filters["records"] = lambda rows, fields: json.dumps(
        [dict(zip(fields.split(), row, strict=False)) for row in rows]
    )
    return made.from_string(template("charts.json.jinja")).module


@cache
def template(name: str) -> str:
    """The text of a file in `templates`."""
    return (files("owpc_ltr_report") / "templates" / name).read_text(encoding="utf-8")
