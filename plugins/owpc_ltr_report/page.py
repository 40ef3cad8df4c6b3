"""The page: sections in one HTML file that needs no network, whatever their texts contain."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from owpc_ltr.plain_text import printable
from owpc_ltr.version import VERSION
from owpc_ltr_report import figures
from owpc_ltr_report.charts import VEGA_LITE, Chart, Row, template

if TYPE_CHECKING:
    from jinja2 import Environment

_DIGITS, _SHORT = 5, 28
_SCRIPT_END = re.compile(r"</(?=script)|<!--", re.IGNORECASE)


@dataclass(frozen=True)
class Section:
    """A part of the page: the macro `kind` of `sections.html.jinja`, whose variables are `words`.

    The second section of a kind has `number` 1.
    """

    kind: str
    charts: Sequence[Chart] = ()
    words: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

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


def told_verdict(kind: str, found: Any, **words: Any) -> PageVerdict:
    """The verdict of a kind on a result, as `verdicts.txt.jinja` tells it by these variables."""
    texts, words = _environment().overlay(autoescape=False), {"found": found, **words}
    told: Any = texts.get_template("verdicts.txt.jinja").make_module({"kind": kind, **words})
    return PageVerdict(told.mood, told.title, told.sentence, told.heading, kind=kind, words=words)


@dataclass(frozen=True)
class Page:
    """A verdict and sections; the footer tells how to get the other ones."""

    title: str
    verdict: PageVerdict | None
    sections: Sequence[Section]

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts by name, in their order."""
        return {one.name: one for section in self.sections for one in section.charts}

    def __str__(self) -> str:
        return "" if self.verdict is None else self.verdict.sentence

    def html(self) -> str:
        """The whole page."""
        from markupsafe import Markup

        drawn = ("higher", "at_once", "spec", "rows")
        lists = [one.words for one in self.sections if one.kind == "queries"]
        # What the page's script draws.
        payload = safe_json({
            "charts": {name: chart.spec for name, chart in self.charts.items()},
            "queries": {"per-query": {key: lists[0][key] for key in drawn}} if lists else {},
        })  # fmt: skip
        # The content of <script> and <style> ends at its end tag alone, and is not escaped.
        script, library = template("page.js"), chart_library()
        style = template("colours.css") + template("layout.css")
        return _environment().get_template("page.html.jinja").render(
            page=self, version=VERSION,
            allowed=" ".join(map(_digest, (library, script))), style=Markup(style),  # noqa: S704
            library=Markup(library), script=Markup(script), payload=payload,  # noqa: S704
        )  # fmt: skip


def safe_json(value: Any) -> Any:
    """A value for the page's JSON: sanitized texts, rounded numbers, null for infinite ones."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {str(name): safe_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [safe_json(each) for each in value]
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
    return _SCRIPT_END.sub(lambda found: f"\\x3c{found[0][1:]}", text).replace("\r\n", "\n")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(template), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        # Foreign text has no control characters; HTML stays.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    names = "capital", "interval", "known", "part_of", "plain", "short_name"
    made.filters |= {name: getattr(figures, name) for name in names}
    made.filters |= {"number": figures.amount, "difference": figures.signed, "classes": _classes}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _classes(rows: Sequence[Row], headers: Sequence[str]) -> list[str]:
    """The style of each column: `number`, `short` (its cells fit on one line) or `wide`."""
    classes = []
    for column in zip(*rows, strict=True):
        cells = [(cell,) if isinstance(cell, str) else cell for cell in column]
        lines = [len(line) for cell in cells if isinstance(cell, tuple) for line in cell]
        classes.append("number" if not lines else "short" if max(lines) <= _SHORT else "wide")
    return classes or ["short"] * len(headers)
