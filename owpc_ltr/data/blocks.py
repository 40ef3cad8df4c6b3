"""A result made of blocks, once: shown as text in a terminal, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from owpc_ltr.data import html
from owpc_ltr.text import ShortRepr, cell_text, text_table, wrapped_text


class TableRows(NamedTuple):
    """A table."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Bars(TableRows):
    """A table of names and numbers, which are bars in a notebook."""


Block = str | TableRows
"""A line of text, indented as it begins; an empty one; or a table."""


class BlockResult(ShortRepr):
    """A result whose text, repr and HTML are its blocks."""

    def _blocks(self) -> Iterable[Block]:
        """What is shown of the result, in this order."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(text_lines(self._blocks()))

    def _repr_html_(self) -> str:
        return html_of(self._blocks())


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
    """The blocks for a notebook, under the first line, if they begin with one."""
    title, *others = blocks
    if isinstance(title, TableRows):
        title, others = "", [title, *others]
    parts = (
        html.bars([(str(name), value) for name, value in block.rows])
        if isinstance(block, Bars)
        else html.table(block.headers, [map(cell_text, row) for row in block.rows])
        if isinstance(block, TableRows)
        else html.line(block)
        for block in others
        if block
    )
    return html.block(title, *parts)
