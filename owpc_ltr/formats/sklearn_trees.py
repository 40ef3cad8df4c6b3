"""scikit-learn's trees, forests and boosted ensembles, from the estimator in memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, give_warnings
from owpc_ltr.files.strict_json import shown
from owpc_ltr.formats.tree_builder import GrowingForest, NodeTable, below
from owpc_ltr.models.trees import LEAF, TreeModel
from owpc_ltr.signatures import public

_FORESTS = {"RandomForestRegressor", "ExtraTreesRegressor"}
_TREES = {"DecisionTreeRegressor", "ExtraTreeRegressor"}
_BOOSTED = {"GradientBoostingRegressor", "GradientBoostingClassifier"}
_HISTOGRAM = {"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"}
_IDENTITY = {"squared_error", "absolute_error", "huber", "quantile"}


@public
def from_sklearn(
    estimator: Any,
    feature_names: Sequence[str],
    missing: Literal["as-trained", "zero"] | None = None,
) -> TreeModel:
    """The model of a fitted estimator, which scores as it predicts (a classifier: class 1).

    Read from memory, never from a pickle. A missing value goes where the estimator sends it, or
    where 0 goes if it takes none (GradientBoosting*). One that was fitted without a missing value
    sends them with the larger part of the documents, of which OwpcLtrWarning tells: if it was
    fitted with 0 in their place, say `missing="zero"`, and they go where 0 goes; `as-trained` says
    that its own way is meant. Raises BadInput.
    """
    if missing not in {None, "as-trained", "zero"}:
        raise BadInput(f"missing is as-trained or zero, not {missing!r}")
    model, learned = _converted(estimator, feature_names)
    if missing == "zero":
        return model.with_missing_as_zero()
    if missing is None and not learned:
        give_warnings([
            f"no split of the {type(estimator).__name__} shows that it was fitted with missing "
            "values, and it sends them with the larger part of the documents: say "
            'missing="zero" if it was fitted with 0 in their place, else missing="as-trained"'
        ])  # fmt: skip
    return model


def _converted(estimator: Any, feature_names: Sequence[str]) -> tuple[TreeModel, bool]:
    """The model, and whether where missing values go was learned, or is where 0 goes."""
    name = type(estimator).__name__
    growing = _Growing()
    base = 0.0
    if name in _TREES | _FORESTS:
        trees = _fitted(estimator, "estimators_") if name in _FORESTS else [estimator]
        takes_missing = _takes_missing(estimator)
        for number, tree in enumerate(trees):
            where = f"tree {number} of the {name}" if name in _FORESTS else "the tree"
            _add_tree(growing, tree, 1.0 / len(trees), where, takes_missing=takes_missing)
    elif name in _BOOSTED:
        base = _boosted(growing, estimator)
    elif name in _HISTOGRAM:
        base = _histogram(growing, estimator)
    else:
        classes = sorted(_TREES | _FORESTS | _BOOSTED | _HISTOGRAM)
        raise BadInput(f"no converter for {shown(name)}; known: {', '.join(classes)}")
    link = "logistic" if name.endswith("Classifier") else "identity"
    if len(feature_names) != estimator.n_features_in_:
        raise BadInput(
            f"the {name} was fitted on {estimator.n_features_in_} features, "
            f"{len(feature_names)} are named"
        )
    model = TreeModel(tuple(feature_names), growing.forest(f"the {name}"), base, link)
    return model, growing.learned


class _Growing(GrowingForest):
    """The trees so far, and whether any of them sends a missing value by what it has learned."""

    learned: bool = False

    def add_tree(
        self,
        feature: NDArray[np.int64],
        threshold: Vector,
        children: tuple[NDArray[np.int64], NDArray[np.int64]],
        *,
        to_left: NDArray[np.bool_] | None,
        sizes: NDArray[Any],
        value: Vector,
        where: str,
    ) -> None:
        """Add a tree; a missing value goes where 0 goes if `to_left` does not say where.

        A tree that was fitted without missing values sends them to the larger child, or right.
        """
        left, right = children
        if to_left is None:
            to_left, self.learned = threshold >= 0, True
        else:
            splits = feature != LEAF
            larger = sizes[left[splits]] > sizes[right[splits]]
            self.learned |= bool(to_left[splits].any() and (to_left[splits] != larger).any())
        self.add(
            NodeTable(feature, below(threshold), left, right, default_left=to_left, value=value),
            where,
        )


def _takes_missing(estimator: Any) -> bool:
    """Whether the estimator predicts a row of missing values."""
    row = np.full((1, _fitted(estimator, "n_features_in_")), np.nan, dtype=np.float32)
    with warnings.catch_warnings():
        # An estimator that was fitted on named columns warns of a row without names.
        warnings.simplefilter("ignore")
        try:
            estimator.predict(row)
        except ValueError:
            return False
    return True


def _add_tree(
    growing: _Growing, estimator: Any, scale: float, where: str, *, takes_missing: bool
) -> None:
    tree = _fitted(estimator, "tree_")
    if tree.value.shape[1:] != (1, 1):
        raise BadInput(f"{where} has several outputs: fit one that gives one score")
    left = np.asarray(tree.children_left, dtype=np.int64)
    to_left = getattr(tree, "missing_go_to_left", None) if takes_missing else None
    growing.add_tree(
        np.where(left < 0, LEAF, tree.feature).astype(np.int64),
        np.asarray(tree.threshold, dtype=np.float64),
        (left, np.asarray(tree.children_right, dtype=np.int64)),
        to_left=None if to_left is None else np.asarray(to_left, dtype=bool),
        sizes=tree.n_node_samples,
        value=tree.value[:, 0, 0] * scale,
        where=where,
    )


def _boosted(growing: _Growing, estimator: Any) -> float:
    stages = _fitted(estimator, "estimators_")
    if stages.shape[1] != 1:
        raise BadInput(f"the estimator has {stages.shape[1]} outputs: fit one with two classes")
    # Its trees would take missing values, but the estimator lets none through to them.
    takes, rate = _takes_missing(estimator), float(estimator.learning_rate)
    for number, tree in enumerate(stages[:, 0]):
        _add_tree(growing, tree, rate, f"stage {number}", takes_missing=takes)
    if isinstance(estimator.init_, str):  # "zero"
        return 0.0
    if type(estimator.init_).__name__ not in {"DummyRegressor", "DummyClassifier"}:
        raise BadInput("the estimator starts from another estimator: fit it with init=None")
    row = np.zeros((1, estimator.n_features_in_), dtype=np.float32)
    return float(estimator._raw_predict_init(row)[0, 0])


def _histogram(growing: _Growing, estimator: Any) -> float:
    loss = estimator.loss if isinstance(estimator.loss, str) else ""
    if not type(estimator).__name__.endswith("Classifier") and loss not in _IDENTITY:
        raise BadInput(f"the loss '{shown(loss)}' has a link that no engine has: use squared_error")
    for number, stage in enumerate(_fitted(estimator, "_predictors")):
        if len(stage) != 1:
            raise BadInput(f"the estimator has {len(stage)} outputs: fit one with two classes")
        nodes, where = stage[0].nodes, f"stage {number}"
        leaf = nodes["is_leaf"].astype(bool)
        if nodes["is_categorical"][~leaf].any():
            raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
        growing.add_tree(
            np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int64),
            nodes["num_threshold"].astype(np.float64),
            (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)),
            to_left=nodes["missing_go_to_left"].astype(bool),
            sizes=nodes["count"],
            value=nodes["value"].astype(np.float64),
            where=where,
        )
    return float(np.ravel(estimator._baseline_prediction)[0])


def _fitted(estimator: Any, attribute: str) -> Any:
    value = getattr(estimator, attribute, None)
    if value is None:
        raise BadInput(f"the {type(estimator).__name__} is not fitted")
    return value
