"""Pairwise losses against the double loop over pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise

from tests.plugins import loss_oracles as oracle

INNERS = ("hinge", "squared-hinge", "logistic")
NORMALISE = ("pairs", "relevant", "none")


@st.composite
def queries(draw: Any) -> tuple[oracle.Array, Any]:
    n = draw(st.integers(1, 9))
    scores = draw(arrays(np.float64, n, elements=st.integers(-12, 12).map(lambda k: k / 4)))
    labels = draw(arrays(np.int64, n, elements=st.integers(-1, 2)))
    return scores, labels.astype(np.float32)


@given(queries(), st.sampled_from(INNERS), st.sampled_from(NORMALISE))
def test_it_equals_the_double_loop(query: Any, inner: str, normalise: str) -> None:
    scores, labels = query
    loss = Pairwise(inner=inner, margin=0.75, normalise=normalise)  # type: ignore[arg-type]
    value, _ = loss.value_and_gradient(scores, labels)
    expected = oracle.pairwise(scores, labels, inner, normalise, 0.75)
    assert value == pytest.approx(expected, abs=1e-12)


@given(queries(), st.sampled_from(INNERS))
def test_two_grades_make_pairs_and_relevant_alike(query: Any, inner: str) -> None:
    scores, labels = query
    binary = (labels > 0).astype(np.float32)
    pairs = Pairwise(inner=inner).value_and_gradient(scores, binary)  # type: ignore[arg-type]
    relevant = Pairwise(inner=inner, normalise="relevant").value_and_gradient(scores, binary)  # type: ignore[arg-type]
    owpc = OWPC(inner=inner).value_and_gradient(scores, binary)  # type: ignore[arg-type]
    for other in (relevant, owpc):
        assert pairs[0] == pytest.approx(other[0], abs=1e-12)
        assert pairs[1] == pytest.approx(other[1], abs=1e-12)


@given(queries())
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
