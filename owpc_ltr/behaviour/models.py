"""Click models fitted, and the best of them: by the clicks of people who were held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.behaviour.counting import Behaviour
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.protocols import ClickFit, ClickModel

_SURE = 1e-6


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How well a model foretells the clicks of people whom it has not seen.

    `log_likelihood` is the mean of an impression. A perplexity of 1 is certainty, one of 2 a coin.
    `examination` is how far users look, as the model found without them.
    """

    model: str
    log_likelihood: float
    perplexity: float
    by_rank: Vector
    impressions: int
    examination: Vector

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "model": self.model,
            "log_likelihood": self.log_likelihood,
            "perplexity": self.perplexity,
            "perplexity_by_rank": [float(value) for value in self.by_rank],
            "impressions": self.impressions,
        }


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that judges, what it found in all clicks, and how all did on people held out."""

    name: str
    model: ClickModel
    fit: ClickFit
    held_out: tuple[HeldOut, ...]


def choose_model(behaviour: Behaviour, models: Mapping[str, ClickModel]) -> Chosen:
    """The model with the best held-out likelihood, fitted to everything.

    Of models that do equally well, the first by name. Raises PluginError for a model that breaks.
    """
    if not models:
        raise UsageError("there is no click model: install one, or name a file with --plugin")
    told = [held_out(name, models[name], behaviour) for name in sorted(models)]
    best = max(told, key=lambda one: one.log_likelihood) if len(told) > 1 else told[0]
    model = models[best.model]
    return Chosen(best.model, model, checked_fit(model, behaviour.counts), tuple(told))


def held_out(name: str, model: ClickModel, behaviour: Behaviour) -> HeldOut:
    """How a model that is fitted to `behaviour.rest` foretells `behaviour.held_out`."""
    fit, counts = checked_fit(model, behaviour.rest), behaviour.held_out
    chance = np.clip(fit.click_probability(counts), _SURE, 1 - _SURE)
    missed = counts.shown - counts.clicked
    told = counts.clicked * np.log(chance) + missed * np.log1p(-chance)
    shown = counts.by_rank(counts.shown)
    mean = np.divide(counts.by_rank(told), shown, out=np.zeros_like(shown), where=shown > 0)
    total = max(int(shown.sum()), 1)
    mean_of_all = float(told.sum()) / total
    return HeldOut(
        name, mean_of_all, float(np.exp(-mean_of_all)), np.exp(-mean), int(shown.sum()),
        fit.examination,
    )  # fmt: skip


def checked_fit(model: ClickModel, counts: ClickCounts) -> ClickFit:
    """What a model found. Raises PluginError where it is no fit of these pairs and ranks."""
    try:
        fit = model.fit(counts)
        fault = _fault(fit, counts)
    except Exception as error:
        raise PluginError(
            f"click model '{model.name}' failed: {type(error).__name__}: {error}"
        ) from error
    if fault:
        raise PluginError(f"click model '{model.name}' {fault}")
    return fit


def _fault(fit: ClickFit, counts: ClickCounts) -> str:
    for name, size in (("attractiveness", counts.n_pairs), ("trials", counts.n_pairs)):
        if np.shape(getattr(fit, name)) != (size,):
            return f"gave {name} of shape {np.shape(getattr(fit, name))} for {size} pairs"
    found = fit.attractiveness
    if not (np.isfinite(found).all() and (found >= 0).all() and (found <= 1).all()):
        return "gave an attractiveness that is no probability"
    if not (np.isfinite(fit.trials).all() and (fit.trials >= 0).all()):
        return "gave trials that are no counts"
    looked = np.asarray(fit.examination)
    if looked.ndim != 1 or not len(looked) or not ((looked >= 0) & (looked <= 1)).all():
        return "gave an examination that is no probability of each rank"
    if not (len(fit.prior) == 2 and min(fit.prior) > 0 and np.isfinite(fit.prior).all()):
        return f"gave the prior {fit.prior}, whose two numbers must be above 0"
    return ""
