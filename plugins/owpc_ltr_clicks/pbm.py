"""The position-based model (Craswell et al. 2008): a click is a look, by rank, and a draw.

P(click) = examination of the rank × attractiveness of the pair. Expectation maximisation over which
impressions were looked at (Wang et al. 2018) finds the examination, with next to no prior, which
would pull documents together that a good ranker keeps apart. Then the attractiveness is found
again, with a beta prior by moments. It is the documents that were seen at several ranks that tell
the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.behaviour.priors import beta_prior, posterior_mean
from owpc_ltr.compiling import compiled
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ClickFit, ClickModel

_AT_A_TIME = 20
_HARDLY_ANY = (0.01, 0.01)
"""The prior while examination is found."""


@dataclass(frozen=True)
class PositionBased:
    """P(click on i at rank r) = examination_r · attractiveness_i, by EM.

    It ends where no examination moves by `tolerance` within twenty rounds, or after `rounds`.
    """

    name: ClassVar[str] = "pbm"

    rounds: int = 1000
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        check_settings(self)
        if self.rounds < 1 or not self.tolerance > 0:
            raise ValueError("rounds must be 1 or more, and tolerance above 0")

    def fit(self, counts: ClickCounts) -> ClickFit:
        """The examination of ranks, then what attracts."""
        clicks = counts.by_pair(counts.clicked)
        if not clicks.any():
            shown = counts.by_pair(counts.shown)
            prior = beta_prior(clicks, shown)
            found = posterior_mean(clicks, shown, prior)
            return ClickFit(found, shown, np.ones(counts.n_ranks), prior)
        state = _State(counts, clicks)
        moved, done = np.inf, 0
        while done < self.rounds and moved > self.tolerance:
            moved = state.improve(_HARDLY_ANY, _AT_A_TIME, fixed=False)
            done += _AT_A_TIME
        prior = beta_prior(clicks, *state.expected())
        state.improve(prior, _AT_A_TIME, fixed=True)
        found = posterior_mean(clicks, state.looks, prior)
        notes = (*_unidentified(counts), *_unfinished(moved, self.tolerance, done))
        return ClickFit(found, state.looks, state.examination, prior, notes)


class _State:
    """Where EM is: examination by rank, and how often each pair was looked at."""

    def __init__(self, counts: ClickCounts, clicks: Vector) -> None:
        self._counts, self._clicks = counts, clicks
        self._shown = counts.by_rank(counts.shown)
        self.examination = 1.0 / np.sqrt(np.arange(1.0, counts.n_ranks + 1))
        self.looks = counts.by_pair(counts.shown)
        self.attractive = posterior_mean(clicks, self.looks, _HARDLY_ANY)

    def improve(self, prior: tuple[float, float], rounds: int, *, fixed: bool) -> float:
        """Some rounds; how far examination moves, whose greatest is 1, unless it is fixed."""
        counts, before = self._counts, self.examination.copy()
        if fixed:
            self.attractive = posterior_mean(self._clicks, self.looks, prior)
        _rounds(
            counts.pair, counts.rank, counts.shown, counts.clicked, self._clicks, self._shown,
            self.attractive, self.examination, self.looks, np.array(prior), rounds, fixed,
        )  # fmt: skip
        return float(np.abs(self.examination - before).max(initial=0.0))

    def expected(self) -> tuple[Vector, Vector]:
        """How many looks each pair had by its ranks alone, and the mean chance of each."""
        counts = self._counts
        chance = self.examination[counts.rank - 1]
        looks = counts.by_pair(counts.shown * chance)
        squares = counts.by_pair(counts.shown * chance**2)
        return looks, np.divide(squares, looks, out=np.ones_like(looks), where=looks > 0)


@compiled
def _rounds(
    pair: NDArray[np.int64],
    rank: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicked: NDArray[np.int64],
    clicks: Vector,
    at_rank: Vector,
    attractive: Vector,
    examination: Vector,
    looks: Vector,
    prior: Vector,
    rounds: Any,
    fixed: Any,
) -> None:
    """EM in place: who looked, given clicks; then what attracts, and who looks where."""
    alpha, beta = prior[0], prior[1]
    at = np.empty_like(examination)
    for _ in range(rounds):
        looks[:] = 0.0
        at[:] = 0.0
        for row in range(len(pair)):
            e, a = examination[rank[row] - 1], attractive[pair[row]]
            missed = shown[row] - clicked[row]
            looked = float(clicked[row])
            if missed:
                looked += missed * e * (1.0 - a) / (1.0 - e * a)
            looks[pair[row]] += looked
            at[rank[row] - 1] += looked
        for i in range(len(looks)):
            attractive[i] = (clicks[i] + alpha) / (looks[i] + alpha + beta)
        if fixed:
            continue
        greatest = 0.0
        for r in range(len(at)):
            examination[r] = at[r] / at_rank[r] if at_rank[r] > 0 else 0.0
            greatest = max(greatest, examination[r])
        for r in range(len(at)):
            examination[r] /= greatest
        # What is foretold stays as it is: the scale is nobody's to find.
        for i in range(len(looks)):
            attractive[i] *= greatest


def _unidentified(counts: ClickCounts) -> tuple[str, ...]:
    """What cannot be told where documents keep their ranks."""
    ranks = np.bincount(counts.pair[counts.shown > 0], minlength=counts.n_pairs)
    several = float((ranks > 1).sum()) / max(float((ranks > 0).sum()), 1.0)
    if several >= 0.05 or counts.n_ranks == 1:
        return ()
    return (
        f"only {several:.1%} of the documents were seen at more than one rank: examination and "
        "attractiveness cannot be told apart where the ranking never changes",
    )


def _unfinished(moved: float, tolerance: float, rounds: int) -> tuple[str, ...]:
    if moved <= tolerance:
        return ()
    return (f"examination still moved by {moved:.2g} after {rounds} rounds",)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model pbm`."""
    return [PositionBased]
