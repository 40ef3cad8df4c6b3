"""Calls of a click model, whose answers are checked before anything relies on them."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.errors import PluginError
from owpc_ltr.host.registry import place_in_plugin
from owpc_ltr.protocols import ClickFit, ClickModel

PROBABILITY_FLOOR = 1e-6
"""Predicted probabilities are clipped to this, so that no single click has an infinite loss."""


def checked_fit(model: ClickModel, counts: ClickCounts) -> ClickFit:
    """The model fitted to `counts`. Raises PluginError where it is no fit of these counts."""
    try:
        fit = model.fit(counts)
        is_fit = isinstance(fit, ClickFit)
        fault = _fault(fit, counts) if is_fit else f"gave no ClickFit, but a {type(fit).__name__}"
    except Exception as error:
        raise _failed(model, error) from error
    if fault:
        raise PluginError(f"click model '{model.name}' {fault}")
    return fit


def list_log_likelihoods(model: ClickModel, fit: ClickFit, lists: ClickLists) -> Vector:
    """The log-likelihood of the clicks of each list, shape (n_lists,).

    Raises PluginError where the model's answer is no probability.
    """
    try:
        chance = np.asarray(fit.conditional_click_probability(lists), np.float64)
    except Exception as error:
        raise _failed(model, error) from error
    if chance.shape != lists.pair.shape or not _are_probabilities(chance):
        raise PluginError(
            f"click model '{model.name}' gave a conditional click probability that is not "
            "a probability of each result"
        )
    chance = np.clip(chance, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    logarithms = np.where(lists.clicked, np.log(chance), np.log1p(-chance))
    sums: Vector = np.bincount(lists.list, logarithms, lists.n_lists).astype(np.float64)
    return sums


def _failed(model: ClickModel, error: Exception) -> PluginError:
    place = place_in_plugin(error)
    what = f"{type(error).__name__}: {error}"
    return PluginError(f"click model '{model.name}' failed: {place}{place and ': '}{what}")


def _are_probabilities(values: Vector) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


def _fault(fit: ClickFit, counts: ClickCounts) -> str:
    for name in ("attractiveness", "trials"):
        if np.shape(getattr(fit, name)) != (counts.n_pairs,):
            return f"gave {name} of shape {np.shape(getattr(fit, name))} for {counts.n_pairs} pairs"
    attractiveness = fit.attractiveness
    if not _are_probabilities(attractiveness):
        return "gave an attractiveness that is not a probability"
    if not (np.isfinite(fit.trials).all() and (fit.trials >= 0).all()):
        return "gave trials that are not counts"
    examination = np.asarray(fit.examination)
    if examination.ndim != 1 or not len(examination) or not _are_probabilities(examination):
        return "gave an examination that is not a probability of each rank"
    if not (len(fit.prior) == 2 and min(fit.prior) > 0 and np.isfinite(fit.prior).all()):
        return f"gave the prior {fit.prior}, whose two numbers must be above 0"
    return ""
