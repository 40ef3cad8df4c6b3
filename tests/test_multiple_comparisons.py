"""Holm's correction against its definition, and what it is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from owpc_ltr.evaluation.significance import holm

PS = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=1, max_size=8)
TIED = st.lists(st.sampled_from([0.001, 0.01, 0.02, 0.5]), min_size=1, max_size=6)


def rejected_by_steps(p_values: list[float], level: float) -> set[int]:
    """Holm's procedure as he wrote it: the smallest first, until one is too large."""
    left = sorted(range(len(p_values)), key=lambda i: p_values[i])
    rejected: set[int] = set()
    while left and p_values[left[0]] * len(left) < level:
        rejected.add(left.pop(0))
    return rejected


@given(PS | TIED, st.sampled_from([0.01, 0.05, 0.2, 0.7]))
def test_what_is_below_the_level_is_what_the_steps_reject(ps: list[float], level: float) -> None:
    found = holm(np.array(ps))
    assert set(np.flatnonzero(found < level).tolist()) == rejected_by_steps(ps, level)


@given(PS)
def test_a_corrected_p_lies_between_its_own_and_bonferronis(ps: list[float]) -> None:
    own, found = np.array(ps), holm(np.array(ps))
    assert (own <= found).all()
    assert (found <= np.minimum(1.0, len(ps) * own)).all()
    order = np.argsort(own, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


def test_one_test_needs_no_correction() -> None:
    assert holm(np.array([0.03])).tolist() == [0.03]


def test_it_is_as_published() -> None:
    """Four tests, as in R's p.adjust(c(.01, .02, .03, .04), "holm")."""
    assert holm(np.array([0.01, 0.04, 0.03, 0.02])).tolist() == pytest.approx(
        [0.04, 0.06, 0.06, 0.06]
    )


Correct = Any


def false_findings(correct: Correct, rng: np.random.Generator) -> int:
    """In how many of 400 families of ten tests of nothing something is found."""
    return sum(bool((correct(_nothing(rng)) < 0.05).any()) for _ in range(400))


def _nothing(rng: np.random.Generator) -> NDArray[np.float64]:
    shared = rng.standard_normal(25)
    samples = rng.standard_normal((10, 25)) + shared
    found: NDArray[np.float64] = stats.ttest_1samp(samples, 0.0, axis=1).pvalue
    return found


def test_a_family_of_tests_is_wrong_as_seldom_as_one(rng: np.random.Generator) -> None:
    # 20 of 400 and three standard deviations, also where tests depend on each other.
    assert false_findings(holm, rng) <= 33


def test_one_who_does_not_correct_is_caught(rng: np.random.Generator) -> None:
    assert false_findings(lambda p: p, rng) > 33
