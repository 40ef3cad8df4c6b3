"""The simulated year: its own rules, and that the loop in it is the product's."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from owpc_ltr_keep import state

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def keep_year(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    # Folders live as long as a run: nothing needs to be on disk.
    monkeypatch.setattr(state, "write_output", lambda path, content: path.write_bytes(content))
    return importlib.import_module("keep_year")


def test_a_model_loses_with_the_season_the_catalogue_and_when_it_breaks(
    keep_year: ModuleType,
) -> None:
    climate = keep_year.CLIMATES["a year of changes"]
    year = keep_year.Year(climate, np.random.default_rng(0))
    assert year.quality("m-0") == 0.5
    year.week = 17
    before = year.quality("m-0")
    assert 0.44 < before < 0.5
    year.week, year.broken = 18, "m-0"
    assert year.quality("m-0") == pytest.approx(before - 0.25, abs=0.01)
    year.week = 52
    assert year.quality("m-0") == pytest.approx(0.25)
    null = keep_year.CLIMATES["a year in which nothing can be gained"]
    assert null == keep_year.Climate()


@pytest.mark.parametrize(
    ("worlds", "most"), [(1_000, 0.064), pytest.param(20_000, 0.05, marks=pytest.mark.thorough)]
)
def test_years_without_a_gain_promote_noise_in_5_percent_of_worlds_at_most(
    keep_year: ModuleType, worlds: int, most: float
) -> None:
    """27 % of worlds did, and of a few worlds more may; uncounted, three in four do."""
    p_values = keep_year.null_p_values(worlds)
    assert keep_year.is_promoted(p_values, counted=True).mean() <= most
    assert keep_year.is_promoted(p_values, counted=False).mean() > 0.5


@pytest.mark.parametrize("worlds", [1, pytest.param(20, marks=pytest.mark.thorough)])
def test_the_loop_promotes_just_what_the_counted_level_allows(
    keep_year: ModuleType, worlds: int
) -> None:
    """Files are dated, and each week has a new folder: only the cluster knows what was tried."""
    null = keep_year.CLIMATES["a year in which nothing can be gained"]
    for name, counted in (("keep, weekly", True), (LIAR, False)):
        years = keep_year.years_of(null, keep_year.ARMS[name], worlds if counted else 1)
        done = [bool(year.gains) for year in years]
        p_values = np.array([year.p_values for year in years])
        assert p_values.shape[1] == 52
        allowed = keep_year.is_promoted(p_values, counted=counted)
        # p of permutations is known to a few percent.
        assert np.sum(done != allowed) <= worlds // 20
        assert any(done) or counted


LIAR = "5 % every week: nothing is counted or watched"


@pytest.mark.parametrize("catalogue", [0.0, 0.1], ids=["the same", "replaced"])
def test_a_champion_that_breaks_is_replaced_the_same_week(
    keep_year: ModuleType, monkeypatch: pytest.MonkeyPatch, catalogue: float
) -> None:
    """By the model before, or where that is of the old catalogue, by a new one."""
    for name, week in (("WEEKS", 6), ("CATALOGUE_WEEK", 3), ("BROKEN_WEEK", 5)):
        monkeypatch.setattr(keep_year, name, week)
    climate = keep_year.Climate(catalogue=catalogue, broken=0.15, skill=0.0 if catalogue else 0.1)
    (year,) = keep_year.years_of(climate, keep_year.Arm(), 1)
    assert year.gains[0] == pytest.approx(0.1)
    assert year.rid_of_it_after == 1
    assert year.rollbacks == (0 if catalogue else 1)
