"""RankBoost: its sums over pairs against lists of all pairs, and trees that score as it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.rankboost import RankBoost, _Pairs

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.errors import Refused
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Fit, Run


def problem(seed: int, queries: int = 6, documents: int = 8) -> RankingDataset:
    """Graded documents, missing values, query and document weights."""
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 3)).astype(np.float32)
    labels = np.clip(np.floor(X[:, 0] + X[:, 1] + 0.5 * generator.normal(size=rows)), 0, 2)
    X[generator.random(X.shape) < 0.1] = np.nan
    return make_dataset(
        X,
        labels,
        np.repeat(np.arange(queries), documents),
        query_weights=generator.random(queries) + 0.5,
        document_weights=(generator.random(rows) + 0.5).astype(np.float32),
    )


def fit(data: RankingDataset, run: Run | None = None, **options: Any) -> Fit:
    return RankBoost(**({"rounds": 20} | options)).minimise(OWPC(), data, run or Run())


def all_pairs(data: RankingDataset) -> list[tuple[int, int, float]]:
    """Better document, worse document, weight."""
    pairs = []
    for query in range(data.n_queries):
        rows = range(data.offsets[query], data.offsets[query + 1])
        for i in rows:
            for j in rows:
                if data.labels[i] > data.labels[j]:
                    weight = data.query_importance[query] * data.weights[i] * data.weights[j]
                    pairs.append((i, j, float(weight)))
    return pairs


def pair_weights(data: RankingDataset, scores: Vector) -> tuple[Vector, Vector, Vector]:
    better, worse, weight = (np.array(part) for part in zip(*all_pairs(data), strict=True))
    return better, worse, weight * np.exp(scores[worse] - scores[better])


@pytest.mark.parametrize("seed", range(3))
def test_the_stump_of_a_round_is_the_best_over_all_thresholds_and_pairs(seed: int) -> None:
    data = problem(seed)
    pairs = _Pairs(data, threads=1)
    for _ in range(4):
        better, worse, D = pair_weights(data, pairs.scores)
        best = 0.0
        for feature in range(3):
            column = data.features[:, feature]
            for threshold in column[~np.isnan(column)]:
                for missing in (False, True):
                    h = np.where(np.isnan(column), missing, column >= threshold).astype(float)
                    best = max(best, abs(float(D @ (h[better] - h[worse]))) / D.sum())
        stump = pairs.best_stump()
        assert abs(stump.alpha) == pytest.approx(np.arctanh(best), rel=1e-9)
        pairs.add(stump)


def test_the_objective_is_the_mean_of_exponentials_over_pairs() -> None:
    data = problem(4)
    found = fit(data)
    _, _, at_zero = pair_weights(data, np.zeros(data.n_documents))
    _, _, reached = pair_weights(data, found.model.score(data.features))
    assert found.certificate.objective == pytest.approx(reached.sum() / at_zero.sum(), rel=1e-9)


def test_each_round_lowers_the_objective_as_its_theorem_says() -> None:
    before = 1.0
    for row in fit(problem(5), rounds=50).history:
        # Freund et al. (2003), theorem 1 with their third method: Z ≤ √(1 − r²).
        bound = np.sqrt(1 - np.tanh(row["step"]) ** 2)
        assert row["objective"] <= before * bound * (1 + 1e-9)
        before = row["objective"]


def test_large_scores_neither_overflow_nor_vanish() -> None:
    data = replace(problem(6), features=np.ones((48, 1), np.float32), feature_names=("a",))
    separable = replace(data, features=data.labels[:, None].copy())
    found = fit(separable, rounds=200)
    assert np.isfinite(found.model.score(separable.features)).all()
    assert 0 <= found.certificate.objective < 1e-12
    assert fit(data).certificate.stop_reason.startswith("no threshold separates")


def test_a_value_being_there_or_not_is_a_threshold_too() -> None:
    data = problem(7)
    known = np.where(data.labels > 0, 5.0, np.nan).astype(np.float32)[:, None]
    data = replace(data, features=known, feature_names=("a",))
    assert fit(data, rounds=1).certificate.objective < 0.9


def test_threads_change_nothing() -> None:
    data = problem(8, queries=30)
    one, two = (fit(data, Run(threads=n)).model.as_dict() for n in (1, 2))
    assert one == two


def test_the_round_of_the_best_validation_metric_is_kept() -> None:
    data, validation = problem(9), problem(10)
    found = fit(data, Run(validation=validation, metric="ndcg@3"), rounds=100, patience=10)
    seen = [row["validation"] for row in found.history]
    values = parse_metric("ndcg@3").per_query(
        found.model.score(validation.features), validation.labels, validation.offsets
    )
    kept = np.average(values, weights=validation.query_importance)
    assert kept == pytest.approx(max(seen), abs=1e-12)
    assert found.certificate.passes == int(np.argmax(seen)) + 1
    assert "has not risen since round" in found.certificate.stop_reason


def test_data_without_an_order_is_refused_in_a_line() -> None:
    with pytest.raises(Refused, match="there is no order to learn"):
        fit(replace(problem(11), labels=np.ones(48, np.float32)))
