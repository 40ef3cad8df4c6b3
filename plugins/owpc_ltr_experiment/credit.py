"""What a click on an interleaved page is worth: clicks under B minus clicks under A.

The credit is counterfactual, as in Debiased Balanced Interleaving (Bi et al., CIKM 2022,
doi 10.1145/3511808.3557123): it asks how often users would have seen the document on a page of each
ranker alone, and divides by how often they see it on the two pages that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector

TYPICAL, SPREAD = 1.0, 0.5
"""Exponents of examination that web search has, mean and deviation: what is said before clicks."""
_LARGEST = 4.0
_STEPS = 50
_Z = 1.96


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
