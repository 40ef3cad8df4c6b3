"""The page: numbers as text, charts, tables and sections in one HTML file that needs no network.

The kinds of charts are macros of `templates/charts.json.jinja`. Texts may contain anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from owpc_ltr.data.blocks import Block, ChartData, Row, Table, cell_text
from owpc_ltr.host.report_parts import ReportSection, ReportVerdict, capital, plain, signed
from owpc_ltr.text import cut, printable
from owpc_ltr.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.environment import TemplateModule

    from owpc_ltr.files.strict_json import Json


_LONGEST_QUERY = 90


def amount(value: float) -> str:
    """A figure with a fixed number of decimals.

    >>> amount(0.89717), amount(float("nan"))
    ('0.8972', '–')
    """
    return "–" if math.isnan(value) else f"{value:.4f}"


def interval(ends: Any, *, plus: bool = True) -> str:
    """Both ends of whatever has a low and a high end."""
    return " to ".join(map(signed if plus else amount, (ends.low, ends.high)))


def p_words(p: float) -> str:
    """A p-value as papers write it.

    >>> p_words(0.0001), p_words(0.0312), p_words(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def short_name(name: str) -> str:
    """A ranker's name without folders, which say nothing to other people.

    >>> short_name("/home/me/models/new.json"), short_name("feature:a/b")
    ('new.json', 'feature:a/b')
    """
    named = name.startswith(("feature:", "live:"))
    return name if named else re.split(r"[/\\]", name)[-1] or name


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The short name of each; where two would be equal, both keep their folders.

    >>> short_names(["a/m.json", "b/m.json", "c/n.json"])
    {'a/m.json': 'a/m.json', 'b/m.json': 'b/m.json', 'c/n.json': 'n.json'}
    """
    count = Counter(short_name(name) for name in names)
    return {name: short_name(name) if count[short_name(name)] == 1 else name for name in names}


def shortened(text: str) -> str:
    """A query's text, cut where it is very long."""
    return cut(text, _LONGEST_QUERY)


def part_of(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in a training record; an empty one where there is none."""
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def finite(value: object) -> float | None:
    """The value if it is a finite number, of whatever else it might be."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def known(record: Mapping[str, Any], name: str) -> str | None:
    """A value of a record in words, unless it is absent or 0."""
    return plain(record[name]) if record.get(name) else None


VEGA_LITE = "6.4"

"""The version of Vega-Lite of the specifications."""

Spec = dict[str, Any]

Points = Sequence[tuple[float, float]]

OUTCOME_LEGEND = ("▶ better", "● no significant difference", "◀ worse", "◆ cannot tell")

_SVG_WIDTH = 620

_OBJECT_PROPERTIES = {
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
    *("toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__"),
    *("__lookupGetter__", "__lookupSetter__"),
}

"""Properties of every JavaScript object: the chart library takes a value of such a name for one."""

_DIGITS, _SHORT = 5, 28

_NUMBER = re.compile(r"[-+−<]? ?[\d.,]+ ?%?|–|")
"""A cell that is a number, as text, or that has none."""

_SCRIPT_END = re.compile(r"</(?=script)|<!--", re.IGNORECASE)


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification, with its content as a sentence and as a table.

    `name` is unique on a page. Colours of the specification are `var(--…)` of `colours.css`.
    """

    block: ClassVar[str] = "chart"

    name: str
    title: str
    spec: Spec
    sentence: str
    table: Table
    legend: Sequence[str] = ()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The chart as SVG, for notebooks, editors and nbconvert."""
        return {"image/svg+xml": svg_of(self.spec), "text/plain": f"{self.title}: {self.sentence}"}


PageBlock = Block | Chart


def drawing(kind: str, rows: Sequence[Row], **words: Any) -> Spec:
    """A chart over rows, as wide as the page allows: the macro `kind` of `charts.json.jinja`.

    `words` are its other variables.
    """
    return dict(_drawable(json.loads(getattr(_kinds(), kind)(rows, **words))))


def lines(points: Mapping[str, Points], x: str, y: str, **words: Any) -> Spec:
    """A line through the points of each series; several have a legend, colours and dashes."""
    rows = [(name, a, b) for name, line in points.items() for a, b in line]
    whole = all(float(a).is_integer() for _, a, _ in rows)
    return drawing("lines", rows, names=list(points), x=x, y=y, whole=whole, **words)


def dumbbells(
    rows: Sequence[tuple[str, float, float]],
    metric: str,
    *,
    higher_is_better: bool,
    domain: tuple[float, float],
) -> Spec:
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
    coloured = re.sub(r"var\((--[a-z]+)\)", lambda match: colours[match[1]], text)
    return str(vl_convert.vegalite_to_svg(json.loads(coloured), vl_version=VEGA_LITE))


def _drawable(part: Json) -> Any:
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


@dataclass(frozen=True)
class Section:
    """A part of the page: a macro of `sections.html.jinja`, whose variables are `words`.

    The second section of a kind has `number` 1.
    """

    kind: str
    charts: Sequence[Chart] = ()
    words: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    link: str = ""
    """What links say of a plugin's section."""
    macro: str = "blocks"

    @property
    def name(self) -> str:
        """Its anchor."""
        return f"{self.kind}-{self.number}" if self.number else self.kind


@dataclass(frozen=True)
class PageVerdict:
    """The first screen: a title, a sentence, and the macro `kind` of `verdicts.html.jinja`, if any.

    `mood` is an outcome of a comparison, or "neutral" on a page that compares no rankers and has no
    warnings; `heading` is that of a page of the verdict alone.
    """

    mood: str
    title: str
    sentence: str
    heading: str
    kind: str
    words: Mapping[str, Any]


def section_of(
    kind: str,
    title: str,
    lead: str,
    blocks: Iterable[PageBlock],
    *,
    number: int = 0,
    link: str = "",
    name: str = "",
) -> Section:
    """A section of blocks: what it asks, how to read it, and what it shows; `name` is a model's."""
    drawn = [_chart(block) if isinstance(block, ChartData) else block for block in blocks if block]
    charts = [block for block in drawn if isinstance(block, Chart)]
    words = {"title": title, "lead": lead, "blocks": drawn, "name": name}
    return Section(kind, charts, words, number, link)


def offered_section(section: ReportSection) -> Section:
    """A plugin's section."""
    name, link = section.name, section.link
    return section_of(name, section.title, section.lead, section.blocks, link=link)


def offered_verdict(verdict: ReportVerdict) -> PageVerdict:
    """A plugin's verdict."""
    texts = verdict.mood, verdict.title, verdict.sentence, verdict.heading
    return PageVerdict(*texts, kind="offered", words={"blocks": verdict.blocks})


def _chart(data: ChartData) -> Chart:
    draw = lines if data.kind == "lines" else partial(drawing, data.kind)
    return Chart(data.name, data.title, draw(data.rows, **data.words), data.sentence, data.table)


def result_blocks(blocks: Iterable[Block]) -> list[Block]:
    """The blocks that a result shows in terminals and notebooks, its numbers as they are there."""
    return [
        replace(block, rows=[[_cell(value) for value in row] for row in block.rows])
        if isinstance(block, Table)
        else block
        for block in blocks
        if block
    ]


def _cell(value: object) -> str:
    text = cell_text(value)
    return text.replace("-", "−") if _NUMBER.fullmatch(text) else text


def kind_verdict(kind: str, result: object, **words: Any) -> PageVerdict:
    """The verdict of a kind on a result, as `verdicts.txt.jinja` tells it by these variables."""
    texts, words = _environment().overlay(autoescape=False), {"found": result, **words}
    text: Any = texts.get_template("verdicts.txt.jinja").make_module({"kind": kind, **words})
    return PageVerdict(text.mood, text.title, text.sentence, text.heading, kind=kind, words=words)


@dataclass(frozen=True)
class Page:
    """A verdict and sections; of rankers, the footer tells how to get the other sections.

    `absent` tells it of those that plugins offer.
    """

    title: str
    verdict: PageVerdict | None
    sections: Sequence[Section]
    absent: Sequence[str] = ()

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts by name, in their order."""
        return {chart.name: chart for section in self.sections for chart in section.charts}

    def __str__(self) -> str:
        return "" if self.verdict is None else self.verdict.sentence

    def html(self) -> str:
        """The whole page."""
        from markupsafe import Markup

        drawn = ("higher", "at_once", "spec", "rows")
        lists = [section.words for section in self.sections if section.kind == "queries"]
        # What the page's script draws.
        payload = safe_json(
            {
                "charts": {name: chart.spec for name, chart in self.charts.items()},
                "queries": {"per-query": {key: lists[0][key] for key in drawn}} if lists else {},
            }
        )
        # The content of <script> and <style> ends at its end tag alone, and is not escaped.
        script, library = template("page.js"), chart_library()
        page = _environment().get_template("page.html.jinja")
        style = template("colours.css") + template("layout.css")
        return page.render(
            page=self,
            version=VERSION,
            allowed=" ".join(map(_digest, (library, script))),
            style=Markup(style),  # noqa: S704
            library=Markup(library),  # noqa: S704
            script=Markup(script),  # noqa: S704
            payload=payload,
        )


def safe_json(value: object) -> Any:
    """A value for the page's JSON: sanitized texts, rounded numbers, null for infinite ones."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {str(name): safe_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [safe_json(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _digest(script: str) -> str:
    """What the content policy allows a script to run by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as the content of <script>, from an installed package."""
    import vl_convert

    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    # Both occur only in JavaScript strings, in which the escape has the same value.
    return _SCRIPT_END.sub(lambda match: f"\\x3c{match[0][1:]}", text).replace("\r\n", "\n")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Foreign text has no control characters; HTML stays.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    functions = capital, interval, plain, short_name
    made.filters |= {function.__name__: function for function in functions}
    made.filters |= {"number": amount, "difference": signed, "classes": _classes}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _classes(rows: Sequence[Row], headers: Sequence[str]) -> list[str]:
    """The style of each column: `number`, `short` (its cells fit on one line) or `wide`."""
    classes = []
    for column in zip(*rows, strict=True):
        texts = [(cell,) if isinstance(cell, str) else cell for cell in column]
        lines = [len(line) for cell in texts if isinstance(cell, tuple) for line in cell]
        if any(lines) and all(isinstance(c, str) and _NUMBER.fullmatch(c) for c in column):
            lines = []
        classes.append("number" if not lines else "short" if max(lines) <= _SHORT else "wide")
    return classes or ["short"] * len(headers)
