"""The verdict of an experiment, and the checks that make it `cannot tell`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_experiment.verdict import (
    CAP,
    ClientTotals,
    ExperimentResult,
    _without_top,
    experiment_result,
)

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
        late=credit * (np.arange(n) >= n * 2 // 3),
        unlogged=np.zeros(n),
    )
    return replace(totals, **columns)


def result(totals: ClientTotals, **options: Any) -> ExperimentResult:
    return experiment_result(totals, **{"exponent": 1.0, **options})


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
        totals,
        credit=-totals.credit,
        late=-totals.late,
        residual=-totals.residual,
        led_b=2 - totals.led_b,
    )
    first, second = result(totals), result(swapped)
    assert (first.mean, first.low, first.high) == pytest.approx(
        (-second.mean, -second.high, -second.low)
    )
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


LOG_LIARS = [
    (_lopsided, "sample-ratio", "A leads most searches of 636 clients, B of 448"),
    (_lost, "lost-clicks", "too few clicks come from pages that B leads"),
    (_lost_of_a, "lost-clicks", "too few clicks come from pages that A leads"),
]  # fmt: skip


def _robots(totals: ClientTotals) -> ClientTotals:
    """Fourteen clients in a thousand click thirty times for B, the others a little for A."""
    few = np.arange(len(totals.credit)) % 70 == 0
    credit = np.where(few, 12.0, -0.005)
    return replace(totals, credit=credit, late=credit, clicks=np.where(few, 30, totals.clicks))


def _new(totals: ClientTotals) -> ClientTotals:
    return replace(totals, late=-0.1 * totals.late)


def _faded(totals: ClientTotals) -> ClientTotals:
    """The last third has the same sign, by less than chance."""
    return replace(totals, late=0.05 * totals.late + 0.001 * np.sign(totals.late))


def _few_beyond(totals: ClientTotals) -> ClientTotals:
    """Twenty clients lose forty clicks each, where the others win .2."""
    credit = totals.credit.copy()
    credit[::100] = -40.0
    return replace(totals, credit=credit)


def _unlogged(totals: ClientTotals) -> ClientTotals:
    return replace(totals, unlogged=np.full(len(totals.credit), -0.16))


DIFFERENCE_LIARS = [
    (_robots, "top-clients", "the clients with the most clicks decide, 40 of 2,000: -0.0050"),
    (_few_beyond, "few-decide", "24 clients decide: clicks above 3 sum to -740, all others"),
    (_new, "novelty", "the last third of the searches shows no such difference: -"),
    (_unlogged, "never-clicked", "first more often where A leads"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("liar", "check", "message"),
    [*LOG_LIARS, *DIFFERENCE_LIARS],
    ids=lambda parameter: str(parameter)[:16],
)
def test_each_check_catches_its_liar(liar: Any, check: str, message: str) -> None:
    honest = clients(mean=0.25)
    assert checks(result(honest)) == []
    of = result(liar(honest))
    assert checks(of) == [check]
    assert message in str(of).replace("\n  ", " ")


@pytest.mark.parametrize(
    ("liar", "check", "message"), LOG_LIARS, ids=[liar[1] for liar in LOG_LIARS]
)
def test_a_broken_log_shows_no_equality_either(liar: Any, check: str, message: str) -> None:
    assert checks(result(liar(clients(mean=0.2)), smallest=1000.0)) == [check], message


def test_a_difference_of_a_is_doubted_as_one_of_b_is() -> None:
    honest = clients(mean=-0.25)
    assert checks(result(honest)) == []
    for liar, check in ((_new, "novelty"), (_robots, "top-clients")):
        of = liar(clients(mean=0.25))
        turned = replace(of, credit=-of.credit, late=-of.late)
        assert checks(result(turned)) == [check]
    assert checks(result(replace(_unlogged(honest), unlogged=np.full(2000, 0.16)))) == [
        "never-clicked"
    ]
    assert checks(result(_unlogged(honest))) == []


def test_without_the_top_clients_equal_ones_leave_by_lot() -> None:
    """Of 100 clients with a click each, a third leaves: the mean of the others is as before."""
    clicks, credit = np.ones(100, np.int64), np.arange(100.0)
    whole = credit.sum()
    means = [_without_top(clicks, credit)]
    # One client makes more than a third of the clicks, and another one is of the 2 %.
    clicks[[3, 5]] = 2, 99
    means.append(_without_top(clicks, credit))
    clicks[7] = 2
    means.append(_without_top(clicks, credit))
    assert [top for _, top in means] == [33, 2, 2]
    left = [credit.mean(), (whole - 8) / 98, (whole - 5 - (3 + 7) / 2) / 98]
    assert [mean for mean, _ in means] == pytest.approx(left)


def test_what_a_client_has_above_the_cap_is_told() -> None:
    totals = clients(mean=0.25)
    credit = totals.credit.copy()
    credit[:3] = 10.0
    of = result(replace(totals, credit=credit))
    above = credit[np.abs(credit) > CAP]
    assert of.n_above_cap == len(above)
    assert of.above_cap == pytest.approx((above - CAP * np.sign(above)).sum() / 2000)
    assert of.mean + of.above_cap == pytest.approx(credit.mean())
    assert f"clients with more: {len(above)}; what they have above it: {of.above_cap:+.4f}" in str(
        of
    )
    assert "counts 3 at most" in str(of)


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
    assert -3 <= content["low"] <= content["mean"] <= content["high"] <= 3
    assert "weights" not in content
    assert content["verdict"]["outcome"] == "cannot tell"
    assert len(repr(of)) <= 1000
