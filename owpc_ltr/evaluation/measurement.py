"""Metrics of rankers on judged queries, each query's value, in memory or part by part.

A model is shown what is judged, and nothing else. A run may list more: these documents count as
irrelevant, or are taken out before measuring (condensed lists; Sakai, SIGIR 2007), or their queries
are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import RankedDocuments, TrecRun, is_run, read_run
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.held_out import NothingHeldOut, check_side, choose_queries
from owpc_ltr.evaluation.ranked_lists import ListFacts, Ranking, list_warnings, lists_of
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.models.reordering import FEATURE, ReorderingModel, feature_ranker, load_model
from owpc_ltr.protocols import Model, Ranker

Data = RankingDataset | PartitionedDataset
D = TypeVar("D", bound=Data)
_NAME = "the model"


@dataclass(frozen=True)
class Measured:
    """One metric of one ranking: its mean, each query's value, and what no ranker gets."""

    metric: Metric
    mean: float
    per_query: Vector
    all_tied_baseline: float

    def as_dict(self) -> dict[str, Any]:
        """The mean and what is needed to read it, as JSON."""
        return {
            "metric": str(self.metric),
            "mean": self.mean,
            "all_tied_baseline": self.all_tied_baseline,
            "convention": self.metric.convention,
            "queries": int((~np.isnan(self.per_query)).sum()),
        }


def measure(
    scores: Vector,
    data: RankingDataset,
    metrics: Sequence[Metric],
    weights: Vector | None = None,
) -> tuple[Measured, ...]:
    """Each metric of these scores; the documents are sorted once for all.

    With `weights`, one a query, means are weighted.
    """
    queries = RankedQueries(scores, data.labels, data.offsets)
    values = [metric.of(queries) for metric in metrics]
    return measured_means(metrics, values, _all_tied(data, metrics), weights)


def measured_means(
    metrics: Sequence[Metric],
    values: Sequence[Vector],
    all_tied: Sequence[Vector],
    weights: Vector | None = None,
) -> tuple[Measured, ...]:
    """The mean of each metric's values, and of those of scoring all documents the same."""
    return tuple(
        Measured(metric, metric.average(own, weights), own, metric.average(tied, weights))
        for metric, own, tied in zip(metrics, values, all_tied, strict=True)
    )


def importance_of(data: RankingDataset) -> Vector | None:
    """The importance of queries, as weights; None where all are of one."""
    return uneven(data.query_weights)


def compare(a: Measured, b: Measured, seed: int = 0, weights: Vector | None = None) -> Comparison:
    """Paired comparison of two rankings of the same queries by one metric."""
    if a.metric != b.metric:
        raise BadInput(f"cannot compare {a.metric} with {b.metric}: measure both by one metric")
    counted = ~(np.isnan(a.per_query) | np.isnan(b.per_query))
    own = None if weights is None else weights[counted]
    one, other = a.per_query[counted], b.per_query[counted]
    return compare_paired(one, other, seed=seed, weights=own, span=a.metric.span)


class EvaluationQueries(tuple[D, str]):
    """The queries to measure on and which side they are, with what makes them doubtful."""

    warnings: tuple[str, ...]

    def __new__(cls, data: D, side: str, warnings: tuple[str, ...] = ()) -> EvaluationQueries[D]:
        """The pair, and its warnings beside it."""
        pair = super().__new__(cls, (data, side))
        pair.warnings = warnings
        return pair

    @property
    def data(self) -> D:
        """The queries."""
        return self[0]

    @property
    def side(self) -> str:
        """`all`, or the side that they were on when the model was trained."""
        return self[1]


def model_data(model: Ranker | TrecRun, data: D, side: str = "auto") -> EvaluationQueries[D]:
    """The queries to evaluate a model on, with the columns it expects, and which side they are.

    `auto`: the held-out ones (see `choose_queries`); where the model saw them all, all, with a
    warning. Raises BadInput where the features are others, and Refused where a side is asked for
    that the model does not know.
    """
    check_side(side)
    records: dict[str, Mapping[str, Any]] = {}
    if not isinstance(model, TrecRun):
        _check_features(model, data)
        records = {_NAME: model.record}
    try:
        chosen = choose_queries(records, data, side)
    except NothingHeldOut as nothing:
        if side != "auto":
            raise
        what = "was trained on" if (nothing.sides[_NAME] == "train").any() else "was chosen on"
        said = (
            f"these are the queries that it {what}: the figures flatter it; measure on others, or "
            "keep some out (data.split())"
        )
        return EvaluationQueries(data, "all", (said,))
    part = data
    if len(chosen.queries) < data.n_queries:
        # A selection is of the kind that it is from.
        part = cast(D, data.select(chosen.queries))
    # Of its own data, everybody knows that some are not held out.
    source = {} if not records else records[_NAME].get("source") or {}
    own = source.get("split") is not None and source.get("fingerprint") == data.fingerprint
    notes = () if own or side != "auto" else chosen.notes
    return EvaluationQueries(part, chosen.side, (*notes, *chosen.warnings))


def _check_features(model: Ranker, data: Data) -> None:
    if data.feature_names != model.feature_names:
        raise BadInput(_difference(model, data))
    trained_hash = model.record.get("featureset_hash")
    if trained_hash and data.featureset_hash and trained_hash != data.featureset_hash:
        raise BadInput(
            "the data was logged with another version of the feature set than the model was "
            f"trained on (hash {data.featureset_hash[:12]} against {trained_hash[:12]}): log again"
        )


def _difference(model: Ranker, data: Data) -> str:
    missing = [name for name in model.feature_names if name not in data.feature_names]
    extra = [name for name in data.feature_names if name not in model.feature_names]
    if not missing and not extra:
        return "the data has the model's features in another order: log again with its feature set"
    named = [f"lacks '{missing[0]}'" if missing else "", f"has '{extra[0]}'" if extra else ""]
    return (
        f"the model was trained on other features than the data has: the data "
        f"{' and '.join(filter(None, named))} ({len(model.feature_names)} features against "
        f"{len(data.feature_names)})"
    )


Rankers = Mapping[str, Ranking]


class RankerValues(NamedTuple):
    """Each metric's value of each query; the shares of unjudged documents that each looks at.

    `unjudged` is None where a ranker is shown judged documents alone.
    """

    values: list[Vector]
    unjudged: list[Vector] | None
    warnings: tuple[str, ...] = ()
    scores: Vector | None = None
    """The scores of data in memory."""


class OnData(NamedTuple):
    """All rankers' values, those of no ranker, and the queries' weights if they vary."""

    rankers: dict[str, RankerValues]
    baselines: list[Vector]
    weights: Vector | None


class _Seen(NamedTuple):
    """What is kept of a ranker on a part."""

    values: RankerValues
    facts: ListFacts


class _Part(NamedTuple):
    rankers: list[_Seen]
    baselines: list[Vector]
    weights: Vector


def measure_on_data(
    rankers: Rankers,
    data: RankingDataset | PartitionedDataset,
    metrics: Sequence[Metric],
    unjudged: str = "zero",
    *,
    tell_unjudged: bool = False,
) -> OnData:
    """Every ranker by every metric, in one pass. Raises BadInput for a run of other queries.

    `tell_unjudged`: a warning counts the unjudged documents of a run.
    """
    in_memory = isinstance(data, RankingDataset)

    def look(part: RankingDataset) -> _Part:
        return _measured_part(rankers, part, metrics, unjudged, keep_scores=in_memory)

    parts: Iterable[_Part]
    if isinstance(data, RankingDataset):
        parts = [look(data)]
    else:
        # A run and a reranker look at more than what is learned from.
        small = not any(isinstance(one, TrecRun | ReorderingModel) for one in rankers.values())
        parts = list(data.each(look) if small else map(look, data))
    found = {
        name: _joined(ranker, [part.rankers[number] for part in parts], tell_unjudged)
        for number, (name, ranker) in enumerate(rankers.items())
    }
    baselines = [np.concatenate(one) for one in zip(*(p.baselines for p in parts), strict=True)]
    return OnData(found, baselines, uneven(np.concatenate([part.weights for part in parts])))


def top_of(metric: Metric) -> int | None:
    """How many of the first documents a metric looks at; None for all."""
    return 1 if metric.name == "winner-takes-all" else metric.cutoff


def _measured_part(
    rankers: Rankers,
    data: RankingDataset,
    metrics: Sequence[Metric],
    unjudged: str,
    *,
    keep_scores: bool,
) -> _Part:
    return _Part(
        [
            _seen(ranker, data, metrics, unjudged, keep_scores=keep_scores)
            for ranker in rankers.values()
        ],
        _all_tied(data, metrics),
        data.query_importance,
    )


def _seen(
    ranker: Ranking,
    data: RankingDataset,
    metrics: Sequence[Metric],
    unjudged: str,
    *,
    keep_scores: bool,
) -> _Seen:
    lists = lists_of(ranker, data, condensed=unjudged == "condensed")
    values = [metric.of(lists.queries) for metric in metrics]
    scores = lists.scores if keep_scores else None
    if lists.found is None or not isinstance(ranker, TrecRun):
        return _Seen(RankerValues(values, None, scores=scores), lists.facts)
    shares = [
        _unjudged_share(ranker, lists.found, data.n_queries, top_of(metric)) for metric in metrics
    ]
    if unjudged == "skip":
        for of_metric, share in zip(values, shares, strict=True):
            of_metric[share > 0] = np.nan
    return _Seen(RankerValues(values, shares, scores=scores), lists.facts)


def _unjudged_share(
    run: TrecRun, found: RankedDocuments, n_queries: int, top: int | None
) -> Vector:
    """The share of unjudged documents among the first of each query's list; NaN without a list."""
    order = np.lexsort((-run.scores[found.rows], found.query))
    query, open_ones = found.query[order], ~found.judged[order]
    if top is not None:
        starts = np.searchsorted(query, np.arange(n_queries))
        kept = np.arange(len(query)) - starts[query] < top
        query, open_ones = query[kept], open_ones[kept]
    listed = np.bincount(query, minlength=n_queries)
    shares: NDArray[np.float64] = np.full(n_queries, np.nan)
    np.divide(np.bincount(query, open_ones, n_queries), listed, out=shares, where=listed > 0)
    return shares


def _joined(ranker: Ranking, parts: Sequence[_Seen], tell_unjudged: bool) -> RankerValues:
    """The values of all parts, and what makes them doubtful."""
    facts = [one.facts for one in parts]
    warnings = list_warnings(ranker, facts, tell_unjudged=tell_unjudged)
    values = [np.concatenate(one) for one in zip(*(p.values.values for p in parts), strict=True)]
    shares = [one.values.unjudged for one in parts if one.values.unjudged is not None]
    joined = [np.concatenate(one) for one in zip(*shares, strict=True)] if shares else None
    scores = parts[0].values.scores if len(parts) == 1 else None
    return RankerValues(values, joined, tuple(warnings), scores)


def _all_tied(data: RankingDataset, metrics: Sequence[Metric]) -> list[Vector]:
    """The values of scoring all documents the same."""
    queries = RankedQueries(np.zeros(data.n_documents), data.labels, data.offsets)
    return [metric.of(queries) for metric in metrics]


def ranker_of(
    given: Any, data: RankingDataset | PartitionedDataset, plugins: Sequence[Path] = ()
) -> Model | ReorderingModel | TrecRun:
    """A ranker as it is, from its file (of a model, or a TREC run), or `feature:NAME`."""
    if isinstance(given, str) and given.startswith(FEATURE):
        return feature_ranker(given, data)
    if isinstance(given, Path | str):
        path = Path(given)
        return read_run(path) if is_run(path) else load_model(path, plugins)
    return given  # type: ignore[no-any-return]
