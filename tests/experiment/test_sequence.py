"""Intervals and checks that are looked at after every client."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from owpc_ltr_experiment.verdict import (
    ExperimentResult,
    confidence_sequence,
    half_width,
    lead_check,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.significance import Outcome, Verdict


def ever_outside(values: Vector, planned: int, widths: list[float]) -> float:
    """The share of rows whose interval once excludes 0, looked at from 100 values on."""
    n = np.arange(1, values.shape[1] + 1)
    means = np.cumsum(values, axis=1) / n
    deviations = np.sqrt(np.cumsum(values**2, axis=1) / n - means**2)
    outside = np.abs(means)[:, 99:] > deviations[:, 99:] * np.array(widths)
    return float(outside.any(axis=1).mean())


@pytest.mark.parametrize("planned", [200, 2000, 20_000])
def test_looking_after_every_client_claims_nothing_in_95_of_100(planned: int) -> None:
    """A z test is the liar: of the same rows it claims a difference in a third or more."""
    rng = np.random.default_rng(planned)
    # Few clients click, as in searches.
    values = rng.choice([-1.0, 0.0, 1.0], (500, 2000), p=[0.05, 0.9, 0.05])
    counts = range(100, 2001)
    assert ever_outside(values, planned, [half_width(n, planned) for n in counts]) <= 0.05
    assert ever_outside(values, planned, [1.96 / math.sqrt(n) for n in counts]) > 0.25


def test_the_interval_is_the_published_one() -> None:
    """α = .05: ρ² = 7.9358 / n*, by hand."""
    low, high = confidence_sequence(1000, 0.5, 2.0, planned=1000)
    rho = 5.991464547 + math.log(6.991464547)
    half = 2 * math.sqrt(2 * (rho + 1) / (1000 * rho) * math.log(math.sqrt(rho + 1) / 0.05))
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))


@pytest.mark.parametrize("planned", [1000, 10_000])
def test_it_is_narrowest_at_the_clients_that_were_planned(planned: int) -> None:
    at = planned
    best = half_width(at, planned)
    for other in (planned // 5, planned * 5):
        assert best < half_width(at, other)


def test_there_is_no_interval_of_few_clients() -> None:
    assert confidence_sequence(99, 0.5, 0.1, planned=100) == (-math.inf, math.inf)
    assert math.isfinite(confidence_sequence(100, 0.5, 0.1, planned=100)[0])


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


@pytest.mark.parametrize("level", [0.05 / 2, 0.05 / 30, 0.05 / 930])
def test_the_lower_end_at_another_level_is_that_of_its_own_sequence(level: float) -> None:
    for mean in (0.03, 0.05, 0.06, 0.07, 0.08, 0.1):
        low, high = confidence_sequence(800, mean, 0.5, planned=1000)
        result = ExperimentResult(
            800, 900, 300, mean=mean, low=low, high=high, exponent=1.0, led_by_a=1, led_by_b=1,
            smallest=0.0, verdict=Verdict(Outcome.BETTER),
        )  # fmt: skip
        wider, _ = confidence_sequence(800, mean, 0.5, planned=1000, level=level)
        assert result.low_at(level, 1000) == pytest.approx(wider)
