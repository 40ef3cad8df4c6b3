"""Queries that count more or less: identities with repeated and plain queries, and with scipy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.resampling import acceleration, bca_interval, mean_of, standard_error
from owpc_ltr.evaluation.significance import compare_paired

Array = NDArray[Any]
VALUES = hnp.arrays(np.float64, 8, elements=st.floats(-1, 1))
COUNTS = hnp.arrays(np.int64, 8, elements=st.integers(1, 5))


def sample(rng: np.random.Generator, n: int = 60) -> tuple[Array, Array, Array]:
    b = rng.random(n)
    return b + 0.03 + 0.1 * rng.standard_normal(n), b, rng.integers(1, 6, n).astype(np.float64)


@pytest.mark.parametrize("weight", [1.0, 0.3, 7.0])
def test_weights_that_are_all_alike_change_no_bit(weight: float, rng: np.random.Generator) -> None:
    a, b, _ = sample(rng)
    plain = compare_paired(a, b, seed=3)
    assert compare_paired(a, b, seed=3, weights=np.full(60, weight)) == plain


def test_weights_that_are_nearly_alike_change_nearly_nothing(rng: np.random.Generator) -> None:
    """The weighted formulas themselves, not the way around them, meet the plain ones."""
    a, b, _ = sample(rng)
    weights = np.ones(60)
    weights[0] += 1e-13
    near = compare_paired(a, b, seed=3, weights=weights).as_dict()
    assert near == pytest.approx(compare_paired(a, b, seed=3).as_dict(), abs=1e-9)


@given(VALUES, COUNTS)
def test_a_whole_weight_is_the_mean_of_the_query_repeated(values: Array, counts: Array) -> None:
    weighted = mean_of(values, counts.astype(np.float64))
    assert weighted == pytest.approx(float(np.repeat(values, counts).mean()), abs=1e-12)


def test_a_query_of_weight_0_is_as_if_it_were_not_there(rng: np.random.Generator) -> None:
    a, b, weights = sample(rng)
    weights[::4] = 0.0
    kept = weights > 0
    a[0] = np.nan
    found = compare_paired(a, b, seed=1, weights=weights)
    assert found == compare_paired(a[kept], b[kept], seed=1, weights=weights[kept])
    assert found.n_queries == 45


def test_scaled_weights_are_the_same_weights(rng: np.random.Generator) -> None:
    a, b, weights = sample(rng)
    one = compare_paired(a, b, seed=1, weights=weights).as_dict()
    # A power of two scales without rounding.
    assert compare_paired(a, b, seed=1, weights=8 * weights).as_dict() == one


def repeated_flips_p(a: Array, b: Array, counts: Array) -> float:
    """The p of all flips of the repeated queries, whose repetitions flip as one."""
    differences = np.repeat(a - b, counts)
    signs = np.array(list(itertools.product([-1, 1], repeat=len(a))))
    sums = np.abs(np.repeat(signs, counts, axis=1) @ differences)
    return float(np.mean(sums >= abs(differences.sum()) - 1e-9))


@given(VALUES, COUNTS)
def test_the_permutation_test_is_that_of_the_repeated_queries(values: Array, counts: Array) -> None:
    zeros = np.zeros(8)
    values = np.round(values, 3)
    found = compare_paired(values, zeros, seed=0, weights=counts, resamples=300)
    assert found.p_permutation == repeated_flips_p(values, zeros, counts)


def test_a_test_that_ignores_weights_is_caught(rng: np.random.Generator) -> None:
    a, b, _ = sample(rng, 8)
    counts = np.array([9, 1, 1, 1, 1, 1, 1, 1])
    wanted = repeated_flips_p(a, b, counts)
    assert compare_paired(a, b, seed=0, weights=counts).p_permutation == wanted
    assert compare_paired(a, b, seed=0).p_permutation != wanted


def ratio(values: Array, weights: Array, axis: int = -1) -> Array:
    found: Array = (values * weights).sum(axis=axis) / weights.sum(axis=axis)
    return found


def test_the_weighted_interval_is_near_scipys_bca_of_the_ratio(rng: np.random.Generator) -> None:
    weights = rng.integers(1, 9, 80).astype(np.float64)
    values = rng.exponential(size=80) ** 2 - 1.0 + 0.6 * weights
    # Expanded quantiles: what a normal one misses at this level, Student's misses at 5 %.
    level = 2 * stats.norm.cdf(np.sqrt(80 / 79) * stats.t.ppf(0.975, 79)) - 1
    theirs = stats.bootstrap(
        (values, weights), ratio, paired=True, method="BCa", n_resamples=20_000,
        confidence_level=level, rng=rng,
    ).confidence_interval  # fmt: skip
    low, high = bca_interval(values, weights, 0.05, 20_000, rng)
    spread = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.04 * spread)
    assert high == pytest.approx(theirs.high, abs=0.04 * spread)
    ignorant, _ = bca_interval(values, None, 0.05, 20_000, rng)
    assert abs(ignorant - theirs.low) > 0.1 * spread


def test_the_lean_is_that_of_the_jackknife(rng: np.random.Generator) -> None:
    values, weights = rng.exponential(size=30), rng.integers(1, 9, 30).astype(np.float64)
    for own in (None, weights):
        given_weights = np.ones(30) if own is None else own
        left = [ratio(np.delete(values, i), np.delete(given_weights, i)) for i in range(30)]
        moved = np.mean(left) - np.array(left)
        wanted = (moved**3).sum() / (6 * (moved**2).sum() ** 1.5)
        assert acceleration(values, own) == pytest.approx(wanted)


def test_the_weighted_error_is_that_of_the_mean_over_samples(rng: np.random.Generator) -> None:
    """Against the spread that the weighted mean really has when queries are drawn anew."""
    draws = rng.exponential(size=(4_000, 200))
    weights = rng.integers(1, 9, (4_000, 200)).astype(np.float64)
    draws += 0.2 * weights
    spread = ratio(draws, weights).std()
    told = np.array([standard_error(v, w) for v, w in zip(draws[:200], weights[:200], strict=True)])
    assert told.mean() == pytest.approx(spread, rel=0.04)


def test_equal_rankers_are_told_apart_as_often_as_promised(rng: np.random.Generator) -> None:
    rejected = np.zeros(2)
    for _ in range(400):
        a, b = rng.random(40), rng.random(40)
        weights = rng.exponential(size=40)
        found = compare_paired(a, b, seed=0, resamples=200, weights=weights)
        rejected += [found.p_permutation < 0.05, found.p_t < 0.05]
    # 20 of 400, give or take three standard deviations.
    assert ((rejected >= 7) & (rejected <= 33)).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights of shape \(1,\) for values of shape \(3,\)"),
        ([1.0, -1.0, 1.0], r"query 1 \(counted from 0\) has the weight -1.0"),
        ([1.0, np.nan, 1.0], "has the weight nan"),
        ([1.0, 0.0, 0.0], "cannot compare on 1 queries"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compare_paired(np.arange(3.0), np.ones(3), seed=0, weights=np.array(weights))
