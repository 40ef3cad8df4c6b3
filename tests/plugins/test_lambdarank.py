"""LambdaRank against Burges's two documents, and against measures computed before and after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank, Measure

from owpc_ltr.kernels.kernel import bind, evaluate_query
from tests.plugins.loss_oracles import Array

Measured = Callable[[Array], float]


def ndcg(labels: Array, truncation: int) -> float:
    gains = 2.0**labels - 1
    discounts = 1 / np.log2(np.arange(2, len(labels) + 2))
    discounts[truncation or len(labels) :] = 0
    return float(gains @ discounts / (np.sort(gains)[::-1] @ discounts))


def average_precision(labels: Array) -> float:
    relevant = labels > 0
    precision = np.cumsum(relevant) / np.arange(1, len(labels) + 1)
    return float(precision[relevant].mean())


def pair_error(labels: Array) -> float:
    wrong = sum(bool(a < b) for a, b in combinations(labels, 2))
    return wrong / sum(bool(a != b) for a, b in combinations(labels, 2))


MEASURES: dict[Measure, Measured] = {
    "ndcg": lambda labels: ndcg(labels, 4),
    "map": average_precision,
    "mrr": lambda labels: 1 / (1 + int(np.argmax(labels > 0))),
    "winner-takes-all": lambda labels: float(labels[0] <= 0),
    "pairwise-error": pair_error,
}


def forces_by_swapping(scores: Array, labels: Array, measured: Measured, binary: bool) -> Array:
    """Σ_j ± |measure after the swap − before| / (1 + exp(s_i − s_j)), each swap carried out."""
    order = np.argsort(-scores)
    ranked, slopes = labels[order], np.zeros(len(scores))
    grades = (ranked > 0) if binary else ranked
    for a, b in combinations(range(len(scores)), 2):
        if grades[a] == grades[b]:
            continue
        swapped = ranked.copy()
        swapped[[a, b]] = swapped[[b, a]]
        size = abs(measured(swapped) - measured(ranked))
        i, j = (order[a], order[b]) if grades[a] > grades[b] else (order[b], order[a])
        push = size / (1 + np.exp(scores[i] - scores[j]))
        slopes[i] -= push
        slopes[j] += push
    return slopes


@pytest.mark.parametrize("measure", MEASURES)
def test_each_force_is_what_a_swap_changes(measure: Measure, rng: np.random.Generator) -> None:
    for _ in range(50):
        scores = rng.normal(size=rng.integers(2, 12))
        labels = rng.integers(0, 4, len(scores)) * (rng.random(len(scores)) < 0.6)
        if not labels.any() or (labels > 0).all():
            continue
        binary = measure in {"map", "mrr", "winner-takes-all"}
        loss = LambdaRank(measure=measure, truncation=4)
        _, gradient = loss.value_and_gradient(scores, labels.astype(np.float32))
        expected = forces_by_swapping(scores, labels.astype(float), MEASURES[measure], binary)
        assert gradient == pytest.approx(expected, abs=1e-12)


def test_no_truncation_counts_every_rank(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=15), rng.integers(0, 3, 15).astype(np.float32)
    _, gradient = LambdaRank(truncation=0).value_and_gradient(scores, labels)
    expected = forces_by_swapping(scores, labels.astype(float), lambda y: ndcg(y, 0), False)
    assert gradient == pytest.approx(expected)


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_two_documents_have_the_force_and_the_cost_of_the_paper(margin: float) -> None:
    """Burges (2006), eqs 4–9, up to the constant that makes the cost end at 0."""
    loss = LambdaRank(measure="pairwise-error", pair="margin", margin=margin)
    for x in (-3.0, -0.1, 0.0, 0.3 * margin, margin, margin + 0.1):
        value, gradient = loss.value_and_gradient(np.array([x, 0.0]), np.array([1, 0], np.float32))
        if x < 0:
            force, cost = 1.0, -x
        elif x <= margin:
            force, cost = margin - x, 0.5 * x * x - margin * x
        else:
            force, cost = 0.0, -0.5 * margin**2
        assert gradient == pytest.approx([-force, force])
        assert value == pytest.approx(cost + 0.5 * margin**2)


def test_the_winner_of_a_thousand_is_held_in_place() -> None:
    """Burges (2006), section 3: relevant documents at ranks 1 and 1000 of 1000.

    Under the pairwise error the last document is pulled up by 998 forces and the first one held
    by as many weak ones; under winner-takes-all nothing pulls the last one at all.
    """
    scores = -np.arange(1000) / 100
    labels = np.zeros(1000, np.float32)
    labels[[0, 999]] = 1
    _, winner = LambdaRank(measure="winner-takes-all").value_and_gradient(scores, labels)
    assert winner[0] < 0
    assert winner[999] == 0
    _, pairs = LambdaRank(measure="pairwise-error").value_and_gradient(scores, labels)
    assert pairs[999] < pairs[0] < 0


def test_alpha_adds_a_spring() -> None:
    scores, labels = np.array([0.5, -2.0, 1.0]), np.array([1, 0, 0], np.float32)
    free, held = LambdaRank(), LambdaRank(alpha=0.1)
    value, gradient = free.value_and_gradient(scores, labels)
    with_spring, pulled = held.value_and_gradient(scores, labels)
    assert pulled == pytest.approx(gradient + 0.1 * scores)
    assert with_spring == pytest.approx(value + 0.05 * scores @ scores)


def test_ties_count_against_the_ranker() -> None:
    """With all scores equal, the order of the documents makes no difference between grades."""
    labels = np.array([1, 0, 0, 0], np.float32)
    first, _ = LambdaRank(measure="map").value_and_gradient(np.zeros(4), labels)
    last, _ = LambdaRank(measure="map").value_and_gradient(np.zeros(4), labels[::-1].copy())
    assert first == last > 0


def test_the_curvature_is_the_slope_of_the_force(rng: np.random.Generator) -> None:
    loss = LambdaRank()
    scores, labels = rng.normal(size=8), rng.integers(0, 3, 8).astype(np.float32)
    _, _, curvature = evaluate_query(bind(loss), scores, labels)
    for i in range(8):
        step = np.eye(8)[i] * 1e-6
        above = loss.value_and_gradient(scores + step, labels)[1][i]
        below = loss.value_and_gradient(scores - step, labels)[1][i]
        assert curvature[i] == pytest.approx((above - below) / 2e-6, abs=1e-5)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("pair", ["logistic", "margin"])
def test_degenerate_queries_push_nothing(measure: Measure, pair: str) -> None:
    loss = LambdaRank(measure=measure, pair=pair)  # type: ignore[arg-type]
    for labels in ([0], [1], [0, 0, 0], [2, 2, 2]):
        scores = np.linspace(-1, 1, len(labels))
        value, gradient = loss.value_and_gradient(scores, np.array(labels, np.float32))
        assert value == 0
        assert (gradient == 0).all()
    value, gradient = loss.value_and_gradient(
        np.array([-np.inf, 1e6, np.inf, np.inf]), np.array([1, 0, 0, 1], np.float32)
    )
    assert not np.isnan(value)
    assert np.isfinite(gradient).all()
