"""Listwise losses and LambdaRank against enumeration and the papers' formulas."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from owpc_ltr_losses.average_precision import AveragePrecisionLoss
from owpc_ltr_losses.bregman import Bregman
from owpc_ltr_losses.cosine import Cosine
from owpc_ltr_losses.lambdarank import LambdaRank, Measure
from owpc_ltr_losses.listnet import ListNet
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_losses.position_sensitive import PositionSensitive
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import bind, evaluate_query
from owpc_ltr.metrics.metric import Gain
from owpc_ltr.protocols import Loss
from tests.plugins.oracles import Array


@st.composite
def queries(draw: Any, largest: int = 7, grades: int = 3) -> tuple[Array, Any]:
    n = draw(st.integers(2, largest))
    scores = draw(arrays(np.float64, n, elements=st.integers(-12, 12).map(lambda k: k / 4)))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, grades)))
    return scores, labels.astype(np.float32)


def average_precision(relevant: Any) -> float:
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(precision[relevant].mean())


def svm_map_by_enumeration(scores: Array, relevant: Any) -> float:
    """Yue et al. (2007): max over all rankings of Δ + ⟨w, Ψ(π)⟩ − ⟨w, Ψ(right)⟩."""
    if relevant.all() or not relevant.any():
        return 0.0
    pairs = relevant.sum() * (~relevant).sum()
    best = -np.inf
    for ranking in permutations(range(len(scores))):
        place = np.argsort(ranking)
        margin = sum(
            2 * (scores[i] - scores[j])
            for i in np.flatnonzero(relevant)
            for j in np.flatnonzero(~relevant)
            if place[j] < place[i]
        )
        best = max(best, 1 - average_precision(relevant[list(ranking)]) - margin / pairs)
    return float(best)


@given(queries(largest=6, grades=1))
def test_the_best_ranking_is_found_without_enumeration(query: Any) -> None:
    scores, labels = query
    value, gradient = AveragePrecisionLoss().value_and_gradient(scores, labels)
    assert value == pytest.approx(svm_map_by_enumeration(scores, labels > 0), abs=1e-12)
    assert gradient.sum() == pytest.approx(0.0, abs=1e-12)


@given(queries(largest=30, grades=1))
def test_the_average_precision_loss_bounds_one_minus_ap(query: Any) -> None:
    scores, labels = query
    relevant = labels > 0
    if relevant.all() or not relevant.any():
        return
    worst = np.lexsort((relevant, -scores))
    value, _ = AveragePrecisionLoss().value_and_gradient(scores, labels)
    assert value >= 1 - average_precision(relevant[worst]) - 1e-12


def test_halving_finds_what_trying_each_place_finds(rng: np.random.Generator) -> None:
    """The value of long lists, by the O(|R| |N|) search of Yue et al."""
    for size in (0.01, 1.0, 30.0):
        scores = size * rng.normal(size=120)
        labels = (rng.random(120) < 0.3).astype(np.float32)
        r, n = np.sort(scores[labels > 0])[::-1], np.sort(scores[labels == 0])[::-1]
        i, j = np.arange(1, len(r) + 1)[:, None], np.arange(1, len(n) + 1)[None, :]
        gains = (j / (i + j) - (j - 1) / (i + j - 1) + 2 * (n - r[:, None]) / len(n)) / len(r)
        above = np.vstack((np.zeros(len(n)), np.cumsum(gains[::-1], axis=0)))
        value, _ = AveragePrecisionLoss().value_and_gradient(scores, labels)
        assert value == pytest.approx(above.max(axis=0).sum())


@given(queries())
def test_position_sensitive_is_the_sum_over_pairs(query: Any) -> None:
    scores, labels = query
    levels = np.unique(labels)[::-1]
    rank = 1 + np.searchsorted(-levels, -labels)
    r = len(levels)
    expected = sum(
        max(0.0, abs(r / rank[i] - r / rank[j]) - (scores[i] - scores[j]))
        for i in range(len(labels))
        for j in range(len(labels))
        if rank[i] < rank[j]
    )
    value, _ = PositionSensitive().value_and_gradient(scores, labels)
    assert value == pytest.approx(expected)


@given(queries(grades=1))
def test_with_two_grades_position_does_not_matter(query: Any) -> None:
    scores, labels = query
    mine = PositionSensitive(normalise="pairs").value_and_gradient(scores, labels)
    other = Pairwise().value_and_gradient(scores, labels)
    assert mine[0] == pytest.approx(other[0])
    assert mine[1] == pytest.approx(other[1], abs=1e-12)


@given(queries())
def test_position_sensitive_bounds_the_number_of_wrong_pairs(query: Any) -> None:
    """Riezler & De Bona (2009), Def. 2; margins are at least 1 / (r − 1), so up to that factor."""
    scores, labels = query
    wrong = sum(
        scores[i] < scores[j]
        for i in range(len(labels))
        for j in range(len(labels))
        if labels[i] > labels[j]
    )
    value, _ = PositionSensitive().value_and_gradient(scores, labels)
    assert value >= wrong / max(len(np.unique(labels)) - 1, 1) - 1e-9


@given(queries())
def test_listnet_is_the_cross_entropy_less_the_entropy(query: Any) -> None:
    scores, labels = query
    if len(set(labels)) == 1:
        return
    wanted = softmax(labels.astype(np.float64))
    expected = float(wanted @ (np.log(wanted) - scores + logsumexp(scores)))
    value, gradient = ListNet().value_and_gradient(scores, labels)
    assert value == pytest.approx(expected, abs=1e-9)
    assert gradient == pytest.approx(softmax(scores) - wanted, abs=1e-9)
    assert ListNet().value_and_gradient(labels.astype(float), labels)[0] == pytest.approx(
        0, abs=1e-9
    )


@given(queries())
def test_cosine_is_one_minus_the_cosine_halved(query: Any) -> None:
    scores, labels = query
    if not (labels.any() and scores.any()):
        return
    for target, y in (("label", labels.astype(float)), ("gain", 2.0 ** labels.astype(float) - 1)):
        cosine = y @ scores / np.linalg.norm(y) / np.linalg.norm(scores)
        value, _ = Cosine(target).value_and_gradient(scores, labels)  # type: ignore[arg-type]
        assert value == pytest.approx((1 - cosine) / 2, abs=1e-9)
        assert Cosine(target).value_and_gradient(1e200 * scores, labels)[0] == pytest.approx(value)  # type: ignore[arg-type]


def best_gains(labels: Array) -> Array:
    gains = 2.0**labels - 1
    return np.asarray(gains / (np.sort(gains)[::-1] / np.log2(np.arange(len(labels)) + 2)).sum())


def divergence(psi: str, x: Array, y: Array) -> float:
    """D_ψ(x, y) = ψ(x) − ψ(y) − ⟨∇ψ(y), x − y⟩, straight from its definition."""
    if psi == "square":
        return float(((x - y) ** 2).sum())
    if psi == "cross-entropy":
        logs = np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0) / y), 0.0)
        return float(0.01 * (logs - x + y).sum())
    q = np.log(len(x)) + 2

    def norm(v: Array) -> float:
        return float((np.abs(v) ** q).sum() ** (1 / q))

    slope = 2 * norm(y) ** (2 - q) * np.abs(y) ** (q - 1) * np.sign(y)
    return float(norm(x) ** 2 - norm(y) ** 2 - slope @ (x - y))


def scores_of(psi: str, y: Array) -> Array:
    """∇ψ(y)."""
    if psi == "square":
        return np.asarray(2 * y)
    if psi == "cross-entropy":
        return np.asarray(0.01 * np.log(y))
    q = np.log(len(y)) + 2
    norm = (np.abs(y) ** q).sum() ** (1 / q)
    return np.asarray(2 * norm ** (2 - q) * np.abs(y) ** (q - 1) * np.sign(y))


@pytest.mark.parametrize("psi", ["cross-entropy", "square", "q-norm"])
def test_bregman_is_the_divergence_of_its_definition(psi: str, rng: np.random.Generator) -> None:
    for _ in range(20):
        n = rng.integers(2, 12)
        y = rng.uniform(0.05, 1.5, n)
        labels = rng.integers(0, 4, n)
        labels[0] = 1
        value, _ = Bregman(psi).value_and_gradient(scores_of(psi, y), labels.astype(np.float32))  # type: ignore[arg-type]
        assert value == pytest.approx(divergence(psi, best_gains(labels.astype(float)), y))


@pytest.mark.parametrize("psi", ["square", "q-norm"])
def test_bregman_is_zero_at_the_normalised_gains(psi: str) -> None:
    labels = np.array([2, 0, 1, 3, 0], np.float32)
    scores = scores_of(psi, best_gains(labels.astype(float)))
    value, gradient = Bregman(psi).value_and_gradient(scores, labels)  # type: ignore[arg-type]
    assert value == pytest.approx(0.0, abs=1e-12)
    assert gradient == pytest.approx(np.zeros(5), abs=1e-9)


@pytest.mark.parametrize("psi", ["cross-entropy", "square", "q-norm"])
def test_bregman_orders_by_expected_gain(psi: str) -> None:
    """Consistency with NDCG: two equally likely judgments of one list are averaged as Ḡ."""
    loss = Bregman(psi, scale=1.0)  # type: ignore[arg-type]
    judged = [np.array([3, 0, 1, 0], np.float32), np.array([0, 1, 1, 0], np.float32)]

    def mean(scores: Array) -> tuple[float, Array]:
        parts = [loss.value_and_gradient(scores, labels) for labels in judged]
        return sum(part[0] for part in parts) / 2, (parts[0][1] + parts[1][1]) / 2

    minimum = minimize(mean, np.zeros(4), jac=True, options={"gtol": 1e-8})
    expected = np.mean([best_gains(labels.astype(float)) for labels in judged], axis=0)
    assert np.argsort(-minimum.x[:3]).tolist() == np.argsort(-expected[:3]).tolist()
    assert minimum.x[:3].min() > minimum.x[3]


@pytest.mark.parametrize(
    "loss",
    [
        *(ListNet(), Bregman(scale=1.0), Bregman("square"), Bregman("q-norm")),
        *(OWPC("inverse", inner="squared-hinge"), OWPC("inverse", inner="logistic")),
        LambdaRank(normalise="none"),
    ],
    ids=str,
)
def test_the_curvature_is_the_second_derivative(loss: Loss, rng: np.random.Generator) -> None:
    scores = rng.permutation(np.linspace(-1.9, 2.0, 8))
    labels = rng.integers(0, 3, 8).astype(np.float32)
    _, _, curvature = evaluate_query(bind(loss), scores, labels)
    for i in range(8):
        step = 1e-6 * np.eye(8)[i]
        _, above, _ = evaluate_query(bind(loss), scores + step, labels)
        _, below, _ = evaluate_query(bind(loss), scores - step, labels)
        assert curvature[i] == pytest.approx((above[i] - below[i]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize(
    "loss", [PositionSensitive(), AveragePrecisionLoss(), ListNet(), Cosine(), Bregman()], ids=str
)
def test_large_scores_stay_numbers(loss: Loss) -> None:
    labels, weights = np.array([1, 0, 2, 0], np.float32), np.ones(4, np.float32)
    for scores in ([1e6, -1e6, 3.0, 0.0], [-1e6, 1e6, 1e6, 1e6]):
        value, gradient = loss.value_and_gradient(np.array(scores), labels, weights)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    value, gradient = loss.value_and_gradient(np.array([0.0, np.nan, 0, 0]), labels, weights)
    assert np.isnan(value)
    assert np.isnan(gradient).all()


def test_weights_between_two_numbers_lie_between(rng: np.random.Generator) -> None:
    """Bregman's ideal DCG takes a fraction of a document as a fraction of its place."""
    scores, labels = rng.normal(size=5), np.array([2, 1, 1, 0, 0], np.float32)
    values = [
        Bregman("square").value_and_gradient(scores, labels, np.array([w, 1, 1, 1, 1], np.float32))[
            0
        ]
        for w in (1.0, 1.5, 2.0)
    ]
    assert min(values[0], values[2]) < values[1] < max(values[0], values[2])


Measured = Callable[[Array], float]


def ndcg(labels: Array, truncation: int, gain: Gain = "exponential") -> float:
    gains = 2.0**labels - 1 if gain == "exponential" else labels
    discounts = 1 / np.log2(np.arange(2, len(labels) + 2))
    discounts[truncation or len(labels) :] = 0
    return float(gains @ discounts / (np.sort(gains)[::-1] @ discounts))


def average_precision_lambdarank(labels: Array) -> float:
    relevant = labels > 0
    precision = np.cumsum(relevant) / np.arange(1, len(labels) + 1)
    return float(precision[relevant].mean())


def pair_error(labels: Array) -> float:
    wrong = sum(bool(a < b) for a, b in combinations(labels, 2))
    return wrong / sum(bool(a != b) for a, b in combinations(labels, 2))


MEASURES: dict[Measure, Measured] = {
    "ndcg": lambda labels: ndcg(labels, 4),
    "map": average_precision_lambdarank,
    "mrr": lambda labels: 1 / (1 + int(np.argmax(labels > 0))),
    "winner-takes-all": lambda labels: float(labels[0] <= 0),
    "pairwise-error": pair_error,
}


def forces_by_swapping(
    scores: Array, labels: Array, measured: Measured, binary: bool, normalise: str = "none"
) -> Array:
    """Σ_j ± |measure after the swap − before| / (1 + exp(s_i − s_j)), each swap carried out."""
    order = np.argsort(-scores)
    ranked, slopes, total = labels[order], np.zeros(len(scores)), 0.0
    grades = (ranked > 0) if binary else ranked
    for a, b in combinations(range(len(scores)), 2):
        if grades[a] == grades[b]:
            continue
        swapped = ranked.copy()
        swapped[[a, b]] = swapped[[b, a]]
        size = abs(measured(swapped) - measured(ranked))
        i, j = (order[a], order[b]) if grades[a] > grades[b] else (order[b], order[a])
        push = size * expit(scores[j] - scores[i])
        if normalise in {"pairs", "both"}:
            push /= 0.01 + abs(scores[i] - scores[j])
        slopes[i] -= push
        slopes[j] += push
        total += 2 * push
    if normalise in {"queries", "both"} and total > 0:
        slopes *= np.log2(1 + total) / total
    return slopes


@pytest.mark.parametrize("spread", [1.0, 1000.0])
@pytest.mark.parametrize("normalise", ["none", "pairs", "queries", "both"])
@pytest.mark.parametrize("measure", MEASURES)
def test_each_force_is_what_a_swap_changes(
    measure: Measure, normalise: Any, spread: float, rng: np.random.Generator
) -> None:
    for _ in range(20):
        scores = spread * rng.normal(size=rng.integers(2, 12))
        labels = rng.integers(0, 4, len(scores)) * (rng.random(len(scores)) < 0.6)
        if not labels.any() or (labels > 0).all():
            continue
        binary = measure in {"map", "mrr", "winner-takes-all"}
        loss = LambdaRank(measure=measure, truncation=4, normalise=normalise)
        _, gradient = loss.value_and_gradient(scores, labels.astype(np.float32))
        expected = forces_by_swapping(
            scores, labels.astype(float), MEASURES[measure], binary, normalise
        )
        assert gradient == pytest.approx(expected, abs=1e-12)


def test_no_truncation_counts_every_rank(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=15), rng.integers(0, 3, 15).astype(np.float32)
    _, gradient = LambdaRank(truncation=0, normalise="none").value_and_gradient(scores, labels)
    expected = forces_by_swapping(scores, labels.astype(float), lambda y: ndcg(y, 0), False)
    assert gradient == pytest.approx(expected)


@pytest.mark.parametrize("gain", ["exponential", "linear"])
@pytest.mark.parametrize("labels", [[3, 0, 1, 2], [99, 0, 50, 33], [2.5, 0.5, 0, 1.25], [7.5, 40]])
def test_forces_follow_the_gain(gain: Gain, labels: Any, rng: np.random.Generator) -> None:
    for length in (5, 8, 17, 40):
        scores, grades = rng.normal(size=length), rng.choice(labels, length)
        loss = LambdaRank(truncation=4, gain=gain)
        _, gradient = loss.value_and_gradient(scores, grades.astype(np.float32))
        expected = forces_by_swapping(
            scores, grades.astype(float), lambda y: ndcg(y, 4, gain), False, "both"
        )
        assert gradient == pytest.approx(expected, abs=1e-12)


def test_a_linear_gain_ignores_the_unit_of_the_labels(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=20), rng.integers(0, 4, 20).astype(np.float32)
    value, gradient = LambdaRank(gain="linear").value_and_gradient(scores, labels)
    for factor in (np.float32(33), np.float32(0.25)):
        scaled = LambdaRank(gain="linear").value_and_gradient(scores, factor * labels)
        assert scaled[0] == pytest.approx(value, rel=1e-12)
        assert scaled[1] == pytest.approx(gradient, rel=1e-12)


def test_binary_labels_have_the_same_linear_and_exponential_gain() -> None:
    scores, labels = np.array([0.5, -2.0, 1.0]), np.array([1, 0, 0], np.float32)
    value, gradient = LambdaRank(gain="linear").value_and_gradient(scores, labels)
    exponential = LambdaRank().value_and_gradient(scores, labels)
    assert value == exponential[0]
    assert np.array_equal(gradient, exponential[1])


@pytest.mark.parametrize("highest", [32, 1024, 30000])
def test_large_labels_give_numbers_and_are_refused_by_name(highest: int) -> None:
    labels = np.array([0, highest, 1, highest - 1], np.float32)
    value, gradient = LambdaRank().value_and_gradient(np.array([0.5, -2.0, 1.0, 0.0]), labels)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert gradient[1] < 0
    with pytest.raises(Refused, match=rf"the largest label is {highest}, .* set loss\.gain=linear"):
        LambdaRank().check_labels(highest)
    for loss in (LambdaRank(gain="linear"), LambdaRank(measure="map")):
        loss.check_labels(highest)
    LambdaRank().check_labels(31)


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_two_documents_have_the_force_and_the_cost_of_the_paper(margin: float) -> None:
    """Burges (2006), eqs 4–9, up to the constant that makes the cost end at 0."""
    loss = LambdaRank(measure="pairwise-error", pair="margin", margin=margin, normalise="none")
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
