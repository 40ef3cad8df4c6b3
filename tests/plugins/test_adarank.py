"""AdaRank: its rounds against the paper's formulas, and what a metric cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.adarank import AdaRank

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Fit, Run

METRIC = parse_metric("ndcg@5")


def problem(seed: int, queries: int = 12, documents: int = 10) -> RankingDataset:
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 4)).astype(np.float32)
    utility = X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + generator.normal(size=rows)
    labels = np.clip(np.floor(utility), 0, 2).astype(np.float32)
    weights = generator.random(queries) + 0.5
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents), query_weights=weights)


def fit(data: RankingDataset, run: Run | None = None, **options: Any) -> Fit:
    return AdaRank(**options).minimise(OWPC(), data, run or Run(metric=str(METRIC)))


def values(data: RankingDataset, scores: Any) -> Vector:
    return METRIC.per_query(scores, data.labels, data.offsets)


@pytest.mark.parametrize("repeats", ["never", "allowed"])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_rounds_are_those_of_the_paper(seed: int, repeats: str) -> None:
    data = problem(seed)
    P = data.query_importance / data.query_importance.sum()
    w, taken = np.zeros(4), set[int]()
    for row in fit(data, rounds=2, repeats=repeats).history:
        E = {
            (k, sign): values(data, sign * data.features[:, k])
            for k in set(range(4)) - taken
            for sign in (1, -1)
        }
        k, sign = max(E, key=lambda weak: float(P @ E[weak]))
        taken |= {k} if repeats == "never" else set()
        best = E[k, sign]
        w[k] += sign * 0.5 * np.log(P @ (1 + best) / (P @ (1 - best)))
        reached = values(data, data.features @ w)
        P = data.query_importance * np.exp(-reached)
        P /= P.sum()
        assert row["feature"] == k
        assert row["metric"] == pytest.approx(
            np.average(reached, weights=data.query_importance), abs=1e-12
        )


def test_the_model_has_the_metric_that_the_certificate_names() -> None:
    data = problem(5)
    solution = fit(data)
    measured = np.average(
        values(data, solution.model.score(data.features)), weights=data.query_importance
    )
    assert solution.certificate.objective == pytest.approx(measured, abs=1e-6)
    assert solution.certificate.objective == max(row["metric"] for row in solution.history)


def test_each_feature_is_taken_once() -> None:
    solution = fit(problem(6, queries=40))
    assert sorted(row["feature"] for row in solution.history) == [0, 1, 2, 3]
    assert solution.certificate.stop_reason == "no feature is left"


def test_repeats_are_allowed_but_one_feature_is_not_taken_for_ever() -> None:
    data = problem(6, queries=40)
    solution = fit(data, rounds=20, repeats="allowed")
    taken = [row["feature"] for row in solution.history]
    assert 1 < len(set(taken)) < len(taken)
    best_alone = max(float(np.mean(values(data, data.features[:, k]))) for k in range(4))
    assert solution.certificate.objective > best_alone


def test_a_feature_that_the_sum_follows_is_the_best_again() -> None:
    """The rule as published stands still where the other rule goes on."""
    data = problem(2, queries=60)
    allowed, never = (fit(data, repeats=repeats) for repeats in ("allowed", "never"))
    counts = np.bincount([int(row["feature"]) for row in allowed.history])
    assert counts.max() > 10
    assert never.certificate.objective > allowed.certificate.objective


def test_features_that_say_nothing_end_it() -> None:
    data = problem(7)
    solution = fit(replace(data, features=np.ones_like(data.features)), repeats="allowed")
    assert solution.certificate.stop_reason == "no feature changes any query's metric"


def test_document_weights_and_data_on_which_no_query_counts_are_refused() -> None:
    data = problem(11)
    weighted = replace(data, document_weights=np.ones_like(data.labels))
    with pytest.raises(Refused, match="cannot weigh documents"):
        fit(weighted)
    with pytest.raises(Refused, match="no query counts"):
        fit(replace(data, labels=np.zeros_like(data.labels)), Run(metric="map,empty=skip"))
