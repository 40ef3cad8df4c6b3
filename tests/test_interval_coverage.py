"""Small samples: intervals hold the true difference, and nothing is claimed where there is none.

A family of worlds each, at reduced size; `benchmarks/interval_coverage.py` prints the whole table.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from owpc_ltr.evaluation.prediction_powered import prediction_powered
from owpc_ltr.evaluation.resampling import bca_interval
from owpc_ltr.evaluation.significance import compare_paired

PATH = Path(__file__).parents[1] / "benchmarks" / "interval_coverage.py"


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interval_coverage_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = _benchmark()


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("family", benchmark.FAMILIES)
def test_coverage_is_93_percent_and_false_claims_are_rare(family: str) -> None:
    for method in benchmark.METHODS:
        cells = [
            benchmark.counted(benchmark.FAMILIES[family], method, n, 50) for n in benchmark.SIZES
        ]
        # Of 200 worlds: what is expected, and two standard errors of chance.
        assert np.mean([one.covered for one in cells]) >= 0.93
        assert np.mean([one.better for one in cells]) <= 0.025 + 0.022
        assert np.mean([one.worse for one in cells]) <= 0.025 + 0.022


def test_the_bootstrap_alone_is_caught() -> None:
    """Where few queries differ, resamples know nothing of the others."""
    family = benchmark.FAMILIES["2 % differ"]
    rng = np.random.default_rng(0)
    held = []
    for _ in range(100):
        low, high = bca_interval(family.draw(rng, 50, True), None, 0.05, 300, rng)
        held.append(low <= family.gain <= high)
    assert np.mean(held) < 0.8


@pytest.mark.thorough
def test_power_is_kept_where_differences_are_normal() -> None:
    for n in (30, 50, 100):
        assert benchmark.counted(benchmark.FAMILIES["normal"], "plain", n, 60).cannot_tell <= 0.1
    rng = np.random.default_rng(1)
    for n, spread, detected in ((100, 0.2, 0.06), (400, 0.25, 0.036), (2600, 0.15, 0.0085)):
        outcomes = [
            compare_paired(rng.normal(detected, spread, n), np.zeros(n), seed=0, resamples=500)
            .verdict()
            .outcome
            for _ in range(20)
        ]
        # At an effect of 2.9 standard errors a t-test finds 82 %.
        assert np.mean([one == "better" for one in outcomes]) >= 0.6


def test_three_wins_and_no_loss_in_500_queries_are_no_difference_and_a_narrow_interval() -> None:
    values = np.where(np.arange(500) < 3, 1.0, 0.0)
    found = compare_paired(values, np.zeros(500), seed=0)
    assert found.p_permutation == 0.25
    assert found.verdict().outcome == "no significant difference"
    assert -0.01 < found.low <= 0.0 < found.high < 0.03
    clear = compare_paired(np.where(np.arange(500) < 20, 1.0, 0.0), np.zeros(500), seed=0)
    assert clear.verdict().outcome == "better"


@pytest.mark.parametrize("n", [2, 4, 29])
def test_equal_differences_of_few_human_labels_claim_nothing(n: int) -> None:
    human = np.where(np.arange(300) < n, 0.2, np.nan)
    proxy = np.full(300, 0.2)
    found = prediction_powered(proxy, human, [f"q{number}" for number in range(300)])
    assert found.by_both.high - found.by_both.low >= 6 / n - 1e-9
    assert found.verdict().outcome == "cannot tell"
    assert "human-labelled queries are too few" in found.verdict().reason


def test_fewer_than_six_queries_cannot_tell() -> None:
    five = compare_paired(np.ones(5), np.zeros(5), seed=0)
    assert five.verdict().outcome == "cannot tell"
    assert compare_paired(np.ones(6), np.zeros(6), seed=0).verdict().outcome != "cannot tell"


def test_five_human_labels_that_differ_are_no_better_than_their_signs() -> None:
    """Of 5 differences two of 32 sign flips are as far: p is not below .0625."""
    human = np.where(np.arange(300) < 30, np.where(np.arange(300) < 5, 1.0, 0.0), np.nan)
    found = prediction_powered(np.zeros(300), human, [f"q{number}" for number in range(300)])
    assert found.by_both.p >= 0.0625
    assert found.verdict().outcome == "no significant difference"
