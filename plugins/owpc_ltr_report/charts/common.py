"""What all charts share: a layer, an axis, the page's colours by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AFTER, BEFORE, LOSS = "var(--after)", "var(--before)", "var(--loss)"
"""Colours: what is new, what it is compared with, and what got worse."""
INK, QUIET, LINE = "var(--ink)", "var(--quiet)", "var(--line)"
SERIES = ("var(--after)", "var(--loss)", "var(--third)", "var(--fourth)", "var(--quiet)")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4])
_ROW = 26

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


def layered(rows: Rows, layers: Sequence[Spec], *, height: int, **parts: Any) -> Spec:
    """Layers over the same rows, as wide as the page allows."""
    return {
        "data": {"values": [dict(row) for row in rows]},
        "width": "container",
        "height": height,
        "layer": list(layers),
        **parts,
    }


def rows_high(count: int) -> int:
    """The height of a chart with so many rows."""
    return _ROW * max(count, 1)


def names(field: str, order: Sequence[str] | None = None, title: str | None = None) -> Spec:
    """Rows by name, in this order or that of the data."""
    return {
        "field": field,
        "type": "nominal",
        "sort": None if order is None else list(order),
        "title": title,
        "axis": {"grid": False, "ticks": False, "domain": False, "labelPadding": 8},
    }


def numbers(field: str, title: str, *, zero: bool = True, **more: Any) -> Spec:
    """A number along an axis."""
    given = more.pop("scale", {})
    # Neither means anything on a logarithmic scale.
    usual = {} if given.get("type") == "log" else {"zero": zero, "nice": True}
    axis = {"tickCount": 6, "labelOverlap": True, **more.pop("axis", {})}
    scale = {**usual, **given}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": axis,
        **more,
    }


def tips(*fields: tuple[str, str], digits: str = ".4f") -> list[Spec]:
    """What is told of the mark under the pointer: (field, name); numbers with these digits."""
    return [
        {"field": field, "title": title, "type": "nominal"}
        if title.startswith("*")
        else {"field": field, "title": title, "format": digits}
        for field, title in fields
    ]


def series(field: str, values: Sequence[str], *, shape: bool = False) -> dict[str, Spec]:
    """Colour, and dashes or shapes too, so that no series is told by its colour alone."""
    marks = SHAPES if shape else DASHES
    scales = {
        "color": [SERIES[place % len(SERIES)] for place in range(len(values))],
        "shape" if shape else "strokeDash": [marks[n % len(marks)] for n in range(len(values))],
    }
    legend = None if len(values) < 2 else {"orient": "top", "title": None}
    return {
        channel: {
            "field": field,
            "type": "nominal",
            "scale": {"domain": list(values), "range": range_},
            "legend": legend,
        }
        for channel, range_ in scales.items()
    }
