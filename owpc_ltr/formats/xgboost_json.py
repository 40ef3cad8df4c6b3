"""XGBoost's models in JSON: files (`save_model`) are read, dumps (`get_dump`) read and written."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import (
    Json,
    a_json,
    take,
    take_integers,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.formats.stored_model import ServingProfile, needs_zero_flag, positions
from owpc_ltr.formats.tree_builder import NUMBER, GrowingForest, Node, NodeTable, leaf, node_table
from owpc_ltr.models.trees import (
    LEAF,
    ROUNDS_TO_FINITE,
    TreeModel,
    shortest_floats,
    to_single,
    written_trees,
)

_DUMP, _MODEL = "the XGBoost dump", "the XGBoost model"
_LOGISTIC = frozenset(("binary:logistic", "reg:logistic"))
_IDENTITY = frozenset(
    (
        *("rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:linear"),
        *("reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "binary:logitraw"),
    )
)
_WRITTEN = {"identity": "rank:pairwise", "logistic": "binary:logistic"}
"""The names of a link that every engine takes."""


def link_of(objective: object) -> str:
    """What an objective does to the sum of the trees. Raises BadInput where no engine does it."""
    if not isinstance(objective, str) or objective not in _IDENTITY | _LOGISTIC:
        raise BadInput(
            f"the objective {a_json(objective)} is not supported by engines: train with "
            "rank:ndcg, rank:map, rank:pairwise, reg:squarederror or binary:logistic"
        )
    return "logistic" if objective in _LOGISTIC else "identity"


def _with_missing_flag(model: TreeModel, content: dict[str, Any]) -> TreeModel:
    """The model as the `missing_as_zero` says that the LTR plugin knows."""
    as_zero = content.get("missing_as_zero", False)
    if not isinstance(as_zero, bool):
        raise BadInput(f"'missing_as_zero' is {a_json(as_zero)}, not true or false")
    return model.with_missing_as_zero() if as_zero else model


def from_dump(definition: Json, feature_names: tuple[str, ...]) -> TreeModel:
    """The model of a dump: a list of trees, or an object with `splits` and `objective`.

    A dump has no base score. A split that does not say where missing values go sends them right.
    Raises BadInput.
    """
    content = {"splits": definition} if isinstance(definition, list) else definition
    if not isinstance(content, dict):
        raise BadInput(f"an XGBoost dump is a list or an object, not {a_json(content)}")
    unknown = sorted(set(content) - {"objective", "splits", "missing_as_zero"})
    if unknown:
        raise BadInput(f"the XGBoost dump has an unknown field {shown(unknown[0])}")
    link = link_of(content.get("objective", "rank:pairwise"))
    columns = {name: column for column, name in enumerate(feature_names)}
    growing = GrowingForest()
    for number, tree in enumerate(take_list(content, "splits", _DUMP)):
        where = f"tree {number} of the XGBoost dump"
        growing.add(_read_dump_tree(tree, columns, where), where)
    return _with_missing_flag(TreeModel(feature_names, growing.forest(_DUMP), link=link), content)


_SPLIT = ("depth", "split", "split_condition", "yes", "no", "children")
_NODE = frozenset({"nodeid", "leaf", "missing", "gain", "cover", *_SPLIT})


def _read_dump_tree(root: Json, columns: dict[str, int], where: str) -> NodeTable:
    """Unroll one nested tree, level by level."""
    rows: list[Node] = []
    nodes = [root]
    for node in nodes:
        if not isinstance(node, dict):
            raise BadInput(f"{where} has {a_json(node)} where a node should be")
        unknown = sorted(set(node) - _NODE)
        if unknown:
            raise BadInput(f"{where} has a node with an unknown field {shown(unknown[0])}")
        if type(node.get("nodeid")) is not int:
            raise BadInput(f"{where} has a node without 'nodeid'")
        if "leaf" in node:
            rows.append(leaf(float(np.float32(_number(node, "leaf", where)))))
            continue
        missing_left = _check_split(node, where)
        if node["split"] not in columns:
            raise BadInput(f"{where} splits on an unknown feature {shown(node['split'])}")
        column, threshold = columns[node["split"]], _number(node, "split_condition", where)
        rows.append((column, threshold, len(nodes), len(nodes) + 1, missing_left, 0.0))
        nodes += node["children"]
    return node_table(rows)


def _check_split(node: dict[str, Any], where: str) -> bool:
    """Whether missing values go left. Raises BadInput for what is no split of two children."""
    place = f"{where}, node {node['nodeid']}"
    if isinstance(node.get("split_condition"), list):
        raise BadInput(f"{place} is a categorical split, which no engine scores: encode as numbers")
    absent = [key for key in _SPLIT if key not in node]
    if absent:
        raise BadInput(f"{place} is a split without '{absent[0]}'")
    if not isinstance(node["split"], str):
        raise BadInput(f"{place} splits on {a_json(node['split'])}, not on a feature's name")
    children, yes, no = node["children"], node["yes"], node["no"]
    if not isinstance(children, list) or len(children) != 2:
        raise BadInput(f"{place} has not two children")
    ids = [child.get("nodeid") if isinstance(child, dict) else None for child in children]
    if any(type(number) is not int for number in (node["depth"], yes, no)) or ids != [yes, no]:
        raise BadInput(f"{place}: 'yes' and 'no' do not name its first and second child")
    missing = node.get("missing", no)
    if type(missing) is not int or missing not in (yes, no):
        raise BadInput(f"{place}: 'missing' names neither child")
    return bool(missing == yes)


def _number(node: dict[str, Any], key: str, where: str) -> float:
    value = node[key]
    if type(value) not in {int, float} or not abs(value) <= ROUNDS_TO_FINITE:
        raise BadInput(f"{where}, node {node['nodeid']}: '{key}' is {a_json(value)}, not a float32")
    return float(value)


def to_dump(
    model: TreeModel,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> dict[str, Any]:
    """The definition that scores in this engine as the model does; the base score as a tree.

    Raises Refused where the engine cannot score it so.
    """
    positions(model.feature_names, featureset_names)
    flagged = needs_zero_flag(model, profile.missing, profile, never_missing)
    return {
        "objective": _WRITTEN[model.link],
        **({"missing_as_zero": True} if flagged else {}),
        "splits": _dump_trees(model.with_base_as_tree()),
    }


def _dump_trees(model: TreeModel) -> list[dict[str, Any]]:
    forest = model.forest
    values = shortest_floats(forest.value.astype(np.float32))
    thresholds = shortest_floats(forest.threshold)
    left, default_left = forest.left.tolist(), forest.default_left.tolist()
    first = forest.roots[forest.tree_of_node].tolist()
    depth = [0] * len(left)
    for node in model.splits.tolist():  # children follow their parent
        depth[left[node]] = depth[left[node] + 1] = depth[node] + 1

    def leaf(node: int) -> dict[str, Any]:
        return {"nodeid": node - first[node], "leaf": values[node]}

    def split(node: int, low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
        yes = left[node] - first[node]
        return {
            "nodeid": node - first[node],
            "depth": depth[node],
            "split": model.feature_names[forest.feature[node]],
            "split_condition": thresholds[node],
            "yes": yes,
            "no": yes + 1,
            "missing": yes if default_left[node] else yes + 1,
            "children": [low, high],
        }

    return written_trees(forest, leaf, split)


def from_raw(
    content: dict[str, Any],
    feature_names: tuple[str, ...] | None = None,
    *,
    slice_best: bool = True,
) -> TreeModel:
    """The model of an XGBoost file, which scores as XGBoost predicts.

    Its own feature names count; `feature_names` are for a file without. `slice_best` keeps the
    trees up to the best iteration, as scikit-learn's `predict` does. The outputs of a dart model
    are multiplied by its trees' weights. `missing_as_zero`, which the LTR plugin knows besides, is
    done as it says. Raises BadInput.
    """
    learner = take_object(content, "learner", _MODEL)
    names = _names(learner, feature_names)
    booster = take_object(learner, "gradient_booster", _MODEL)
    dart = booster.get("name") == "dart"
    if not dart and booster.get("name") != "gbtree":
        raise BadInput(
            f"the booster is {a_json(booster.get('name'))}: only gbtree and dart are sums of trees"
        )
    whole = take_object(booster, "gbtree", "the dart booster") if dart else booster
    inner = take_object(whole, "model", _MODEL)
    trees = take_list(inner, "trees", _MODEL)
    weights = np.ones(len(trees))
    if dart:
        weights = to_single(take_numbers(booster, "weight_drop", "the dart booster")).astype(float)
    if len(weights) != len(trees):
        raise BadInput(f"the dart booster has {len(trees)} trees and {len(weights)} weights")
    best = _best_trees(learner, inner, len(trees))
    keep = best if slice_best else None
    growing = GrowingForest()
    for number, tree in enumerate(trees[:keep]):
        where = f"tree {number} of the XGBoost model"
        if isinstance(tree, dict) and tree.get("id", number) != number:
            raise BadInput(f"{where} says that it is tree {a_json(tree['id'])}")
        growing.add(_read_raw_tree(tree, weights[number], where), where)
    objective = take(take_object(learner, "objective", _MODEL), "name", "objective")
    base = _base_margin(objective, content, learner)
    model = TreeModel(names, growing.forest(_MODEL), base, link_of(objective))
    importances = recorded_importances(trees[:keep], names)
    if importances:
        model = replace(model, record={"importances": importances})
    return _with_missing_flag(model, content)


def _read_raw_tree(tree: Json, weight: float, where: str) -> NodeTable:
    if not isinstance(tree, dict):
        raise BadInput(f"{where} is {a_json(tree)}, not an object")
    parameters = tree.get("tree_param", {})
    if isinstance(parameters, dict) and parameters.get("size_leaf_vector", "1") not in ("0", "1"):
        raise BadInput(f"{where} has vectors as leaves: train one that gives one score")
    if any(take_list({"split_type": [], **tree}, "split_type", where)):
        raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
    left, right, feature, default_left = (
        take_integers(tree, key, where)
        for key in ("left_children", "right_children", "split_indices", "default_left")
    )
    # A leaf keeps its output where a split keeps its threshold.
    condition = take_numbers(tree, "split_conditions", where)
    for column in (right, feature, default_left, condition):
        if len(column) != len(left):
            raise BadInput(f"{where} has columns of {len(left)} and of {len(column)} nodes")
    is_leaf = left == -1
    if ((right == -1) != is_leaf).any():
        raise BadInput(f"{where} has a node with one child")
    if (feature[~is_leaf] < 0).any():
        raise BadInput(f"{where} splits on a feature of negative number")
    _check_parents(tree, left, right, where)
    value = to_single(condition).astype(np.float64) * weight
    feature = np.where(is_leaf, LEAF, feature)
    return NodeTable(feature, condition, left, right, default_left=default_left == 1, value=value)


def _check_parents(
    tree: dict[str, Any], left: NDArray[np.int64], right: NDArray[np.int64], where: str
) -> None:
    """Refuse a tree whose nodes name another parent than the one that they are children of."""
    if "parents" not in tree:
        return
    parents = take_integers(tree, "parents", where)
    if len(parents) != len(left):
        raise BadInput(f"{where} has {len(left)} nodes and {len(parents)} parents")
    for children in (left, right):
        splits = np.flatnonzero((children >= 0) & (children < len(left)))
        wrong = splits[parents[children[splits]] != splits]
        if len(wrong):
            raise BadInput(f"{where}: a child of node {wrong[0]} names another parent")


def _best_trees(learner: dict[str, Any], inner: dict[str, Any], count: int) -> int | None:
    """How many trees there are up to the best iteration; None without early stopping.

    Refuses a model that contradicts itself: XGBoost itself would read beyond its arrays.
    """
    groups = take_integers({"tree_info": [0] * count, **inner}, "tree_info", _MODEL)
    if groups.any():
        raise BadInput(f"{_MODEL} has several outputs: train one that gives one score")
    if len(groups) != count:
        raise BadInput(f"{_MODEL} has {count} trees and {len(groups)} of 'tree_info'")
    starts = take_integers({"iteration_indptr": [0, count], **inner}, "iteration_indptr", _MODEL)
    if len(starts) < 2 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise BadInput(f"the rounds of {_MODEL} do not run from 0 to its {count} trees")
    parameters = take_object({"gbtree_model_param": {}, **inner}, "gbtree_model_param", _MODEL)
    saved, parallel = (_count(parameters, key) for key in ("num_trees", "num_parallel_tree"))
    if saved not in {None, count}:
        raise BadInput(f"{_MODEL} has {count} trees, and its num_trees is {saved}: save it whole")
    attributes = learner.get("attributes")
    best = _count(attributes if isinstance(attributes, dict) else {}, "best_iteration")
    if best is None:
        return None
    needed = (best + 1) * (parallel or 1)
    if needed > count:
        raise BadInput(
            f"{_MODEL} has {count} trees, and its best_iteration needs {needed}: save it whole"
        )
    return needed


def _count(content: dict[str, Any], name: str) -> int | None:
    """A number that XGBoost writes as a text; None where there is none."""
    text = content.get(name)
    if text is None:
        return None
    if not (isinstance(text, str) and re.fullmatch(r"\d{1,7}", text)):
        raise BadInput(f"the {name} of the XGBoost model is {a_json(text)}, not a whole number")
    return int(text)


def _names(learner: dict[str, Any], columns: tuple[str, ...] | None) -> tuple[str, ...]:
    types = learner.get("feature_types") or []
    if isinstance(types, list) and any(kind in ("c", "i") for kind in types):
        raise BadInput(
            "the XGBoost model has categorical or indicator features, which no engine scores: "
            "encode them as numbers"
        )
    if learner.get("feature_names"):
        return tuple(take_strings(learner, "feature_names", _MODEL))
    if columns is None:
        raise BadInput("the XGBoost model has no feature names: name the columns it was trained on")
    return columns


def _base_margin(objective: Json, content: dict[str, Any], learner: dict[str, Any]) -> float:
    """What XGBoost adds to the sum of the trees for the `base_score` of its file.

    Logistic objectives state a probability; `binary:logitraw` did before XGBoost 2.
    """
    parameters = take_object(learner, "learner_model_param", _MODEL)
    for key, ones in (("num_class", {"0", "1"}), ("num_target", {"1"})):
        if str(parameters.get(key, "1")) not in ones:
            raise BadInput(
                f"the XGBoost model has {key} {a_json(parameters[key])}: train one that gives one "
                "score"
            )
    text = take(parameters, "base_score", "'learner_model_param'")
    match = re.fullmatch(rf"\[?({NUMBER})\]?", text) if isinstance(text, str) else None
    if match is None:
        raise BadInput(f"the base score of the XGBoost model is {a_json(text)}, not one number")
    base = float(match[1])
    version = take_list(content, "version", _MODEL)
    if not version or type(version[0]) is not int:
        raise BadInput(f"the version of the XGBoost model is {a_json(version)}")
    logitraw = objective == "binary:logitraw" and version[0] < 2
    if link_of(objective) == "identity" and not logitraw:
        return base
    if not 0 < base < 1:
        raise BadInput(f"the base score {base} of {objective} is not a probability")
    return math.log(base / (1 - base))


_IMPORTANCES = {"gain": "loss_changes", "cover": "sum_hessian"}


def recorded_importances(
    trees: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """`total_gain` and `total_cover` of each feature that is split on, as XGBoost counts them.

    Nothing where the file does not tell it, or tells no gain at all: it is not needed to score.
    """
    totals = {fact: np.zeros(len(names)) for fact in _IMPORTANCES}
    splits = np.zeros(len(names), dtype=np.int64)
    try:
        for tree in trees:
            inner = np.asarray(tree["left_children"]) != -1
            columns = np.asarray(tree["split_indices"])[inner]
            splits += np.bincount(columns, minlength=len(names))
            for fact, key in _IMPORTANCES.items():
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


def stale_leaves(tree: dict[str, Any]) -> int:
    """How many leaves have another output in `base_weights`, which the LTR plugin reads."""
    leaves = take_integers(tree, "left_children", "a tree") == -1
    read = to_single(take_numbers(tree, "split_conditions", "a tree"))
    try:
        looked_at = to_single(take_numbers(tree, "base_weights", "a tree"))
    except BadInput:
        looked_at = read[:0]
    # What XGBoost does not read may be absent, or anything.
    same_length = len(looked_at) == len(read)
    return int((read != looked_at)[leaves].sum()) if same_length else int(leaves.sum())
