"""Small models of every kind, and documents to explain."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from owpc_ltr.arrays import Matrix
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel, Normaliser
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model
from tests.faults.selection import Selection
from tests.small_models import random_forest

NAMES = tuple("abcde")
SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=50 if Selection.asked().thorough else 5)
"""For models that take long to explain."""
HITS = 1000


def documents(rng: np.random.Generator, count: int = HITS, missing: float = 0.15) -> Matrix:
    rows = np.round(rng.normal(scale=3, size=(count, len(NAMES))), 1).astype(np.float32)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def linear(rng: np.random.Generator) -> LinearModel:
    normalisers = {
        "a": Normaliser("standard", float(rng.normal()), float(rng.uniform(0.1, 3))),
        "c": Normaliser("min_max", float(rng.normal()), float(rng.uniform(0.1, 3))),
    }
    return LinearModel(NAMES, rng.normal(size=len(NAMES)), normalisers)


def curves(rng: np.random.Generator) -> AdditiveModel:
    def curve() -> Curve:
        knots = np.unique(np.round(rng.normal(scale=3, size=int(rng.integers(1, 7))), 2))
        return Curve(knots, rng.normal(size=len(knots)), float(rng.normal()))

    return AdditiveModel(NAMES, {name: curve() for name in "abd"})


def trees(rng: np.random.Generator, link: str = "identity", depth: int = 5) -> TreeModel:
    forest = random_forest(rng, documents(rng, 50), 12, depth, 5)
    return TreeModel(NAMES, forest, float(rng.normal()), link)


def logistic_trees(rng: np.random.Generator) -> TreeModel:
    return trees(rng, "logistic")


def network(rng: np.random.Generator) -> NetworkModel:
    weights = rng.normal(scale=0.3, size=(4, len(NAMES)))
    return NetworkModel(NAMES, weights, rng.normal(size=4), rng.normal(size=4))


def logistic_network(rng: np.random.Generator) -> LogisticNetwork:
    first = Layer(rng.normal(scale=0.3, size=(3, len(NAMES))), rng.normal(size=3))
    return LogisticNetwork(NAMES, (first, Layer(rng.normal(size=(1, 3)), rng.normal(size=1))))


def averaged(rng: np.random.Generator) -> AverageModel:
    parts: tuple[Model, ...] = (linear(rng), trees(rng), curves(rng), logistic_trees(rng))
    return AverageModel(NAMES, parts, rng.uniform(0.1, 1, 4))


KINDS = (linear, curves, trees, logistic_trees, network, logistic_network, averaged)
