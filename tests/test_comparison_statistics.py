"""The statistics of several rankers: as of each pair alone, corrected, and of one mind."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.comparison_statistics import Drawing, Statistics, compare_all
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.pairs import ComparedPair
from owpc_ltr.evaluation.significance import compare_paired, holm
from owpc_ltr.metrics import parse_metric

Array = NDArray[Any]
METRICS = ("ndcg@10", "map")
QUICK = Drawing(resamples=300)


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


def check_agreement(found: Statistics, ranked: Any, weights: Array | None = None) -> None:
    """Every pair is what `compare_paired` says of it alone."""
    assert len(found.pairs) == 6
    for pair in found.pairs:
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
    check_agreement(compare_all(ranked, weights, None, Drawing()), ranked, weights)


def test_one_who_forgets_the_pairing_or_the_weights_is_caught(rng: np.random.Generator) -> None:
    ranked, weights = three(rng), np.arange(1.0, 71.0)
    shuffled = {
        name: tuple(replace(one, per_query=rng.permutation(one.per_query)) for one in of_ranker)
        for name, of_ranker in ranked.items()
    }
    with pytest.raises(AssertionError):
        check_agreement(compare_all(shuffled, weights, None, Drawing()), ranked, weights)
    with pytest.raises(AssertionError):
        check_agreement(compare_all(ranked, None, None, Drawing()), ranked, weights)


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
        one = pair.comparison
        apart = one.low > 0 or one.high < 0
        if pair.better is not None:
            assert pair.p_holm < 0.05
            assert apart
        assert pair.tests_disagree == ((pair.p_holm < 0.05) != apart)
        other = pair.reversed()
        assert (other.better, other.reversed()) == (pair.better, pair)


def test_a_query_that_one_ranker_lacks_counts_for_none(rng: np.random.Generator) -> None:
    ranked = three(rng)
    ranked["C"][0].per_query[:20] = np.nan
    found = compare_all(ranked, None, None, QUICK)
    kept = ranked["A"][0].per_query[20:]
    assert found.means["A"]["ndcg@10"].mean == pytest.approx(kept.mean())
    assert {pair.comparison.n_queries for pair in found.pairs if pair.metric == "ndcg@10"} == {50}
    assert {pair.comparison.n_queries for pair in found.pairs if pair.metric == "map"} == {70}
    ranked["B"][0].per_query[21:] = np.nan
    with pytest.raises(Refused, match="1 of 70 queries count in ndcg@10 for every ranker"):
        compare_all(ranked, None, None, QUICK)
    with pytest.raises(UsageError, match="0 resamples"):
        compare_all(ranked, None, None, Drawing(resamples=0))


def test_an_error_is_better_where_it_is_smaller(rng: np.random.Generator) -> None:
    b = rng.random(40)
    rows = {"A": b - 0.2, "B": b}
    ranked = {name: measured(row, ("pairwise-error",)) for name, row in rows.items()}
    (pair,) = compare_all(ranked, None, None, QUICK).pairs
    assert (pair.verdict.outcome, pair.better) == ("better", "A")


def test_the_intervals_of_means_are_near_scipys(rng: np.random.Generator) -> None:
    ranked = {"A": measured(rng.exponential(size=80) ** 2), "B": measured(rng.random(80))}
    found = compare_all(ranked, None, None, Drawing(resamples=20_000)).means
    for name, of_ranker in ranked.items():
        values = (of_ranker[0].per_query,)
        theirs = stats.bootstrap(values, np.mean, n_resamples=20_000, rng=rng).confidence_interval
        spread = theirs.high - theirs.low
        mean = found[name]["ndcg@10"]
        assert (mean.low, mean.high) == pytest.approx(tuple(theirs), abs=0.04 * spread)


def test_progress_is_told_up_to_the_end(rng: np.random.Generator) -> None:
    told: list[tuple[str, float | None]] = []
    drawing = Drawing(resamples=300, progress=lambda what, done: told.append((what, done)))
    compare_all(three(rng), None, None, drawing)
    assert [done for what, done in told if what == "flipping signs"][-1] == 1.0
    assert [done for what, done in told if what == "drawing queries"][-1] == 1.0


RANX = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, ranx
from ranx.statistical_tests import fisher_randomization_test, paired_student_t_test
grades, runs = json.load(sys.stdin)
runs = [ranx.Run(run, name=name) for name, run in runs.items()]
report = ranx.compare(ranx.Qrels(grades), runs, ["ndcg@10"], stat_test="student", max_p=0.05)
values = {run.name: list(map(float, run.scores["ndcg@10"].values())) for run in runs}
pair = [np.array(one) for one in values.values()]
found = {
    "values": values,
    "student": float(report.comparisons[frozenset(values)]["ndcg@10"]["p_value"]),
    "direct": float(paired_student_t_test(*pair)[0]),
    "fisher": float(fisher_randomization_test(*pair, n_permutations=4_000)[0]),
}
json.dump(found, sys.stdout)
"""


@pytest.mark.skipif(importlib.util.find_spec("ranx") is None, reason="ranx is not installed")
def test_significance_agrees_with_ranx(rng: np.random.Generator) -> None:
    """Run as Python, for it compiles for a minute."""
    ended = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps(_judged(rng)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(ended.stdout)
    ranked = {name: measured(np.array(row)) for name, row in theirs["values"].items()}
    (pair,) = compare_all(ranked, None, None, Drawing()).pairs
    assert pair.comparison.p_t == pytest.approx(theirs["student"], rel=1e-9)
    assert pair.comparison.p_t == pytest.approx(theirs["direct"], rel=1e-9)
    assert pair.comparison.p_permutation == pytest.approx(theirs["fisher"], abs=0.03)


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
