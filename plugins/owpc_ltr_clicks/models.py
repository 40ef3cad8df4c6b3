"""Click models fitted, and the best of them: by the lists of people who were held out.

The likelihood of a list is that of all its clicks together, each given those above it. Clicks by
rank alone do not tell users who look at each rank by chance from users who read on until they are
satisfied; that a click goes with fewer clicks below it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.host.click_fits import PROBABILITY_FLOOR, checked_fit, list_log_likelihoods
from owpc_ltr.protocols import ClickFit, ClickModel
from owpc_ltr_clicks.counting import Behaviour


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How well a model predicts the clicks of people whom it has not seen.

    `session_log_likelihood` is the mean of a list, by which models are compared; `log_likelihood`
    is the mean of an impression, by its document and rank alone. A perplexity of 1 is certainty,
    one of 2 a coin. `examination` is that which the model found without these people; `identified`
    whether the log allows it to.
    """

    model: str
    session_log_likelihood: float
    lists: int
    log_likelihood: float
    perplexity: float
    by_rank: Vector
    impressions: int
    examination: Vector
    identified: bool

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "model": self.model,
            "session_log_likelihood": self.session_log_likelihood,
            "lists": self.lists,
            "log_likelihood": self.log_likelihood,
            "perplexity": self.perplexity,
            "perplexity_by_rank": [float(value) for value in self.by_rank],
            "impressions": self.impressions,
            "identified": self.identified,
        }


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that judges, what it found in all clicks, and how all did on people held out."""

    name: str
    model: ClickModel
    fit: ClickFit
    held_out: tuple[HeldOut, ...]


def choose_model(behaviour: Behaviour, models: Mapping[str, ClickModel]) -> Chosen:
    """The model under which the lists of people held out are likeliest, fitted to everything.

    A model whose examination the log does not identify is chosen only where all are such. Of models
    that do equally well, the first by name. Raises PluginError for a model that breaks.
    """
    if not models:
        raise UsageError("there is no click model: install one, or name a file with --plugin")
    told = [held_out(name, models[name], behaviour) for name in sorted(models)]
    fit_to_choose = [one for one in told if one.identified] or told
    best = max(fit_to_choose, key=lambda one: one.session_log_likelihood)
    model = models[best.model]
    return Chosen(best.model, model, checked_fit(model, behaviour.counts), tuple(told))


def held_out(name: str, model: ClickModel, behaviour: Behaviour) -> HeldOut:
    """How a model that is fitted to `behaviour.rest` predicts `behaviour.held_out`."""
    fit, counts = checked_fit(model, behaviour.rest), behaviour.held_out
    chance = np.clip(fit.click_probability(counts), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    missed = counts.shown - counts.clicked
    told = counts.clicked * np.log(chance) + missed * np.log1p(-chance)
    shown = counts.by_rank(counts.shown)
    mean = np.divide(counts.by_rank(told), shown, out=np.zeros_like(shown), where=shown > 0)
    total = max(int(shown.sum()), 1)
    mean_of_all = float(told.sum()) / total
    lists = behaviour.lists
    # Summed exactly, so that the order of the lists changes no bit.
    of_lists = math.fsum(list_log_likelihoods(model, fit, lists).tolist()) / max(lists.n_lists, 1)
    return HeldOut(
        name, of_lists, lists.n_lists, mean_of_all, float(np.exp(-mean_of_all)), np.exp(-mean),
        int(shown.sum()), fit.examination, fit.identified,
    )  # fmt: skip
