"""Blocks: what a section of the page is made of, before it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Cell = str | float | int | None | tuple[str, ...]
"""What stands in a table: a text of several lines is a tuple."""
Tone = Literal["plain", "warning", "good"]
_SHORT = 28


@dataclass(frozen=True)
class Table:
    """Figures under headers; a `caption` says what they are. A None is shown as a dash."""

    kind: ClassVar[str] = "table"

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        strange = [row for row in self.rows if len(row) != len(self.headers)]
        if strange:
            raise ValueError(f"a row of '{self.caption}' has {len(strange[0])} cells")

    @property
    def classes(self) -> tuple[str, ...]:
        """Of each column `number`, `short` where its cells stay on one line, or `wide`."""
        return tuple(
            "number"
            if number
            else "short"
            if all(_length(row[column]) <= _SHORT for row in self.rows)
            else "wide"
            for column, number in enumerate(self.numeric)
        )

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers alone, and stand to the right."""
        return tuple(
            bool(self.rows) and all(not isinstance(row[column], str | tuple) for row in self.rows)
            for column in range(len(self.headers))
        )


def _length(cell: Cell) -> int:
    return max(map(len, cell), default=0) if isinstance(cell, tuple) else len(str(cell))


@dataclass(frozen=True)
class Chart:
    """A picture of a table: a Vega-Lite specification, and the same in a sentence.

    `name` is unique on a page. Colours of the specification are `var(--…)` of the page's style.
    """

    kind: ClassVar[str] = "chart"

    name: str
    title: str
    spec: dict[str, Any]
    sentence: str
    table: Table
    legend: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _drawable(self.spec))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The picture where it needs no network: a notebook, an editor, a page of nbconvert."""
        from owpc_ltr_report.pictures import svg_of

        return {"image/svg+xml": svg_of(self.spec), "text/plain": f"{self.title}: {self.sentence}"}


@dataclass(frozen=True)
class Gallery:
    """Small charts side by side, under a title."""

    kind: ClassVar[str] = "gallery"

    title: str
    note: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    kind: ClassVar[str] = "facts"

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section."""

    kind: ClassVar[str] = "heading"

    text: str


@dataclass(frozen=True)
class Tile:
    """One figure that is seen from afar."""

    label: str
    figure: str
    note: str = ""


@dataclass(frozen=True)
class Tiles:
    """Figures that are seen from afar, side by side."""

    kind: ClassVar[str] = "tiles"

    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class QueryRow:
    """A query's value of a metric, before and after."""

    query_id: str
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class QueryList:
    """Queries before → after, to be searched and leafed through; the largest losses first.

    `total` counts those that there are: the page may hold fewer.
    """

    kind: ClassVar[str] = "queries"

    name: str
    metric: str
    before: str
    after: str
    higher_is_better: bool
    rows: tuple[QueryRow, ...]
    total: int
    spec: dict[str, Any] = field(repr=False)


Block = Table | Chart | Gallery | Text | Facts | Heading | Tiles | QueryList


@dataclass(frozen=True)
class Section:
    """A part of the page; `name` is the anchor that links lead to, `short` what they say."""

    name: str
    short: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


_OF_OBJECTS = {
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
    *("toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__"),
    *("__lookupGetter__", "__lookupSetter__"),
}
"""What every object of JavaScript has: the chart library takes such a name for one it knows."""


def _drawable(part: Any) -> Any:
    """A specification in which a word joiner, which is not seen, tells such names from those."""
    if isinstance(part, dict):
        return {key: _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(value) for value in part]
    return f"{part}\u2060" if isinstance(part, str) and part in _OF_OBJECTS else part


def charts_of(sections: Sequence[Section]) -> list[Chart]:
    """All charts of sections, in the order of the page."""
    found: list[Chart] = []
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Chart):
                found.append(block)
            elif isinstance(block, Gallery):
                found += block.charts
    return found
