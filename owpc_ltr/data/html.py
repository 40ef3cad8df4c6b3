"""Small pieces of HTML for notebooks: escaped, without scripts, at home on light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from owpc_ltr.text import printable

_STYLE = "border-collapse:collapse;font-size:.9em;color:inherit;background:none"
_CELL = "padding:.1em .7em .1em 0;text-align:left;border:0"
_BAR = 120
"""Width of the longest bar in pixels."""


def block(title: str, *parts: str) -> str:
    """A titled block of parts, which are HTML already."""
    return f"<div><b>{_escaped(title)}</b>{''.join(parts)}</div>"


def line(text: str) -> str:
    """A line of text, in less than full colour."""
    return f'<div style="opacity:.75">{_escaped(text)}</div>'


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values, one pair a line."""
    return _table(
        f'<tr><td style="{_CELL};opacity:.75">{_escaped(name)}</td>'
        f'<td style="{_CELL}">{_escaped(str(value))}</td></tr>'
        for name, value in rows
    )


def table(headers: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Columns under headers; what is a number as text stands as it is."""
    head = "".join(
        f'<th style="{_CELL};font-weight:bold">{_escaped(name)}</th>' for name in headers
    )
    body = (
        "".join(f'<td style="{_CELL}">{_escaped(str(cell))}</td>' for cell in row) for row in rows
    )
    return _table([f"<tr>{head}</tr>", *(f"<tr>{cells}</tr>" for cells in body)])


def bars(rows: Sequence[tuple[str, float]], shown: str = "{:.4g}") -> str:
    """Names and numbers, each with a bar to the left (negative) or the right of one axis."""
    largest = max((abs(value) for _, value in rows), default=0.0) or 1.0
    left = _BAR if any(value < 0 for _, value in rows) else 0
    return _table(
        f'<tr><td style="{_CELL}">{_escaped(name)}</td>'
        f'<td style="{_CELL};text-align:right">{_escaped(shown.format(value))}</td>'
        f'<td style="{_CELL}">{_bar(value / largest, left)}</td></tr>'
        for name, value in rows
    )


def _bar(share: float, left: int) -> str:
    width = abs(share) * _BAR
    start = left - width if share < 0 else left
    colour = "#c8553d" if share < 0 else "#3d7ec8"
    return (
        f'<svg width="{left + _BAR}" height="10"><rect x="{start:.1f}" y="1" width="{width:.1f}" '
        f'height="8" fill="{colour}"/></svg>'
    )


def _table(rows: Iterable[str]) -> str:
    return f'<table style="{_STYLE}">{"".join(rows)}</table>'


def _escaped(text: str) -> str:
    return html.escape(printable(text))
