"""Blocks: what a section of the page consists of, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from owpc_ltr_report.charts import QueryRow, svg_of

Cell = str | float | int | None | tuple[str, ...]
"""The content of a table cell: a text of several lines is a tuple, None a dash."""
NEUTRAL = "neutral"
"""The mood of a page that compares no rankers and has no warnings."""
_SHORT = 28
_LONGEST_QUERY = 90
_OBJECT_PROPERTIES = {
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
    *("toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__"),
    *("__lookupGetter__", "__lookupSetter__"),
}
"""Properties of every JavaScript object: the chart library takes a value of such a name for one."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers, with a caption."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", tuple(self.headers))
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows)))
        wrong = [row for row in self.rows if len(row) != len(self.headers)]
        if wrong:
            raise ValueError(f"a row of '{self.caption}' has {len(wrong[0])} cells")

    @property
    def classes(self) -> tuple[str, ...]:
        """The style of each column: `number`, `short` (its cells fit on one line) or `wide`."""
        return tuple(map(_style, zip(*self.rows, strict=True))) or ("short",) * len(self.headers)


def _style(column: tuple[Cell, ...]) -> str:
    if not any(isinstance(cell, str | tuple) for cell in column):
        return "number"
    lengths = (
        max(map(len, cell), default=0) if isinstance(cell, tuple) else len(str(cell))
        for cell in column
    )
    return "short" if max(lengths) <= _SHORT else "wide"


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification, with its content as a sentence and as a table.

    `name` is unique on a page. Colours of the specification are `var(--…)` of `colours.css`.
    """

    name: str
    title: str
    spec: dict[str, Any]
    sentence: str
    table: Table
    legend: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _drawable(self.spec))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The chart as SVG, for notebooks, editors and nbconvert."""
        return {"image/svg+xml": svg_of(self.spec), "text/plain": f"{self.title}: {self.sentence}"}


def _drawable(part: Any) -> Any:
    """A specification in which an invisible word joiner ends the names of object properties."""
    if isinstance(part, dict):
        return {key: _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(value) for value in part]
    return f"{part}\u2060" if isinstance(part, str) and part in _OBJECT_PROPERTIES else part


@dataclass(frozen=True)
class Gallery:
    """Small charts side by side, under a title."""

    title: str
    note: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading below that of the section."""

    text: str
    tone: Literal["plain", "warning", "good", "heading"] = "plain"


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Tile:
    """One figure in large type, with its label and a note."""

    label: str
    figure: str
    note: str = ""


@dataclass(frozen=True)
class Tiles:
    """Figures in large type, side by side."""

    tiles: Sequence[Tile]


@dataclass(frozen=True)
class QueryList:
    """Queries before → after, with a search field and pages; the largest losses first.

    `total` counts all queries; the page may hold fewer.
    """

    name: str
    metric: str
    before: str
    after: str
    higher_is_better: bool
    rows: tuple[QueryRow, ...]
    total: int
    spec: dict[str, Any] = field(repr=False)


Block = Table | Chart | Gallery | Text | Facts | Tiles | QueryList


@dataclass(frozen=True)
class Section:
    """A part of the page; `name` is its anchor, `short` the text of links to it."""

    name: str
    short: str
    title: str
    lead: str
    blocks: Sequence[Block]

    @property
    def charts(self) -> Iterator[Chart]:
        """The charts of the section, in their order."""
        for block in self.blocks:
            if isinstance(block, Chart):
                yield block
            elif isinstance(block, Gallery):
                yield from block.charts


@dataclass(frozen=True)
class PageVerdict:
    """The first screen: a sentence, its details, and a few figures.

    `mood` is an outcome of a comparison, or `NEUTRAL`.
    """

    mood: str
    sentence: str
    details: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    heading: str = ""

    @property
    def title(self) -> str:
        """The heading above the sentence."""
        return self.heading or capital(self.mood)


def amount(value: float, digits: int = 4) -> str:
    """A figure with a fixed number of decimals.

    >>> amount(0.89717), amount(float("nan"))
    ('0.8972', '–')
    """
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float, digits: int = 4) -> str:
    """A difference with its sign, in which a minus is U+2212.

    >>> signed(0.0183), signed(-0.002), signed(-0.00001)
    ('+0.0183', '−0.0020', '−0.0000')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float, high: float, *, plus: bool = True) -> str:
    """Both ends of an interval.

    >>> interval(-0.01, 0.02), interval(0.5, 0.6, plus=False)
    ('−0.0100 to +0.0200', '0.5000 to 0.6000')
    """
    return f"{signed(low)} to {signed(high)}" if plus else f"{amount(low)} to {amount(high)}"


def p_words(p: float) -> str:
    """A p-value as papers write it.

    >>> p_words(0.0001), p_words(0.0312), p_words(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def p_cell(p: float) -> str:
    """The same without `p =`, for a column of p-values."""
    return p_words(p).removeprefix("p ").removeprefix("= ")


def plain(value: object) -> str:
    """A value of any type in few characters.

    >>> plain(0.1 + 0.2), plain(1234567), plain(None), plain(True)
    ('0.3', '1,234,567', '–', 'yes')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−")
    return str(value)


def capital(text: str) -> str:
    """The text with a capital first letter, unless that is a Greek one."""
    return text if text.startswith("λ") else f"{text[:1].upper()}{text[1:]}"


def shortened(text: str) -> str:
    """A query's text, cut where it is very long."""
    return text if len(text) <= _LONGEST_QUERY else f"{text[: _LONGEST_QUERY - 1]}…"
