"""The position-based model (Craswell et al. 2008): a click is a look, by rank, and a draw.

P(click) = examination of the rank × attractiveness of the pair. Documents that were shown at
several ranks separate the two: where the ranking never changes, examination is not identified.
Documents with K clicks in N_r impressions at each rank r predict a number of clicks at each rank.
Examination e is where every rank has as many clicks as predicted:

    Σ clicks at r = e_r Σ_pairs N_r K / Σ_s N_s e_s

Both sides have the same mean for any attractiveness of the pairs, and however few clicks these have
(Poisson's fixed effects, Wooldridge 1999). A joint maximum of the likelihood would overestimate e
at low ranks, the more the fewer clicks a document has (Neyman & Scott 1948), as each document is
fitted to its own ranks. Attractiveness is estimated afterwards, by expectation maximisation over
which impressions were examined (Wang et al. 2018), with a beta prior by moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.click_counts import ClickCounts, ranks_vary
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.grading import beta_prior, expected_looks, posterior_mean
from owpc_ltr_clicks.models.dctr import DocumentClickThrough

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
        """The examination of ranks, then the attractiveness of pairs."""
        clicks, varied = counts.by_pair(counts.clicked), ranks_vary(counts)
        if not clicks.any():
            return replace(DocumentClickThrough().fit(counts), identified=varied)
        examination = 1.0 / np.sqrt(np.arange(1.0, counts.n_ranks + 1))
        moved, done = np.inf, 0
        while done < self.rounds and moved > self.tolerance:
            moved = _search_examination(counts, clicks, examination, _AT_A_TIME)
            done += _AT_A_TIME
        prior = beta_prior(clicks, *expected_looks(counts, examination))
        looks = _search_looks(counts, clicks, prior, examination, _AT_A_TIME)
        attractive = posterior_mean(clicks, looks, prior)
        unfinished = f"examination still moved by {moved:.2g} after {done} rounds"
        notes = () if moved <= self.tolerance else (unfinished,)
        return ClickFit(attractive, looks, examination, prior, notes, identified=varied)


def _search_examination(
    counts: ClickCounts, clicks: Vector, examination: Vector, rounds: int
) -> float:
    """Some rounds in search of examination, in place; how far it moves, whose greatest is 1."""
    before, at_rank = examination.copy(), counts.by_rank(counts.clicked)
    _examine(counts.pair, counts.rank, counts.shown, clicks, at_rank, examination, rounds)
    return float(np.abs(examination - before).max(initial=0.0))


def _search_looks(
    counts: ClickCounts,
    clicks: Vector,
    prior: tuple[float, float],
    examination: Vector,
    rounds: int,
) -> Vector:
    """Looks after some rounds, given who clicked, beginning with those by rank."""
    # Whoever clicked has looked.
    looks = np.maximum(expected_looks(counts, examination)[0], clicks)
    _attract(
        counts.pair,
        counts.rank,
        counts.shown,
        counts.clicked,
        clicks,
        posterior_mean(clicks, looks, prior),
        examination,
        looks,
        np.array(prior),
        rounds,
    )
    return looks


@compiled
def _examine(
    pair: NDArray[np.int64],
    rank: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicks: Vector,
    at_rank: Vector,
    examination: Vector,
    rounds: int,
) -> None:
    """Examination in place: the clicks of each rank over those that its documents predict.

    No round lowers the likelihood of the ranks at which documents were clicked (Hunter 2004).
    """
    expected, looks = np.empty_like(examination), np.empty_like(clicks)
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
    rounds: int,
) -> None:
    """EM in place: looks given clicks, then attractiveness."""
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


@hookimpl
def ltr_click_models() -> list[type[ClickModel]]:
    """Offer `--model pbm`."""
    return [PositionBased]
