"""The verdict of an experiment: the interval of the mean credit, and what it must not rest on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.significance import Outcome, ResultWarning, Verdict
from owpc_ltr.plain_text import ShortRepr, wrapped_text
from owpc_ltr_experiment.sequence import FEWEST, confidence_sequence, lead_check

CHECKED_AT = 0.01
"""The level of the checks that make a verdict `cannot tell`: it is looked at many times."""
FEWEST_CREDITED = 30.0
"""Clients on which the mean must rest."""


@dataclass(frozen=True, eq=False)
class ClientTotals:
    """What counts of each client, one a row.

    `credit` is the sum of `adjusted_credit` over its clicks, `searches` counts its searches,
    `led_b` those that B led, `clicks` its clicks. `residual` is the sum of `coin_residuals` over
    its clicks: 0 on average, if no clicks are lost.
    """

    credit: Vector
    searches: NDArray[np.int64]
    clicks: NDArray[np.int64]
    led_b: NDArray[np.int64]
    residual: Vector


@dataclass(frozen=True, repr=False)
class ExperimentResult(ShortRepr):
    """The verdict on B, and its figures.

    `mean` is the credit a client: clicks under B minus clicks under A; `low` and `high` bound it at
    all looks together, and are infinite for fewer than 100 clients. `exponent` is that of
    examination, `led_by_a` and `led_by_b` count searches. `smallest` is the difference that would
    not matter.
    """

    n_clients: int
    n_searches: int
    n_clicks: int
    mean: float
    low: float
    high: float
    exponent: float
    led_by_a: int
    led_by_b: int
    smallest: float
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; an end of the interval that is infinite is None."""
        ends = {"low": self.low, "high": self.high}
        finite = {name: end if math.isfinite(end) else None for name, end in ends.items()}
        return {**vars(self), **finite, "verdict": self.verdict.as_dict()}

    def __str__(self) -> str:
        first = str(self.verdict)
        if self.verdict.outcome is Outcome.NO_DIFFERENCE:
            first += f" within ±{self.smallest:g} clicks a client"
        interval = "no interval yet"
        if math.isfinite(self.low):
            interval = f"[{self.low:+.4f}, {self.high:+.4f}]"
        lines = [
            wrapped_text(first),
            *(wrapped_text(f"advice: {doubt.advice}") for doubt in self.verdict.doubts),
            f"clicks a client, B - A: {self.mean:+.4f} {interval}",
            f"{self.n_clients:,} clients, {self.n_clicks:,} clicks in {self.n_searches:,} searches",
            f"led by A: {self.led_by_a:,}, by B: {self.led_by_b:,}; users look at position p with "
            f"p^-{self.exponent:.2f}",
        ]
        return "\n".join(lines)


def experiment_result(
    clients: ClientTotals,
    *,
    planned: int,
    exponent: float,
    smallest: float = 0.0,
    guard_rails: Sequence[ResultWarning] = (),
) -> ExperimentResult:
    """The verdict on B by its clients' credit, which holds whenever it is asked for.

    `planned` is the number of clients at which the interval is narrowest, `exponent` that of
    examination in the credit. The verdict is `better` or `worse` where the interval excludes 0, and
    `no significant difference` where it lies within ±`smallest`. It is `cannot tell` where it does
    neither, a guard rail speaks against B, leaders are not equally frequent, clicks of one leader
    are lost, or the mean rests on too few clients.
    """
    n = len(clients.credit)
    mean, sd = _mean_and_sd(clients.credit)
    low, high = confidence_sequence(n, mean, sd, planned=planned)
    # That B breaks a guard rail is no doubt where it is worse.
    doubts = [] if high < 0 else [rail for rail in guard_rails if rail.decides]
    doubts += _doubts(clients, planned)
    verdict = Verdict(Outcome.CANNOT_TELL, tuple(doubts))
    if not doubts:
        verdict = _verdict(low, high, smallest)
    searches, led_by_b = int(clients.searches.sum()), int(clients.led_b.sum())
    return ExperimentResult(
        n,
        searches,
        int(clients.clicks.sum()),
        mean=mean,
        low=low,
        high=high,
        exponent=exponent,
        led_by_a=searches - led_by_b,
        led_by_b=led_by_b,
        smallest=smallest,
        verdict=verdict,
    )


def _verdict(low: float, high: float, smallest: float) -> Verdict:
    if low > 0:
        return Verdict(Outcome.BETTER)
    if high < 0:
        return Verdict(Outcome.WORSE)
    if max(-low, high) <= smallest:
        return Verdict(Outcome.NO_DIFFERENCE)
    return Verdict(Outcome.CANNOT_TELL, (ResultWarning(
        "interval-has-0",
        "the interval of the difference has 0 in it",
        "go on with the experiment, and look again later",
    ),))  # fmt: skip


def _doubts(clients: ClientTotals, planned: int) -> Iterator[ResultWarning]:
    """Why no difference can be claimed, whatever the interval."""
    n = len(clients.credit)
    # A coin falls once for a client and a query: counted by client, its falls are independent.
    more_b = 2 * clients.led_b - clients.searches
    led = int((more_b < 0).sum()), int((more_b > 0).sum())
    if lead_check(*led) < CHECKED_AT:
        yield ResultWarning(
            "sample-ratio",
            f"A leads most searches of {led[0]:,} clients, B of {led[1]:,}, where a fair coin "
            "gives as many",
            "find what loses or repeats searches of one leader: a cache of pages, a filter, a "
            "logger that fails",
        )
    low, high = confidence_sequence(
        n, *_mean_and_sd(clients.residual), planned=planned, level=CHECKED_AT
    )
    if not low <= 0 <= high:
        side = "A" if low > 0 else "B"
        yield ResultWarning(
            "lost-clicks",
            f"too few clicks come from pages that {side} leads, by what its positions predict",
            "find what loses clicks: the logger of the page, a cache, a filter of bots",
        )
    if n < FEWEST:
        yield ResultWarning(
            "few-clients", f"{n} clients are too few: an interval needs {FEWEST}",
            "go on with the experiment",
        )  # fmt: skip
    elif (credited := _effective(clients.credit)) < FEWEST_CREDITED:
        yield ResultWarning(
            "few-credited",
            f"the difference rests on clicks of about {credited:.0f} clients, and "
            f"{FEWEST_CREDITED:.0f} are needed",
            "go on with the experiment; drop bots with fewer clicks in an hour, if they remain",
        )


def _mean_and_sd(values: Vector) -> tuple[float, float]:
    if len(values) < 2:
        return float(values.sum()), math.inf
    return float(values.mean()), float(values.std(ddof=1))


def _effective(values: Vector) -> float:
    """How many clients of equal weight would make as uneven a sum of squares."""
    squares = values**2
    fourth = float((squares**2).sum())
    return float(squares.sum()) ** 2 / fourth if fourth else 0.0
