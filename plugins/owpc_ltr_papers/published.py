"""Published figures, from one file of facts: each value knows its paper, its table and its page."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Source:
    """A paper, or another publication, whose figures stand in the file."""

    key: str
    title: str
    authors: str
    published: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.authors}: {self.title} ({self.published})"


@dataclass(frozen=True)
class Figure:
    """One published value: which method's, on which data set, by which metric, and where it is."""

    source: str
    where: str
    data_set: str
    method: str
    metric: str
    value: float

    @property
    def cited(self) -> str:
        """The source and the place in it, in few words."""
        return f"{self.source}, {self.where}"


@cache
def sources() -> dict[str, Source]:
    """Every source of the file, by its key."""
    return {
        key: Source(key, part["title"], part["authors"], part["published"], part.get("note", ""))
        for key, part in _content().items()
    }


@cache
def figures(source: str) -> tuple[Figure, ...]:
    """Every value of a source, in the order of its tables."""
    tables = _content()[source]["tables"]
    return tuple(figure for table in tables for figure in _figures_of(source, table))


def published(source: str, data_set: str, method: str, metric: str) -> Figure | None:
    """One value, None where the source does not report it."""
    asked = (data_set, method, metric)
    for figure in figures(source):
        if (figure.data_set, figure.method, figure.metric) == asked:
            return figure
    return None


def _figures_of(source: str, table: dict[str, Any]) -> Iterator[Figure]:
    for method, values in table["rows"].items():
        for column, value in zip(table["columns"], values, strict=True):
            data_set, metric = table.get("data-set", column), table.get("metric", column)
            if not math.isnan(value):
                yield Figure(
                    source, table["where"], data_set, method, metric=metric, value=float(value)
                )


@cache
def _content() -> dict[str, Any]:
    text = (resources.files("owpc_ltr_papers") / "published.toml").read_text("utf-8")
    return tomllib.loads(text)
