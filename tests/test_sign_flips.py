"""Sums under sign flips: all of them, a sample, and from where on a sum is shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from owpc_ltr.evaluation import sign_flips as module
from owpc_ltr.evaluation.sign_flips import sign_flips

Array = NDArray[Any]
FEW = hnp.arrays(np.float64, st.integers(1, 10), elements=st.integers(-4, 4).map(float))
ANY = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1, allow_subnormal=False))


def test_sums_of_a_table_are_those_of_the_coins(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    for n in (14, 16, 23, 200):
        differences = rng.standard_normal(n)
        by_table = sign_flips(differences, 500, np.random.default_rng(2))
        monkeypatch.setattr(module, "_TABLED", 0)
        by_coins = sign_flips(differences, 500, np.random.default_rng(2))
        monkeypatch.undo()
        assert by_table.sums == pytest.approx(by_coins.sums, abs=1e-9)
        assert not by_table.exact


@given(FEW | ANY, st.sampled_from([0.001, 0.01, 0.05, 0.3, 1.0]), st.integers(0, 10))
def test_a_sum_is_shown_just_from_the_least_that_is(
    differences: Array, level: float, seed: int
) -> None:
    flips = sign_flips(differences, 100, np.random.default_rng(seed))
    least = flips.least_below(level)
    # Any sum that these differences, in whatever directions, can have.
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(20, len(differences)))
    for total in [*(signs @ differences), differences.sum(), np.abs(differences).sum()]:
        assert (flips.p_of(total) < level) == (abs(total) >= least)


@given(ANY)
def test_no_sum_passes_that_of_equal_signs(differences: Array) -> None:
    flips = sign_flips(differences, 100, np.random.default_rng(0))
    assert flips.sums.max() <= flips.largest * (1 + 1e-12)
    assert flips.p_of(0.0) == 1.0


def test_few_queries_can_show_nothing() -> None:
    flips = sign_flips(np.array([1.0, 2.0, 3.0, 4.0]), 10_000, np.random.default_rng(0))
    assert flips.exact
    assert flips.p_of(10.0) == 2 / 16
    assert flips.least_below(0.05) == math.inf
    assert flips.least_below(0.13) == pytest.approx(8.0, abs=1e-9)
    assert sign_flips(np.zeros(5), 100, np.random.default_rng(0)).least_below(0.05) == math.inf
