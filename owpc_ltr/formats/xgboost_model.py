"""`model/xgboost+json+raw`: XGBoost's model file in JSON, as `save_model` writes it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import (
    a_json,
    take,
    take_integers,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.formats.engine_versions import (
    XGBOOST_RAW,
    ServingProfile,
    base_margin,
    link_of,
    needs_zero_flag,
    objective_for,
    positions,
)
from owpc_ltr.formats.tree_builder import GrowingForest, NodeTable, with_missing_flag
from owpc_ltr.models.trees import LEAF, TreeModel, shortest_floats, to_single

_COLUMNS = {"gain": "loss_changes", "cover": "sum_hessian"}


def told_importances(
    trees: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """`total_gain` and `total_cover` of each feature that is split on, as XGBoost counts them.

    Nothing where the file does not tell it, or tells no gain at all: it is not needed to score.
    """
    totals = {fact: np.zeros(len(names)) for fact in _COLUMNS}
    splits = np.zeros(len(names), dtype=np.int64)
    try:
        for tree in trees:
            inner = np.asarray(tree["left_children"]) != -1
            columns = np.asarray(tree["split_indices"])[inner]
            splits += np.bincount(columns, minlength=len(names))
            for fact, key in _COLUMNS.items():
                values = np.asarray(tree[key], dtype=np.float64)[inner]
                totals[fact] += np.bincount(columns, values, minlength=len(names))
    except (LookupError, TypeError, ValueError, OverflowError):
        return {}
    if not all(np.isfinite(total).all() for total in totals.values()) or totals["gain"].sum() <= 0:
        return {}
    return {
        fact: {names[column]: float(total[column]) for column in np.flatnonzero(splits).tolist()}
        for fact, total in totals.items()
    }


LeafOutputs = Literal["split_conditions", "base_weights"]
"""Where a leaf's output stands: XGBoost reads the former, the LTR plugin the latter."""


def from_raw(
    content: Any, feature_names: tuple[str, ...] | None = None, *, slice_best: bool = True
) -> TreeModel:
    """The model of an XGBoost file, which scores as XGBoost predicts.

    Its own feature names count; `feature_names` are for a file without. `slice_best` keeps the
    trees up to the best iteration, as scikit-learn's `predict` does. The outputs of a dart model
    are multiplied by its trees' weights. `missing_as_zero`, which the LTR plugin knows besides, is
    done as it says. Raises BadInput.
    """
    learner = take_object(content, "learner", "the XGBoost model")
    names = _names(learner, feature_names)
    booster = take_object(learner, "gradient_booster", "the XGBoost model")
    weights = None
    if booster.get("name") == "dart":
        weights = to_single(take_numbers(booster, "weight_drop", "the dart booster"))
        booster = take_object(booster, "gbtree", "the dart booster")
    elif booster.get("name") != "gbtree":
        raise BadInput(
            f"the booster is {a_json(booster.get('name'))}: only gbtree and dart are sums of trees"
        )
    inner = take_object(booster, "model", "the XGBoost model")
    best = _best_trees(learner, inner)
    keep = best if slice_best else None
    growing = read_trees(inner, "split_conditions", weights, keep)
    objective = take(take_object(learner, "objective", "the XGBoost model"), "name", "objective")
    link = link_of(objective)
    base = base_margin(objective, _base_score(learner), _major_version(content))
    # It knows the numbers of its features, by which importances are counted.
    model = TreeModel(names, growing.forest("the XGBoost model"), base, link)
    importances = told_importances(inner["trees"][:keep], names)
    if importances:
        model = replace(model, record={"importances": importances})
    return with_missing_flag(model, content)


def read_trees(
    inner: dict[str, Any],
    outputs: LeafOutputs,
    weights: NDArray[np.float32] | None = None,
    keep: int | None = None,
) -> GrowingForest:
    """The trees of a `gradient_booster.model`, the first `keep` of them."""
    trees = take_list(inner, "trees", "the XGBoost model")
    _check_rounds(inner, len(trees))
    if weights is not None and len(weights) != len(trees):
        raise BadInput(f"the dart booster has {len(trees)} trees and {len(weights)} weights")
    growing = GrowingForest()
    for number, tree in enumerate(trees[:keep]):
        where = f"tree {number} of the XGBoost model"
        if isinstance(tree, dict) and tree.get("id", number) != number:
            raise BadInput(f"{where} says that it is tree {a_json(tree['id'])}")
        weight = 1.0 if weights is None else float(weights[number])
        growing.add(_read_tree(tree, outputs, weight, where), where)
    return growing


def _read_tree(tree: Any, outputs: LeafOutputs, weight: float, where: str) -> NodeTable:
    if not isinstance(tree, dict):
        raise BadInput(f"{where} is {a_json(tree)}, not an object")
    parameters = tree.get("tree_param", {})
    if isinstance(parameters, dict) and parameters.get("size_leaf_vector", "1") not in ("0", "1"):
        raise BadInput(f"{where} has vectors as leaves: train one that gives one score")
    if any(take_list({"split_type": [], **tree}, "split_type", where)):
        raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
    left = take_integers(tree, "left_children", where)
    right = take_integers(tree, "right_children", where)
    feature = take_integers(tree, "split_indices", where)
    default_left = take_integers(tree, "default_left", where)
    threshold = take_numbers(tree, "split_conditions", where)
    value = to_single(take_numbers(tree, outputs, where)).astype(np.float64)
    for column in (right, feature, default_left, threshold, value):
        if len(column) != len(left):
            raise BadInput(f"{where} has columns of {len(left)} and of {len(column)} nodes")
    leaf = left == -1
    if ((right == -1) != leaf).any():
        raise BadInput(f"{where} has a node with one child")
    if (feature[~leaf] < 0).any():
        raise BadInput(f"{where} splits on a feature of negative number")
    _check_parents(tree, left, right, where)
    feature = np.where(leaf, LEAF, feature)
    return NodeTable(
        feature, threshold, left, right, default_left=default_left == 1, value=value * weight
    )


def _check_rounds(inner: dict[str, Any], count: int) -> None:
    """Refuse a model that contradicts itself: XGBoost itself would read beyond its arrays."""
    where = "the XGBoost model"
    if "tree_info" in inner:
        groups = take_integers(inner, "tree_info", where)
        if groups.any():
            raise BadInput(f"{where} has several outputs: train one that gives one score")
        if len(groups) != count:
            raise BadInput(f"{where} has {count} trees and {len(groups)} of 'tree_info'")
    if "iteration_indptr" in inner:
        starts = take_integers(inner, "iteration_indptr", where)
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
            raise BadInput(f"the rounds of {where} do not run from 0 to its {count} trees")
    told = _count(_parameters(inner), "num_trees")
    if told not in {None, count}:
        raise BadInput(f"{where} has {count} trees, and its num_trees is {told}: save it whole")


def _check_parents(
    tree: dict[str, Any], left: NDArray[np.int64], right: NDArray[np.int64], where: str
) -> None:
    if "parents" not in tree:
        return
    parents = take_integers(tree, "parents", where)
    if len(parents) != len(left):
        raise BadInput(f"{where} has {len(left)} nodes and {len(parents)} parents")
    splits = np.flatnonzero(left != -1)
    for children in (left[splits], right[splits]):
        inside = (children >= 0) & (children < len(left))
        wrong = splits[inside][parents[children[inside]] != splits[inside]]
        if len(wrong):
            raise BadInput(f"{where}: a child of node {wrong[0]} names another parent")


def _names(learner: dict[str, Any], given: tuple[str, ...] | None) -> tuple[str, ...]:
    own: Sequence[str] = ()
    if learner.get("feature_names"):
        own = take_strings(learner, "feature_names", "the XGBoost model")
    types = learner.get("feature_types") or []
    if isinstance(types, list) and any(kind in ("c", "i") for kind in types):
        raise BadInput(
            "the XGBoost model has categorical or indicator features, which no engine scores: "
            "encode them as numbers"
        )
    if own:
        return tuple(own)
    if given is None:
        raise BadInput("the XGBoost model has no feature names: name the columns it was trained on")
    return given


def _base_score(learner: dict[str, Any]) -> float:
    parameters = take_object(learner, "learner_model_param", "the XGBoost model")
    for key, ones in (("num_class", {"0", "1"}), ("num_target", {"1"})):
        if str(parameters.get(key, "1")) not in ones:
            raise BadInput(
                f"the XGBoost model has {key} {a_json(parameters[key])}: train one that gives one "
                "score"
            )
    text = take(parameters, "base_score", "'learner_model_param'")
    number = r"-?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?"
    match = re.fullmatch(rf"\[?({number})\]?", text) if isinstance(text, str) else None
    if match is None:
        raise BadInput(f"the base score of the XGBoost model is {a_json(text)}, not one number")
    return float(match[1])


def _major_version(content: dict[str, Any]) -> int:
    version = take_list(content, "version", "the XGBoost model")
    if not version or type(version[0]) is not int:
        raise BadInput(f"the version of the XGBoost model is {a_json(version)}")
    return int(version[0])


def _best_trees(learner: dict[str, Any], inner: dict[str, Any]) -> int | None:
    """How many trees there are up to the best iteration; None if there was no early stopping.

    Raises BadInput where it needs more trees than the file holds.
    """
    where, count = "the XGBoost model", len(take_list(inner, "trees", "the XGBoost model"))
    parallel = _count(_parameters(inner), "num_parallel_tree") or 1
    attributes = learner.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    best = _count(attributes, "best_iteration")
    until = None if best is None else (best + 1) * parallel
    limit = _count(attributes, "best_ntree_limit")
    for name, trees in (("best_iteration", until), ("best_ntree_limit", limit)):
        if trees is not None and trees > count:
            raise BadInput(
                f"{where} has {count} trees, and its {name} needs {trees}: save it whole"
            )
    return until


def _parameters(inner: dict[str, Any]) -> dict[str, Any]:
    content = {"gbtree_model_param": {}, **inner}
    return take_object(content, "gbtree_model_param", "the XGBoost model")


def _count(content: dict[str, Any], name: str) -> int | None:
    """A number that XGBoost writes as a text; None where there is none."""
    text = content.get(name)
    if text is not None and not (isinstance(text, str) and re.fullmatch(r"\d{1,7}", text)):
        raise BadInput(f"the {name} of the XGBoost model is {a_json(text)}, not a whole number")
    return None if text is None else int(text)


def to_raw(
    model: TreeModel,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> dict[str, Any]:
    """The definition that scores in this engine, and in XGBoost, as the model does.

    It names every feature of the set, in its order, because older plugins read columns by number.
    Raises Refused where the engine cannot score it so.
    """
    objective = objective_for(model.link, XGBOOST_RAW, profile)
    columns = np.array(positions(model.feature_names, featureset_names), dtype=np.int64)
    flag = needs_zero_flag(model, XGBOOST_RAW, profile, never_missing)
    whole = model.with_base_as_tree()
    trees = [
        _written_tree(whole, nodes, number, columns, len(featureset_names))
        for number, nodes in enumerate(whole.forest.tree_nodes())
    ]
    count = len(trees)
    definition: dict[str, Any] = {
        "learner": {
            "attributes": {},
            "feature_names": list(featureset_names),
            "feature_types": ["float"] * len(featureset_names),
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(count)},
                    "iteration_indptr": list(range(count + 1)),
                    "tree_info": [0] * count,
                    "trees": trees,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": "5E-1" if model.link == "logistic" else "0E0",
                "boost_from_average": "0",
                "num_class": "0",
                "num_feature": str(len(featureset_names)),
                "num_target": "1",
            },
            "objective": {"name": objective},
        },
        "version": [2, 1, 0],
    }
    if flag:
        definition["missing_as_zero"] = True
    return definition


def _written_tree(
    model: TreeModel, nodes: range, number: int, columns: NDArray[np.int64], n_features: int
) -> dict[str, Any]:
    forest, part = model.forest, slice(nodes.start, nodes.stop)
    leaf = forest.is_leaf[part]
    left = np.where(leaf, -1, forest.left[part] - nodes.start)
    right = np.where(leaf, -1, left + 1)
    parents = np.full(len(nodes), 2**31 - 1)
    split = np.flatnonzero(~leaf)
    parents[left[split]] = parents[right[split]] = split
    outputs = np.where(leaf, forest.value[part], 0.0).astype(np.float32)
    conditions = np.where(leaf, outputs, forest.threshold[part])
    zeros = [0] * len(nodes)
    return {
        "base_weights": shortest_floats(outputs),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": forest.default_left[part].astype(int).tolist(),
        "id": number,
        "left_children": left.tolist(),
        "loss_changes": [0.0] * len(nodes),
        "parents": parents.tolist(),
        "right_children": right.tolist(),
        "split_conditions": shortest_floats(conditions),
        "split_indices": np.where(leaf, 0, columns[forest.feature[part]]).tolist(),
        "split_type": zeros,
        "sum_hessian": [1.0] * len(nodes),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(nodes)),
            "size_leaf_vector": "1",
        },
    }
