"""The contract of a click model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.host.click_fits import checked_fit, list_log_likelihoods
from owpc_ltr.plugin_checks.samples import require
from owpc_ltr.protocols import ClickFit, ClickModel

_SLACK = 1e-9
_FEW, _MANY = 2_000, 20_000
_LONGEST = 5
_ARRAYS = ("people", "pair_query", "pair_document", "pair", "rank", "shown", "clicked", "reached",
           "last", "value")  # fmt: skip


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
    few, many = sample_clicks(_FEW, seed), sample_clicks(_MANY, seed)
    _check_answer(model, few.counts)
    _check_orders(model, few.counts, seed)
    for counts in (few.counts, without_clicks(few.counts)):
        _check_unseen(model, with_unseen(counts))
    _check_more_clicks(model, few.counts, seed)
    _check_truth(model, few, many)
    _check_predicted(model, many.counts)
    _check_lists(model, few.counts)


def _check_answer(model: ClickModel, counts: ClickCounts) -> None:
    before = {name: getattr(counts, name).copy() for name in _ARRAYS}
    fit, again = checked_fit(model, counts), checked_fit(model, counts)
    for name, array in before.items():
        require(
            np.array_equal(array, getattr(counts, name)),
            f"click model '{model.name}' changed the {name} it read",
        )
    require(_same(fit, again), f"click model '{model.name}' gave two answers for the same clicks")
    successes = fit.attractiveness * (fit.trials + sum(fit.prior)) - fit.prior[0]
    odd = (successes < -1e-6) | (successes > fit.trials + 1e-6)
    which = int(odd.argmax())
    require(
        not odd.any(),
        f"click model '{model.name}' gives {fit.attractiveness[which]:.6g} to a pair of "
        f"{fit.trials[which]:.6g} trials, which the prior {fit.prior} cannot give",
    )


def _check_orders(model: ClickModel, counts: ClickCounts, seed: int) -> None:
    rows = np.random.default_rng(seed).permutation(len(counts.pair))
    fit, moved = checked_fit(model, counts), checked_fit(model, counts.take(rows))
    for name in ("attractiveness", "trials", "examination"):
        one, other = getattr(fit, name), getattr(moved, name)
        require(
            np.allclose(one, other, rtol=1e-6, atol=1e-9),
            f"click model '{model.name}' depends on the order of rows: its {name} differs by up to "
            f"{np.abs(one - other).max():.3g}",
        )


def _check_unseen(model: ClickModel, counts: ClickCounts) -> None:
    fit = checked_fit(model, counts)
    mean = fit.prior[0] / sum(fit.prior)
    clicks = "" if counts.clicked.any() else ", where nobody clicked on anything,"
    require(
        abs(fit.attractiveness[-1] - mean) < _SLACK and fit.trials[-1] == 0,
        f"click model '{model.name}' gives{clicks} {fit.attractiveness[-1]:.6g} with "
        f"{fit.trials[-1]:g} trials to a pair that was never shown, and the prior's mean is "
        f"{mean:.6g}",
    )


def _check_more_clicks(model: ClickModel, counts: ClickCounts, seed: int) -> None:
    fit = checked_fit(model, counts)
    free = np.flatnonzero(counts.clicked < counts.shown)
    for row in np.random.default_rng(seed).choice(free, 12, replace=False):
        pair = counts.pair[row]
        before = fit.attractiveness[pair]
        after = checked_fit(model, with_click(counts, int(row))).attractiveness[pair]
        require(
            after >= before - _SLACK,
            f"click model '{model.name}' lowers a document from {before:.6g} to {after:.6g} for "
            f"one click more at rank {counts.rank[row]}",
        )


def _check_truth(model: ClickModel, few: ClickSample, many: ClickSample) -> None:
    little, much = (
        _likeness(checked_fit(model, sample.counts).attractiveness, sample.truth)
        for sample in (few, many)
    )
    require(
        much > 0.6,
        f"click model '{model.name}' orders documents unlike their true attractiveness: the rank "
        f"correlation is {much:.3f} after {_MANY:,} sessions, and must be above 0.6",
    )
    require(
        much > little,
        f"click model '{model.name}' learns nothing from more clicks: the rank correlation with "
        f"the truth is {little:.3f} after {_FEW:,} sessions and {much:.3f} after {_MANY:,}",
    )


def _check_predicted(model: ClickModel, counts: ClickCounts) -> None:
    fit = checked_fit(model, counts)
    predicted = float((counts.shown * fit.click_probability(counts)).sum())
    there = float(counts.clicked.sum())
    require(
        abs(predicted - there) < 0.15 * there,
        f"click model '{model.name}' predicts {predicted:.0f} clicks of the very lists that it was "
        f"fitted to, and there were {there:.0f}",
    )


def _check_lists(model: ClickModel, counts: ClickCounts) -> None:
    fit = checked_fit(model, counts)
    for size in range(1, _LONGEST + 1):
        each = list_log_likelihoods(model, fit, click_patterns(size))
        total = float(np.exp(each).sum())
        require(
            abs(total - 1) < _SLACK,
            f"click model '{model.name}' gives the {2**size} patterns of clicks on a list of "
            f"{size} probabilities whose sum is {total:.6g}, and must be 1: the chance of a click "
            "may depend on the clicks above it, and on no others",
        )


def _likeness(one: Vector, other: Vector) -> float:
    """Spearman's rank correlation."""
    ranks = [_ranks(values) for values in (one, other)]
    if min(float(rank.std()) for rank in ranks) == 0:
        return 0.0
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def _ranks(values: Vector) -> Vector:
    """Ranks, equal ones in the middle of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - (counts - 1) / 2.0
    found: Vector = np.asarray(middles, np.float64).take(which)
    return found


def _same(one: ClickFit, other: ClickFit) -> bool:
    arrays = ("attractiveness", "trials", "examination")
    return one.prior == other.prior and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


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
    counts = _counts(query, shown, clicked)
    return ClickSample(counts, attraction[counts.pair_query, counts.pair_document % _DOCUMENTS])


def _counts(
    query: NDArray[np.int64], shown: NDArray[np.int64], clicked: NDArray[np.bool_]
) -> ClickCounts:
    """The counts of lists, a row each: its query, the documents by rank, which were clicked."""
    place = np.arange(_SHOWN)
    last = np.where(clicked, place, -1).max(axis=1, keepdims=True)
    document = query[:, None] * _DOCUMENTS + shown
    cells, row = np.unique(document * _SHOWN + place, return_inverse=True)
    columns = {
        "shown": np.ones_like(clicked),
        "clicked": clicked,
        "reached": (place <= last) | (last < 0),
        "last": clicked & (place == last),
    }
    summed = {
        name: np.bincount(row.ravel(), values.ravel(), len(cells)).astype(np.int64)
        for name, values in columns.items()
    }
    pairs, pair = np.unique(cells // _SHOWN, return_inverse=True)
    return ClickCounts(
        queries=pa.array([f"query {number:02d}" for number in range(_QUERIES)]),
        documents=pa.array([f"d{number:03d}" for number in range(_QUERIES * _DOCUMENTS)]),
        people=np.bincount(query, minlength=_QUERIES), pair_query=pairs // _DOCUMENTS,
        pair_document=pairs, pair=pair, rank=cells % _SHOWN + 1,
        value=summed["clicked"].astype(np.float64), **summed,
    )  # fmt: skip


def click_patterns(size: int) -> ClickLists:
    """The first pairs, which are of one query, as a list: once with every pattern of clicks."""
    number = np.arange(2**size)
    clicked = (number[:, None] >> np.arange(size)) & 1
    place = np.tile(np.arange(size), len(number))
    return ClickLists(np.repeat(number, size), place, place + 1, clicked.ravel().astype(bool))


def with_unseen(counts: ClickCounts) -> ClickCounts:
    """The same with one pair more, the last one, which was never shown."""
    documents = pa.array([*counts.documents.to_pylist(), "~unseen"])
    return replace(
        counts,
        documents=documents,
        pair_query=np.append(counts.pair_query, counts.pair_query[-1]),
        pair_document=np.append(counts.pair_document, len(documents) - 1),
        pair=np.append(counts.pair, counts.n_pairs),
        rank=np.append(counts.rank, 1),
        **{
            name: np.append(getattr(counts, name), 0)
            for name in ("shown", "clicked", "reached", "last", "value")
        },
    )


def without_clicks(counts: ClickCounts) -> ClickCounts:
    """The same lists, of which nobody clicked on anything."""
    nothing = np.zeros_like(counts.shown)
    return replace(
        counts, clicked=nothing, reached=nothing, last=nothing, value=nothing.astype(np.float64)
    )


def with_click(counts: ClickCounts, row: int) -> ClickCounts:
    """The same where one impression of a row, which was not clicked, was."""
    clicked, reached = counts.clicked.copy(), counts.reached.copy()
    value, last = counts.value.copy(), counts.last.copy()
    clicked[row] += 1
    value[row] += 1.0
    # One that was passed on the way to another click, if there is one; else the last of its list.
    if reached[row] < clicked[row]:
        reached[row] += 1
        last[row] += 1
    return replace(counts, clicked=clicked, reached=reached, last=last, value=value)
