"""Metrics of a model on a dataset, per query, with the baseline and the warnings they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.metrics import Metric, RankedQueries, tied_share, zero_score_baseline
from owpc_ltr.protocols import Ranker

SIDES = ("auto", "all", "train", "validation", "test")


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
    scores: Vector, data: RankingDataset, metrics: Sequence[Metric]
) -> tuple[Measured, ...]:
    """Each metric of these scores; the documents are sorted once for all."""
    queries = RankedQueries(scores, data.labels, data.offsets)
    measured = []
    for metric in metrics:
        values = metric.of(queries)
        baseline = zero_score_baseline(metric, data.labels, data.offsets)
        measured.append(Measured(metric, metric.average(values), values, baseline))
    return tuple(measured)


def compare(a: Measured, b: Measured, seed: int = 0) -> Comparison:
    """Paired comparison of two rankings of the same queries by one metric."""
    if a.metric != b.metric:
        raise BadInput(f"cannot compare {a.metric} with {b.metric}: measure both by one metric")
    counted = ~(np.isnan(a.per_query) | np.isnan(b.per_query))
    return compare_paired(a.per_query[counted], b.per_query[counted], seed=seed)


def score_warnings(scores: Vector, data: RankingDataset) -> list[str]:
    """What makes the figures of a ranking doubtful: ties."""
    share = tied_share(scores, data.offsets)
    if np.ptp(scores) == 0:
        return ["all scores are equal: the figures are those of a random order"]
    if share > 0.05:
        return [
            f"{share:.0%} of the documents share their score with another of the same query; "
            "figures are expected values over the orders of tied documents"
        ]
    return []


def model_data(
    model: Ranker, data: RankingDataset, side: str = "auto"
) -> tuple[RankingDataset, str]:
    """The queries to evaluate a model on, with the columns it expects, and which side they are.

    `auto`: the queries held out when the model was trained, if it was trained on this data with a
    split by query; else all. Raises BadInput where the features are others, and Refused where a
    side is asked for that the model does not know.
    """
    if side not in SIDES:
        raise BadInput(f"no side is called '{side}': choose among {', '.join(SIDES)}")
    if data.feature_names != model.feature_names:
        raise BadInput(_difference(model, data))
    trained_hash = model.record.get("featureset_hash")
    if trained_hash and data.featureset_hash and trained_hash != data.featureset_hash:
        raise BadInput(
            "the data was logged with another version of the feature set than the model was "
            f"trained on (hash {data.featureset_hash[:12]} against {trained_hash[:12]}): log again"
        )
    source = model.record.get("source", {})
    split = source.get("split")
    trained_here = split is not None and source.get("fingerprint") == data.fingerprint
    if side == "all" or (side == "auto" and not trained_here):
        return data, "all"
    if not trained_here:
        raise Refused(
            f"the model does not know the {side} queries of this data: it was trained on other "
            "data, or without a split; use --queries all"
        )
    side = "test" if side == "auto" else side
    return HashSplit(**split).part(data, side), side


def _difference(model: Ranker, data: RankingDataset) -> str:
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
