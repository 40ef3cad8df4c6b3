"""The benchmark of cheap judgments: what it tells of honest intervals, and of others."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.proxy_samples import PEOPLE

PATH = Path(__file__).parents[1] / "benchmarks" / "cheap_judgments.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cheap_judgments", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_judge_errs_as_often_as_was_said(benchmark: ModuleType) -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([benchmark.judge(PEOPLE, 0.05, 0.25, rng) for _ in range(100)])
    relevant = PEOPLE.labels > 0
    assert (drawn[:, relevant] == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert (drawn[:, ~relevant] > 0).mean() == pytest.approx(0.05, abs=0.01)


def test_honest_intervals_hold_the_truth_and_others_do_not_or_are_wide(
    benchmark: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(0.05, 0.3, 2000)
    cheap = human + 0.1 + rng.normal(0, 0.15, (5, 2000))
    told = benchmark.resampled(human, cheap, 300, 60, 1000, rng).split()
    strength, both, people, by_cheap, _, width, unpaired, share = (
        float(word.rstrip("%")) for word in told
    )
    assert strength == pytest.approx(0.8, abs=0.05)
    assert min(both, people) >= 93
    assert by_cheap < 10
    assert width < 0.75
    assert unpaired > 1
    assert share < 0.5


def test_what_a_regression_tells_is_measured_on_queries_that_it_has_not_seen(
    benchmark: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    cheap, noise = rng.normal(size=(2, 4000))
    human = 0.6 * cheap + 0.8 * noise
    assert benchmark.explained(human, [cheap]) == pytest.approx(0.36, abs=0.03)
    assert benchmark.explained(noise, [cheap]) <= 0.01
    # Many controls of noise would tell much of the few queries that they were fitted to.
    assert benchmark.explained(human[:60], list(rng.normal(size=(20, 60)))) < 0
