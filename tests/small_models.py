"""Small models of every kind, and random forests with thresholds that documents hit."""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import packed
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.engine.small_cluster import FEATURESET, Small, probes


def random_forest(
    rng: np.random.Generator,
    values: np.ndarray[Any, Any],
    trees: int,
    depth: int = 3,
    features: int = 3,
) -> Forest:
    """Trees that split on up to so many features each, at values that occur or just beside them.

    Leaves are of both signs and many sizes; a missing value goes either way.
    """
    nodes: list[tuple[int, float, int, bool, float]] = []
    roots = []
    for _ in range(trees):
        roots.append(len(nodes))
        count = int(rng.integers(1, min(features, values.shape[1]) + 1))
        own = rng.choice(values.shape[1], count, replace=False)
        nodes.append((LEAF, 0.0, 0, False, 0.0))
        _grow(rng, values, nodes, len(nodes) - 1, own, depth)
    feature, threshold, left, default_left, value = zip(*nodes, strict=True)
    return Forest(
        np.array(roots, np.int32),
        np.array(feature, np.int32),
        np.array(threshold, np.float32),
        np.array(left, np.int32),
        np.array(default_left, bool),
        np.array(value, np.float64),
    )


def _grow(
    rng: np.random.Generator,
    values: np.ndarray[Any, Any],
    nodes: list[tuple[int, float, int, bool, float]],
    place: int,
    own: np.ndarray[Any, Any],
    depth: int,
) -> None:
    if depth == 0 or rng.random() < 0.15:
        scale = float(rng.choice([0.01, 1.0, 3.0]))
        nodes[place] = (LEAF, 0.0, 0, False, float(np.float32(scale * rng.normal())))
        return
    column = int(rng.choice(own))
    first = len(nodes)
    nodes[place] = (column, _threshold(rng, values[:, column]), first, bool(rng.random() < 0.5), 0)
    nodes += [(LEAF, 0.0, 0, False, 0.0)] * 2
    for child in (first, first + 1):
        _grow(rng, values, nodes, child, own, depth - 1)


def _threshold(rng: np.random.Generator, column: np.ndarray[Any, Any]) -> float:
    known = column[~np.isnan(column)].astype(np.float32)
    chosen = np.float32(rng.choice(known)) if len(known) else np.float32(0)
    aside = rng.choice([-np.inf, 0, np.inf])
    return float(np.nextafter(chosen, np.float32(aside)) if aside else chosen)


def forest() -> Forest:
    """size < 4 ? (body < 1 ? −1 : 2) : 0.25, and title < 1.2 ? 0 : 1."""
    return Forest(
        np.array([0, 5], np.int32),
        np.array([2, 1, -1, -1, -1, 0, -1, -1], np.int32),
        np.array([4, 1, 0, 0, 0, 1.2, 0, 0], np.float32),
        np.array([1, 3, 0, 0, 0, 6, 0, 0], np.int32),
        np.array([False, True, False, False, False, True, False, False]),
        np.array([0, 0, 0.25, -1, 2, 0, 0, 1.0]),
    )


def trees(small: Small, featureset: FeatureSet = FEATURESET, **changed: Any) -> TreeModel:
    """Trees that remember features as the engine gives them, by the templates of this set."""
    asked = []
    for probe in probes():
        ids, features = small.store.logged(featureset, small.index, probe)
        assert ids == probe["document_ids"]
        asked.append({**probe, "features": packed(features)})
    for probe in asked:
        probe["labels"] = [float(row % 3 == 0) for row in range(len(probe["document_ids"]))]
    record = {"probes": asked, "featureset_hash": FEATURESET.hash, **changed}
    return TreeModel(FEATURESET.feature_names, forest(), 0.5, record=record)


NAMES = ("a<b", "c", "d")
FOREST = Forest(
    np.array([0], np.int32), np.array([0, -1, -1], np.int32), np.zeros(3, np.float32),
    np.array([1, 0, 0], np.int32), np.zeros(3, bool), np.array([0, 1.5, -2.0]),
)  # fmt: skip
LINEAR = LinearModel(NAMES, np.array([1.0, -2.0, 0.5]))
MODELS: list[Model] = [
    LINEAR,
    TreeModel(NAMES, FOREST),
    NetworkModel(NAMES, np.ones((2, 3)), np.zeros(2), np.array([1.0, -0.5])),
    LogisticNetwork(NAMES, (Layer(np.ones((1, 3)), np.zeros(1)),)),
    AverageModel(NAMES, (LINEAR, TreeModel(NAMES, FOREST)), np.ones(2)),
]
