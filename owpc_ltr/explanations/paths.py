"""Paths: the splits by which a document came to its leaf, in the trees that say most of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Split:
    """A question of a tree, and the document's answer: `below` the threshold or not.

    `value` is the feature's, NaN where it is missing; `below` is then the way that the tree sends
    documents without it.
    """

    feature: str
    value: float
    threshold: float
    below: bool

    def __str__(self) -> str:
        missing = " (missing)" if self.value != self.value else ""
        return f"{self.feature} {'<' if self.below else '>='} {self.threshold:.4g}{missing}"


@dataclass(frozen=True)
class TreePath:
    """How a document went down one tree: which (its number), its splits, and what it gave.

    `output` is what the tree adds to the score (before a link), `mean_output` what it adds in the
    mean over the list.
    """

    tree: str
    splits: tuple[Split, ...]
    output: float
    mean_output: float

    def as_dict(self) -> dict[str, Any]:
        """The path as JSON."""
        return asdict(self)
