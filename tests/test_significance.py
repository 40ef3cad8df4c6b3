"""Paired comparisons against scipy, enumeration, and their own guarantees."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.resampling import bca_interval
from owpc_ltr.evaluation.significance import Comparison, compare_paired, detectable_effect

Array = NDArray[Any]


def pair(rng: np.random.Generator, n: int, gain: float = 0.0) -> tuple[Array, Array]:
    b = rng.random(n)
    return b + gain + 0.1 * rng.standard_normal(n), b


def test_the_t_test_is_scipys(rng: np.random.Generator) -> None:
    for n in (2, 15, 106):
        a, b = pair(rng, n, 0.02)
        wanted = stats.ttest_rel(a, b).pvalue
        assert compare_paired(a, b, seed=0, resamples=10).p_t == pytest.approx(wanted, rel=1e-9)


def test_few_queries_have_the_exact_p_of_all_sign_flips(rng: np.random.Generator) -> None:
    a, b = pair(rng, 9, 0.05)
    differences = a - b
    flips = np.array(list(itertools.product([-1, 1], repeat=9)))
    sums = np.abs(flips @ differences)
    wanted = np.mean(sums >= abs(differences.sum()) - 1e-12)
    assert compare_paired(a, b, seed=0).p_permutation == wanted
    assert compare_paired(a, b, seed=1).p_permutation == wanted


def test_the_sampled_p_is_near_scipys_permutation_test(rng: np.random.Generator) -> None:
    a, b = pair(rng, 60, 0.02)
    theirs = stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=rng
    )
    assert compare_paired(a, b, seed=0).p_permutation == pytest.approx(theirs.pvalue, abs=0.015)


def test_the_interval_is_near_scipys_bca(rng: np.random.Generator) -> None:
    skewed = rng.exponential(size=80) ** 2 - 1.0
    # Expanded quantiles: what a normal one misses at this level, Student's misses at 5 %.
    level = 2 * stats.norm.cdf(np.sqrt(80 / 79) * stats.t.ppf(0.975, 79)) - 1
    theirs = stats.bootstrap(
        (skewed,), np.mean, method="BCa", n_resamples=20_000, confidence_level=level, rng=rng
    )
    low, high = bca_interval(skewed, None, 0.05, 20_000, rng)
    spread = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert low == pytest.approx(theirs.confidence_interval.low, abs=0.04 * spread)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=0.04 * spread)
    # Few large values decide: the interval reaches further on their side, and on no other.
    ours = compare_paired(skewed, np.zeros(80), seed=0, resamples=20_000)
    assert ours.high > high + 0.2 * spread
    mirrored = compare_paired(-skewed, np.zeros(80), seed=0, resamples=20_000)
    assert (-mirrored.high, -mirrored.low) == pytest.approx(
        (ours.low, ours.high), abs=0.04 * spread
    )


def test_the_detectable_effect_is_found_in_four_of_five_samples(rng: np.random.Generator) -> None:
    differences = rng.standard_normal(20)
    effect = detectable_effect(differences)
    samples = rng.normal(effect, differences.std(ddof=1), size=(20_000, 20))
    found = stats.ttest_1samp(samples, 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.015)


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_the_power_at_the_detectable_effect_is_that_of_the_noncentral_t(
    n: int, rng: np.random.Generator
) -> None:
    differences = rng.standard_normal(n)
    shift = detectable_effect(differences) / (differences.std(ddof=1) / np.sqrt(n))
    critical = stats.t.ppf(0.975, n - 1)
    assert stats.nct.sf(critical, n - 1, shift) == pytest.approx(0.8, abs=1e-6)


def assert_level_held(p_of: Callable[[Array, Array], float], rng: np.random.Generator) -> None:
    """Equal rankers are told apart in about 5 % of samples: 20 of 400, give or take 3 σ."""
    rejected = sum(p_of(*pair(rng, 25)) < 0.05 for _ in range(400))
    assert 7 <= rejected <= 33


def test_equal_rankers_are_told_apart_as_often_as_promised(rng: np.random.Generator) -> None:
    def p_permutation(a: Array, b: Array) -> float:
        return compare_paired(a, b, seed=0, resamples=400).p_permutation

    assert_level_held(p_permutation, rng)
    assert_level_held(lambda a, b: compare_paired(a, b, seed=0, resamples=2).p_t, rng)


def test_the_level_catches_liars(rng: np.random.Generator) -> None:
    with pytest.raises(AssertionError):
        assert_level_held(lambda a, b: float(stats.ttest_rel(a, b).pvalue) / 4, rng)
    # Queries differ far more than rankers: a test that ignores the pairing never rejects.
    with pytest.raises(AssertionError):
        assert_level_held(lambda a, b: float(stats.ttest_ind(a, b).pvalue), rng)


def test_the_interval_covers_the_truth_as_often_as_promised(rng: np.random.Generator) -> None:
    covered = 0
    for _ in range(300):
        a, b = pair(rng, 25, 0.03)
        low, high = bca_interval(a - b, None, 0.05, 400, rng)
        covered += low <= 0.03 <= high
    assert 0.92 <= covered / 300 <= 0.98


def test_identical_rankers_differ_by_nothing(rng: np.random.Generator) -> None:
    a = rng.random(50)
    # Sums in another order differ by rounding alone.
    for b in (a, a + 1e-16):
        comparison = compare_paired(a, b, seed=3)
        assert (comparison.p_permutation, comparison.p_t) == (1.0, 1.0)
        assert (comparison.low, comparison.high) == (-3 / 50, 3 / 50)
        assert comparison.mean_difference == 0.0
        assert (comparison.wins, comparison.losses, comparison.ties) == (0, 0, 50)
        assert comparison.verdict().outcome == "no significant difference"


def test_a_constant_gain_is_as_certain_as_the_number_of_queries_allows() -> None:
    """Queries of another kind, which the sample lacks, may be 3 in n (the rule of three)."""
    comparison = compare_paired(np.full(30, 0.75), np.full(30, 0.5), seed=0)
    assert (comparison.low, comparison.high) == pytest.approx((0.25 - 0.1, 0.25 + 0.1))
    assert comparison.p_t == 0.0
    assert comparison.p_permutation == pytest.approx(1 / 10_001)
    assert comparison.detectable == pytest.approx(0.1)
    assert comparison.verdict().outcome == "better"
    small = compare_paired(np.full(30, 0.55), np.full(30, 0.5), seed=0)
    assert small.verdict().outcome == "no significant difference"


def test_swapping_the_rankers_mirrors_the_comparison(rng: np.random.Generator) -> None:
    a, b = pair(rng, 12, 0.05)
    there, back = compare_paired(a, b, seed=5), compare_paired(b, a, seed=5)
    assert back.mean_difference == pytest.approx(-there.mean_difference)
    assert (back.wins, back.losses) == (there.losses, there.wins)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=0.005)
    assert back.p_permutation == there.p_permutation
    assert back.detectable == pytest.approx(there.detectable)


def test_the_same_seed_gives_the_same_numbers(rng: np.random.Generator) -> None:
    a, b = pair(rng, 100)
    first = compare_paired(a, b, seed=1)
    assert compare_paired(a, b, seed=1) == first
    other = compare_paired(a, b, seed=2)
    assert other != first
    assert replace(other, low=0, high=0, p_permutation=0, seed=0) == replace(
        first, low=0, high=0, p_permutation=0, seed=0
    )


def test_the_comparison_is_json(rng: np.random.Generator) -> None:
    comparison = compare_paired(*pair(rng, 20), seed=1, resamples=100)
    content = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    assert Comparison(**content) == comparison


def test_many_queries_stay_within_memory(rng: np.random.Generator) -> None:
    a, b = pair(rng, 13_000)
    tracemalloc.start()
    try:
        compare_paired(a, b, seed=0, resamples=1_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64e6


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"cannot pair values of shapes \(2,\) and \(3,\)"),
        ([[1.0], [2.0]], [[1.0], [2.0]], "cannot pair values of shapes"),
        ([1.0], [2.0], "cannot compare on 1 queries: at least 2"),
        ([1.0, np.nan], [1.0, 2.0], r"query 1 \(counted from 0\) has the values nan and 2.0"),
        ([1.0, 2.0], [np.inf, 2.0], r"query 0 \(counted from 0\) has the values 1.0 and inf"),
    ],
)
def test_what_cannot_be_paired_is_refused(a: list[Any], b: list[Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compare_paired(np.array(a), np.array(b), seed=0)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot compare with 0 resamples"):
        compare_paired(np.arange(3.0), np.arange(3.0), seed=0, resamples=0)
