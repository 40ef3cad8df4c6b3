"""Seeded models on which export targets are checked, each with documents that try it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.protocols import Model

NAMES = ("year", "body", "title", "popularity")
"""In no order of the alphabet, so that sorting them is seen."""
DOCUMENTS = 80


@dataclass(frozen=True)
class ModelSample:
    """A model, what is special about it, and one query's documents."""

    what: str
    model: Model
    documents: Matrix


def sample_models(seed: int = 0) -> list[ModelSample]:
    """Linear models and trees: of several features and of one, with and without missing ones."""
    return [*_linear_samples(seed), *_tree_samples(seed)]


def sample_linear(names: tuple[str, ...], seed: int = 0) -> ModelSample:
    """A linear model of these features."""
    rng = np.random.default_rng(seed)
    weights = rng.permutation(np.linspace(-1.7, 2.1, len(names) + 2)[: len(names)])
    return ModelSample("a linear model", LinearModel(names, weights), _documents(rng, len(names)))


def _linear_samples(seed: int) -> Iterator[ModelSample]:
    rng = np.random.default_rng(seed)
    normalisers = {
        "title": Normaliser("standard", 1.5, 2.0),
        "year": Normaliser("min_max", -1.0, 4.0),
        "body": Normaliser("min_max", 0.5, 0.7),
    }
    for what, weights, normalised in (
        ("a linear model", rng.normal(size=4), {}),
        ("a linear model with a weight of 0", np.array([0.0, 1.1, -0.3, 0.0]), {}),
        ("a linear model of negative weights", -rng.random(4), {}),
        ("a linear model of small weights", 1e-3 * rng.normal(size=4), {}),
        ("a linear model of large weights", 1e3 * rng.normal(size=4), {}),
        ("a linear model with normalisers", rng.normal(size=4), normalisers),
    ):
        yield ModelSample(what, LinearModel(NAMES, weights, normalised), _documents(rng, 4))
    single = LinearModel(("title",), np.array([-0.123456]))
    yield ModelSample("a linear model of one feature", single, _documents(rng, 1))


def _tree_samples(seed: int) -> Iterator[ModelSample]:
    rng = np.random.default_rng(seed)
    for missing in ("either way", "as 0", "right"):
        documents = _documents(rng, 4)
        forest = _forest(rng, documents, missing)
        what = f"trees that send missing features {missing}"
        yield ModelSample(what, TreeModel(NAMES, forest), documents)
        based = TreeModel(NAMES, forest, base=-0.37)
        yield ModelSample(f"{what}, with a base score", based, documents)
        logistic = TreeModel(NAMES, forest, base=0.2, link="logistic")
        yield ModelSample(f"{what}, with a logistic output", logistic, documents)
        documents = _documents(rng, 1)
        single = TreeModel(("title",), _forest(rng, documents, missing))
        yield ModelSample(f"{what}, of one feature", single, documents)
    leaf = _joined([_tree(rng, np.zeros((1, 4), np.float32), 0, "right")])
    yield ModelSample("a tree of one leaf", TreeModel(NAMES, leaf), _documents(rng, 4))


def _documents(rng: np.random.Generator, width: int) -> Matrix:
    """Values on a coarse grid, so that thresholds taken from them are hit; a fifth is missing."""
    documents = np.round(rng.normal(size=(DOCUMENTS, width)), 1).astype(np.float32)
    documents[rng.random(documents.shape) < 0.2] = np.nan
    documents[0], documents[1] = np.nan, 0.0
    return documents


def _forest(rng: np.random.Generator, documents: Matrix, missing: str) -> Forest:
    """Trees of several depths, a leaf first and the deepest last."""
    return _joined([_tree(rng, documents, depth, missing) for depth in (0, 1, 2, 3, 4)])


def _tree(rng: np.random.Generator, documents: Matrix, depth: int, missing: str) -> Forest:
    """A full tree, level by level: the children of node i are 2 i + 1 and 2 i + 2."""
    size, splits = 2 ** (depth + 1) - 1, 2**depth - 1
    inner = np.arange(size) < splits
    feature = np.where(inner, rng.integers(0, documents.shape[1], size), LEAF)
    drawn = documents[rng.integers(0, len(documents), size), feature]
    threshold = np.where(inner, np.nan_to_num(drawn), 0).astype(np.float32)
    default_left = {
        "either way": rng.random(size) < 0.5,
        "as 0": threshold > 0,
        "right": np.zeros(size, dtype=bool),
    }[missing]
    return Forest(
        np.zeros(1, dtype=np.int32),
        feature.astype(np.int32),
        threshold,
        np.where(inner, 2 * np.arange(size) + 1, 0).astype(np.int32),
        inner & default_left,
        np.where(inner, 0.0, rng.normal(size=size)).astype(np.float32).astype(np.float64),
    )


def _joined(trees: list[Forest]) -> Forest:
    sizes = [len(tree.feature) for tree in trees]
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Forest(
        starts.astype(np.int32),
        np.concatenate([tree.feature for tree in trees]),
        np.concatenate([tree.threshold for tree in trees]),
        np.concatenate(
            [np.where(t.is_leaf, 0, t.left + s) for t, s in zip(trees, starts, strict=True)]
        ).astype(np.int32),
        np.concatenate([tree.default_left for tree in trees]),
        np.concatenate([tree.value for tree in trees]),
    )
