"""The contract of a click model."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.host.click_fits import checked_fit, list_log_likelihoods
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr.testing.click_samples import (
    ClickSample,
    click_patterns,
    sample_clicks,
    with_click,
    with_unseen,
    without_clicks,
)
from owpc_ltr.testing.promises import require

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
