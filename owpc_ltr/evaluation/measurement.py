"""Metrics of rankers on judged queries, each query's value, in memory or part by part.

A model ranks the documents of a dataset, which are what is judged, and nothing else. A run is read
as trec_eval reads it: a judged document that it lacks is not retrieved, so that it has no rank, and
still counts in what a metric divides by; a judged query that it lacks counts 0 (trec_eval -c); its
other queries are left out. Its documents that are not judged count as irrelevant, or are taken out
before measuring (condensed lists; Sakai, SIGIR 2007), or their queries are left out.

Per-query results of rankers on the same queries: what every comparison is made of. Each path to a
verdict (judged documents, runs, folds, live searches, fusion) makes these, and shares everything
that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.feature_sources import sources_in
from owpc_ltr.data.judgments import judges_in
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.data.runs import RankedDocuments, TrecRun, document_names
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation import options
from owpc_ltr.evaluation.attempts import ATTEMPTS_FILE, AttemptCounter
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.ranked_lists import (
    RankedLists,
    as_good_as_judged,
    top_of,
    within_depth,
    within_window,
)
from owpc_ltr.evaluation.segments import Segments, segments_of
from owpc_ltr.evaluation.significance import (
    LEVEL,
    ResultWarning,
    bca_interval,
    generators,
    pair_values,
)
from owpc_ltr.metrics import Metric, RankedQueries, parse_metric, uneven
from owpc_ltr.metrics.metric import divide_defined
from owpc_ltr.models.combined import CrossValidated, ReorderingModel, dataset_scores
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import Progress, silent

_FIRST_RANK = "ndcg@1"
"""The gain at the first rank: measured beside the metrics, unless it is one of them."""


@dataclass(frozen=True)
class Resampling:
    """The seed and number of resamples, and who is told of their progress."""

    seed: int = 0
    resamples: int = RESAMPLES
    progress: Progress = silent

    def progress_of(self, what: str) -> Callable[[float], None]:
        """A function that reports which share of this work is done."""
        return lambda share: self.progress(what, share)


@dataclass(frozen=True)
class ComparisonPlan:
    """How rankers are measured: metrics, unjudged documents, the baseline, and resampling.

    A difference below `smallest_gain` is not worth a change: no ranker is better by less. Without
    `attempts`, those on the same queries are not counted. No ranker is better that loses in a
    segment by length, frequency or another kind of `segments`, unless it is of `accept_loss`.
    """

    metrics: tuple[Metric, ...]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Resampling = Resampling()
    smallest_gain: float = 0.0
    attempts: AttemptCounter | None = ATTEMPTS_FILE
    segments: tuple[str, ...] = ()
    accept_loss: tuple[str, ...] = ()

    @property
    def guards(self) -> tuple[Metric, ...]:
        """The gain at the first rank, unless it is one of the metrics, or is not installed."""
        try:
            first = parse_metric(_FIRST_RANK)
        except UsageError:
            return ()
        return () if first in self.metrics else (first,)


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts (if known), weights (if they vary), and why these were chosen.

    Queries of one number in `clusters` are won and lost together; None where each is one of its
    own. `warnings` are about all rankers, those of `by_ranker` about one. Rankers that are
    `cross_validated` are measured by models of folds. `params` are the parameters of each query;
    none where they are not known.
    """

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    split: str
    notes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    clusters: NDArray[np.int64] | None = None
    warnings: tuple[ResultWarning, ...] = ()
    by_ranker: Mapping[str, tuple[ResultWarning, ...]] = field(default_factory=dict)
    cross_validated: frozenset[str] = frozenset()
    params: Sequence[Mapping[str, Any]] = ()

    @property
    def n_independent(self) -> int:
        """How many clusters there are."""
        return len(self.ids) if self.clusters is None else len(np.unique(self.clusters))


@dataclass(frozen=True, eq=False)
class RankerResults:
    """One ranker's value of each query, by metric; the shares of unjudged documents it looks at.

    `unjudged` and `lists` are None for a ranker that is shown judged documents alone, `scores` are
    those of data in memory.
    """

    values: Sequence[Vector]
    unjudged: Sequence[Vector] | None = None
    warnings: tuple[str, ...] = ()
    scores: Vector | None = None
    lists: RankedLists | None = None
    without_tables: Vector | None = None
    """The first metric, where features from tables tell nothing; None without such features."""


@dataclass(frozen=True, eq=False)
class PerQueryResults:
    """Every ranker's values of the same queries, by the plan's metrics and then by its guards.

    `all_tied` are the values of scoring all documents the same, where they are known.
    """

    rankers: Mapping[str, RankerResults]
    plan: ComparisonPlan
    queries: ComparedQueries
    all_tied: Sequence[Vector] | None = None
    alone: RankedLists | None = None
    """The lists of the query without a model, where they are known."""
    judged_alone: bool = False
    """Whether all that is ranked is judged: these are judged documents, and no lists of users."""

    @cached_property
    def segments(self) -> Segments:
        """The segments of the plan. Raises UsageError for one that there is not."""
        queries, plan = self.queries, self.plan
        return segments_of(queries.params, queries.weights, plan.segments, plan.accept_loss)

    @property
    def guards(self) -> tuple[Metric, ...]:
        """The guards that were measured; a verdict by the first metric must not contradict them."""
        n_values = min(len(ranker.values) for ranker in self.rankers.values())
        return self.plan.guards[: n_values - len(self.plan.metrics)]

    @property
    def has_lists(self) -> bool:
        """Whether all rankers have lists, of which some documents may be unjudged."""
        listed = all(ranker.lists is not None for ranker in self.rankers.values())
        return listed and not self.judged_alone

    @property
    def list_metrics(self) -> list[Metric]:
        """The metrics of ranked lists; an error counts pairs of judged documents."""
        return [metric for metric in self.plan.metrics if metric.higher_is_better]

    @cached_property
    def by_treatment(self) -> dict[str, dict[str, list[Vector]]]:
        """Each ranker's values by its list metrics, by what unjudged documents are taken for.

        Empty where no document is unjudged.
        """
        lists = {
            name: result.lists for name, result in self.rankers.items() if result.lists is not None
        }
        if not self.has_lists or all(ranked.complete for ranked in lists.values()):
            return {}

        def values(treatment: Callable[[RankedLists, Metric], Vector]) -> dict[str, list[Vector]]:
            return {
                name: [treatment(ranked, within_depth(m, ranked.depth)) for m in self.list_metrics]
                for name, ranked in lists.items()
            }

        treated = {
            "where they are left out": values(RankedLists.condensed),
            "where they are as good as judged documents at the same rank": as_good_as_judged(
                lists, self.list_metrics
            ),
        }
        if self.plan.unjudged != "zero":
            treated["where they are irrelevant"] = values(RankedLists.unjudged_irrelevant)
        return treated


def measure_lists(lists: RankedLists, plan: ComparisonPlan) -> RankerResults:
    """Each metric of the lists, as far as they go. Raises UsageError for one that looks further."""
    condensed = plan.unjudged == "condensed"
    treatment = RankedLists.condensed if condensed else RankedLists.unjudged_irrelevant
    values, shares = [], []
    for metric in (*plan.metrics, *plan.guards):
        within = within_window(metric, lists.depth)
        shares.append(1.0 - lists.judged_at(top_of(within) or lists.depth))
        values.append(treatment(lists, within))
        if plan.unjudged == "skip":
            values[-1] = np.where(shares[-1] > 0, np.nan, values[-1])
    return RankerResults(values, shares[: len(plan.metrics)], lists=lists)


def joined_results(parts: Sequence[RankerResults], warnings: tuple[str, ...] = ()) -> RankerResults:
    """A ranker's results of further queries together: of the parts of data, or of folds."""
    lists = [part.lists for part in parts if part.lists is not None]
    shares = [part.unjudged for part in parts if part.unjudged is not None]
    without = [part.without_tables for part in parts if part.without_tables is not None]
    return RankerResults(
        joined_values([part.values for part in parts]),
        joined_values(shares) if len(shares) == len(parts) else None,
        warnings,
        scores=parts[0].scores if len(parts) == 1 else None,
        lists=reduce(RankedLists.joined, lists) if len(lists) == len(parts) else None,
        without_tables=np.concatenate(without) if len(without) == len(parts) else None,
    )


def joined_values(parts: Sequence[Sequence[Vector]]) -> list[Vector]:
    """By metric, the values of the queries of all parts."""
    return [np.concatenate(values) for values in zip(*parts, strict=True)]


Ranking = Model | ReorderingModel | TrecRun
Measurable = Ranking | CrossValidated
"""A ranker, or what stands for it on the queries that it has seen."""
Rankers = Mapping[str, Measurable]


@dataclass(frozen=True, repr=False)
class Measured:
    """One metric of one ranking: its mean, each query's value, and the all-tied baseline.

    It prints as its mean, and stands for it: `float(value)`, `f"{value:.3f}"`, `value > .3`.
    `interval` is computed when it is first read. `weights` are those of the queries, where they
    differ, and queries of one number in `clusters` are one request; the same `seed` gives the same
    interval. `drawn` is the one for which the queries were drawn for all rankers together.
    """

    metric: Metric
    mean: float
    per_query: Vector
    all_tied_baseline: float
    weights: Vector | None = None
    clusters: NDArray[np.int64] | None = None
    seed: int = 0
    drawn: tuple[float, float] | None = None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % BCa bootstrap interval of the mean over queries like these, as in `compare`.

        Raises Refused for fewer than two queries.
        """
        counted = ~np.isnan(self.per_query)
        if self.weights is not None:
            counted &= self.weights > 0
        if counted.sum() < 2:
            raise Refused(
                f"{int(counted.sum())} of {len(counted)} queries count in {self.metric}, and an "
                "interval needs 2: give more judged queries"
            )
        values = self.per_query[counted]
        weights = None if self.weights is None else self.weights[counted]
        clusters = None if self.clusters is None else self.clusters[counted]
        # As a pair with itself: by clusters, and weights that are all alike are none.
        unit = pair_values(values, values, weights, clusters=clusters)
        draws = generators(self.seed)[1]
        return bca_interval(unit.a, unit.weights, LEVEL, options.RESAMPLES, draws)

    @property
    def low(self) -> float:
        """The lower end of the interval in tables; of a single query its value."""
        return self._ends[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return self._ends[1]

    @property
    def _ends(self) -> tuple[float, float]:
        if self.drawn is not None:
            return self.drawn
        try:
            return self.interval
        except Refused:
            return self.mean, self.mean

    @property
    def queries(self) -> int:
        """On how many queries the metric is defined."""
        return int((~np.isnan(self.per_query)).sum())

    def as_dict(self) -> dict[str, Any]:
        """The mean and what is needed to read it, as JSON."""
        return {
            "metric": str(self.metric),
            "mean": self.mean,
            "all_tied_baseline": self.all_tied_baseline,
            "convention": self.metric.convention,
            "queries": self.queries,
        }

    def __float__(self) -> float:
        return self.mean

    def __format__(self, form: str) -> str:
        return format(self.mean, form) if form else str(self)

    def __lt__(self, other: SupportsFloat) -> bool:
        return self.mean < float(other)

    def __gt__(self, other: SupportsFloat) -> bool:
        return self.mean > float(other)

    def __repr__(self) -> str:
        tied = f"all-tied baseline {self.all_tied_baseline:.4f}"
        return f"{self.mean:.4f} ({self.metric}, {self.queries:,} queries, {tied})"


def values_of(scores: Vector, data: RankingDataset, metrics: Sequence[Metric]) -> list[Vector]:
    """By metric, the value of each query by these scores; documents are sorted once for all."""
    queries = RankedQueries(scores, data.labels, data.offsets)
    return [metric.of(queries) for metric in metrics]


def _all_tied(data: RankingDataset, metrics: Sequence[Metric]) -> list[Vector]:
    """The values of scoring all documents the same."""
    return values_of(np.zeros(data.n_documents), data, metrics)


def measure_on_data(
    rankers: Rankers,
    data: RankingDataset | PartitionedDataset,
    queries: ComparedQueries,
    plan: ComparisonPlan,
    *,
    weighted: bool = True,
    tell_unjudged: bool = False,
) -> PerQueryResults:
    """Every ranker by every metric, in one pass. Raises BadInput for a run of other queries.

    `weighted`: queries have the weights that the data give them. `tell_unjudged`: a warning counts
    the unjudged documents of a run.
    """
    in_memory, metrics = isinstance(data, RankingDataset), (*plan.metrics, *plan.guards)
    with_runs = any(isinstance(ranker, TrecRun) for ranker in rankers.values())

    def measure_part(part: RankingDataset) -> tuple[list[_OfPart], list[Vector], Vector]:
        judges = judges_in(part)
        of_rankers = [measure_ranker(ranker, part, judges) for ranker in rankers.values()]
        return of_rankers, _all_tied(part, plan.metrics), part.query_importance

    def measure_ranker(
        ranker: Measurable, part: RankingDataset, judges: Sequence[Mapping[str, str]]
    ) -> _OfPart:
        lists = lists_of(ranker, part, condensed=plan.unjudged == "condensed")
        values = [metric.of(lists.queries) for metric in metrics]
        shares, without = None, None
        if isinstance(ranker, TrecRun) and lists.ranked is not None:
            shares = [
                _unjudged_share(ranker, lists.ranked, part.n_queries, top_of(metric))
                for metric in metrics
            ]
            if plan.unjudged == "skip":
                for of_metric, share in zip(values, shares, strict=True):
                    of_metric[share > 0] = np.nan
            del shares[len(plan.metrics) :]
        elif (plain := without_tables(part)) is not None:
            without = plan.metrics[0].of(lists_of(ranker, plain).queries)
        # Who judged the documents that decide is seen in lists.
        ranked = lists.whole(part).ranked(judges) if with_runs or judges else None
        scores = lists.scores if in_memory else None
        results = RankerResults(values, shares, scores=scores, lists=ranked, without_tables=without)
        return results, lists.facts

    if isinstance(data, RankingDataset):
        parts = [measure_part(data)]
    else:
        # A run and a reranker look at more than what is learned from.
        small = not any(isinstance(each, TrecRun | ReorderingModel) for each in rankers.values())
        parts = list(data.each(measure_part) if small else map(measure_part, data))
    of_parts, tied, importance = zip(*parts, strict=True)
    results = {}
    for (name, ranker), of_ranker in zip(rankers.items(), zip(*of_parts, strict=True), strict=True):
        by_part, facts = zip(*of_ranker, strict=True)
        warnings = list_warnings(ranker, facts, tell_unjudged=tell_unjudged)
        results[name] = joined_results(by_part, tuple(warnings))
    baselines = joined_values(tied)
    perfect = [
        str(metric)
        for metric, values in zip(plan.metrics, baselines, strict=True)
        if not metric.graded and metric.higher_is_better and (values == 1.0).all()
    ]
    warnings = [
        f"by {' and '.join(perfect)} every document is relevant, so that every order is perfect: "
        "measure by a metric of grades, as ndcg@10"
    ] * bool(perfect)
    of_data = replace(
        queries,
        weights=uneven(np.concatenate(importance)) if weighted else None,
        messages=(*queries.messages, *warnings),
    )
    judged_alone = all(result.lists is None or result.lists.complete for result in results.values())
    return PerQueryResults(results, plan, of_data, baselines, judged_alone=judged_alone)


def without_tables(data: RankingDataset) -> RankingDataset | None:
    """The data with one value in each column that is from a table; None where none is."""
    external = {name for source in sources_in(data.manifest) for name in source.features}
    columns = [number for number, name in enumerate(data.feature_names) if name in external]
    if not columns:
        return None
    features = data.features.copy()
    for column in columns:
        finite = features[:, column][np.isfinite(features[:, column])]
        features[:, column] = np.median(finite) if len(finite) else 0.0
    return replace(data, features=features)


def results_of_scores(
    scores: Mapping[str, Vector],
    data: RankingDataset,
    queries: ComparedQueries,
    plan: ComparisonPlan,
    plain: Mapping[str, Vector] | None = None,
) -> PerQueryResults:
    """Rankers by name, each by its scores of the documents of a dataset in memory.

    `plain` are the scores where features from tables tell nothing (see `without_tables`).
    """
    rankers = {
        name: RankerResults(
            values_of(of_ranker, data, (*plan.metrics, *plan.guards)),
            scores=of_ranker,
            without_tables=(
                None if plain is None else values_of(plain[name], data, plan.metrics[:1])[0]
            ),
        )
        for name, of_ranker in scores.items()
    }
    of_data = replace(queries, weights=uneven(data.query_weights))
    return PerQueryResults(rankers, plan, of_data, _all_tied(data, plan.metrics))


def _unjudged_share(
    run: TrecRun, ranked: RankedDocuments, n_queries: int, top: int | None
) -> Vector:
    """The share of unjudged documents among the first of each query's list; NaN without a list."""
    order = np.lexsort((-run.scores[ranked.rows], ranked.query))
    query, unjudged = ranked.query[order], ~ranked.judged[order]
    if top is not None:
        starts = np.searchsorted(query, np.arange(n_queries))
        first = np.arange(len(query)) - starts[query] < top
        query, unjudged = query[first], unjudged[first]
    listed = np.bincount(query, minlength=n_queries)
    return divide_defined(np.bincount(query, unjudged, n_queries), listed)


class ListFacts(NamedTuple):
    """What warnings about lists are made of, in numbers that add up over parts.

    `tied` of the `ranked` documents share their score with another of their query. `missing` of the
    `judged` documents, and all documents of `absent` of the `queries`, are not in a run; `unjudged`
    of its documents of these queries are not judged. `lowest` and `highest` are scores, and do not
    add up.
    """

    ranked: int
    tied: int
    judged: int
    queries: int
    lowest: float
    highest: float
    missing: int = 0
    absent: int = 0
    unjudged: int = 0


_OfPart = tuple[RankerResults, ListFacts]
"""A ranker's results on a part of the data."""


class WholeLists(NamedTuple):
    """Query by query the judged documents, and those that a run has beside them.

    The score is NaN where the run lacks the document, the label where it is not judged.
    """

    scores: Vector
    labels: Labels
    offsets: NDArray[np.int64]
    doc_ids: pa.StringArray

    @property
    def queries(self) -> RankedQueries:
        """The lists, as metrics take them: unjudged documents are irrelevant."""
        labels, retrieved = np.nan_to_num(self.labels), ~np.isnan(self.scores)
        return RankedQueries(self.scores, labels, self.offsets, retrieved)

    def ranked(self, judges: Sequence[Mapping[str, str]]) -> RankedLists:
        """The first documents of each list, by which unjudged ones are found."""
        names, retrieved = self.doc_ids.to_pylist(), ~np.isnan(self.scores)
        return RankedLists.of_documents(
            self.scores, self.labels, self.offsets, names, retrieved, judges=judges
        )


def judged_lists(scores: Vector, data: RankingDataset) -> WholeLists:
    """The judged documents alone, by these scores."""
    return WholeLists(scores, data.labels, data.offsets, document_names(data))


def whole_lists(run: TrecRun, ranked: RankedDocuments, data: RankingDataset) -> WholeLists:
    """All documents of the queries that are judged, or in the run, or both."""
    rows, query = ranked.rows[~ranked.judged], ranked.query[~ranked.judged]
    scores = np.concatenate([ranked.scores, run.scores[rows]])
    labels = np.concatenate([data.labels, np.full(len(rows), np.nan, np.float32)])
    ids = pa.concat_arrays([document_names(data), run.doc_ids.take(pa.array(rows))])
    query_of = np.concatenate([np.repeat(np.arange(data.n_queries), np.diff(data.offsets)), query])
    order = np.argsort(query_of, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(query_of, minlength=data.n_queries)))
    by_query = ids.take(pa.array(order))
    return WholeLists(scores[order], labels[order], offsets, by_query)


class Lists(NamedTuple):
    """The lists of judged queries; `scores` are of the data's documents, NaN if not retrieved.

    `found` is what a run has for the queries, `of_run` its lists; None for a model.
    """

    queries: RankedQueries
    scores: Vector
    facts: ListFacts
    ranked: RankedDocuments | None = None
    of_run: WholeLists | None = None

    def whole(self, data: RankingDataset) -> WholeLists:
        """The lists with unjudged documents, too."""
        return self.of_run or judged_lists(self.scores, data)


def lists_of(ranker: Measurable, data: RankingDataset, *, condensed: bool = False) -> Lists:
    """A ranker's lists of the queries; `condensed`: without the documents that are not judged."""
    if not isinstance(ranker, TrecRun):
        scores = dataset_scores(ranker, data)
        queries = RankedQueries(scores, data.labels, data.offsets)
        return Lists(queries, scores, _facts(queries, scores, data))
    ranked = ranker.ranked(data)
    whole = whole_lists(ranker, ranked, data)
    queries = (judged_lists(ranked.scores, data) if condensed else whole).queries
    facts = _facts(queries, ranker.scores[ranked.rows], data)._replace(
        missing=int(np.isnan(ranked.scores).sum()),
        absent=data.n_queries - len(np.unique(ranked.query)),
        unjudged=int((~ranked.judged).sum()),
    )
    return Lists(queries, ranked.scores, facts, ranked, whole)


def list_warnings(
    ranker: Measurable, parts: Sequence[ListFacts], *, tell_unjudged: bool = False
) -> list[str]:
    """Warnings about a ranker's lists: ties, and what a run lacks.

    Raises BadInput for a run that has none of the judged documents.
    """
    whole = ListFacts._make(sum(column) for column in zip(*parts, strict=True))
    lowest, highest = min(part.lowest for part in parts), max(part.highest for part in parts)
    if isinstance(ranker, TrecRun) and whole.missing == whole.judged:
        raise ranker.of_other_data(whole.judged)
    messages, share = [], whole.tied / max(whole.ranked, 1)
    if whole.tied and lowest == highest:
        messages.append("all scores are equal: the figures are those of a random order")
    elif share > 0.05:
        messages.append(
            f"{share:.0%} of the documents share their score with another of the same query; "
            "figures are expected values over the orders of tied documents"
        )
    if whole.absent:
        messages.append(
            f"{whole.absent:,} of {whole.queries:,} queries are not in it: they count 0 (as "
            "trec_eval -c has it)"
        )
    if whole.missing:
        messages.append(
            f"{whole.missing:,} of {whole.judged:,} judged documents are not in it: they count as "
            "not retrieved"
        )
    if whole.unjudged and tell_unjudged:
        messages.append(
            f"{whole.unjudged:,} of its documents are not judged: they count as irrelevant"
        )
    return messages


def _facts(queries: RankedQueries, scores: Vector, data: RankingDataset) -> ListFacts:
    size = queries.ranking("expected").size
    return ListFacts(
        ranked=int(size.sum()),
        tied=int(size[size > 1].sum()),
        judged=data.n_documents,
        queries=data.n_queries,
        lowest=float(scores.min(initial=np.inf)),
        highest=float(scores.max(initial=-np.inf)),
    )
