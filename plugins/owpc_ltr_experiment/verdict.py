"""The verdict of an experiment: what clicks are worth, the interval of the mean, and its checks.

A click on an interleaved page is worth the clicks under B minus the clicks under A. The credit is
counterfactual, as in Debiased Balanced Interleaving (Bi et al., CIKM 2022, doi
10.1145/3511808.3557123): how often users would have seen the document on a page of each ranker
alone, divided by how often they see it on the two pages that are shown.

The statistics hold at all times at once, so that an experiment may be looked at every day. A client
counts `CAP` clicks at most, so that a few clients do not decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import wrapped_text
from owpc_ltr.evaluation.significance import LEVEL, Outcome, ResultWarning, Verdict
from owpc_ltr.text import ShortRepr

TYPICAL, SPREAD = 1.0, 0.5
"""Exponents of examination that web search has, mean and deviation: what is said before clicks."""
_LARGEST = 4.0
_STEPS = 50
CAP = 3.0
"""Clicks that a client counts at most, for either ranker."""
CHECKED_AT = 0.01
"""The level of the checks that make a verdict `cannot tell`: it is looked at many times."""
RESIDUAL_CAP = 10.0
"""A client's residuals are bounded for the check of lost clicks: a smaller cap would be biased, as
residuals of B's pages and A's differ in size."""
TOP_CLIENTS, TOP_CLICKS = 0.02, 1 / 3
"""Shares of the clients and of the clicks: without the clients with most clicks, who are as many or
make as many, a difference must keep its sign."""
BETS = np.geomspace(0.003, 0.9, 24)[:, None]
_GRID = np.linspace(-1.0, 1.0, 2001)
_HALVINGS = 24


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


def examination_exponent(clicks: ClickedPositions, page: int) -> float:
    """The exponent of examination by these clicks.

    The coin puts a document at one of two positions, and nothing else differs: of its clicks, the
    share θ(in_b) / (θ(in_a) + θ(in_b)) comes while B leads (intervention harvesting, Agarwal et
    al., WSDM 2019). That is a logistic regression on log(in_a / in_b) with one coefficient, the
    exponent. Its prior is normal around `TYPICAL`, which decides where clicks are few.
    """
    from scipy.special import expit

    in_a, in_b = clicks.in_a, clicks.in_b
    on_both = (in_a > 0) & (in_b > 0) & (in_a <= page) & (in_b <= page) & (in_a != in_b)
    x, leads = np.log(in_a[on_both] / in_b[on_both]), clicks.leads[on_both]
    exponent = TYPICAL
    for _ in range(_STEPS):
        chance = expit(exponent * x)
        slope = float(x @ (leads - chance)) - (exponent - TYPICAL) / SPREAD**2
        curvature = float(x**2 @ (chance * (1 - chance))) + SPREAD**-2
        step = min(max(exponent + slope / curvature, 0.0), _LARGEST) - exponent
        exponent += step
        if abs(step) < 1e-9:
            break
    return exponent


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


def spread_on_grid(values: Vector, cap: float) -> Vector:
    """Values, capped at ±`cap`, as weights of the points of an even grid.

    A value is shared by the two points beside it, which keeps the mean. As logarithms are concave,
    the wealth of `lower_end` becomes smaller by that, by less than 1e-4 for a thousand values.
    """
    place = (np.clip(values, -cap, cap) / cap + 1) / 2 * (len(_GRID) - 1)
    below = np.minimum(place.astype(np.int64), len(_GRID) - 2)
    weights: Vector = np.bincount(below, below + 1 - place, len(_GRID)).astype(np.float64)
    return weights + np.bincount(below + 1, place - below, len(_GRID))


def lower_end(weights: Vector, cap: float, level: float) -> float:
    """A bound that the mean of capped values lies below with at most the chance `level`, ever.

    Someone bets that values x are larger than a mean m: each multiplies the wealth by
    1 + λ (x - m) / (cap + m), which is positive, and 1 on average where m is the true mean. The
    wealth, averaged over 24 λ from .003 to .9, then reaches 1 / level with at most that chance, at
    any number of values (Ville's inequality; Waudby-Smith & Ramdas, JRSS B 2023, arXiv
    2010.09686). It falls as m grows: the bound is where it is 1 / level.
    """
    low, high = -1.0, 1.0
    points, weights = _GRID[weights > 0], weights[weights > 0]
    for _ in range(_HALVINGS):
        mean = (low + high) / 2
        logs = np.log1p(BETS * (points - mean) / (1 + mean)) @ weights
        largest = float(logs.max())
        rejected = largest + math.log(np.exp(logs - largest).mean()) >= -math.log(level)
        low, high = (mean, high) if rejected else (low, mean)
    return cap * low


def bounds_of_mean(weights: Vector, cap: float, level: float = LEVEL) -> tuple[float, float]:
    """The interval of the mean of capped values, in which the true one is at all looks together.

    It holds at any number of values, whatever their distribution: no variance is estimated.
    """
    low, high = (lower_end(side, cap, level / 2) for side in (weights, weights[::-1]))
    return low, -high


def lead_check(n_a: int, n_b: int) -> float:
    """The p-value of a fair coin that fell n_a and n_b times, valid at all times at once.

    1 over the Bayes factor of a share with a Beta(½, ½) prior against ½: it falls below p with at
    most the chance p, however often it is looked at (Lindon & Malek, NeurIPS 2022).
    """
    from scipy.special import betaln

    n = n_a + n_b
    log_factor = float(betaln(n_a + 0.5, n_b + 0.5)) - math.log(math.pi) + n * math.log(2)
    return math.exp(min(0.0, -log_factor))


@dataclass(frozen=True, eq=False)
class ClientTotals:
    """What counts of each client, one a row.

    `credit` is the sum of `adjusted_credit` over its clicks, `late` the part from the last third of
    all searches, `searches` counts its searches, `led_b` those that B led, `clicks` its clicks.
    `residual` is the sum of `coin_residuals` over its clicks: 0 on average, if no clicks are lost.
    `unlogged` is the credit that clicks would bring on first documents that never get one, if these
    got as many as other first documents, less those that as many seldom clicked ones explain;
    `never_clicked` names some of them.
    """

    credit: Vector
    late: Vector
    searches: NDArray[np.int64]
    clicks: NDArray[np.int64]
    led_b: NDArray[np.int64]
    residual: Vector
    unlogged: Vector
    never_clicked: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class ExperimentResult(ShortRepr):
    """The verdict on B, and its figures.

    `mean` is the credit a client, clicks under B minus clicks under A, of which a client counts 3
    at most; `low` and `high` bound it at all looks together. `above_cap` is what `n_above_cap`
    clients have above that, by client of all. `exponent` is that of examination, `led_by_a` and
    `led_by_b` count searches. `smallest` is the difference that would not matter. `weights` are the
    clients' capped credits on a grid.
    """

    n_clients: int
    n_searches: int
    n_clicks: int
    mean: float
    low: float
    high: float
    n_above_cap: int
    above_cap: float
    exponent: float
    led_by_a: int
    led_by_b: int
    smallest: float
    verdict: Verdict
    weights: Vector = field(compare=False)

    def low_at(self, level: float) -> float:
        """The lower end of the interval at another level."""
        return lower_end(self.weights, CAP, level / 2)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        figures = {**vars(self), "verdict": self.verdict.as_dict()}
        del figures["weights"]
        return figures

    def __str__(self) -> str:
        first = str(self.verdict)
        if self.verdict.outcome is Outcome.NO_DIFFERENCE:
            first += f" within ±{self.smallest:g} clicks a client"
        lines = [
            wrapped_text(first),
            *(wrapped_text(f"advice: {warning.advice}") for warning in self.verdict.warnings),
            f"clicks a client, B - A: {self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]; each "
            f"counts {CAP:g} at most",
        ]
        if self.n_above_cap:
            lines.append(
                f"clients with more: {self.n_above_cap:,}; what they have above it: "
                f"{self.above_cap:+.4f} clicks a client"
            )
        lines += [
            f"{self.n_clients:,} clients, {self.n_clicks:,} clicks in {self.n_searches:,} searches",
            f"led by A: {self.led_by_a:,}, by B: {self.led_by_b:,}; users look at position p with "
            f"p^-{self.exponent:.2f}",
        ]
        return "\n".join(lines)


def experiment_result(
    clients: ClientTotals,
    *,
    exponent: float,
    smallest: float = 0.0,
    guard_rails: Sequence[ResultWarning] = (),
) -> ExperimentResult:
    """The verdict on B by its clients' credit, which holds whenever it is asked for.

    `exponent` is that of examination in the credit. The verdict is `better` or `worse` where the
    interval excludes 0, and `no significant difference` where it lies within ±`smallest`. It is
    `cannot tell` where it does neither, a guard rail speaks against B, leaders are not equally
    frequent, clicks of one leader are lost, or a difference rests on a few clients, on early
    searches, or on documents that never get a click.
    """
    n = len(clients.credit)
    capped = np.clip(clients.credit, -CAP, CAP)
    above = clients.credit - capped
    weights = spread_on_grid(capped, CAP)
    low, high = bounds_of_mean(weights, CAP)
    # A broken guard rail does not decide where B is worse.
    warnings = [] if high < 0 else [rail for rail in guard_rails if rail.decides]
    warnings += _log_warnings(clients)
    outcome = _outcome(low, high, smallest)
    if outcome is Outcome.CANNOT_TELL and not warnings:
        warnings.append(
            ResultWarning(
                "interval-has-0",
                "the interval of the difference has 0 in it",
                "go on with the experiment, and look again later",
            )
        )
    if outcome in {Outcome.BETTER, Outcome.WORSE}:
        warnings += _difference_warnings(clients, capped)
    verdict = Verdict(Outcome.CANNOT_TELL if warnings else outcome, tuple(warnings))
    searches, led_by_b = int(clients.searches.sum()), int(clients.led_b.sum())
    return ExperimentResult(
        n,
        searches,
        int(clients.clicks.sum()),
        mean=_mean(capped),
        low=low,
        high=high,
        n_above_cap=int(np.count_nonzero(above)),
        above_cap=_mean(above),
        exponent=exponent,
        led_by_a=searches - led_by_b,
        led_by_b=led_by_b,
        smallest=smallest,
        verdict=verdict,
        weights=weights,
    )


def _outcome(low: float, high: float, smallest: float) -> Outcome:
    """What the interval says."""
    if low > 0:
        return Outcome.BETTER
    if high < 0:
        return Outcome.WORSE
    return Outcome.NO_DIFFERENCE if max(-low, high) <= smallest else Outcome.CANNOT_TELL


def _log_warnings(clients: ClientTotals) -> Iterator[ResultWarning]:
    """What is wrong with the log, whatever the interval says."""
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
    residuals = spread_on_grid(clients.residual, RESIDUAL_CAP)
    low, high = bounds_of_mean(residuals, RESIDUAL_CAP, CHECKED_AT)
    if not low <= 0 <= high:
        side = "A" if low > 0 else "B"
        yield ResultWarning(
            "lost-clicks",
            f"too few clicks come from pages that {side} leads, by what its positions predict",
            "find what loses clicks: the logger of the page, a cache, a filter of bots",
        )


def _difference_warnings(clients: ClientTotals, capped: Vector) -> Iterator[ResultWarning]:
    """Why a difference that the interval shows is none of the two rankers."""
    n, mean = len(capped), _mean(capped)
    above = clients.credit - capped
    few = np.count_nonzero(above)
    if (mean + _mean(above)) * mean < 0:
        yield ResultWarning(
            "few-decide",
            f"{few:,} {'client decides' if few == 1 else 'clients decide'}: clicks above {CAP:g} "
            f"sum to {above.sum():+,.0f}, all others to {mean * n:+,.0f}",
            "find out who these clients are, and drop bots with fewer clicks in an hour",
        )
    left, top = _without_top(clients.clicks, capped)
    if mean * left <= 0:
        yield ResultWarning(
            "top-clients",
            f"the clients with the most clicks decide, {top:,} of {n:,}: {left:+.4f} clicks a "
            "client without them",
            "find out who these clients are, and drop bots with fewer clicks in an hour",
        )
    late = np.clip(clients.late, -CAP, CAP)
    if math.copysign(1, mean) * late.sum() <= math.sqrt(float(late @ late)):
        yield ResultWarning(
            "novelty",
            f"the last third of the searches shows no such difference: {late.sum():+,.1f} clicks "
            f"of {mean * n:+,.1f}",
            "go on with the experiment: a difference that is new may wear off",
        )
    if mean * (mean + 2 * (unlogged := _mean(clients.unlogged))) <= 0:
        side = "A" if mean > 0 else "B"
        yield ResultWarning(
            "never-clicked",
            f"documents that never get a click are first more often where {side} leads: with as "
            f"many clicks as others {side} would have {abs(unlogged):.4f} clicks a client more, "
            "which is half of the difference at least",
            f"click on some in a search of the experiment ({', '.join(clients.never_clicked)}): if "
            "the log has these clicks, users do not want the documents; if not, fix the logging",
        )


def _without_top(clicks: NDArray[np.int64], credit: Vector) -> tuple[float, int]:
    """The mean credit without the clients with most clicks, by lot among equal ones; their number.

    As few of them may make a large part of early clicks, both shares are left out.
    """
    sums = np.cumsum(np.sort(clicks)[::-1])
    top = max(
        math.ceil(TOP_CLIENTS * len(clicks)), int(np.searchsorted(sums, TOP_CLICKS * sums[-1]))
    )
    least = np.partition(clicks, len(clicks) - top)[len(clicks) - top]
    equal = clicks == least
    stay = 1 - (top - np.count_nonzero(clicks > least)) / np.count_nonzero(equal)
    total = credit[clicks < least].sum() + stay * credit[equal].sum()
    return float(total) / max(len(clicks) - top, 1), top


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else 0.0
