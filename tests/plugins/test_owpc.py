"""OWPC and pairwise losses against the papers and the double loop over pairs."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from owpc_ltr_losses.owpc import OWPC, Generator
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr.errors import UsageError
from owpc_ltr.kernels.kernel import bind, evaluate_query
from tests.plugins import oracles as oracle

GENERATORS = get_args(Generator)
INNERS = ("hinge", "squared-hinge", "logistic")
# Scores on a coarse grid are often tied, or exactly one margin apart.
COARSE = st.integers(-12, 12).map(lambda k: k / 4)
SEVERAL = st.integers(2, 7)


@st.composite
def queries(draw: Any, grades: int = 1) -> tuple[oracle.Array, Any]:
    n = draw(SEVERAL)
    scores = draw(arrays(np.float64, n, elements=COARSE))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, grades)))
    return scores, labels.astype(np.float32)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("p", [5.0, 20.0, 100.0])
def test_weights_sum_to_one_and_do_not_increase(generator: str, p: float) -> None:
    """With one relevant document far below, the gradient of the others is α itself."""
    for n in (1, 2, 7, 40, 1000):
        scores = np.append(-np.arange(n) / n, -100.0)
        labels = np.append(np.zeros(n), 1).astype(np.float32)
        _, gradient = OWPC(generator=generator, p=p).value_and_gradient(scores, labels)  # type: ignore[arg-type]
        alpha = gradient[:n]
        assert alpha.sum() == pytest.approx(1.0)
        assert (np.diff(alpha) <= 1e-12).all()
        assert (alpha >= 0).all()
        assert alpha == pytest.approx(oracle.generator_weights(generator, n, p))


@pytest.mark.parametrize("generator", ["inverse", "logarithmic"])
def test_weights_of_a_list_longer_than_the_table_go_on(generator: str) -> None:
    n = 20_000
    scores = np.append(-np.arange(n) / n, -100.0)
    labels = np.append(np.zeros(n), 1).astype(np.float32)
    _, gradient = OWPC(generator=generator).value_and_gradient(scores, labels)  # type: ignore[arg-type]
    np.testing.assert_allclose(gradient[:n], oracle.generator_weights(generator, n), rtol=1e-8)


@given(arrays(np.float64, st.integers(1, 6), elements=COARSE), st.sampled_from(GENERATORS))
def test_the_owa_is_the_maximum_over_permutations(t: oracle.Array, generator: str) -> None:
    alpha = oracle.generator_weights(generator, len(t), 50.0)
    assert oracle.owa(alpha, t) == pytest.approx(oracle.owa_by_permutations(alpha, t))
    # One relevant document at 0 and irrelevant ones at t − 1 have the pair losses [t]₊.
    scores, labels = np.append(t - 1, 0.0), np.append(np.zeros(len(t)), 1).astype(np.float32)
    value, _ = OWPC(generator=generator, p=50.0).value_and_gradient(scores, labels)  # type: ignore[arg-type]
    assert value == pytest.approx(oracle.owa_by_permutations(alpha, np.maximum(t, 0.0)))


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_structured_form_has_the_same_value(generator: str, rng: np.random.Generator) -> None:
    """Prop. 3: one sort finds the maximum over all (σ, b)."""
    for _ in range(6):
        relevant = np.array([True] * rng.integers(1, 3) + [False] * rng.integers(1, 4))
        scores = rng.normal(size=len(relevant)).round(1)
        alpha = oracle.generator_weights(generator, int((~relevant).sum()), 50.0)
        value, gradient = OWPC(generator=generator, p=50.0).value_and_gradient(  # type: ignore[arg-type]
            scores, relevant.astype(np.float32)
        )
        assert value == pytest.approx(oracle.owpc_by_structures(scores, relevant, alpha))
        # Δ* of the paper is the value less the linear part, the cutting plane's offset.
        assert -1e-12 <= value - gradient @ scores <= 1 + 1e-12


@given(queries(), st.sampled_from(GENERATORS), st.sampled_from(INNERS))
def test_the_loss_bounds_the_ranking_error(query: Any, generator: str, inner: str) -> None:
    scores, labels = query
    relevant = labels > 0
    if relevant.all() or not relevant.any():
        return
    alpha = oracle.generator_weights(generator, int((~relevant).sum()))
    value, _ = OWPC(generator=generator, inner=inner).value_and_gradient(scores, labels)  # type: ignore[arg-type]
    if inner == "logistic":
        value /= np.log(2)
    assert value >= oracle.ranking_error(scores, relevant, alpha) - 1e-9


@given(queries(), st.sampled_from(GENERATORS), st.sampled_from(INNERS))
def test_it_equals_the_double_loop(query: Any, generator: str, inner: str) -> None:
    scores, labels = query
    alpha = oracle.generator_weights(generator, int((labels <= 0).sum()), 30.0)
    loss = OWPC(generator=generator, p=30.0, inner=inner, margin=0.5)  # type: ignore[arg-type]
    value, _ = loss.value_and_gradient(scores, labels)
    assert value == pytest.approx(oracle.owpc(scores, labels > 0, alpha, inner, 0.5), abs=1e-12)


@given(queries(), st.sampled_from(INNERS))
def test_the_mean_is_pairwise_classification(query: Any, inner: str) -> None:
    scores, labels = query
    ours = OWPC(inner=inner).value_and_gradient(scores, labels)  # type: ignore[arg-type]
    theirs = Pairwise(inner=inner, normalise="relevant").value_and_gradient(scores, labels)  # type: ignore[arg-type]
    assert ours[0] == pytest.approx(theirs[0], abs=1e-12)
    assert ours[1] == pytest.approx(theirs[1], abs=1e-12)


@given(queries())
def test_the_maximum_is_the_multiclass_svm(query: Any) -> None:
    scores, labels = query
    if not 0 < labels.sum() < len(labels):
        return
    value, _ = OWPC(generator="top", p=1.0).value_and_gradient(scores, labels)
    rival = scores[labels == 0].max()
    assert value == pytest.approx(np.maximum(0, 1 - (scores[labels > 0] - rival)).mean())


@given(queries(grades=3), st.sampled_from(GENERATORS))
def test_thresholds_are_the_mean_of_the_binary_losses(query: Any, generator: str) -> None:
    scores, labels = query
    loss = OWPC(generator=generator, grades="thresholds")  # type: ignore[arg-type]
    parts = [
        OWPC(generator=generator).value_and_gradient(scores, (labels >= grade).astype(np.float32))  # type: ignore[arg-type]
        for grade in np.unique(labels)[1:]
    ]
    value, gradient = loss.value_and_gradient(scores, labels)
    assert value == pytest.approx(np.mean([part[0] for part in parts]) if parts else 0.0)
    if parts:
        assert gradient == pytest.approx(np.mean([part[1] for part in parts], axis=0), abs=1e-12)


@given(queries(grades=3), st.sampled_from(GENERATORS), st.sampled_from(INNERS))
def test_lower_sets_each_document_against_all_lower_grades(
    query: Any, generator: str, inner: str
) -> None:
    scores, labels = query
    expected = [
        oracle.owa(
            oracle.generator_weights(generator, int((labels < labels[i]).sum())),
            oracle.inner_loss(inner, scores[i] - scores[labels < labels[i]]),
        )
        for i in range(len(labels))
        if labels[i] > labels.min()
    ]
    loss = OWPC(generator=generator, inner=inner, grades="lower")  # type: ignore[arg-type]
    value, _ = loss.value_and_gradient(scores, labels)
    assert value == pytest.approx(np.mean(expected) if expected else 0.0, abs=1e-12)


def test_one_irrelevant_document_gets_all_the_weight() -> None:
    value, gradient = OWPC(generator="top").value_and_gradient(
        np.array([0.0, 0.5]), np.array([1, 0], np.float32)
    )
    assert value == 1.5
    assert gradient.tolist() == [-1.0, 1.0]


def test_only_ties_share_their_weights() -> None:
    scores = np.array([0.0, 1.0, 1.0, 2.0])
    _, gradient = OWPC(generator="inverse").value_and_gradient(
        scores, np.array([1, 0, 0, 0], np.float32)
    )
    alpha = oracle.generator_weights("inverse", 3)
    tied = (alpha[1] + alpha[2]) / 2
    assert gradient == pytest.approx([-1.0, tied, tied, alpha[0]])


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("generator", GENERATORS)
def test_large_and_infinite_scores_stay_numbers(generator: str, inner: str) -> None:
    loss = OWPC(generator=generator, inner=inner)  # type: ignore[arg-type]
    labels = np.array([1, 0, 0, 1], np.float32)
    for scores in ([1e6, -1e6, 3.0, 0.0], [-1e6, 1e6, 1e6, 1e6], [0.0, -np.inf, 1.0, np.inf]):
        value, gradient = loss.value_and_gradient(np.array(scores), labels)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    value, gradient = loss.value_and_gradient(np.array([0.0, np.inf, 1.0, 2.0]), labels)
    assert value == np.inf
    value, gradient = loss.value_and_gradient(np.array([0.0, np.nan, 1.0, 2.0]), labels)
    assert np.isnan(value)
    assert np.isnan(gradient).all()


def test_large_scores_do_not_cancel() -> None:
    labels = np.array([1, 0], np.float32)
    for inner in INNERS:
        near, _ = OWPC(inner=inner).value_and_gradient(np.array([0.0, 0.5]), labels)  # type: ignore[arg-type]
        far, _ = OWPC(inner=inner).value_and_gradient(np.array([1e9, 1e9 + 0.5]), labels)  # type: ignore[arg-type]
        assert near == far


def test_a_newton_step_of_the_hinge_is_one_margin(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=9), (np.arange(9) < 3).astype(np.float32)
    _, gradient, curvature = evaluate_query(bind(OWPC(margin=0.25)), scores, labels)
    moved = gradient != 0
    assert moved.any()
    assert np.abs(gradient[moved] / curvature[moved]) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "wrong", [{"p": 0.0}, {"p": 101.0}, {"margin": 0.0}, {"generator": "x"}, {"grades": "x"}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, UsageError), match=next(iter(wrong))):
        OWPC(**wrong)


NORMALISE = ("pairs", "relevant", "none")


@st.composite
def queries_pairwise(draw: Any) -> tuple[oracle.Array, Any]:
    n = draw(st.integers(1, 9))
    scores = draw(arrays(np.float64, n, elements=st.integers(-12, 12).map(lambda k: k / 4)))
    labels = draw(arrays(np.int64, n, elements=st.integers(-1, 2)))
    return scores, labels.astype(np.float32)


@given(queries_pairwise(), st.sampled_from(INNERS), st.sampled_from(NORMALISE))
def test_it_equals_the_double_loop_pairwise(query: Any, inner: str, normalise: str) -> None:
    scores, labels = query
    loss = Pairwise(inner=inner, margin=0.75, normalise=normalise)  # type: ignore[arg-type]
    value, _ = loss.value_and_gradient(scores, labels)
    expected = oracle.pairwise(scores, labels, inner, normalise, 0.75)
    assert value == pytest.approx(expected, abs=1e-12)


@given(queries_pairwise(), st.sampled_from(INNERS))
def test_two_grades_make_pairs_and_relevant_alike(query: Any, inner: str) -> None:
    scores, labels = query
    binary = (labels > 0).astype(np.float32)
    pairs = Pairwise(inner=inner).value_and_gradient(scores, binary)  # type: ignore[arg-type]
    relevant = Pairwise(inner=inner, normalise="relevant").value_and_gradient(scores, binary)  # type: ignore[arg-type]
    owpc = OWPC(inner=inner).value_and_gradient(scores, binary)  # type: ignore[arg-type]
    for other in (relevant, owpc):
        assert pairs[0] == pytest.approx(other[0], abs=1e-12)
        assert pairs[1] == pytest.approx(other[1], abs=1e-12)


@given(queries_pairwise())
def test_relevant_is_owpc_against_lower_grades(query: Any) -> None:
    scores, labels = query
    mine = Pairwise(normalise="relevant").value_and_gradient(scores, labels)
    other = OWPC(grades="lower").value_and_gradient(scores, labels)
    assert mine[0] == pytest.approx(other[0], abs=1e-12)
    assert mine[1] == pytest.approx(other[1], abs=1e-12)


def test_a_long_list_gives_the_same_as_all_its_pairs(rng: np.random.Generator) -> None:
    """Long enough for every branch of the sort and of the search."""
    scores = np.concatenate((rng.normal(size=150), rng.normal(size=50).round(1), [50.0]))
    labels = rng.integers(0, 3, len(scores)).astype(np.float32)
    for inner in INNERS:
        value, gradient = Pairwise(inner=inner).value_and_gradient(scores, labels)  # type: ignore[arg-type]
        assert value == pytest.approx(oracle.pairwise(scores, labels, inner, "pairs"))
        assert gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_the_logistic_cost_is_ranknet() -> None:
    value, gradient = Pairwise(inner="logistic").value_and_gradient(
        np.array([0.3, 1.0]), np.array([1, 0], np.float32)
    )
    assert value == pytest.approx(np.log(1 + np.exp(0.7)))
    assert gradient == pytest.approx([-1 / (1 + np.exp(-0.7)), 1 / (1 + np.exp(-0.7))])
