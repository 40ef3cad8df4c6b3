"""Importances: what each feature does in a model, by the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.models.additive import AdditiveModel
from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Ranker

GAIN, COVER = "gain", "cover"


def importances(model: Ranker) -> dict[str, dict[str, Any]]:
    """Facts of each feature, those that matter most first; nothing of a kind that has none.

    Of a linear model the weight, as the features come (normalisers multiplied in). Of trees the
    number of splits, and of the trees that split on it; where their maker told, the share of all
    gain and of all cover too. Of a curve its span, its ends, and what a missing value gives. Of an
    average, those of each part by number, in the parts' order.
    """
    if isinstance(model, LinearModel):
        return _weights(model)
    if isinstance(model, TreeModel):
        return _splits(model)
    if isinstance(model, AdditiveModel):
        return _curves(model)
    if isinstance(model, AverageModel):
        found: dict[str, dict[str, Any]] = {name: {} for name in model.feature_names}
        for number, part in enumerate(model.parts, 1):
            for name, facts in importances(part).items():
                found[name] |= {f"part {number}: {fact}": value for fact, value in facts.items()}
        return {name: facts for name, facts in found.items() if facts}
    return {}


def _weights(model: LinearModel) -> dict[str, dict[str, Any]]:
    weights, _ = model.folded()
    order = np.argsort(-np.abs(weights), kind="stable")
    return {model.feature_names[column]: {"weight": float(weights[column])} for column in order}


def _curves(model: AdditiveModel) -> dict[str, dict[str, Any]]:
    spans = model.feature_uses()
    return {
        name: {
            "span": spans[name],
            "lowest": model.curves[name].ends[0],
            "highest": model.curves[name].ends[1],
            "missing": model.curves[name].missing,
            "knots": len(model.curves[name].knots),
        }
        for name in sorted(spans, key=lambda each: -spans[each])
    }


def _splits(model: TreeModel) -> dict[str, dict[str, Any]]:
    width, nodes = len(model.feature_names), model.splits
    columns = model.forest.feature[nodes]
    splits = np.bincount(columns, minlength=width)
    used = np.unique(np.stack([model.forest.tree_of_node[nodes], columns]), axis=1)
    trees = np.bincount(used[1], minlength=width)
    told = _told(model)
    sort_by = np.array([told[GAIN].get(name, 0.0) for name in model.feature_names])
    order = np.lexsort((np.arange(width), -splits, -sort_by))
    return {
        name: {
            "splits": int(splits[column]),
            "trees": int(trees[column]),
            **{fact: share[name] for fact, share in told.items() if name in share},
        }
        for column in order
        for name in [model.feature_names[column]]
    }


def _told(model: TreeModel) -> dict[str, dict[str, float]]:
    """What the record of a model tells of its splits, as shares of the whole."""
    known = model.record.get("importances")
    shares: dict[str, dict[str, float]] = {GAIN: {}, COVER: {}}
    for fact, of_features in shares.items():
        values = known.get(fact) if isinstance(known, dict) else None
        if isinstance(values, dict) and (total := float(sum(values.values()))) > 0:
            of_features |= {str(name): float(value) / total for name, value in values.items()}
    return shares
