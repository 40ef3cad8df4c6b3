"""Click models fitted, and the best of them, by the lists of people who were held out.

The likelihood of a list is that of all its clicks together, each given those above it. Clicks by
rank alone do not distinguish users who examine each rank with some probability from users who read
on until they are satisfied; that a click comes with fewer clicks below it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.data.splits import hashes_of
from owpc_ltr.errors import UsageError
from owpc_ltr.host.click_fits import PROBABILITY_FLOOR, checked_fit, list_log_likelihoods
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.counting import Behaviour

GROUPS = 10
"""Groups of queries whose fits tell the uncertainty of the examination."""
_CLICKS = 100
"""The fewest clicks of each group for an interval."""


@dataclass(frozen=True, eq=False)
class HeldOutScore:
    """How well a model predicts the clicks of people it was not fitted to.

    `session_log_likelihood` is the mean of a list, by which models are compared; `log_likelihood`
    is the mean of an impression, by its document and rank alone. A perplexity of 1 is certainty,
    one of 2 a coin. `identified` says whether the log identifies the examination.
    """

    model: str
    session_log_likelihood: float
    lists: int
    log_likelihood: float
    perplexity: float
    perplexity_by_rank: Vector
    impressions: int
    identified: bool

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return vars(self) | {"perplexity_by_rank": self.perplexity_by_rank.tolist()}


@dataclass(frozen=True, eq=False)
class ChosenModel:
    """The chosen model, its fit to all clicks, and the held-out scores of all models."""

    name: str
    model: ClickModel
    fit: ClickFit
    held_out: tuple[HeldOutScore, ...]


def choose_model(behaviour: Behaviour, models: Mapping[str, ClickModel]) -> ChosenModel:
    """The model under which the lists of people held out are likeliest, fitted to all clicks.

    A model whose examination the log does not identify is chosen only where all are such. Ties go
    to the first by name. Raises PluginError for a model that breaks.
    """
    if not models:
        raise UsageError("there is no click model: install one, or name a file with `plugins`")
    scores = [held_out(name, models[name], behaviour) for name in sorted(models)]
    fit_to_choose = [score for score in scores if score.identified] or scores
    best = max(fit_to_choose, key=lambda score: score.session_log_likelihood)
    model = models[best.model]
    return ChosenModel(best.model, model, checked_fit(model, behaviour.counts), tuple(scores))


def held_out(name: str, model: ClickModel, behaviour: Behaviour) -> HeldOutScore:
    """How well a model that is fitted to `behaviour.fitted` predicts `behaviour.held_out`."""
    fit, counts = checked_fit(model, behaviour.fitted), behaviour.held_out
    chance = np.clip(fit.click_probability(counts), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    missed = counts.shown - counts.clicked
    log_likelihoods = counts.clicked * np.log(chance) + missed * np.log1p(-chance)
    shown = counts.by_rank(counts.shown)
    mean = np.divide(
        counts.by_rank(log_likelihoods), shown, out=np.zeros_like(shown), where=shown > 0
    )
    total = max(int(shown.sum()), 1)
    mean_of_all = float(log_likelihoods.sum()) / total
    lists = behaviour.lists
    # Summed exactly, so that the order of the lists changes no bit.
    of_lists = math.fsum(list_log_likelihoods(model, fit, lists).tolist()) / max(lists.n_lists, 1)
    return HeldOutScore(
        name,
        of_lists,
        lists=lists.n_lists,
        log_likelihood=mean_of_all,
        perplexity=float(np.exp(-mean_of_all)),
        perplexity_by_rank=np.exp(-mean),
        impressions=int(shown.sum()),
        identified=fit.identified,
    )


def examination_interval(
    model: ClickModel, counts: ClickCounts, examination: Vector
) -> tuple[Vector, Vector] | None:
    """The 95 % interval of the examination of each rank; None where clicks are too few.

    The variance is that between the fits to random groups of queries, each weighted by its share of
    the impressions (Wolter 2007, ch. 2). These fits cost as much as one fit to all queries.
    """
    from scipy.special import stdtrit

    group = hashes_of(counts.queries.to_pylist(), "groups of queries").argsort().argsort() % GROUPS
    parts = [_part(counts, group == number) for number in range(GROUPS)]
    if min(int(part.clicked.sum()) for part in parts) < _CLICKS:
        return None
    weights = np.array([float(part.shown.sum()) for part in parts])
    weights /= weights.sum()
    # At ranks that a group lacks its examination is that of all queries.
    of_parts = np.tile(examination, (GROUPS, 1))
    for of_part, part in zip(of_parts, parts, strict=True):
        fitted = checked_fit(model, part).examination[: len(examination)]
        of_part[: len(fitted)] = fitted
    variance = GROUPS / (GROUPS - 1) * weights**2 @ (of_parts - examination) ** 2
    reach = float(stdtrit(GROUPS - 1, 0.975)) * np.sqrt(variance)
    low: Vector = np.maximum(examination - reach, 0.0)
    high: Vector = np.minimum(examination + reach, 1.0)
    return low, high


def _part(counts: ClickCounts, chosen: NDArray[np.bool_]) -> ClickCounts:
    """The counts of some queries."""
    pairs = chosen[counts.pair_query]
    part = counts.take(np.flatnonzero(pairs[counts.pair]))
    return replace(
        part,
        pair_query=counts.pair_query[pairs],
        pair_document=counts.pair_document[pairs],
        pair=(np.cumsum(pairs) - 1)[part.pair],
    )
