"""The verdict of an experiment, and the checks that make it `cannot tell`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_experiment.verdict import ClientTotals, ExperimentResult, experiment_result

from owpc_ltr.evaluation.significance import Outcome, ResultWarning


def clients(n: int = 2000, mean: float = 0.0, **columns: Any) -> ClientTotals:
    """Clients of two searches each, with a fair coin and all of their clicks."""
    rng = np.random.default_rng(7)
    credit = rng.normal(mean, 1.0, n)
    totals = ClientTotals(
        credit=credit,
        searches=np.full(n, 2),
        clicks=rng.poisson(0.7, n),
        led_b=rng.binomial(2, 0.5, n),
        residual=rng.normal(0.0, 0.5, n),
    )
    return replace(totals, **columns)


def result(totals: ClientTotals, **options: Any) -> ExperimentResult:
    return experiment_result(totals, **{"planned": 2000, "exponent": 1.0, **options})


def checks(of: ExperimentResult) -> list[str]:
    assert (of.verdict.outcome is Outcome.CANNOT_TELL) == bool(of.verdict.warnings)
    return [warning.check for warning in of.verdict.warnings]


def test_the_four_outcomes() -> None:
    assert result(clients(mean=0.2)).verdict.outcome is Outcome.BETTER
    assert result(clients(mean=-0.2)).verdict.outcome is Outcome.WORSE
    assert checks(result(clients())) == ["interval-has-0"]
    alike = result(clients(), smallest=0.2)
    assert alike.verdict.outcome is Outcome.NO_DIFFERENCE
    assert str(alike).startswith("no significant difference within ±0.2 clicks a client\n")


def test_rankers_that_change_places_change_the_sign_of_the_interval() -> None:
    totals = clients(mean=0.2)
    swapped = replace(
        totals, credit=-totals.credit, residual=-totals.residual, led_b=2 - totals.led_b
    )
    first, second = result(totals), result(swapped)
    assert (first.mean, first.low, first.high) == (-second.mean, -second.high, -second.low)
    assert (first.led_by_a, first.led_by_b) == (second.led_by_b, second.led_by_a)
    assert second.verdict.outcome is Outcome.WORSE


def test_a_client_that_searches_on_does_not_unbalance_the_coin() -> None:
    """One query repeated 5,000 times has one leader; by searches the coin would look false."""
    totals = clients(mean=0.2)
    searches, led_b = totals.searches.copy(), totals.led_b.copy()
    searches[0] = led_b[0] = 5000
    assert result(replace(totals, searches=searches, led_b=led_b)).verdict.outcome == "better"


def _lopsided(totals: ClientTotals) -> ClientTotals:
    """A cache serves pages that A leads to a tenth of the clients."""
    led_b = totals.led_b.copy()
    led_b[: len(led_b) // 10] = 0
    return replace(totals, led_b=led_b)


def _lost(totals: ClientTotals) -> ClientTotals:
    return replace(totals, residual=totals.residual - 0.08)


def _lost_of_a(totals: ClientTotals) -> ClientTotals:
    return replace(totals, residual=totals.residual + 0.08)


def _heavy(totals: ClientTotals) -> ClientTotals:
    """One client in a hundred has a thousand clicks."""
    return replace(totals, credit=np.where(np.arange(len(totals.credit)) % 100 == 0, 1000.0, 0.0))


LIARS = [
    (_lopsided, "sample-ratio", "A leads most searches of 636 clients, B of 448"),
    (_lost, "lost-clicks", "too few clicks come from pages that B leads"),
    (_lost_of_a, "lost-clicks", "too few clicks come from pages that A leads"),
    (_heavy, "few-credited", "rests on clicks of about 20 clients"),
    (lambda _: clients(99, mean=0.9), "few-clients", "99 clients are too few"),
    (lambda totals: replace(totals, credit=np.zeros(2000)), "few-credited", "about 0 clients"),
]  # fmt: skip


@pytest.mark.parametrize(("liar", "check", "message"), LIARS, ids=[liar[1] for liar in LIARS])
def test_each_check_catches_its_liar(liar: Any, check: str, message: str) -> None:
    honest = clients(mean=0.2)
    assert checks(result(honest)) == []
    of = result(liar(honest))
    assert checks(of) == [check]
    assert message in str(of).replace("\n  ", " ")
    # Nothing that would not matter either, whatever the interval.
    assert result(liar(honest), smallest=1000.0).verdict.outcome is Outcome.CANNOT_TELL


def test_a_guard_rail_that_decides_comes_first() -> None:
    rails = [ResultWarning("slow", "B is slow", "wait", decides=False)]
    assert checks(result(clients(mean=0.2), guard_rails=rails)) == []
    rails.append(ResultWarning("empty", "B finds nothing", "look at it"))
    assert checks(result(clients(mean=0.2), guard_rails=rails)) == ["empty"]


@pytest.mark.parametrize("n", [0, 1, 2, 99, 100, 3000])
def test_any_number_of_clients_prints_within_the_terminal_and_is_json(n: int) -> None:
    of = result(_lost(_lopsided(clients(n))))
    assert max(map(len, str(of).splitlines())) <= 80
    content = json.loads(json.dumps(of.as_dict(), allow_nan=False))
    assert content["n_clients"] == n
    assert (content["low"] is None) == (n < 100)
    assert content["verdict"]["outcome"] == "cannot tell"
    assert len(repr(of)) <= 1000
