"""A convention: everything in which libraries differ when they say NDCG or MAP, in words."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.conventions import Empty, Gain, Short, empty_words, gain_words

TieOrder = Literal[
    "expected", "pessimistic", "optimistic", "file-order", "last-id-first", "unstable", "together"
]
"""What tied scores count.

Those of a metric, or: the order of their ids, the last one first; that of a sort that is not
stable; all at once, at the rank of the last.
"""


@dataclass(frozen=True)
class Convention:
    """How a metric is reckoned. What only NDCG has is without meaning for MAP, and the reverse.

    `depth`: how many ranks count where no cutoff is given, None for all. `per_cutoff`: MAP at k is
    over the relevant documents that k ranks can hold. `single`: scores are in single precision.
    `lone`: whether lists of one document count. `absent`: whether queries that a run lacks count.
    `weighted`: whether queries count by importance.
    """

    gain: Gain = "exponential"
    discount: Literal["log2", "letor"] = "log2"
    relevant_above: float = 0.0
    depth: int | None = None
    per_cutoff: bool = False
    single: bool = False
    ties: TieOrder = "expected"
    empty: Empty = "zero"
    short: Short = "normal"
    lone: bool = True
    absent: bool = True
    weighted: bool = False

    def words(self, name: str, metric: Metric) -> str:
        """What the field of this name says."""
        value = getattr(self, name)
        k = metric.cutoff or self.depth
        texts: dict[str, Any] = {
            "gain": lambda: f"gain = {gain_words(self.gain)}",
            "discount": lambda: (
                "discount = 1/log2(1 + rank)"
                if value == "log2"
                else "discount = 1 at ranks 1 and 2, then 1/log2(rank)"
            ),
            "relevant_above": lambda: f"relevant is a label above {value:g}",
            "depth": lambda: f"without a cutoff the first {value} ranks",
            "per_cutoff": lambda: (
                f"over the relevant documents, {k} at most" if value else "over all relevant ones"
            ),
            "single": lambda: f"scores in {'single' if value else 'double'} precision",
            "ties": lambda: f"tied scores {_TIES[self.ties]}",
            "empty": lambda: empty_words(self.empty, metric.defined_on),
            "short": lambda: (
                f"lists of fewer than {k} documents "
                f"{'count 0' if value == 'zero' else 'are as any others'}"
            ),
            "lone": lambda: f"lists of one document {'count' if value else 'are left out'}",
            "absent": lambda: (
                f"queries that the run lacks {'count 0' if value else 'are left out (-c: count 0)'}"
            ),
            "weighted": lambda: (
                "queries count by their importance" if value else "queries count alike"
            ),
        }
        return str(texts[name]())


FIELDS = tuple(one.name for one in fields(Convention))
"""In the order in which differences are told, each on top of those before."""

_TIES = {
    "expected": "count their expected value",
    "pessimistic": "count in the worst order",
    "optimistic": "count in the best order",
    "file-order": "count in file order",
    "last-id-first": "count by their ids, the last one first",
    "unstable": "count in the order that an unstable sort leaves",
    "together": "count at the rank of the last of them",
}


def convention_of(metric: Metric, *, weighted: bool) -> Convention:
    """What a metric of ours says."""
    known = {one.name for one in fields(metric)}
    said = {name: getattr(metric, name) for name in FIELDS if name in known}
    return Convention(**said, weighted=weighted)
