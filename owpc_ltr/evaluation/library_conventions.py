"""NDCG and MAP as trec_eval, XGBoost and LightGBM print them, and every difference from ours.

Each convention was held against the library's own output (XGBoost 3.2, LightGBM 4.7, pytrec_eval
0.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.measurement import WholeLists, judged_lists, whole_lists
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.metrics.metric import (
    Empty,
    Gain,
    Short,
    best_first,
    empty_words,
    gain_words,
    ties_words,
)
from owpc_ltr.text import ShortRepr

TieOrder = Literal["expected", "file-order", "last-id-first"]
"""What tied scores count: as in a metric's `ties`, or in the order of their ids, the last first."""


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How a metric is reckoned. What only NDCG has is without meaning for MAP, and the reverse.

    `depth`: how many ranks count where no cutoff is given, None for all. `per_cutoff`: MAP at k is
    over the relevant documents that k ranks can hold. `single`: scores are in single precision.
    `absent`: whether queries that a run lacks count. `weighted`: whether queries count by
    importance.
    """

    gain: Gain = "exponential"
    discount: Literal["log2", "letor"] = "log2"
    depth: int | None = None
    per_cutoff: bool = False
    single: bool = False
    ties: TieOrder = "expected"
    empty: Empty = "zero"
    short: Short = "normal"
    absent: bool = True
    weighted: bool = False

    def words(self, name: str, metric: Metric) -> str:
        """A step to this convention, a library's, by the field of this name."""
        k = metric.cutoff or self.depth
        return {
            "gain": f"gain = {gain_words(self.gain)}",
            "discount": "discount = 1/log2(1 + rank)",
            "depth": f"without a cutoff the first {self.depth} ranks",
            "per_cutoff": f"over the relevant documents, {k} at most",
            "single": "scores in single precision",
            "ties": _BY_IDS if self.ties == "last-id-first" else ties_words(self.ties),
            "empty": empty_words(self.empty, metric.defined_on),
            "short": f"lists of fewer than {k} documents are as any others",
            "absent": "queries that the run lacks are left out (-c: count 0)",
            "weighted": "queries count alike",
        }[name]


FIELDS = tuple(part.name for part in fields(Convention))
"""In the order in which differences are told, each on top of those before."""
_BY_IDS = "tied scores count by their ids, the last one first"


def _shared_fields(source: Convention | Metric, metric: Metric) -> dict[str, Any]:
    """What a convention, or the metric itself, says of the metric's own options."""
    options = {part.name for part in fields(metric)}
    return {name: getattr(source, name) for name in FIELDS if name in options}


@dataclass(frozen=True)
class Library(Convention):
    """A library's way to reckon a metric.

    `call` is what a user writes there, with `{k}` where the cutoff goes and `{at}` for @ and it.
    `cutoff`: whether the metric has one there; None where it may. `takes_runs`: it takes lists that
    lack judged documents; the others want a score of each.
    """

    name: str
    metric: str
    call: str
    cutoff: bool | None = None
    takes_runs: bool = False


_TREC: dict[str, Any] = {
    "single": True,
    "ties": "last-id-first",
    "absent": False,
    "takes_runs": True,
}
_BOOSTED: dict[str, Any] = {"ties": "file-order", "empty": "one"}
# XGBoost looks at as many ranks as it makes pairs of (lambdarank_num_pair_per_sample).
_XGBOOST: dict[str, Any] = {**_BOOSTED, "single": True, "depth": 32}
_LIGHTGBM: dict[str, Any] = {**_BOOSTED, "cutoff": True}
LIBRARIES = (
    Library("XGBoost", "ndcg", 'eval_metric="ndcg{at}"', **_XGBOOST),
    Library("LightGBM", "ndcg", 'metric="ndcg", eval_at={k}', **_LIGHTGBM),
    Library("trec_eval", "ndcg", "ndcg_cut.{k}", gain="linear", cutoff=True, **_TREC),
    Library("trec_eval", "ndcg", "ndcg", gain="linear", cutoff=False, **_TREC),
    Library("XGBoost", "map", 'eval_metric="map{at}"', per_cutoff=True, **_XGBOOST),
    Library("LightGBM", "map", 'metric="map", eval_at={k}', per_cutoff=True, **_LIGHTGBM),
    Library("trec_eval", "map", "map", cutoff=False, **_TREC),
    Library("trec_eval", "map", "map_cut.{k}", cutoff=True, **_TREC),
)


_NOTHING = 5e-7
"""A step that changes the figure by less is told as the same."""


@dataclass(frozen=True)
class Step:
    """One difference of a convention from ours, in words, and by how much it moves the figure.

    Differences are applied one on top of the other, in the order in which they are told.
    """

    what: str
    change: float


@dataclass(frozen=True, repr=False)
class LibraryConvention(ShortRepr):
    """A metric as a library prints it, and the steps from our figure to its own."""

    library: str
    call: str
    value: float
    steps: tuple[Step, ...]


@dataclass(frozen=True, repr=False)
class Reconciliation(BlockResult):
    """Our figure, and what others print of the same ranking.

    `empty` counts the queries where the metric is undefined, `tied` those with tied scores,
    `absent` those that a run lacks; `missing` the judged documents that it lacks, `unjudged` its
    documents that are not judged. Where documents are missing, `elsewhere` has trec_eval alone.
    """

    metric: str
    convention: str
    value: float
    n_queries: int
    empty: int
    tied: int
    absent: int
    missing: int
    unjudged: int
    elsewhere: tuple[LibraryConvention, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)

    def _blocks(self) -> Iterator[Block]:
        """What was counted, our figure and those of the others, and the steps between them."""
        yield (
            f"{self.n_queries} queries: {self.empty} without relevant documents, {self.tied} "
            "with tied scores"
        )
        if self.absent or self.missing or self.unjudged:
            yield (
                f"the run lacks {self.absent} queries and {self.missing} judged documents, which "
                f"are not retrieved; {self.unjudged} of its documents are not judged: irrelevant"
            )
        if self.missing:
            yield "trec_eval alone takes such a run: the others score every judged document"
        yield f"ours: {self.convention}"
        yield ""
        rows = [("owpc-ltr", self.metric, f"{self.value:.4f}", "")]
        rows += [
            (
                figure.library,
                figure.call,
                f"{figure.value:.4f}",
                f"{figure.value - self.value:+.4f}",
            )
            for figure in self.elsewhere
        ]
        yield Table(["LIBRARY", "CALLED AS", "PRINTS", "FROM OURS"], rows)
        yield ""
        yield "from ours, one step on top of the other:"
        for other in self.elsewhere:
            yield f"{other.library}, {other.call}{'' if other.steps else ': as ours'}"
            for step in other.steps:
                change = f"{step.change:+.4f}" if abs(step.change) > _NOTHING else "same"
                yield f"  {change:>7}  {step.what}"


def reconcile(ranking: Vector | TrecRun, data: RankingDataset, metric: Metric) -> Reconciliation:
    """What each library would print for these scores, one a document of the data, or for a run.

    Raises UsageError for a metric that is neither NDCG nor MAP, BadInput for a run of other data.
    """
    names = sorted({library.metric for library in LIBRARIES})
    if metric.name not in names:
        raise UsageError(
            f"other libraries' conventions are known for {' and '.join(names)}, not for "
            f"'{metric.name}': give ndcg@10, or map"
        )
    ranked = ranked_documents(ranking, data)
    missing = int(np.isnan(ranked.lists.scores).sum())
    weights = uneven(data.query_weights)
    ours = Convention(**_shared_fields(metric, metric), weighted=weights is not None)
    runs = ranked.lists.queries.ranking("expected")
    undefined = np.isnan(values_by(replace(ours, empty="skip"), metric, ranked))
    return Reconciliation(
        metric=str(metric),
        convention=metric.convention,
        value=_mean(ours, metric, ranked, weights),
        n_queries=data.n_queries,
        empty=int(undefined.sum()),
        tied=len(np.unique(runs.query[runs.size > 1])),
        absent=int(ranked.absent.sum()),
        missing=missing,
        unjudged=len(ranked.lists.scores) - data.n_documents,
        elsewhere=tuple(
            _elsewhere(library, ours, metric, ranked, weights)
            for library in LIBRARIES
            if library.metric == metric.name
            and library.cutoff in {None, metric.cutoff is not None}
            and (library.takes_runs or not missing)
        ),
    )


def _elsewhere(
    library: Library, ours: Convention, metric: Metric, ranked: Ranked, weights: Vector | None
) -> LibraryConvention:
    steps, now, value = [], ours, _mean(ours, metric, ranked, weights)
    for name in FIELDS:
        same = getattr(now, name) == getattr(library, name)
        if same or not _matters(name, metric, library, ranked):
            continue
        now = replace(now, **{name: getattr(library, name)})
        after = _mean(now, metric, ranked, weights)
        steps.append(Step(now.words(name, metric), after - value))
        value = after
    at = "" if metric.cutoff is None else f"@{metric.cutoff}"
    call = library.call.replace("{k}", str(metric.cutoff)).replace("{at}", at)
    return LibraryConvention(library.name, call, value, tuple(steps))


def _matters(name: str, metric: Metric, theirs: Convention, ranked: Ranked) -> bool:
    """Whether a metric has a use for this field of a convention."""
    conditions = {
        "absent": ranked.absent.any(),
        "gain": metric.name == "ndcg",
        "discount": metric.name == "ndcg",
        "depth": metric.cutoff is None,
        "per_cutoff": metric.name == "map" and (metric.cutoff or theirs.depth),
        "short": metric.cutoff is not None,
    }
    return bool(conditions.get(name, True))


def _mean(convention: Convention, metric: Metric, ranked: Ranked, weights: Vector | None) -> float:
    values = values_by(convention, metric, ranked)
    if np.isnan(values).all():
        return float("nan")
    return metric.average(values, weights if convention.weighted else None)


class Ranked(NamedTuple):
    """Whole queries, and the same with documents in the order of their ids, the last one first.

    Scores are NaN where a run did not retrieve the document. `absent` marks the queries that a run
    lacks.
    """

    lists: WholeLists
    by_id: WholeLists
    absent: NDArray[np.bool_]


def ranked_documents(ranking: Vector | TrecRun, data: RankingDataset) -> Ranked:
    """Scores of a dataset's documents, or a run."""
    absent = np.zeros(data.n_queries, np.bool_)
    if isinstance(ranking, TrecRun):
        ranked = ranking.ranked(data)
        if np.isnan(ranked.scores).all():
            raise ranking.of_other_data(data.n_documents)
        lists = whole_lists(ranking, ranked, data)
        absent = np.bincount(ranked.query, minlength=data.n_queries) == 0
    else:
        lists = judged_lists(np.asarray(ranking, np.float64), data)
    late = np.empty(len(lists.doc_ids))
    late[pc.sort_indices(lists.doc_ids).to_numpy()] = np.arange(len(late))
    order = best_first(late, lists.offsets)
    by_id = lists._replace(scores=lists.scores[order], labels=lists.labels[order])
    return Ranked(lists, by_id, absent)


def values_by(convention: Convention, metric: Metric, ranked: Ranked) -> Vector:
    """The value of each query; NaN for those that are left out."""
    metric = replace(metric, cutoff=metric.cutoff or convention.depth)
    lists, ties = ranked.lists, convention.ties
    if ties == "last-id-first":
        lists, ties = ranked.by_id, "file-order"
    if convention.single:
        lists = lists._replace(scores=lists.scores.astype(np.float32).astype(np.float64))
    options = {**_shared_fields(convention, metric), "ties": ties}
    values = replace(metric, **options).of(lists.queries)
    if convention.per_cutoff and metric.cutoff is not None:
        relevant = lists.queries.n_relevant(getattr(metric, "relevant_above", 0.0))
        # An empty query has no share to correct.
        values = values * np.where(relevant > 0, relevant / np.clip(relevant, 1, metric.cutoff), 1)
    return values if convention.absent else np.where(ranked.absent, np.nan, values)
