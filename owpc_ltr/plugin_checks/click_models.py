"""The contract of a click model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.host.click_fits import checked_fit, list_log_likelihoods
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.protocols import ClickFit, ClickModel

_SLACK = 1e-9
_FEW, _MANY = 2_000, 20_000
_LONGEST = 5
_ROWS = ("shown", "clicked", "reached", "last", "value")
_ANSWERS = ("attractiveness", "trials", "examination", "prior")


def check_click_model(model: ClickModel, seed: int = 0) -> None:
    """Check everything that a click model promises, on simulated clicks whose truth is known.

    A fit is probabilities and counts of the right number, which its prior and trials can give; it
    changes nothing that it reads, and gives the same bits again; rows in another order change
    nothing but roundings. A pair that was never shown has the prior's
    mean and no trials, also where nobody ever clicked. One click more on a document never lowers
    it. What users click on comes out above what they pass by, the more surely the more there is to
    see, and as many clicks are predicted as there were. The likelihoods of all patterns of clicks
    on a list sum to one. Raises AssertionError.
    """
    require = Require("click-model", model)
    few, many = sample_clicks(_FEW, seed), sample_clicks(_MANY, seed)
    counts, rng = few.counts, np.random.default_rng(seed)
    fit, again = _fit(require, model, counts), checked_fit(model, counts)
    moved = checked_fit(model, counts.take(rng.permutation(len(counts.pair))))
    for name in _ANSWERS:
        first, same, reordered = (getattr(answer, name) for answer in (fit, again, moved))
        require.equal(same, first, f"gave two answers ({name})", rtol=0, atol=0)
        require.equal(
            reordered, first, f"depends on the order of rows ({name})", rtol=1e-6, atol=1e-9
        )
    _check_prior(require, fit)
    _check_unseen(require, model, counts)
    _check_more_clicks(require, model, counts, fit, rng)
    _check_truth(require, fit, few, checked_fit(model, many.counts), many)
    for size in range(1, _LONGEST + 1):
        total = np.exp(list_log_likelihoods(model, fit, click_patterns(size))).sum()
        require(
            abs(total - 1) < _SLACK,
            f"gives the {2**size} patterns of clicks on a list of {size} probabilities whose sum "
            f"is {total:.6g}, and must be 1: the chance of a click may depend on the clicks above "
            "it, and on no others",
        )


def _fit(require: Require, model: ClickModel, counts: ClickCounts) -> ClickFit:
    """The fit, which may change no array of the counts."""
    arrays = {name: array for name, array in vars(counts).items() if isinstance(array, np.ndarray)}

    def fit(*copies: Any) -> ClickFit:
        return checked_fit(model, replace(counts, **dict(zip(arrays, copies, strict=True))))

    result: ClickFit = require.answer(fit, arrays)
    return result


def _check_prior(require: Require, fit: ClickFit) -> None:
    successes = fit.attractiveness * (fit.trials + sum(fit.prior)) - fit.prior[0]
    odd = (successes < -1e-6) | (successes > fit.trials + 1e-6)
    which = int(odd.argmax())
    require(
        not odd.any(),
        f"gives {fit.attractiveness[which]:.6g} to a pair of {fit.trials[which]:.6g} trials, "
        f"which the prior {fit.prior} cannot give",
    )


def _check_unseen(require: Require, model: ClickModel, counts: ClickCounts) -> None:
    """The last pair was never shown."""
    documents = pa.array([*counts.documents.to_pylist(), "~unseen"])
    unseen = replace(
        counts,
        documents=documents,
        pair_query=np.append(counts.pair_query, counts.pair_query[-1]),
        pair_document=np.append(counts.pair_document, len(documents) - 1),
        pair=np.append(counts.pair, counts.n_pairs),
        rank=np.append(counts.rank, 1),
        **{name: np.append(getattr(counts, name), 0) for name in _ROWS},
    )
    nobody = replace(unseen, **{name: 0 * getattr(unseen, name) for name in _ROWS[1:]})
    for clicks, sample in (("", unseen), (", where nobody clicked on anything,", nobody)):
        fit = checked_fit(model, sample)
        mean = fit.prior[0] / sum(fit.prior)
        require(
            abs(fit.attractiveness[-1] - mean) < _SLACK and fit.trials[-1] == 0,
            f"gives{clicks} {fit.attractiveness[-1]:.6g} with {fit.trials[-1]:g} trials to a pair "
            f"that was never shown, and the prior's mean is {mean:.6g}",
        )


def _check_more_clicks(
    require: Require,
    model: ClickModel,
    counts: ClickCounts,
    fit: ClickFit,
    rng: np.random.Generator,
) -> None:
    for row in rng.choice(np.flatnonzero(counts.clicked < counts.shown), 12, replace=False):
        added = (np.arange(len(counts.pair)) == row).astype(np.int64)
        # An impression that was passed on the way to another click, else the last of its list.
        new = added * (counts.reached <= counts.clicked)
        more = replace(counts, clicked=counts.clicked + added, value=counts.value + added,
                       reached=counts.reached + new, last=counts.last + new)  # fmt: skip
        before = fit.attractiveness[counts.pair[row]]
        after = checked_fit(model, more).attractiveness[counts.pair[row]]
        require(
            after >= before - _SLACK,
            f"lowers a document from {before:.6g} to {after:.6g} for one click more at rank "
            f"{counts.rank[row]}",
        )


def _check_truth(
    require: Require, little: ClickFit, few: ClickSample, much: ClickFit, many: ClickSample
) -> None:
    """Spearman's rank correlation with the truth, and the number of clicks predicted."""
    from scipy.stats import rankdata

    def likeness(first: Vector, second: Vector) -> float:
        ranks = rankdata([first, second], axis=1)
        return float(np.corrcoef(ranks)[0, 1]) if ranks.std(axis=1).all() else 0.0

    after_few = likeness(little.attractiveness, few.truth)
    after_many = likeness(much.attractiveness, many.truth)
    require(
        after_many > 0.6,
        "orders documents unlike their true attractiveness: the rank correlation is "
        f"{after_many:.3f} after {_MANY:,} sessions, and must be above 0.6",
    )
    require(
        after_many > after_few,
        f"learns nothing from more clicks: the rank correlation with the truth is "
        f"{after_few:.3f} after {_FEW:,} sessions and {after_many:.3f} after {_MANY:,}",
    )
    predicted = (many.counts.shown * much.click_probability(many.counts)).sum()
    clicks = many.counts.clicked.sum()
    what = "predicts clicks of the very lists that it was fitted to"
    require.equal(predicted, clicks, what, rtol=0.15)


_QUERIES, _DOCUMENTS, _SHOWN = 60, 10, 6
_LISTS = 8
"""Different orders in which a query's documents are shown."""
_GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""The shares of the grades 0 to 4, by whose gain 2^grade − 1 documents attract clicks."""


@dataclass(frozen=True, eq=False)
class ClickSample:
    """Counts of simulated clicks, and the true attractiveness of each of their pairs."""

    counts: ClickCounts
    truth: Vector


def sample_clicks(sessions: int, seed: int = 0) -> ClickSample:
    """Clicks of users who examine rank r with probability r^−½, on lists in random orders."""
    rng = np.random.default_rng(seed)
    gains = np.exp2(rng.choice(len(_GRADES), (_QUERIES, _DOCUMENTS), p=_GRADES)) - 1
    attraction = 0.05 + 0.75 * gains / (2 ** (len(_GRADES) - 1) - 1)
    orders = rng.permuted(np.tile(np.arange(_DOCUMENTS), (_LISTS, _QUERIES, 1)), axis=2)
    query = rng.integers(0, _QUERIES, sessions)
    shown = orders[rng.integers(0, _LISTS, sessions), query, :_SHOWN]
    examined = rng.random(shown.shape) < np.arange(1.0, _SHOWN + 1) ** -0.5
    clicked = examined & (rng.random(shown.shape) < attraction[query[:, None], shown])
    counts = _counts(query, query[:, None] * _DOCUMENTS + shown, clicked)
    return ClickSample(counts, attraction.ravel()[counts.pair_document])


def _counts(
    query: NDArray[np.int64], document: NDArray[np.int64], clicked: NDArray[np.bool_]
) -> ClickCounts:
    """The counts of lists, a row each: its query, the documents by rank, which were clicked."""
    place = np.arange(_SHOWN)
    last = np.where(clicked, place, -1).max(axis=1, keepdims=True)
    events = (
        np.ones_like(clicked),
        clicked,
        (place <= last) | (last < 0),
        clicked & (place == last),
    )
    cells, row = np.unique(document * _SHOWN + place, return_inverse=True)
    shown, clicks, reached, ends = (
        np.bincount(row.ravel(), event.ravel(), len(cells)).astype(np.int64) for event in events
    )
    pairs, pair = np.unique(cells // _SHOWN, return_inverse=True)
    return ClickCounts(
        queries=pa.array([f"query {number:02d}" for number in range(_QUERIES)]),
        documents=pa.array([f"d{number:03d}" for number in range(_QUERIES * _DOCUMENTS)]),
        people=np.bincount(query, minlength=_QUERIES),
        pair_query=pairs // _DOCUMENTS,
        pair_document=pairs,
        pair=pair,
        rank=cells % _SHOWN + 1,
        shown=shown,
        clicked=clicks,
        reached=reached,
        last=ends,
        value=clicks.astype(np.float64),
    )


def click_patterns(size: int) -> ClickLists:
    """The first pairs, which are of one query, as a list: once with every pattern of clicks."""
    number = np.arange(2**size)
    clicked = (number[:, None] >> np.arange(size)) & 1
    place = np.tile(np.arange(size), len(number))
    return ClickLists(np.repeat(number, size), place, place + 1, clicked.ravel().astype(bool))
