"""scikit-learn's trees, forests and boosted ensembles, from the estimator in memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
    if name in _TREES:
        takes = _takes_missing(estimator)
        _add_tree(growing, estimator, 1.0, "the tree", takes_missing=takes)
    elif name in _FORESTS:
        trees = _fitted(estimator, "estimators_")
        takes, share = _takes_missing(estimator), 1.0 / len(trees)
        for number, tree in enumerate(trees):
            where = f"tree {number} of the {name}"
            _add_tree(growing, tree, share, where, takes_missing=takes)
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
    model = TreeModel(tuple(feature_names), growing.forest(f"the {name}"), base, link)
    return model, growing.learned


class _Growing(GrowingForest):
    """The trees so far, and whether any of them sends a missing value by what it has learned."""

    learned: bool = False

    def note(
        self, to_left: NDArray[np.bool_], left: NDArray[np.int64], right: NDArray[np.int64],
        sizes: NDArray[Any],
    ) -> None:  # fmt: skip
        """Look at splits: without missing values the larger side, or the right, has them."""
        larger = sizes[left] > sizes[right]
        self.learned |= bool(to_left.any() and (to_left != larger).any())


def _takes_missing(estimator: Any) -> bool:
    """Whether the estimator predicts where values are missing, as it shows when asked to."""
    row = np.full((1, _fitted(estimator, "n_features_in_")), np.nan, dtype=np.float32)
    with warnings.catch_warnings():
        # One that was fitted on named columns would rather be asked with names.
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
    threshold = np.asarray(tree.threshold, dtype=np.float64)
    to_left = getattr(tree, "missing_go_to_left", None)
    right = np.asarray(tree.children_right, dtype=np.int64)
    if takes_missing and to_left is not None:
        default_left, splits = np.asarray(to_left, dtype=bool), left >= 0
        growing.note(default_left[splits], left[splits], right[splits], tree.n_node_samples)
    else:
        default_left, growing.learned = threshold >= 0, True
    growing.add(
        NodeTable(
            np.where(left < 0, LEAF, tree.feature).astype(np.int64),
            below(threshold),
            left,
            right,
            default_left=default_left,
            value=tree.value[:, 0, 0] * scale,
        ),
        where,
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
        _add_histogram_tree(growing, stage[0].nodes, f"stage {number}")
    return float(np.ravel(estimator._baseline_prediction)[0])


def _add_histogram_tree(growing: _Growing, nodes: Any, where: str) -> None:
    leaf = nodes["is_leaf"].astype(bool)
    if nodes["is_categorical"][~leaf].any():
        raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    to_left = nodes["missing_go_to_left"].astype(bool)
    growing.note(to_left[~leaf], left[~leaf], right[~leaf], nodes["count"])
    growing.add(
        NodeTable(
            np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int64),
            below(nodes["num_threshold"].astype(np.float64)),
            left,
            right,
            default_left=to_left,
            value=nodes["value"].astype(np.float64),
        ),
        where,
    )


def _fitted(estimator: Any, attribute: str) -> Any:
    value = getattr(estimator, attribute, None)
    if value is None:
        raise BadInput(f"the {type(estimator).__name__} is not fitted")
    return value
