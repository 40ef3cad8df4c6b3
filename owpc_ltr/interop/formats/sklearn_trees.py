"""scikit-learn's trees, forests and boosted ensembles, from the estimator in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import shown
from owpc_ltr.interop.formats.tree_builder import GrowingForest, NodeTable, below
from owpc_ltr.models.forest import LEAF
from owpc_ltr.models.trees import TreeModel

_FORESTS = {"RandomForestRegressor", "ExtraTreesRegressor"}
_TREES = {"DecisionTreeRegressor", "ExtraTreeRegressor"}
_BOOSTED = {"GradientBoostingRegressor", "GradientBoostingClassifier"}
_HISTOGRAM = {"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"}
_IDENTITY = {"squared_error", "absolute_error", "huber", "quantile"}


def from_sklearn(estimator: Any, feature_names: Sequence[str]) -> TreeModel:
    """The model of a fitted estimator, which scores as it predicts (a classifier: class 1).

    Read from memory, never from a pickle. A missing value goes where the estimator sends it, or
    where 0 goes if it knows none. Raises BadInput.
    """
    name = type(estimator).__name__
    growing = GrowingForest()
    base = 0.0
    if name in _TREES:
        _add_tree(growing, estimator, 1.0, "the tree")
    elif name in _FORESTS:
        trees = _fitted(estimator, "estimators_")
        for number, tree in enumerate(trees):
            _add_tree(growing, tree, 1.0 / len(trees), f"tree {number} of the {name}")
    elif name in _BOOSTED:
        base = _boosted(growing, estimator)
    elif name in _HISTOGRAM:
        base = _histogram(growing, estimator)
    else:
        known = sorted(_TREES | _FORESTS | _BOOSTED | _HISTOGRAM)
        raise BadInput(f"no converter for {shown(name)}; known: {', '.join(known)}")
    link = "logistic" if name.endswith("Classifier") else "identity"
    if len(feature_names) != estimator.n_features_in_:
        raise BadInput(
            f"the {name} was fitted on {estimator.n_features_in_} features, "
            f"{len(feature_names)} are named"
        )
    return TreeModel(tuple(feature_names), growing.forest(f"the {name}"), base, link)


def _add_tree(growing: GrowingForest, estimator: Any, scale: float, where: str) -> None:
    tree = _fitted(estimator, "tree_")
    if tree.value.shape[1:] != (1, 1):
        raise BadInput(f"{where} has several outputs: fit one that gives one score")
    left = np.asarray(tree.children_left, dtype=np.int64)
    threshold = np.asarray(tree.threshold, dtype=np.float64)
    to_left = getattr(tree, "missing_go_to_left", None)
    # Only trees that saw missing values learned where they go.
    learned = estimator.__sklearn_tags__().input_tags.allow_nan and to_left is not None
    growing.add(
        NodeTable(
            np.where(left < 0, LEAF, tree.feature).astype(np.int64),
            below(threshold),
            left,
            np.asarray(tree.children_right, dtype=np.int64),
            np.asarray(to_left, dtype=bool) if learned else threshold >= 0,
            tree.value[:, 0, 0] * scale,
        ),
        where,
    )


def _boosted(growing: GrowingForest, estimator: Any) -> float:
    stages = _fitted(estimator, "estimators_")
    if stages.shape[1] != 1:
        raise BadInput(f"the estimator has {stages.shape[1]} outputs: fit one with two classes")
    for number, tree in enumerate(stages[:, 0]):
        _add_tree(growing, tree, float(estimator.learning_rate), f"stage {number}")
    if isinstance(estimator.init_, str):  # "zero"
        return 0.0
    if type(estimator.init_).__name__ not in {"DummyRegressor", "DummyClassifier"}:
        raise BadInput("the estimator starts from another estimator: fit it with init=None")
    row = np.zeros((1, estimator.n_features_in_), dtype=np.float32)
    return float(estimator._raw_predict_init(row)[0, 0])


def _histogram(growing: GrowingForest, estimator: Any) -> float:
    loss = estimator.loss if isinstance(estimator.loss, str) else ""
    if not type(estimator).__name__.endswith("Classifier") and loss not in _IDENTITY:
        raise BadInput(f"the loss '{shown(loss)}' has a link that no engine has: use squared_error")
    for number, stage in enumerate(_fitted(estimator, "_predictors")):
        if len(stage) != 1:
            raise BadInput(f"the estimator has {len(stage)} outputs: fit one with two classes")
        _add_histogram_tree(growing, stage[0].nodes, f"stage {number}")
    return float(np.ravel(estimator._baseline_prediction)[0])


def _add_histogram_tree(growing: GrowingForest, nodes: Any, where: str) -> None:
    leaf = nodes["is_leaf"].astype(bool)
    if nodes["is_categorical"][~leaf].any():
        raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
    growing.add(
        NodeTable(
            np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int64),
            below(nodes["num_threshold"].astype(np.float64)),
            nodes["left"].astype(np.int64),
            nodes["right"].astype(np.int64),
            nodes["missing_go_to_left"].astype(bool),
            nodes["value"].astype(np.float64),
        ),
        where,
    )


def _fitted(estimator: Any, attribute: str) -> Any:
    value = getattr(estimator, attribute, None)
    if value is None:
        raise BadInput(f"the {type(estimator).__name__} is not fitted")
    return value
