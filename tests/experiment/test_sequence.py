"""Intervals and checks that are looked at after every client."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np
import pytest
from owpc_ltr_experiment.verdict import (
    BETS,
    CAP,
    ClientTotals,
    bounds_of_mean,
    experiment_result,
    lead_check,
    spread_on_grid,
)

from owpc_ltr.arrays import Vector
from tests.faults.selection import Selection


def ever_claimed(values: Vector, every: int = 1) -> float:
    """The share of rows whose interval once excludes 0."""
    return float(np.mean([first_claim(row, every) > 0 for row in values]))


def first_claim(values: Vector, every: int = 1) -> int:
    """The number of values at the first look whose interval excludes 0; 0 for none.

    The wealth against 0 at every look at once, as a product of all factors.
    """
    x = np.clip(values, -CAP, CAP) / CAP
    wealth = [
        np.exp(np.cumsum(np.log1p(sign * BETS * x), axis=1)).mean(axis=0)[every - 1 :: every]
        for sign in (1, -1)
    ]
    claims = np.flatnonzero(np.maximum(*wealth) >= 2 / 0.05)
    return (int(claims[0]) + 1) * every if len(claims) else 0


def skewed(share: float, value: float, rest: float, rest_share: float = 1.0) -> Any:
    """A few clients have a large value, and others the opposite; they count 0 on average."""
    lost = share * min(value, CAP) / rest_share
    assert rest == pytest.approx(lost, rel=0.01)

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Vector:
        chances = [share, rest_share, 1 - share - rest_share]
        return rng.choice([value, -lost, 0.0], shape, p=np.maximum(chances, 0.0))

    return draw


WORLDS: dict[str, Any] = {
    "sparse": lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], shape, p=[0.05, 0.9, 0.05]),
    "normal": lambda rng, shape: rng.normal(0, 0.55, shape),
    "t3": lambda rng, shape: 0.3 * rng.standard_t(3, shape),
    "1 % at +20": skewed(0.01, 20.0, 0.15, 0.2),
    "2 % at +10": skewed(0.02, 10.0, 1.0, 0.06),
    "rare winners, constant credit": skewed(0.003, 20.0, 0.009 / 0.997, 0.997),
}


@pytest.mark.parametrize("world", WORLDS)
def test_looking_after_every_client_claims_nothing_in_95_of_100(world: str) -> None:
    """A z test is the liar: of the same rows it claims a difference in a fifth or more."""
    worlds = 500 if Selection.asked().thorough else 100
    values = WORLDS[world](np.random.default_rng(3), (worlds, 1500))
    # Of 100 worlds: 5 are expected at most, and two standard errors of chance.
    assert ever_claimed(values) <= 0.05 + 2 * (0.05 * 0.95 / worlds) ** 0.5
    n = np.arange(1, values.shape[1] + 1)
    capped = np.clip(values, -CAP, CAP)
    means, squares = np.cumsum(capped, 1) / n, np.cumsum(capped**2, 1) / n
    z = means / np.sqrt((squares - means**2 + 1e-12) / n)
    assert (np.abs(z)[:, 99:] > 1.96).any(axis=1).mean() > 0.2


@pytest.mark.parametrize(("effect", "most"), [(0.1, 700), (0.2, 200)])
def test_a_difference_is_found(effect: float, most: int) -> None:
    rows = np.random.default_rng(5).normal(effect, 0.55, (40, 1500))
    claims = [first_claim(row, 50) for row in rows]
    assert min(claims) > 0
    assert np.median(claims) <= most


def test_the_interval_is_where_the_wealth_reaches_its_level() -> None:
    """Factors one by one, without the grid, on both sides of each end."""
    values = np.random.default_rng(1).normal(0.3, 1.0, 400)
    low, high = bounds_of_mean(spread_on_grid(values, CAP), CAP)
    x = np.clip(values, -CAP, CAP)

    def wealth(mean: float) -> tuple[float, float]:
        up = 1 + BETS * (x - mean) / (CAP + mean)
        down = 1 + BETS * (mean - x) / (CAP - mean)
        assert min(up.min(), down.min()) > 0
        return float(up.prod(axis=1).mean()), float(down.prod(axis=1).mean())

    assert low < x.mean() < high
    assert wealth(low)[0] == pytest.approx(40, rel=0.01)
    assert wealth(high)[1] == pytest.approx(40, rel=0.01)
    for further in (0.01, 0.1, 1.0):
        assert wealth(low - further)[0] > 40 > wealth(low + further)[0]
        assert wealth(high - further)[1] < 40 < wealth(high + further)[1]


def test_the_grid_keeps_the_mean_and_loses_hardly_any_wealth() -> None:
    values = np.random.default_rng(2).normal(0.05, 2.0, 5000)
    weights = spread_on_grid(values, CAP)
    grid = np.linspace(-CAP, CAP, len(weights))
    assert weights.sum() == pytest.approx(5000)
    assert weights @ grid == pytest.approx(np.clip(values, -CAP, CAP).sum())
    whole = np.log1p(BETS * np.clip(values, -CAP, CAP) / CAP).sum(axis=1)
    of_grid = np.log1p(BETS * grid / CAP) @ weights
    assert (of_grid <= whole + 1e-9).all()
    assert (whole - of_grid).max() < 0.005


@pytest.mark.parametrize("n", [0, 1, 2, 30])
def test_an_interval_of_few_clients_is_wide_and_has_the_mean(n: int) -> None:
    values = np.full(n, 0.4)
    low, high = bounds_of_mean(spread_on_grid(values, CAP), CAP)
    assert -CAP <= low < 0.4 < high <= CAP
    assert (n > 0) or (low, high) == pytest.approx((-CAP, CAP))


def test_a_million_clients_take_less_than_a_second() -> None:
    values = np.random.default_rng(0).normal(0.01, 0.5, 10**6)
    began = time.process_time()
    low, high = bounds_of_mean(spread_on_grid(values, CAP), CAP)
    assert time.process_time() - began < 1.0
    assert 0 < low < 0.01 < high


@pytest.mark.parametrize("level", [0.05, 0.05 / 2, 0.05 / 30, 0.05 / 930])
def test_the_lower_end_at_another_level_is_that_of_its_own_sequence(level: float) -> None:
    credit = np.random.default_rng(1).normal(0.1, 0.5, 800)
    ones, nothing = np.ones(800, np.int64), np.zeros(800)
    totals = ClientTotals(credit, credit, ones, ones, ones, nothing, nothing)
    result = experiment_result(totals, exponent=1.0)
    weights = spread_on_grid(credit, CAP)
    assert result.low_at(level) == bounds_of_mean(weights, CAP, level)[0]
    assert result.low_at(0.05) == result.low
    assert result.low_at(level / 2) < result.low_at(level)


def test_a_fair_coin_may_be_looked_at_after_every_fall() -> None:
    checked = functools.cache(lead_check)
    falls = np.cumsum(np.random.default_rng(0).random((200, 1500)) < 0.5, axis=1)
    alarms = sum(
        any(checked(n - heads, heads) < 0.05 for n, heads in enumerate(row, 1))
        for row in falls.tolist()
    )
    assert alarms <= 0.05 * 200


def test_a_coin_that_is_not_fair_is_seen() -> None:
    assert lead_check(0, 0) == pytest.approx(1.0)
    assert lead_check(500, 500) == 1.0
    assert lead_check(5000, 4400) < 0.001
    assert lead_check(300, 200) == lead_check(200, 300)
    # B(n + ½, ½) / B(½, ½) 2^n for heads alone.
    factor = math.gamma(5.5) * math.gamma(0.5) / (math.gamma(6) * math.pi) * 2**5
    assert lead_check(0, 5) == pytest.approx(1 / factor)
    assert 0.0 <= lead_check(10**7, 10**6) < 1e-300
