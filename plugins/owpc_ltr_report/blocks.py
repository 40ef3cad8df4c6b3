"""Blocks: what the page consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from owpc_ltr_report.charts import Row, Spec, svg_of

NEUTRAL = "neutral"
"""The mood of a page that compares no rankers and has no warnings."""


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

    `mood` is an outcome of a comparison, or `NEUTRAL`; `heading` that of a page of it alone.
    """

    mood: str
    title: str
    sentence: str
    heading: str
    kind: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)
