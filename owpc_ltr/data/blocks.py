"""A result made of blocks, once: shown as text in a terminal, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from owpc_ltr.data import html
from owpc_ltr.text import cell_text, text_table, wrapped_text


class TableRows(NamedTuple):
    """A table."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Bars(TableRows):
    """A table of names and numbers, which are bars in a notebook."""


Block = str | TableRows
"""A line of text, indented as it begins; an empty one; or a table."""


def text_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """The blocks for a terminal: lines are wrapped, and as far to the right as they begin."""
    for block in blocks:
        if isinstance(block, TableRows):
            yield text_table(*block)
        else:
            text = block.lstrip()
            indent = block[: len(block) - len(text)]
            yield wrapped_text(text, indent, f"{indent}  ")


def html_of(blocks: Iterable[Block]) -> str:
    """The blocks for a notebook, under the first line."""
    title, *others = blocks
    parts = (
        html.bars([(str(name), value) for name, value in block.rows])
        if isinstance(block, Bars)
        else html.table(block.headers, [map(cell_text, row) for row in block.rows])
        if isinstance(block, TableRows)
        else html.line(block)
        for block in others
        if block
    )
    return html.block(str(title), *parts)
