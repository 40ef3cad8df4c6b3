"""The simulated year: its own rules, and that the loop in it is the product's."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def keep_year(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("keep_year")


def test_a_model_loses_with_the_season_the_catalogue_and_when_it_breaks(
    keep_year: ModuleType,
) -> None:
    climate = keep_year.CLIMATES["a year of changes"]
    year = keep_year.Year(climate, np.random.default_rng(0))
    assert year.quality("m-0") == 0.5
    year.day = 119
    before = year.quality("m-0")
    assert 0.44 < before < 0.5
    year.day, year.broken = 120, "m-0"
    assert year.quality("m-0") == pytest.approx(before - 0.25, abs=1e-3)
    year.day = 365
    assert year.quality("m-0") == pytest.approx(0.25)
    null = keep_year.CLIMATES["a year in which nothing can be gained"]
    assert null.skill < 0 == null.season == null.catalogue == null.broken == null.skill_sd


@pytest.mark.thorough
def test_nights_without_a_gain_promote_nothing_but_where_each_has_the_whole_level(
    keep_year: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_year, "DAYS", 100)
    null = keep_year.CLIMATES["a year in which nothing can be gained"]
    arms = keep_year.ARMS
    gains = {
        name: [gain for year in keep_year.years_of(null, arms[name], 2) for gain in year.gains]
        for name in ("keep, nightly", "5 % every night, no ledger, no watches")
    }
    honest, liar = gains.values()
    assert honest == []
    assert len(liar) > 0
    assert max(liar) <= 0


@pytest.mark.parametrize("catalogue", [0.0, 0.1], ids=["the same", "replaced"])
def test_a_champion_that_breaks_is_replaced_the_same_night(
    keep_year: ModuleType, monkeypatch: pytest.MonkeyPatch, catalogue: float
) -> None:
    """By the model before, or where that is of the old catalogue, by a new one."""
    for name, day in (("DAYS", 40), ("CATALOGUE_DAY", 10), ("BROKEN_DAY", 35)):
        monkeypatch.setattr(keep_year, name, day)
    climate = keep_year.Climate(catalogue=catalogue, broken=0.15, skill=0.0 if catalogue else 0.1)
    (year,) = keep_year.years_of(climate, keep_year.Arm(7), 1)
    assert year.gains[0] == pytest.approx(0.1)
    assert year.rid_of_it_after == 0
    assert year.rollbacks == (0 if catalogue else 1)
