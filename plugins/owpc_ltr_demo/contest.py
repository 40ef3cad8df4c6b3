"""The demo's contest on held-out queries: every ranker by every metric, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.measurement import Measured, compare, measure
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.verdict import Outcome
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr_demo.judged import MODULE, OBJECT

METRICS = ("map", "mrr", "ndcg@10")


@dataclass(frozen=True)
class Contest:
    """All rankers on the same queries, in the order given; the first is compared with the others.

    `best_possible` is what the right order of every query's candidates would get: a query whose
    answer is not among them counts 0 for everybody.
    """

    measured: Mapping[str, tuple[Measured, ...]]
    best_possible: tuple[Measured, ...]
    comparisons: Mapping[str, tuple[Comparison, ...]]
    n_queries: int

    def as_dict(self) -> dict[str, Any]:
        """The contest as JSON."""
        return {
            "queries": self.n_queries,
            "rankers": {name: _means(values) for name, values in self.measured.items()},
            "best_possible": _means(self.best_possible),
            "comparisons": [
                {"against": other, "metric": metric, **comparison.as_dict()}
                for other, comparisons in self.comparisons.items()
                for metric, comparison in zip(METRICS, comparisons, strict=True)
            ],
        }


def hold_contest(scores: Mapping[str, Vector], data: RankingDataset, seed: int = 0) -> Contest:
    """Measure every ranker's scores of `data`, and compare the first with each other one."""
    metrics = _metrics()
    measured = {name: measure(values, data, metrics) for name, values in scores.items()}
    first, *others = measured
    comparisons = {
        other: tuple(
            compare(a, b, seed) for a, b in zip(measured[first], measured[other], strict=True)
        )
        for other in others
    }
    ideal = measure(data.labels.astype(np.float64), data, metrics)
    return Contest(measured, ideal, comparisons, data.n_queries)


def by_kind(contest: Contest, data: RankingDataset) -> list[dict[str, Any]]:
    """The last metric's mean of each ranker on the queries of each kind."""
    kinds = np.array([name.partition(":")[0] for name in data.query_ids.to_pylist()])
    rows = []
    for kind in (OBJECT, MODULE):
        chosen = kinds == kind
        if not chosen.any():
            continue
        means = {
            name: float(measured[-1].per_query[chosen].mean())
            for name, measured in contest.measured.items()
        }
        rows.append({"kind": kind, "queries": int(chosen.sum()), METRICS[-1]: means})
    return rows


def verdict(first: str, other: str, metric: str, comparison: Comparison) -> str:
    """What a comparison allows to say, in one sentence, whoever wins."""
    figures = (
        f"{comparison.mean_difference:+.4f} {metric}, 95 % interval [{comparison.low:+.4f}, "
        f"{comparison.high:+.4f}], p = {comparison.p_permutation:.4f}, "
        f"{comparison.n_queries} queries"
    )
    found = comparison.verdict()
    if found.outcome is Outcome.CANNOT_TELL:
        return f"{first} against {other}: {found} ({figures})"
    if found.outcome is Outcome.NO_DIFFERENCE:
        return (
            f"{first} against {other}: {found}: {figures}; minimum detectable difference "
            f"(80 % power): {comparison.detectable:.3f}"
        )
    return f"{first} is {found} than {other}: {figures}"


def rows_of(contest: Contest) -> Sequence[Sequence[object]]:
    """One row a ranker: its name and its metrics."""
    rows: list[Sequence[object]] = [
        (name, *(one.mean for one in measured)) for name, measured in contest.measured.items()
    ]
    rows.append(("(the right order)", *(one.mean for one in contest.best_possible)))
    return rows


def _metrics() -> list[Metric]:
    return [parse_metric(name) for name in METRICS]


def _means(measured: tuple[Measured, ...]) -> dict[str, float]:
    return dict(zip(METRICS, (one.mean for one in measured), strict=True))
