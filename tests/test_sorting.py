"""The compiled sort against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from owpc_ltr.kernels.sorting import sort_ascending


def check(scores: NDArray[np.floating[Any]]) -> None:
    documents = np.arange(len(scores))
    sort_ascending(scores, documents)
    np.testing.assert_array_equal(documents, np.argsort(scores, kind="stable"))


@given(arrays(np.float64, st.integers(0, 80), elements=st.floats(allow_nan=False)))
def test_any_scores_are_sorted_stably(scores: NDArray[np.float64]) -> None:
    check(scores)


@pytest.mark.parametrize("n", [2, 16, 17, 100, 5000])
def test_scores_of_every_shape_are_sorted(n: int, rng: np.random.Generator) -> None:
    normal = rng.normal(size=n)
    outlier = normal.copy()
    outlier[n // 2] = 1e300
    for scores in (
        normal,
        np.sort(normal),
        np.sort(normal)[::-1].copy(),
        rng.standard_cauchy(n),
        rng.integers(0, 3, n).astype(float),
        np.zeros(n),
        1e9 + 1e-6 * normal,
        outlier,
        rng.integers(0, 9, n) * 5e-324,
    ):
        check(scores)


def test_scores_that_are_not_numbers_do_no_harm(rng: np.random.Generator) -> None:
    scores = rng.normal(size=200)
    scores[[3, 77, 150]] = np.nan
    documents = np.arange(200)
    sort_ascending(scores, documents)
    assert sorted(documents) == list(range(200))


def test_a_part_of_the_documents_is_sorted_among_itself() -> None:
    documents = np.array([4, 0, 2])
    sort_ascending(np.array([3.0, 9.0, 1.0, 9.0, 2.0]), documents)
    assert documents.tolist() == [2, 4, 0]
