"""Metrics of a model on a dataset, per query, with the baseline and the warnings they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.held_out import NothingHeldOut, check_side, choose_queries
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.metrics import Metric, RankedQueries, uneven, zero_score_baseline
from owpc_ltr.protocols import Ranker

Data = RankingDataset | PartitionedDataset
D = TypeVar("D", bound=Data)
_NAME = "the model"


@dataclass(frozen=True)
class Measured:
    """One metric of one ranking: its mean, each query's value, and what no ranker gets."""

    metric: Metric
    mean: float
    per_query: Vector
    zero_baseline: float

    def as_dict(self) -> dict[str, Any]:
        """The mean and what is needed to read it, as JSON."""
        return {
            "metric": str(self.metric),
            "mean": self.mean,
            "zero_score_baseline": self.zero_baseline,
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
    return measure_queries(RankedQueries(scores, data.labels, data.offsets), data, metrics, weights)


def measure_queries(
    queries: RankedQueries,
    data: RankingDataset,
    metrics: Sequence[Metric],
    weights: Vector | None = None,
) -> tuple[Measured, ...]:
    """Each metric of lists that may lack documents of the data, and have others."""
    measured = []
    for metric in metrics:
        values = metric.of(queries)
        if weights is None:
            baseline = zero_score_baseline(metric, data.labels, data.offsets)
        else:
            of_zero = metric.per_query(np.zeros(data.n_documents), data.labels, data.offsets)
            baseline = metric.average(of_zero, weights)
        measured.append(Measured(metric, metric.average(values, weights), values, baseline))
    return tuple(measured)


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
