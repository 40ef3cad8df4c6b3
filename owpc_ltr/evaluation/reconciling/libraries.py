"""What other libraries mean by NDCG and MAP, and how each is asked for it.

Each was held against the library's own output (XGBoost 3.2, LightGBM 4.7, pytrec_eval 0.5,
scikit-learn 1.9, ranx 0.3, RankLib by RankyMcRankFace 0.1), LETOR's scripts against the figures
that were published with LETOR 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


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
