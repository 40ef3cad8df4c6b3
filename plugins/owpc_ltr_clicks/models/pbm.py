"""The position-based model (Craswell et al. 2008): a click is a look, by rank, and a draw.

P(click) = examination of the rank × attractiveness of the pair. It is the documents that were seen
at several ranks that tell the two apart: where the ranking never changes, examination is not
identified. Examination e is where each rank has as many clicks as its
documents, which got K clicks in N_r impressions at each rank, make expect of it:

    Σ clicks at r = e_r Σ_pairs N_r K / Σ_s N_s e_s

Both sides have the same mean whatever the attractiveness of each pair is, and however few clicks it
has (Poisson's fixed effects, Wooldridge 1999). Found together with it, by the likelihood, e would
come out too great at the low ranks, the more so the fewer clicks a document has (Neyman & Scott
1948): a click in a handful of impressions makes each document fit its own ranks. Attractiveness is
found afterwards, by expectation maximisation over which impressions were looked at (Wang et al.
2018), with a beta prior by moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.click_counts import ClickCounts, ranks_vary
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.grading import beta_prior, posterior_mean

_AT_A_TIME = 20


@dataclass(frozen=True)
class PositionBased:
    """P(click on i at rank r) = examination_r · attractiveness_i.

    The search for examination ends where none moves by `tolerance` within twenty rounds, or after
    `rounds`.
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
            return ClickFit(
                found, shown, np.ones(counts.n_ranks), prior, identified=ranks_vary(counts)
            )
        state = _FitState(counts, clicks)
        moved, done = np.inf, 0
        while done < self.rounds and moved > self.tolerance:
            moved = state.look(_AT_A_TIME)
            done += _AT_A_TIME
        prior = beta_prior(clicks, *state.expected())
        state.attract(prior, _AT_A_TIME)
        found = posterior_mean(clicks, state.looks, prior)
        notes = _unfinished(moved, self.tolerance, done)
        return ClickFit(
            found, state.looks, state.examination, prior, notes, identified=ranks_vary(counts)
        )


class _FitState:
    """How far the fit is: examination by rank, and how often each pair was looked at."""

    def __init__(self, counts: ClickCounts, clicks: Vector) -> None:
        self._counts, self._clicks = counts, clicks
        self._at_rank = counts.by_rank(counts.clicked)
        self.examination = 1.0 / np.sqrt(np.arange(1.0, counts.n_ranks + 1))
        self.looks = counts.by_pair(counts.shown)

    def look(self, rounds: int) -> float:
        """Some rounds in search of examination; how far it moves, whose greatest is 1."""
        counts, before = self._counts, self.examination.copy()
        _examine(
            counts.pair, counts.rank, counts.shown, self._clicks, self._at_rank, self.examination,
            self.looks, rounds,
        )  # fmt: skip
        return float(np.abs(self.examination - before).max(initial=0.0))

    def attract(self, prior: tuple[float, float], rounds: int) -> None:
        """Some rounds in search of looks, given who clicked, beginning with those by rank."""
        counts = self._counts
        # Whoever clicked has looked.
        self.looks = np.maximum(self.expected()[0], self._clicks)
        _attract(
            counts.pair, counts.rank, counts.shown, counts.clicked, self._clicks,
            posterior_mean(self._clicks, self.looks, prior), self.examination, self.looks,
            np.array(prior), rounds,
        )  # fmt: skip

    def expected(self) -> tuple[Vector, Vector]:
        """How many looks each pair had by its ranks alone, and the mean chance of each."""
        counts = self._counts
        chance = self.examination[counts.rank - 1]
        looks = counts.by_pair(counts.shown * chance)
        squares = counts.by_pair(counts.shown * chance**2)
        return looks, np.divide(squares, looks, out=np.ones_like(looks), where=looks > 0)


@compiled
def _examine(
    pair: NDArray[np.int64],
    rank: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicks: Vector,
    at_rank: Vector,
    examination: Vector,
    looks: Vector,
    rounds: Any,
) -> None:
    """Examination in place: each rank's clicks by those to be expected of its documents.

    It never makes it less likely at which of its ranks a document was clicked (Hunter 2004).
    """
    expected = np.empty_like(examination)
    for _ in range(rounds):
        looks[:] = 0.0
        expected[:] = 0.0
        for row in range(len(pair)):
            looks[pair[row]] += shown[row] * examination[rank[row] - 1]
        for row in range(len(pair)):
            i = pair[row]
            # Without a look there was no click.
            if looks[i] > 0.0:
                expected[rank[row] - 1] += shown[row] * clicks[i] / looks[i]
        greatest = 0.0
        for r in range(len(at_rank)):
            examination[r] = at_rank[r] / expected[r] if at_rank[r] > 0.0 else 0.0
            greatest = max(greatest, examination[r])
        for r in range(len(at_rank)):
            examination[r] /= greatest


@compiled
def _attract(
    pair: NDArray[np.int64],
    rank: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicked: NDArray[np.int64],
    clicks: Vector,
    attractive: Vector,
    examination: Vector,
    looks: Vector,
    prior: Vector,
    rounds: Any,
) -> None:
    """EM in place: who looked, given clicks; then what attracts."""
    alpha, beta = prior[0], prior[1]
    for _ in range(rounds):
        looks[:] = 0.0
        for row in range(len(pair)):
            e, a = examination[rank[row] - 1], attractive[pair[row]]
            missed = shown[row] - clicked[row]
            looked = float(clicked[row])
            if missed:
                looked += missed * e * (1.0 - a) / (1.0 - e * a)
            looks[pair[row]] += looked
        for i in range(len(looks)):
            attractive[i] = (clicks[i] + alpha) / (looks[i] + alpha + beta)


def _unfinished(moved: float, tolerance: float, rounds: int) -> tuple[str, ...]:
    if moved <= tolerance:
        return ()
    return (f"examination still moved by {moved:.2g} after {rounds} rounds",)


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model pbm`."""
    return [PositionBased]
