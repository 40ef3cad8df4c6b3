"""A result made of blocks, once: as text in a terminal, HTML in a notebook, Markdown, and LaTeX.

On a report's page the same blocks are drawn by its template `table_and_chart.html.jinja`. HTML is
escaped, without scripts, and at home on light and dark pages.

Tables and paragraphs, as wide as the terminal.
"""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from owpc_ltr.text import ShortRepr, printable, spelled

_NARROWEST = 12
"""Characters that a column of text keeps where the others need room."""


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose columns fit their content; numbers are aligned to the right.

    One that is wider than the terminal, or 80 columns, wraps the text of its widest columns.
    """
    cells = [[cell_text(value) for value in row] for row in (headers, *rows)]
    right = [
        bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        for index in range(len(headers))
    ]
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)], right)
    lines = []
    for row in cells:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            padded = (
                part.rjust(width) if number else part.ljust(width)
                for part, width, number in zip(line, widths, right, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def wrapped_text(text: str, first: str = "", others: str = "  ") -> str:
    """Text on as many lines as it takes, none wider than the terminal, or 80 columns.

    `first` stands before the first line, `others` before the rest.
    """
    return "\n".join(
        textwrap.wrap(
            printable(spelled(text)),
            columns(),
            initial_indent=first,
            subsequent_indent=others,
            break_on_hyphens=False,
        )
    )


def columns() -> int:
    """How wide text may be: the terminal, at least 80; in a pipe COLUMNS, or 80."""
    return max(80, shutil.get_terminal_size((80, 24)).columns)


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)


def _fitting(widths: list[int], fixed: Sequence[bool]) -> list[int]:
    """Widths of columns that fit a line: the widest column of text is narrowed first."""
    widths = list(widths)
    room = columns() - 2 * (len(widths) - 1)
    while sum(widths) > room:
        texts = [i for i, number in enumerate(fixed) if not number and widths[i] > _NARROWEST]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def cell_text(value: object) -> str:
    """A cell of a table: numbers with four decimals, a dash for NaN."""
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4f}"
    return printable(str(value))


Row = Sequence[Any]
WARNING = "warning: "
"""How a line begins that is a warning."""


@dataclass(frozen=True, repr=False)
class Table(ShortRepr):
    """Rows of cells under headers; its caption stands on pages, where a reader may begin at it.

    On a page a cell may also be a tuple of lines, or None for a dash.
    """

    block: ClassVar[str] = "table"

    headers: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""

    @property
    def names(self) -> list[str]:
        """The headers where columns are not told from text by capitals; a ranker's letter stays."""
        return [
            name.lower() if name.isupper() and (len(name) > 1 or name == "P") else name
            for name in self.headers
        ]


@dataclass(frozen=True, repr=False)
class Bars(Table):
    """A table of names and numbers, which are bars in a notebook, the numbers in this `form`."""

    form: str = "{:.4g}"


@dataclass(frozen=True, repr=False)
class ChartData(ShortRepr):
    """A chart: a `kind` of the report's charts over `rows`, its content as a sentence and a table.

    `name` is unique on a page. `words` are the other variables of the kind: `bars` and `columns` of
    (label, number), `lines` of a mapping from names to points, `share_by_rank` of (rank, value,
    low, high).
    """

    block: ClassVar[str] = "chart"

    name: str
    title: str
    sentence: str
    table: Table
    kind: Literal["bars", "columns", "lines", "share_by_rank"]
    rows: Any
    words: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class FactList(ShortRepr):
    """Names with values; one that is None is left out."""

    block: ClassVar[str] = "facts"

    rows: Sequence[tuple[str, str | None]]

    @property
    def known(self) -> list[tuple[str, str]]:
        """The facts that have a value."""
        return [(name, value) for name, value in self.rows if value is not None]


@dataclass(frozen=True, repr=False)
class Tiles(ShortRepr):
    """Figures in large type on a page: a label, the figure, a note."""

    block: ClassVar[str] = "tiles"

    rows: Sequence[tuple[str, str, str]]


Block = str | Table | ChartData | FactList | Tiles
"""A line of text, indented as it begins, a warning by how it begins, or empty; or one of these."""


class BlockResult(ShortRepr):
    """A result whose text, repr, HTML and Markdown are its blocks."""

    def _blocks(self) -> Iterable[Block]:
        """What is shown of the result, in this order."""
        raise NotImplementedError

    @property
    def blocks(self) -> list[Block]:
        """What is shown of the result: lines, tables, facts and charts."""
        return [*self._blocks()]

    def __str__(self) -> str:
        return "\n".join(text_lines(self._blocks()))

    def _repr_html_(self) -> str:
        return html_of(self._blocks())

    def to_markdown(self) -> str:
        """What it prints, with tables in Markdown: for a pull request, or a wiki."""
        return markdown_of(self._blocks())


def _plainly(blocks: Iterable[Block]) -> Iterator[str | Table | FactList]:
    """The blocks as lines, tables and facts: of a chart its sentence and its table."""
    for block in blocks:
        if isinstance(block, ChartData):
            yield from (block.sentence, block.table)
        elif isinstance(block, Tiles):
            rows = [(label, f"{figure} {note}".rstrip()) for label, figure, note in block.rows]
            yield FactList(rows)
        else:
            yield block


def text_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """The blocks for a terminal: lines are wrapped, and as far to the right as they begin."""
    for block in _plainly(blocks):
        if isinstance(block, Table):
            yield text_table(block.headers, block.rows)
        elif isinstance(block, FactList):
            width = max((len(name) for name, _ in block.known), default=0)
            yield from (f"  {name:<{width}}  {printable(value)}" for name, value in block.known)
        else:
            text = block.lstrip()
            indent = block[: len(block) - len(text)]
            yield wrapped_text(text, indent, f"{indent}  ")


def markdown_of(blocks: Iterable[Block]) -> str:
    """The blocks as Markdown: lines are paragraphs, and facts a list."""
    parts = []
    for block in _plainly(blocks):
        if isinstance(block, Table):
            rows = [block.names, ["---"] * len(block.headers), *block.rows]
            cells = ([_markdown(cell_text(cell)) for cell in row] for row in rows)
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
        elif isinstance(block, FactList):
            facts = (f"- {_markdown(name)}: {_markdown(value)}" for name, value in block.known)
            parts.append("\n".join(facts))
        elif block:
            parts.append(_markdown(printable(block.strip())))
    return "\n\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", printable(text))


_STYLE = "border-collapse:collapse;font-size:.9em;color:inherit;background:none"
_CELL = "padding:.1em .7em .1em 0;text-align:left;border:0"
_FAINT = "opacity:.75"
_BAR = 120
"""Width of the longest bar in pixels."""


def html_of(blocks: Iterable[Block]) -> str:
    """The blocks for a notebook, under the first line, if they begin with one."""
    first, *others = [block for block in _plainly(blocks) if block]
    title = f"<b>{_safe(first)}</b>" if isinstance(first, str) else _html_part(first)
    return f"<div>{title}{''.join(map(_html_part, others))}</div>"


def _html_part(block: str | Table | FactList) -> str:
    if isinstance(block, str):
        style = "" if block.startswith(WARNING) else f' style="{_FAINT}"'
        return f"<div{style}>{_safe(block)}</div>"
    if isinstance(block, FactList):
        return _html_table([_html_cell(name, _FAINT) + _html_cell(v) for name, v in block.known])
    if isinstance(block, Bars):
        return _html_table(_bar_rows(block))
    head = "".join(
        f'<th style="{_CELL};font-weight:bold">{_safe(name)}</th>' for name in block.names
    )
    rows = ("".join(_html_cell(cell_text(cell)) for cell in row) for row in block.rows)
    return _html_table([head, *rows])


def _bar_rows(bars: Bars) -> Iterator[str]:
    """Each with a bar to the left (negative) or the right of one axis."""
    largest = max((abs(value) for _, value in bars.rows), default=0.0) or 1.0
    left = _BAR if any(value < 0 for _, value in bars.rows) else 0
    for name, value in bars.rows:
        width = abs(value) / largest * _BAR
        start, colour = (left - width, "#c8553d") if value < 0 else (left, "#3d7ec8")
        bar = (
            f'<svg width="{left + _BAR}" height="10"><rect x="{start:.1f}" y="1" '
            f'width="{width:.1f}" height="8" fill="{colour}"/></svg>'
        )
        number = _html_cell(bars.form.format(value), "text-align:right")
        yield f'{_html_cell(str(name))}{number}<td style="{_CELL}">{bar}</td>'


def _html_cell(text: str, style: str = "") -> str:
    return f'<td style="{_CELL}{style and f";{style}"}">{_safe(text)}</td>'


def _safe(text: str) -> str:
    return escape(printable(text))


def _html_table(rows: Iterable[str]) -> str:
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f'<table style="{_STYLE}">{body}</table>'


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


class Latex(str):
    """A cell that is LaTeX already."""

    __slots__ = ()


def latex_of(table: Table, notes: Sequence[str] = ()) -> str:
    """A table of the booktabs package: names before numbers; notes are comments."""
    head, *rows = [" & ".join(map(_latex_cell, row)) for row in (table.headers, *table.rows)]
    lines = [f"% {' '.join(note.split())}" for note in notes]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}", r"\toprule"]
    lines += [rf"{head} \\", r"\midrule", *(rf"{row} \\" for row in rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(cell: object) -> str:
    return cell if isinstance(cell, Latex) else escaped(cell_text(cell))


def escaped(text: str) -> str:
    r"""A text as LaTeX prints it, on one line.

    >>> escaped("ndcg@10_50%")
    'ndcg@10\\_50\\%'
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
