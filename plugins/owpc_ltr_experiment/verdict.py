"""The verdict of an experiment: what clicks are worth, the interval of the mean, and its checks.

A click on an interleaved page is worth the clicks under B minus the clicks under A. The credit is
counterfactual, as in Debiased Balanced Interleaving (Bi et al., CIKM 2022, doi
10.1145/3511808.3557123): how often users would have seen the document on a page of each ranker
alone, divided by how often they see it on the two pages that are shown.

The statistics hold at all times at once, so that an experiment may be looked at every day.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.experiments import FEWEST
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Outcome, ResultWarning, Verdict
from owpc_ltr.text import ShortRepr, wrapped_text

TYPICAL, SPREAD = 1.0, 0.5
"""Exponents of examination that web search has, mean and deviation: what is said before clicks."""
_LARGEST = 4.0
_STEPS = 50
_Z = 1.96
CHECKED_AT = 0.01
"""The level of the checks that make a verdict `cannot tell`: it is looked at many times."""
FEWEST_CREDITED = 30.0
"""Clients on which the mean must rest."""


@dataclass(frozen=True, eq=False)
class ClickedPositions:
    """Clicked documents, one a row; all positions count from 1, and 0 is none.

    `a` and `b` are the ranks in the lists of the two rankers, `in_a` and `in_b` the positions on
    the pages that A or B leads. `leads` is True where B led the page that was clicked.
    """

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    in_a: NDArray[np.int64]
    in_b: NDArray[np.int64]
    leads: NDArray[np.bool_]


def examination(positions: NDArray[np.int64], exponent: float, page: int) -> Vector:
    """The chance that users look at a position, p**-exponent; 0 beyond the page and for none."""
    seen = (positions > 0) & (positions <= page)
    return np.where(seen, np.maximum(positions, 1) ** -float(exponent), 0.0)


def debiased_credit(clicks: ClickedPositions, exponent: float, page: int) -> Vector:
    """The credit of each click; positive for B.

    A document d of relevance r is clicked with the chance ½ [θ(in_a) + θ(in_b)] r on the page
    shown, and would be with θ(a) r and θ(b) r on pages of A and B alone. Hence the expected sum of

        [θ(b) - θ(a)] / (½ [θ(in_a) + θ(in_b)])

    over clicks is the sum over documents of [θ(b) - θ(a)] r: clicks under B minus clicks under A,
    without those on documents that neither page shows. θ is `examination`. A click beyond the
    page counts 0, as θ does there.
    """
    a, b, in_a, in_b = (
        examination(positions, exponent, page)
        for positions in (clicks.a, clicks.b, clicks.in_a, clicks.in_b)
    )
    shown = np.where(clicks.leads, in_b, in_a)
    return np.divide(b - a, (in_a + in_b) / 2, out=np.zeros(len(shown)), where=shown > 0)


def examination_exponent(clicks: ClickedPositions, page: int) -> tuple[float, float, float]:
    """The exponent of examination by these clicks, and the ends of its 95 % interval.

    The coin puts a document at one of two positions, and nothing else differs: of its clicks, the
    share θ(in_b) / (θ(in_a) + θ(in_b)) comes while B leads (intervention harvesting, Agarwal et
    al., WSDM 2019). That is a logistic regression on log(in_a / in_b) with one coefficient, the
    exponent. Its prior is normal around `TYPICAL`, which decides where clicks are few. The interval
    takes clicks as independent.
    """
    x, leads = _swapped(clicks, page)
    exponent = TYPICAL
    for _ in range(_STEPS):
        chance = _chance(exponent * x)
        slope = float(x @ (leads - chance)) - (exponent - TYPICAL) / SPREAD**2
        curvature = float(x**2 @ (chance * (1 - chance))) + SPREAD**-2
        step = min(max(exponent + slope / curvature, 0.0), _LARGEST) - exponent
        exponent += step
        if abs(step) < 1e-9:
            break
    half = _Z / curvature**0.5
    return exponent, max(exponent - half, 0.0), exponent + half


def coin_residuals(clicks: ClickedPositions, exponent: float, page: int) -> Vector:
    """How far the leader of each click is from what its positions predict; 0 on average.

    Where clicks of one leader get lost, the mean is not 0, whichever ranker is better.
    """
    return clicks.leads - _share_of_b(clicks, exponent, page)


def adjusted_credit(clicks: ClickedPositions, exponent: float, page: int) -> Vector:
    """The `debiased_credit` of each click, in which clicks that one leader loses cancel out.

    Where pages that B leads lose a small share λ of their clicks, the sum of credit c changes by
    -λ Σ c (s - ½) beside its scale, and the sum of the residuals by -λ Σ s (1 - s), with
    s = θ(in_b) / (θ(in_a) + θ(in_b)). The ratio of both times the residual is subtracted. That is
    0 on average if no clicks are lost, and adds up to 3 % to the variance
    (`benchmarks/experiment_worlds.py`).
    """
    credit = debiased_credit(clicks, exponent, page)
    share = _share_of_b(clicks, exponent, page)
    spread = float(share @ (1 - share))
    ratio = float(credit @ (share - 0.5)) / spread if spread > 0 else 0.0
    return credit - ratio * (clicks.leads - share)


def _share_of_b(clicks: ClickedPositions, exponent: float, page: int) -> Vector:
    """The chance that B led, given each click; where nothing predicts it, what it was."""
    in_a, in_b = (
        examination(positions, exponent, page) for positions in (clicks.in_a, clicks.in_b)
    )
    shown = np.where(clicks.leads, in_b, in_a) > 0
    return np.divide(in_b, in_a + in_b, out=clicks.leads.astype(np.float64), where=shown)


def _swapped(clicks: ClickedPositions, page: int) -> tuple[Vector, NDArray[np.bool_]]:
    """log(in_a / in_b) of the clicks whose document is at two positions of the page."""
    in_a, in_b = clicks.in_a, clicks.in_b
    on_both = (in_a > 0) & (in_b > 0) & (in_a <= page) & (in_b <= page) & (in_a != in_b)
    x: Vector = np.log(in_a[on_both] / in_b[on_both])
    return x, clicks.leads[on_both]


def _chance(logits: Vector) -> Vector:
    chance: Vector = 1 / (1 + np.exp(-logits))
    return chance


def confidence_sequence(
    n: int, mean: float, sd: float, *, planned: int, level: float = LEVEL
) -> tuple[float, float]:
    """The interval of a mean of n values, in which the true one is at all n together.

    `mean ± sd √(2 (n ρ² + 1) / (n² ρ²) log(√(n ρ² + 1) / α))`, with
    `ρ² = (-2 log α + log(-2 log α + 1)) / planned`, which makes it narrowest at `planned` values
    (Waudby-Smith et al., arXiv 2103.06476). Infinite below `FEWEST` values.
    """
    if n < FEWEST:
        return -math.inf, math.inf
    half = sd * half_width(n, planned, level)
    return mean - half, mean + half


def half_width(n: int, planned: int, level: float = LEVEL) -> float:
    """Half the width of the interval, in standard deviations of one value."""
    twice = -2 * math.log(level)
    time = n * (twice + math.log(twice + 1)) / planned
    return math.sqrt(2 * (time + 1) / (n * time) * math.log(math.sqrt(time + 1) / level))


def lead_check(n_a: int, n_b: int) -> float:
    """The p-value of a fair coin that fell n_a and n_b times, valid at all times at once.

    1 over the Bayes factor of a share with a Beta(½, ½) prior against ½: it falls below p with at
    most the chance p, however often it is looked at (Lindon & Malek, NeurIPS 2022).
    """
    n = n_a + n_b
    log_factor = (
        math.lgamma(n_a + 0.5) + math.lgamma(n_b + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    ) + n * math.log(2)
    return math.exp(min(0.0, -log_factor))


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

    def low_at(self, level: float, planned: int) -> float:
        """The lower end of the interval at another level."""
        wider = half_width(self.n_clients, planned, level) / half_width(self.n_clients, planned)
        return self.mean - wider * (self.mean - self.low)

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
            *(wrapped_text(f"advice: {warning.advice}") for warning in self.verdict.warnings),
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
    # A broken guard rail does not decide where B is worse.
    warnings = [] if high < 0 else [rail for rail in guard_rails if rail.decides]
    warnings += _warnings(clients, planned)
    verdict = Verdict(Outcome.CANNOT_TELL, tuple(warnings))
    if not warnings:
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


def _warnings(clients: ClientTotals, planned: int) -> Iterator[ResultWarning]:
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
