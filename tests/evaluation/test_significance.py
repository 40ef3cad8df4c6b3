"""Significance: paired tests against scipy and enumeration, Holm's correction, several rankers."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation import significance as module
from owpc_ltr.evaluation.compared_pair import ComparedPair, disagreement
from owpc_ltr.evaluation.comparison import Statistics, compare_all
from owpc_ltr.evaluation.measurement import Measured, Resampling
from owpc_ltr.evaluation.significance import (
    Comparison,
    bca_interval,
    compare_paired,
    detectable_effect,
    holm,
    room_of,
    sign_flips,
)
from owpc_ltr.metrics import parse_metric
from tests.fresh_process import Evaluate

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
    significant = stats.ttest_1samp(samples, 0.0, axis=1).pvalue < 0.05
    assert significant.mean() == pytest.approx(0.8, abs=0.015)


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
    # On each of these a ranker may lose what the better one has in the mean.
    assert (comparison.low, comparison.high) == pytest.approx((0.25 - 0.075, 0.25 + 0.075))
    assert comparison.p_t == 0.0
    assert comparison.p_permutation == pytest.approx(1 / 10_001)
    assert comparison.detectable == pytest.approx(0.075)
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


METRICS = ("ndcg@10", "map")
QUICK = Resampling(resamples=300)


def measured(values: Array, metrics: tuple[str, ...] = METRICS[:1]) -> tuple[Measured, ...]:
    """Each row the values of one metric."""
    rows = zip(metrics, np.atleast_2d(values), strict=True)
    return tuple(Measured(parse_metric(m), float(np.nanmean(row)), row, 0.0) for m, row in rows)


def three(rng: np.random.Generator, n: int = 70) -> dict[str, tuple[Measured, ...]]:
    base = rng.random((2, n))
    return {
        name: measured(base + gain + 0.1 * rng.standard_normal((2, n)), METRICS)
        for name, gain in (("A", 0.05), ("B", 0.0), ("C", 0.02))
    }


def check_agreement(statistics: Statistics, ranked: Any, weights: Array | None = None) -> None:
    """Every pair is what `compare_paired` says of it alone."""
    assert len(statistics.pairs) == 6
    for pair in statistics.pairs:
        number = METRICS.index(pair.metric)
        values = [ranked[name][number].per_query for name in (pair.a, pair.b)]
        alone = compare_paired(*values, seed=0, weights=weights)
        for name, value in pair.comparison.as_dict().items():
            assert value == pytest.approx(alone.as_dict()[name], rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("weighted", [False, True])
def test_every_pair_is_as_if_it_were_compared_alone(
    weighted: bool, rng: np.random.Generator
) -> None:
    ranked = three(rng)
    weights = rng.integers(1, 5, 70).astype(np.float64) if weighted else None
    check_agreement(compare_all(ranked, weights, None, Resampling()), ranked, weights)


def test_one_who_forgets_the_pairing_or_the_weights_is_caught(rng: np.random.Generator) -> None:
    ranked, weights = three(rng), np.arange(1.0, 71.0)
    shuffled = {
        name: tuple(
            replace(measurement, per_query=rng.permutation(measurement.per_query))
            for measurement in of_ranker
        )
        for name, of_ranker in ranked.items()
    }
    with pytest.raises(AssertionError):
        check_agreement(compare_all(shuffled, weights, None, Resampling()), ranked, weights)
    with pytest.raises(AssertionError):
        check_agreement(compare_all(ranked, None, None, Resampling()), ranked, weights)


def check_correction(pairs: tuple[ComparedPair, ...]) -> None:
    wanted = holm(np.array([pair.comparison.p_permutation for pair in pairs]))
    assert [pair.p_holm for pair in pairs] == wanted.tolist()


def test_p_is_corrected_over_all_pairs_and_metrics(rng: np.random.Generator) -> None:
    pairs = compare_all(three(rng), None, None, QUICK).pairs
    check_correction(pairs)
    assert [(pair.metric, pair.a + pair.b) for pair in pairs] == [
        (metric, names) for metric in METRICS for names in ("AB", "AC", "BC")
    ]
    liar = tuple(replace(pair, p_holm=pair.comparison.p_permutation) for pair in pairs)
    with pytest.raises(AssertionError):
        check_correction(liar)


def test_against_a_baseline_there_are_fewer_pairs_and_a_weaker_correction(
    rng: np.random.Generator,
) -> None:
    ranked = three(rng)
    pairs = compare_all(ranked, None, "B", QUICK).pairs
    check_correction(pairs)
    assert [(pair.a, pair.b) for pair in pairs] == [("A", "B"), ("C", "B")] * 2
    every = {(p.a, p.b, p.metric): p for p in compare_all(ranked, None, None, QUICK).pairs}
    first = pairs[0]
    assert first.comparison == every["A", "B", "ndcg@10"].comparison
    assert first.p_holm <= every["A", "B", "ndcg@10"].p_holm


VALUES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(3, 3), st.integers(2, 24)),
    elements=st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.63, 1.0]),
)


@given(VALUES, st.booleans(), st.sampled_from([0.0, 0.2, 0.5]))
def test_a_difference_needs_interval_and_corrected_test(
    values: Array, weighted: bool, gain: float
) -> None:
    values[0] += gain
    weights = np.arange(1.0, values.shape[1] + 1) if weighted else None
    ranked = {name: measured(row) for name, row in zip("ABC", values, strict=True)}
    for pair in compare_all(ranked, weights, None, QUICK).pairs:
        comparison = pair.comparison
        apart = comparison.low > 0 or comparison.high < 0
        if pair.better is not None:
            assert pair.p_holm < 0.05
            assert apart
        assert bool(disagreement(comparison, pair.p_holm)) == ((pair.p_holm < 0.05) != apart)
        other = pair.reversed()
        assert (other.better, other.reversed()) == (pair.better, pair)


def reason_of(differences: Array, p: float | None = None, weights: Array | None = None) -> str:
    # The better ranker has .8 in the mean.
    b = np.full(len(differences), 0.8 - max(0.0, np.average(differences, weights=weights)))
    comparison = compare_paired(b + differences, b, seed=0, weights=weights)
    other = comparison.reversed()
    p = comparison.p_permutation if p is None else p
    assert disagreement(comparison, p).replace("at +", "at -") == disagreement(other, p)
    return disagreement(comparison, p)


def near(mean: float, n: int) -> Array:
    return mean + np.linspace(-0.02, 0.02, n)


@pytest.mark.parametrize(("mean", "n", "enough"), [(0.1937, 11, 13), (0.0625, 30, 39)])
def test_so_many_queries_as_the_reason_says_show_the_difference(
    mean: float, n: int, enough: int
) -> None:
    reason = f"{n} queries cannot show a difference below {2.4 / n:.4f} (2.4 / queries)"
    enough_words = f"at +{mean:.4f} it takes {enough} or more: judge more queries"
    assert reason_of(near(mean, n)) == f"{reason}: {enough_words}"
    assert f"it takes {enough} or more" in reason_of(near(mean, enough - 1))
    assert reason_of(near(mean, enough)) == ""


def test_weighted_queries_count_as_fewer_in_the_reason() -> None:
    reason = reason_of(np.full(20, 0.14), weights=np.repeat([1.0, 3.0], 10))
    assert reason.startswith(
        "20 queries cannot show a difference below 0.1500 (3 / queries): at +0.1400 it takes 22 "
    )
    assert reason_of(np.full(22, 0.14), weights=np.repeat([1.0, 3.0], 11)) == ""


@pytest.mark.parametrize("span", [1.0, np.inf])
def test_an_unseen_query_may_cost_what_the_better_ranker_has(span: float) -> None:
    """Of few differences, and of values beyond the span, nobody knows: the whole span, at least."""
    b = np.full(60, 0.4)
    a = b + np.linspace(-0.1, 0.2, 60)
    assert room_of(a, b) == room_of(b, a) == pytest.approx(0.45)
    assert room_of(a, b, np.where(a > 0.59, 1.0, 0.0)) == pytest.approx(a[-1], abs=0.01)
    few = np.where(np.arange(60) < 5, 0.9, 0.4)
    assert room_of(few, b, span=span) == (1.0 if span == 1.0 else pytest.approx(0.5))
    assert room_of(a + 1.0, b - 1.0, span=span) == pytest.approx(2.2)


def test_each_disagreement_has_the_one_reason_that_holds() -> None:
    # Many small gains and a few large losses: a t-test rejects, too.
    skewed = np.repeat([0.1, -0.5], [90, 10])
    assert reason_of(skewed) == (
        "the test assumes symmetric differences, the interval allows for skewed ones"
    )
    # Gains alone, of which one is nearly all of the sum: a t-test does not reject.
    uneven = np.repeat([0.0, 0.001, 0.9], [49, 50, 1])
    assert reason_of(uneven).startswith(
        "the differences vary too much for the interval, as for a t-test (p = 0.2"
    )
    clear = near(0.1, 100)
    assert reason_of(clear) == ""
    assert reason_of(clear, p=0.06) == (
        "the interval is of its pair alone, p = 0.0001 is 0.0600 when corrected for all "
        "comparisons: compare fewer rankers or metrics"
    )
    comparison = compare_paired(clear, np.zeros(100), seed=0)
    assert disagreement(replace(comparison, p_permutation=0.0512), 0.0512) == (
        "p of the permutation test is 0.0512 even without correction"
    )


def test_a_query_that_one_ranker_lacks_counts_for_none(rng: np.random.Generator) -> None:
    ranked = three(rng)
    ranked["C"][0].per_query[:20] = np.nan
    statistics = compare_all(ranked, None, None, QUICK)
    kept = ranked["A"][0].per_query[20:]
    assert statistics.ranked["A"][0].mean == pytest.approx(kept.mean())
    assert {pair.comparison.n_queries for pair in statistics.pairs if pair.metric == "ndcg@10"} == {
        50
    }
    assert {pair.comparison.n_queries for pair in statistics.pairs if pair.metric == "map"} == {70}
    ranked["B"][0].per_query[21:] = np.nan
    with pytest.raises(Refused, match="1 of 70 queries count in ndcg@10 for every ranker"):
        compare_all(ranked, None, None, QUICK)
    with pytest.raises(UsageError, match="0 resamples"):
        compare_all(ranked, None, None, Resampling(resamples=0))


def test_an_error_is_better_where_it_is_smaller(rng: np.random.Generator) -> None:
    b = rng.random(40)
    rows = {"A": b - 0.2, "B": b}
    ranked = {name: measured(row, ("pairwise-error",)) for name, row in rows.items()}
    (pair,) = compare_all(ranked, None, None, QUICK).pairs
    assert (pair.verdict.outcome, pair.better) == ("better", "A")


def test_the_intervals_of_means_are_near_scipys(rng: np.random.Generator) -> None:
    ranked = {"A": measured(rng.exponential(size=80) ** 2), "B": measured(rng.random(80))}
    means = compare_all(ranked, None, None, Resampling(resamples=20_000)).ranked
    for name, of_ranker in ranked.items():
        values = (of_ranker[0].per_query,)
        theirs = stats.bootstrap(values, np.mean, n_resamples=20_000, rng=rng).confidence_interval
        spread = theirs.high - theirs.low
        mean = means[name][0]
        assert (mean.low, mean.high) == pytest.approx(tuple(theirs), abs=0.04 * spread)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_one_mean_is_that_of_a_comparison(
    weighted: bool, clustered: bool, rng: np.random.Generator
) -> None:
    values = rng.beta(0.7, 0.5, size=70)
    values[3] = np.nan
    weights = rng.integers(0, 4, 70).astype(np.float64) if weighted else None
    (measurement,) = measured(values)
    ranked = {
        "A": (measurement,),
        "B": measured(np.where(np.isnan(values), np.nan, rng.random(70))),
    }
    clusters = np.arange(70) // 3 if clustered else None
    mean = compare_all(ranked, weights, None, Resampling(), clusters).ranked["A"][0]
    alone = replace(measurement, weights=weights, clusters=clusters)
    assert alone.interval == pytest.approx((mean.low, mean.high), rel=1e-12)
    assert alone.interval != replace(alone, seed=1).interval
    with pytest.raises(Refused, match=r"^1 of 2 queries count in ndcg@10, and an interval needs 2"):
        _ = measured(np.array([0.5, np.nan]))[0].interval


def _covered(shrunk: float, rng: np.random.Generator) -> float:
    """How often the interval holds the true mean of skewed metrics of 50 queries."""
    truth = 0.35 * -np.log(0.35) / 0.65  # of 1 / rank, where each document is relevant with .35
    held = 0
    for _ in range(400):
        (measurement,) = measured(1.0 / rng.geometric(0.35, size=50))
        low, high = measurement.interval
        held += abs(truth - (low + high) / 2) <= shrunk * (high - low) / 2
    return held / 400


def test_the_interval_of_one_mean_covers_the_truth_as_often_as_promised(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr.evaluation.options.RESAMPLES", 400)
    assert 0.925 <= _covered(1.0, rng) <= 0.985
    # A normal interval at half the length would be seen.
    assert _covered(0.5, rng) < 0.8


def test_progress_is_told_up_to_the_end(rng: np.random.Generator) -> None:
    steps: list[tuple[str, float | None]] = []
    drawing = Resampling(resamples=300, progress=lambda what, done: steps.append((what, done)))
    compare_all(three(rng), None, None, drawing)
    assert [done for what, done in steps if what == "flipping signs"][-1] == 1.0
    assert [done for what, done in steps if what == "drawing queries"][-1] == 1.0


RANX = """
import numpy as np
from ranx.statistical_tests import fisher_randomization_test, paired_student_t_test
grades, runs = given
runs = [ranx.Run(run, name=name) for name, run in runs.items()]
report = ranx.compare(ranx.Qrels(grades), runs, ["ndcg@10"], stat_test="student", max_p=0.05)
values = {run.name: list(map(float, run.scores["ndcg@10"].values())) for run in runs}
pair = [np.array(one) for one in values.values()]
found = {
    "values": values,
    "student": float(report.comparisons[frozenset(values)]["ndcg@10"]["p_value"]),
    "direct": float(paired_student_t_test(*pair)[0]),
    "fisher": float(fisher_randomization_test(*pair, n_permutations=2_000)[0]),
}
"""


@pytest.mark.thorough
def test_significance_agrees_with_ranx(ranx: Evaluate, rng: np.random.Generator) -> None:
    theirs = ranx(RANX, _judged(rng))
    ranked = {name: measured(np.array(row)) for name, row in theirs["values"].items()}
    (pair,) = compare_all(ranked, None, None, Resampling()).pairs
    assert pair.comparison.p_t == pytest.approx(theirs["student"], rel=1e-9)
    assert pair.comparison.p_t == pytest.approx(theirs["direct"], rel=1e-9)
    assert pair.comparison.p_permutation == pytest.approx(theirs["fisher"], abs=0.04)


def _judged(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Grades of a dozen documents of each query, and two runs."""
    documents = [f"d{n}" for n in range(12)]
    grades = {f"q{n}": rng.integers(0, 3, 12).tolist() for n in range(30)}
    for of_query in grades.values():
        of_query[0] = 2
    runs = {}
    for name, noise in (("sharp", 2.0), ("dull", 3.0)):
        scores = {q: np.array(g) + noise * rng.standard_normal(12) for q, g in grades.items()}
        runs[name] = {q: dict(zip(documents, s.tolist(), strict=True)) for q, s in scores.items()}
    return {q: dict(zip(documents, g, strict=True)) for q, g in grades.items()}, runs


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
    corrected = holm(np.array(ps))
    assert set(np.flatnonzero(corrected < level).tolist()) == rejected_by_steps(ps, level)


@given(PS)
def test_a_corrected_p_lies_between_its_own_and_bonferronis(ps: list[float]) -> None:
    own, corrected = np.array(ps), holm(np.array(ps))
    assert (own <= corrected).all()
    assert (corrected <= np.minimum(1.0, len(ps) * own)).all()
    order = np.argsort(own, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()


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
    p_values: NDArray[np.float64] = stats.ttest_1samp(samples, 0.0, axis=1).pvalue
    return p_values


def test_a_family_of_tests_is_wrong_as_seldom_as_one(rng: np.random.Generator) -> None:
    # 20 of 400 and three standard deviations, also where tests depend on each other.
    assert false_findings(holm, rng) <= 33


def test_one_who_does_not_correct_is_caught(rng: np.random.Generator) -> None:
    assert false_findings(lambda p: p, rng) > 33


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
