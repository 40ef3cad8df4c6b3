"""NDCG and MAP as other libraries print them: one ranking by each convention, and the differences.

Each convention was held against the library's own output (XGBoost 3.2, LightGBM 4.7, pytrec_eval
0.5, scikit-learn 1.9, ranx 0.3, RankLib by RankyMcRankFace 0.1), LETOR's scripts against the
figures that were published with LETOR 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.measurement import whole_lists
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.metric import uneven
from owpc_ltr.metrics.ranking import (
    Empty,
    Gain,
    IntVector,
    RankedQueries,
    Short,
    best_first,
    divide_defined,
    empty_words,
    gain_words,
    sums_by_query,
)
from owpc_ltr.plain_text import ShortRepr, text_table, wrapped_text

if TYPE_CHECKING:
    import pyarrow as pa


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
    """A library's way to reckon a metric.

    `call` is what a user writes there, with `{k}` where the cutoff goes and `{at}` for @ and it,
    and `for_others` what is added for a run that has not the judged queries alone.
    `needs_cutoff`: there is none without. `takes_runs`: it takes lists that lack judged documents;
    the others want a score of each.
    """

    name: str
    metric: str
    call: str
    convention: Convention
    needs_cutoff: bool = False
    needs_none: bool = False
    takes_runs: bool = False
    for_others: str = ""


def _library(name: str, metric: str, call: str, **differs: Any) -> Library:
    asked = ("needs_cutoff", "needs_none", "takes_runs", "for_others")
    needs = {key: differs.pop(key) for key in asked if key in differs}
    return Library(name, metric, call, Convention(**differs), **needs)


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
class Reconciled(ShortRepr):
    """Our figure, and what others print of the same ranking.

    `empty` counts the queries where the metric is undefined, `tied` those with tied scores, `lone`
    those of one document, `absent` those that a run lacks; `missing` the judged documents that it
    lacks, `unjudged` its documents that are not judged. Where documents are missing, `elsewhere`
    has only what takes such runs.
    """

    metric: str
    convention: str
    value: float
    n_queries: int
    empty: int
    tied: int
    lone: int
    absent: int
    missing: int
    unjudged: int
    elsewhere: tuple[LibraryConvention, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        headers = ["LIBRARY", "CALLED AS", "PRINTS", "FROM OURS"]
        return "\n".join(
            [
                *map(wrapped_text, self._counts()),
                wrapped_text(f"ours: {self.convention}"),
                "",
                text_table(headers, self._rows()),
                "\nfrom ours, one step on top of the other:",
                *self._steps(),
            ]
        )

    def _repr_html_(self) -> str:
        from owpc_ltr.data.html import block, line, table

        headers = ["library", "called as", "prints", "from ours", "steps"]
        steps = ["", *("; ".join(_told(step) for step in one.steps) for one in self.elsewhere)]
        rows = [(*row, told) for row, told in zip(self._rows(), steps, strict=True)]
        title = f"{self.metric}, as other libraries print it"
        return block(title, *map(line, self._counts()), table(headers, rows))

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Our figure and those of the others, in the columns of the table."""
        others = (
            (one.library, one.call, f"{one.value:.4f}", f"{one.value - self.value:+.4f}")
            for one in self.elsewhere
        )
        return [("owpc-ltr", self.metric, f"{self.value:.4f}", ""), *others]

    def _counts(self) -> Iterator[str]:
        yield (
            f"{self.n_queries} queries: {self.empty} without relevant documents, {self.tied} "
            f"with tied scores, {self.lone} of one document"
        )
        if self.absent or self.missing or self.unjudged:
            yield (
                f"the run lacks {self.absent} queries and {self.missing} judged documents, which "
                f"are not retrieved; {self.unjudged} of its documents are not judged: irrelevant"
            )
        if self.missing:
            yield "only libraries that take such runs are listed"

    def _steps(self) -> Iterator[str]:
        for other in self.elsewhere:
            yield f"{other.library}, {other.call}{'' if other.steps else ': as ours'}"
            for step in other.steps:
                yield f"  {_told(step, 7)}"


def _told(step: Step, width: int = 0) -> str:
    """How much a step changes, and what it is."""
    change = f"{step.change:+.4f}" if abs(step.change) > _NOTHING else "same"
    return f"{change:>{width}}  {step.what}"


def reconcile(ranking: Vector | TrecRun, data: RankingDataset, metric: Metric) -> Reconciled:
    """What each library would print for these scores, one a document of the data, or for a run.

    Raises UsageError for a metric that is neither NDCG nor MAP, BadInput for a run of other data.
    """
    known = sorted({library.metric for library in LIBRARIES})
    if metric.name not in known:
        raise UsageError(
            f"other libraries' conventions are known for {' and '.join(known)}, not for "
            f"'{metric.name}': give ndcg@10, or map"
        )
    given = ranked(ranking, data)
    missing = int(np.isnan(given.scores).sum())
    weights = uneven(data.query_weights)
    ours = convention_of(metric, weighted=weights is not None)
    value = _mean(ours, metric, given, weights)
    runs = queries_of(given).ranking("expected")
    undefined = np.isnan(values_by(replace(ours, empty="skip", lone=True), metric, given))
    return Reconciled(
        metric=str(metric),
        convention=metric.convention,
        value=value,
        n_queries=data.n_queries,
        empty=int(undefined.sum()),
        tied=len(np.unique(runs.query[runs.size > 1])),
        lone=int((np.diff(given.offsets) == 1).sum()),
        absent=int(given.absent.sum()),
        missing=missing,
        unjudged=len(given.scores) - data.n_documents,
        elsewhere=tuple(
            _elsewhere(library, ours, metric, given, weights) for library in _of(metric, missing)
        ),
    )


def _of(metric: Metric, missing: int) -> Iterator[Library]:
    for library in LIBRARIES:
        unfit = library.needs_none if metric.cutoff else library.needs_cutoff
        unfit |= missing > 0 and not library.takes_runs
        if library.metric == metric.name and not unfit:
            yield library


def _elsewhere(
    library: Library, ours: Convention, metric: Metric, given: Ranked, weights: Vector | None
) -> LibraryConvention:
    theirs = replace(library.convention, relevant_above=ours.relevant_above)
    steps, now, value = [], ours, _mean(ours, metric, given, weights)
    for name in FIELDS:
        if getattr(now, name) == getattr(theirs, name) or not _matters(name, metric, theirs, given):
            continue
        now = replace(now, **{name: getattr(theirs, name)})
        after = _mean(now, metric, given, weights)
        steps.append(Step(now.words(name, metric), after - value))
        value = after
    at = "" if metric.cutoff is None else f"@{metric.cutoff}"
    call = library.call.replace("{k}", str(metric.cutoff)).replace("{at}", at)
    call += "" if given.same_queries else library.for_others
    return LibraryConvention(library.name, call, value, tuple(steps))


def _matters(name: str, metric: Metric, theirs: Convention, given: Ranked) -> bool:
    """Whether a metric has a use for this field of a convention."""
    if name == "absent":
        return bool(given.absent.any())
    if name in {"gain", "discount"}:
        return metric.name == "ndcg"
    if name == "relevant_above":
        return metric.name == "map"
    if name == "depth":
        return metric.cutoff is None
    if name == "per_cutoff":
        return metric.name == "map" and bool(metric.cutoff or theirs.depth)
    return name != "short" or metric.cutoff is not None


def _mean(convention: Convention, metric: Metric, given: Ranked, weights: Vector | None) -> float:
    values = values_by(convention, metric, given)
    if np.isnan(values).all():
        return float("nan")
    return metric.average(values, weights if convention.weighted else None)


@dataclass(frozen=True)
class Ranked:
    """Scores and labels of whole queries, with what orders of ties look at.

    Scores are NaN where a run did not retrieve the document. `late_ids` says of each document how
    late its id comes in the order of its bytes, `places` how late it is listed. `absent` marks the
    queries that a run lacks; `same_queries` tells whether a run has all of them and no others.
    """

    scores: Vector
    labels: Labels
    offsets: IntVector
    late_ids: IntVector
    places: IntVector
    absent: NDArray[np.bool_]
    same_queries: bool = True


def ranked(ranking: Vector | TrecRun, data: RankingDataset) -> Ranked:
    """Scores of a dataset's documents, or a run; without ids row numbers stand for them."""
    import pyarrow as pa

    absent, same = np.zeros(data.n_queries, np.bool_), True
    if isinstance(ranking, TrecRun):
        found = ranking.ranked(data)
        if np.isnan(found.scores).all():
            raise ranking.of_other_data(data.n_documents)
        scores, labels, offsets, places, ids = whole_lists(ranking, found, data)
        absent = np.bincount(found.query, minlength=data.n_queries) == 0
        same = not absent.any() and len(found.rows) == len(ranking.scores)
    else:
        scores, labels, offsets = np.asarray(ranking, np.float64), data.labels, data.offsets
        places, ids = np.arange(data.n_documents), data.doc_ids
        if ids is None:
            ids = pa.array(places).cast(pa.string())
    return Ranked(
        scores, labels, offsets,
        late_ids=_late(ids), places=places, absent=absent, same_queries=same,
    )  # fmt: skip


def _late(ids: pa.StringArray) -> IntVector:
    import pyarrow.compute as pc

    late = np.empty(len(ids), dtype=np.int64)
    late[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return late


def queries_of(given: Ranked) -> RankedQueries:
    """The queries, as metrics take them."""
    return RankedQueries(given.scores, given.labels, given.offsets, ~np.isnan(given.scores))


def values_by(convention: Convention, metric: Metric, given: Ranked) -> Vector:
    """The value of each query; NaN for those that are left out."""
    metric = replace(metric, cutoff=metric.cutoff or convention.depth)
    scores = given.scores
    if convention.single:
        scores = scores.astype(np.float32).astype(np.float64)
    own = _options(convention, metric)
    if convention.ties == "together":
        values = _all_at_once(replace(own, ties="expected"), scores, given)
    else:
        ordered, labels = _in_order(convention, scores, given)
        values = own.of(queries_of(replace(given, scores=ordered, labels=labels)))
    lengths = np.diff(given.offsets)
    if convention.per_cutoff and metric.cutoff is not None:
        relevant = queries_of(given).n_relevant(convention.relevant_above)
        # An empty query has no share to correct.
        values = values * np.where(relevant > 0, relevant / np.clip(relevant, 1, metric.cutoff), 1)
    left_out = np.zeros(len(lengths), np.bool_) if convention.absent else given.absent
    if not convention.lone:
        left_out = left_out | (lengths == 1)
    return np.where(left_out, np.nan, values)


def _options(convention: Convention, metric: Metric) -> Metric:
    """The metric with those conventions that are its own options."""
    own = {one.name for one in fields(metric)}
    said = {name: getattr(convention, name) for name in FIELDS if name in own}
    usual = {"expected", "pessimistic", "optimistic"}
    ties = said["ties"] if said["ties"] in usual else "file-order"
    return replace(metric, **{**said, "ties": ties})


def _in_order(convention: Convention, scores: Vector, given: Ranked) -> tuple[Vector, Labels]:
    """The documents such that file order is the convention's order of ties."""
    if convention.ties == "last-id-first":
        order = best_first(given.late_ids.astype(np.float64), given.offsets)
    elif convention.ties == "unstable":
        order = _unstable_order(scores, given)
    else:
        return scores, given.labels
    return scores[order], given.labels[order]


def _unstable_order(scores: Vector, given: Ranked) -> IntVector:
    """What ranx's sort makes of the documents retrieved, as they are listed; the others below."""
    missing = np.isnan(scores)
    query = np.repeat(np.arange(len(given.offsets) - 1), np.diff(given.offsets))
    listed = np.lexsort((given.places, missing, query))
    ends = given.offsets[1:] - np.bincount(query, missing, len(given.offsets) - 1).astype(np.int64)
    # What makes runs of other queries comparable sorts them again.
    for _ in range(1 if given.same_queries else 2):
        order = np.arange(len(scores))
        sort_as_numba_does(-scores[listed], given.offsets[:-1], ends, order)
        listed = listed[order]
    return listed


@compiled
def sort_as_numba_does(negated: Any, starts: Any, ends: Any, order: Any) -> None:
    """What numba's own quicksort makes of each query: ranx sorts by it."""
    for query in range(len(starts)):
        start, end = starts[query], ends[query]
        order[start:end] = start + np.argsort(negated[start:end])


def _all_at_once(metric: Metric, scores: Vector, given: Ranked) -> Vector:
    """Average precision where tied documents are found together, by the last of their ranks."""
    queries = RankedQueries(scores, given.labels, given.offsets)
    above = getattr(metric, "relevant_above", 0.0)
    ranking = queries.ranking("expected")
    found = ranking.run_sums((ranking.labels > above).astype(np.float64))
    running = np.cumsum(found)
    before = np.concatenate([[0.0], running])[np.searchsorted(ranking.query, ranking.query)]
    precision: NDArray[np.float64] = (running - before) / (ranking.above + ranking.size)
    total = sums_by_query(ranking.query, found * precision, queries.n_queries)
    values = divide_defined(total, queries.n_relevant(above))
    if metric.empty == "skip":
        return values
    return np.nan_to_num(values, nan=float(metric.empty == "one"))
