"""The benchmark of judge next: what it tells of queries drawn by strata, and of forgotten ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        spec = importlib.util.spec_from_file_location("judge_next", BENCHMARKS / "judge_next.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_errors_are_told_in_percent(benchmark: ModuleType) -> None:
    assert benchmark.errors("0.5/10") == (0.005, 0.1)


def test_every_way_judges_as_many_queries_and_draws_more_where_rankers_differ(
    benchmark: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    cheap = rng.normal(size=400) * (rng.random(400) < 0.5)
    people = cheap + rng.normal(0, 0.3, 400)
    ids = [f"q{number}" for number in range(400)]
    found = list(benchmark.ways(cheap, people, ids, 60, 7))
    assert len(found) == len(benchmark.WAYS)
    assert {one.n_human for one in found} == {60}
    # The drawn queries with and without their strata are the same, and say different things.
    assert found[1].agreement.differ == found[3].agreement.differ
    assert found[1].by_human.mean != found[3].by_human.mean


def test_drawn_queries_are_sharper_and_hold_the_truth_unless_the_strata_are_forgotten(
    benchmark: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    size = rng.exponential(0.3, 3000) * (rng.random(3000) < 0.4)
    human = size * rng.choice([1.5, -1.0], 3000, p=[0.7, 0.3])
    cheap = np.where(rng.random((3, 3000)) < 0.7, 0.8, -0.4) * human
    lines = benchmark.compared(human, cheap, 500, 100, 200, rng)
    told = {line[:16].strip(): line[16:].replace("%", "").split() for line in lines}
    assert tuple(told) == benchmark.WAYS
    figures = {way: [float(word) for word in words] for way, words in told.items()}
    for way in ("at random", "judge next", "half and half"):
        _, both, people, width, share = figures[way]
        assert min(both, people) > 90
        assert share == pytest.approx(width**2, abs=0.02)
    assert figures["judge next"][3] < 0.95 * figures["at random"][3]
    assert figures["strata forgotten"][2] < 85
