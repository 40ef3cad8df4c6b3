"""Sums under sign flips: all of them, or a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from owpc_ltr.evaluation import resampling as module
from owpc_ltr.evaluation.resampling import sign_flips

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


@given(ANY)
def test_no_sum_passes_that_of_equal_signs(differences: Array) -> None:
    flips = sign_flips(differences, 100, np.random.default_rng(0))
    assert flips.sums.max() <= flips.largest * (1 + 1e-12)
    assert flips.p_of(0.0) == 1.0


def test_few_queries_can_show_nothing() -> None:
    flips = sign_flips(np.array([1.0, 2.0, 3.0, 4.0]), 10_000, np.random.default_rng(0))
    assert flips.exact
    assert flips.p_of(10.0) == 2 / 16
    assert flips.p_of(9.0) == flips.p_of(10.0)
