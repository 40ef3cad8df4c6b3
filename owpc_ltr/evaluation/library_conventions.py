"""Conventions of NDCG and MAP: in what libraries differ, in words, and what each one means.

Each was held against the library's own output (XGBoost 3.2, LightGBM 4.7, pytrec_eval 0.5,
scikit-learn 1.9, ranx 0.3, RankLib by RankyMcRankFace 0.1), LETOR's scripts against the figures
that were published with LETOR 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.ranking import Empty, Gain, Short, empty_words, gain_words

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


@dataclass(frozen=True)
class Library:
    """A library's way to reckon a metric: what differs from `Convention`'s defaults, by field.

    `call` is what a user writes there, with `{k}` where the cutoff goes and `{at}` for @ and it,
    and `for_others` what is added for a run that has not the judged queries alone.
    `needs_cutoff`: there is none without. `takes_runs`: it takes lists that lack judged documents;
    the others want a score of each.
    """

    name: str
    metric: str
    call: str
    differs: Mapping[str, Any]
    needs_cutoff: bool = False
    needs_none: bool = False
    takes_runs: bool = False
    for_others: str = ""


def _library(name: str, metric: str, call: str, **differs: Any) -> Library:
    asked = ("needs_cutoff", "needs_none", "takes_runs", "for_others")
    needs = {key: differs.pop(key) for key in asked if key in differs}
    return Library(name, metric, call, MappingProxyType(differs), **needs)


_IN_FILE_ORDER: dict[str, Any] = {"ties": "file-order"}
_TREC: dict[str, Any] = {
    "single": True, "ties": "last-id-first", "absent": False, "takes_runs": True,
}  # fmt: skip
_RANX: dict[str, Any] = {
    "ties": "unstable", "takes_runs": True, "for_others": ", make_comparable=True",
}  # fmt: skip
_BOOSTED: dict[str, Any] = {**_IN_FILE_ORDER, "empty": "one"}
# XGBoost looks at as many ranks as it makes pairs of (lambdarank_num_pair_per_sample).
_XGBOOST: dict[str, Any] = {**_BOOSTED, "single": True, "depth": 32}

LIBRARIES = (
    _library("XGBoost", "ndcg", 'eval_metric="ndcg{at}"', **_XGBOOST),
    _library("LightGBM", "ndcg", 'metric="ndcg", eval_at={k}', needs_cutoff=True, **_BOOSTED),
    _library("trec_eval", "ndcg", "ndcg_cut.{k}", gain="linear", needs_cutoff=True, **_TREC),
    _library("trec_eval", "ndcg", "ndcg", gain="linear", needs_none=True, **_TREC),
    _library("scikit-learn", "ndcg", "ndcg_score(…, k={k})", gain="linear", lone=False),
    _library("ranx", "ndcg", '"ndcg{at}"', gain="linear", **_RANX),
    _library("ranx", "ndcg", '"ndcg_burges{at}"', **_RANX),
    _library("RankLib", "ndcg", "-metric2T NDCG@{k}", needs_cutoff=True, **_IN_FILE_ORDER),
    _library("LETOR's scripts", "ndcg", "NDCG@{k}", discount="letor", **_IN_FILE_ORDER),
    _library("XGBoost", "map", 'eval_metric="map{at}"', per_cutoff=True, **_XGBOOST),
    _library(
        "LightGBM", "map", 'metric="map", eval_at={k}', needs_cutoff=True, per_cutoff=True,
        **_BOOSTED,
    ),
    _library("trec_eval", "map", "map", needs_none=True, **_TREC),
    _library("trec_eval", "map", "map_cut.{k}", needs_cutoff=True, **_TREC),
    _library(
        "scikit-learn", "map", "average_precision_score", ties="together", needs_none=True
    ),
    _library("ranx", "map", '"map{at}"', **_RANX),
    _library("RankLib", "map", "-metric2T MAP", needs_none=True, **_IN_FILE_ORDER),
    _library("LETOR's scripts", "map", "MAP", needs_none=True, **_IN_FILE_ORDER),
)  # fmt: skip
