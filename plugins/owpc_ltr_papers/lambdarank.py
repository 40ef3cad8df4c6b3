"""Burges, "Ranking as Learning Structured Outputs": λ-functions by gradient descent.

The paper measures nothing. What it says in figures is an example, which is arithmetic; what it
proposes is measured here on LETOR data: a λ-function for each measure, with RankNet's pair force or
the margin form (eqs 4–6), for a linear model and for the two-layer network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from owpc_ltr.metrics import RankedQueries, parse_metric
from owpc_ltr_papers.jobs import Training
from owpc_ltr_papers.protocol import Extent, Fact, Method, Protocol

_METRICS = ("map", "ndcg-letor@1", "ndcg-letor@3", "ndcg-letor@10", "mrr", "winner-takes-all")
_DOCUMENTS = 1000


def lambdarank() -> Protocol:
    """λ-functions of five measures, and the paper's example."""
    return Protocol(
        name="lambdarank",
        sources=("lambdarank", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, _METRICS)),
        methods=_methods,
        says=(
            "the paper reports no experiment: LETOR's own baselines stand beside",
            "batches of queries by Adam; C from .01, 1 and 100 by MAP on each fold's validation "
            "queries, where the best epoch is kept too",
            "tied scores count their expected value, where LETOR's script takes file order",
        ),
        facts=worked_example,
    )


def worked_example() -> Sequence[Fact]:
    """A thousand documents: the relevant ones move from ranks 1 and 1,000 to ranks 2 and 3."""
    before, after = _relevant_at(1, _DOCUMENTS), _relevant_at(2, 3)
    pairs = 2 * (_DOCUMENTS - 2)
    wrong = [_value("pairwise-error", queries) * pairs for queries in (before, after)]
    method = "two relevant documents move"
    found = {
        "pairs that become right": wrong[0] - wrong[1],
        # The paper's is the cost: 0 where the first document is relevant.
        "winner-takes-all cost before": 1 - _value("winner-takes-all", before),
        "winner-takes-all cost after": 1 - _value("winner-takes-all", after),
    }
    return [Fact("worked example", method, name, value) for name, value in found.items()]


def _relevant_at(*ranks: int) -> RankedQueries:
    labels = np.zeros(_DOCUMENTS, dtype=np.float32)
    labels[[rank - 1 for rank in ranks]] = 1
    scores = -np.arange(_DOCUMENTS, dtype=np.float64)
    return RankedQueries(scores, labels, np.array([0, _DOCUMENTS]))


def _value(metric: str, queries: RankedQueries) -> float:
    return float(parse_metric(metric).of(queries)[0])


def _methods(extent: Extent) -> Sequence[Method]:
    measures = ("ndcg",) if extent.quick else ("ndcg", "map", "mrr", "winner-takes-all",
                                               "pairwise-error")  # fmt: skip
    jobs = [_job(f"λ of {measure}", extent, {"loss.measure": measure}) for measure in measures]
    jobs.append(_job("λ of ndcg, margin force", extent, {"loss.pair": "margin"}))
    network: dict[str, Any] = {"optimizer.model": "network"}
    jobs.append(_job("λ of ndcg, two layers", extent, network))
    return [Method(job.name, (job,)) for job in jobs]


def _job(name: str, extent: Extent, settings: dict[str, Any]) -> Training:
    grid = {"optimizer.C": "1" if extent.quick else "0.01,1,100"}
    own = {**settings, **({"optimizer.epochs": 10} if extent.quick else {})}
    return Training(name, "lambdarank", "gradient", own, grid)
