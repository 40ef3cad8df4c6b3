"""XGBoost's models in JSON, read and written: dumps (`get_dump`) and files (`save_model`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import (
    a_json,
    shown,
    take,
    take_integers,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.formats.engine_versions import (
    XGBOOST,
    XGBOOST_RAW,
    ServingProfile,
    base_margin,
    link_of,
    needs_zero_flag,
    objective_for,
    positions,
)
from owpc_ltr.formats.tree_builder import (
    GrowingForest,
    Node,
    NodeTable,
    node_table,
    with_missing_flag,
)
from owpc_ltr.models.trees import (
    DEEPEST,
    LARGEST,
    LEAF,
    ROUNDS_TO_FINITE,
    Forest,
    TreeModel,
    shortest_floats,
    to_single,
    written_trees,
)

_MODEL = "the XGBoost model"
_SPLIT = ("depth", "split", "split_condition", "yes", "no", "children")
_NODE = frozenset({"nodeid", "leaf", "missing", *_SPLIT})


def from_dump(
    definition: Any,
    feature_names: tuple[str, ...],
    *,
    statistics: bool = True,
    needs_missing: bool = False,
) -> TreeModel:
    """The model of a dump: a list of trees, or an object with `splits` and `objective`.

    A dump has no base score. `statistics` allows the gain and cover of a dump made `with_stats`,
    which the LTR plugin refuses; `needs_missing` refuses a split that does not say where missing
    values go (to the right). Raises BadInput.
    """
    content = {"splits": definition} if isinstance(definition, list) else definition
    if not isinstance(content, dict):
        raise BadInput(f"an XGBoost dump is a list or an object, not {a_json(content)}")
    unknown = sorted(set(content) - {"objective", "splits", "missing_as_zero"})
    if unknown:
        raise BadInput(f"the XGBoost dump has an unknown field '{shown(unknown[0])}'")
    link = link_of(content.get("objective", "rank:pairwise"))
    trees = content.get("splits")
    if not isinstance(trees, list) or not trees:
        raise BadInput("the XGBoost dump has no trees under 'splits'")
    columns = {name: column for column, name in enumerate(feature_names)}
    allowed = _NODE | {"gain", "cover"} if statistics else _NODE
    needed = (*_SPLIT, "missing") if needs_missing else _SPLIT
    growing = GrowingForest()
    for number, tree in enumerate(trees):
        where = f"tree {number} of the XGBoost dump"
        growing.add(_read_dump_tree(tree, columns, allowed, needed, where), where)
    model = TreeModel(feature_names, growing.forest("the XGBoost dump"), link=link)
    return with_missing_flag(model, content)


def _read_dump_tree(
    root: Any, columns: dict[str, int], allowed: Set[str], needed: tuple[str, ...], where: str
) -> NodeTable:
    """Unroll one nested tree, level by level."""
    rows: list[Node] = []
    level, size = [root], 1
    for _ in range(DEEPEST + 1):
        following: list[Any] = []
        for node in level:
            if not isinstance(node, dict):
                raise BadInput(f"{where} has {a_json(node)} where a node should be")
            unknown = sorted(set(node) - allowed)
            if unknown:
                raise BadInput(f"{where} has a node with an unknown field '{shown(unknown[0])}'")
            if type(node.get("nodeid")) is not int:
                raise BadInput(f"{where} has a node without 'nodeid'")
            if "leaf" in node:
                output = np.float32(_number(node, "leaf", where))
                rows.append((LEAF, 0.0, 0, 0, False, float(output)))
                continue
            left_missing = _check_split(node, needed, where)
            name = node["split"]
            if name not in columns:
                raise BadInput(f"{where} splits on an unknown feature '{shown(name)}'")
            threshold = _number(node, "split_condition", where)
            left = size + len(following)
            rows.append((columns[name], threshold, left, left + 1, left_missing, 0.0))
            following += node["children"]
        if not following:
            return node_table(rows)
        size += len(following)
        if size > LARGEST:
            raise BadInput(f"{where} has more than {LARGEST} nodes")
        level = following
    raise BadInput(f"{where} is deeper than {DEEPEST} splits")


def _check_split(node: dict[str, Any], needed: tuple[str, ...], where: str) -> bool:
    """Whether missing values go left. Raises BadInput where the plugin would refuse the split."""
    place = f"{where}, node {node['nodeid']}"
    if isinstance(node.get("split_condition"), list):
        raise BadInput(f"{place} is a categorical split, which no engine scores: encode as numbers")
    absent = [key for key in needed if key not in node]
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
    definition: dict[str, Any] = {"objective": objective_for(model.link, XGBOOST, profile)}
    positions(model.feature_names, featureset_names)
    if needs_zero_flag(model, XGBOOST, profile, never_missing):
        definition["missing_as_zero"] = True
    definition["splits"] = _dump_trees(model.with_base_as_tree())
    return definition


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


def from_raw(
    content: Any, feature_names: tuple[str, ...] | None = None, *, slice_best: bool = True
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
    weights = None
    if booster.get("name") == "dart":
        weights = to_single(take_numbers(booster, "weight_drop", "the dart booster"))
        booster = take_object(booster, "gbtree", "the dart booster")
    elif booster.get("name") != "gbtree":
        raise BadInput(
            f"the booster is {a_json(booster.get('name'))}: only gbtree and dart are sums of trees"
        )
    inner = take_object(booster, "model", _MODEL)
    best = _best_trees(learner, inner)
    keep = best if slice_best else None
    growing = read_trees(inner, "split_conditions", weights, keep)
    objective = take(take_object(learner, "objective", _MODEL), "name", "objective")
    version = take_list(content, "version", _MODEL)
    if not version or type(version[0]) is not int:
        raise BadInput(f"the version of the XGBoost model is {a_json(version)}")
    base = base_margin(objective, _base_score(learner), version[0])
    model = TreeModel(names, growing.forest(_MODEL), base, link_of(objective))
    importances = recorded_importances(inner["trees"][:keep], names)
    if importances:
        model = replace(model, record={"importances": importances})
    return with_missing_flag(model, content)


def read_trees(
    inner: dict[str, Any],
    outputs: Literal["split_conditions", "base_weights"],
    weights: NDArray[np.float32] | None = None,
    keep: int | None = None,
) -> GrowingForest:
    """The trees of a `gradient_booster.model`, the first `keep` of them.

    `outputs` names the leaves' outputs: XGBoost reads the former, the LTR plugin the latter.
    """
    trees = take_list(inner, "trees", _MODEL)
    _check_rounds(inner, len(trees))
    if weights is not None and len(weights) != len(trees):
        raise BadInput(f"the dart booster has {len(trees)} trees and {len(weights)} weights")
    growing = GrowingForest()
    for number, tree in enumerate(trees[:keep]):
        where = f"tree {number} of the XGBoost model"
        if isinstance(tree, dict) and tree.get("id", number) != number:
            raise BadInput(f"{where} says that it is tree {a_json(tree['id'])}")
        weight = 1.0 if weights is None else float(weights[number])
        growing.add(_read_raw_tree(tree, outputs, weight, where), where)
    return growing


def _read_raw_tree(tree: Any, outputs: str, weight: float, where: str) -> NodeTable:
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
    if "parents" in tree:
        parents = take_integers(tree, "parents", where)
        if len(parents) != len(left):
            raise BadInput(f"{where} has {len(left)} nodes and {len(parents)} parents")
        splits = np.flatnonzero(~leaf)
        for children in (left[splits], right[splits]):
            inside = (children >= 0) & (children < len(left))
            wrong = splits[inside][parents[children[inside]] != splits[inside]]
            if len(wrong):
                raise BadInput(f"{where}: a child of node {wrong[0]} names another parent")
    feature = np.where(leaf, LEAF, feature)
    return NodeTable(
        feature, threshold, left, right, default_left=default_left == 1, value=value * weight
    )


def _check_rounds(inner: dict[str, Any], count: int) -> None:
    """Refuse a model that contradicts itself: XGBoost itself would read beyond its arrays."""
    if "tree_info" in inner:
        groups = take_integers(inner, "tree_info", _MODEL)
        if groups.any():
            raise BadInput(f"{_MODEL} has several outputs: train one that gives one score")
        if len(groups) != count:
            raise BadInput(f"{_MODEL} has {count} trees and {len(groups)} of 'tree_info'")
    if "iteration_indptr" in inner:
        starts = take_integers(inner, "iteration_indptr", _MODEL)
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
            raise BadInput(f"the rounds of {_MODEL} do not run from 0 to its {count} trees")
    saved = _parameter(inner, "num_trees")
    if saved not in {None, count}:
        raise BadInput(f"{_MODEL} has {count} trees, and its num_trees is {saved}: save it whole")


def _names(learner: dict[str, Any], columns: tuple[str, ...] | None) -> tuple[str, ...]:
    names: Sequence[str] = ()
    if learner.get("feature_names"):
        names = take_strings(learner, "feature_names", _MODEL)
    types = learner.get("feature_types") or []
    if isinstance(types, list) and any(kind in ("c", "i") for kind in types):
        raise BadInput(
            "the XGBoost model has categorical or indicator features, which no engine scores: "
            "encode them as numbers"
        )
    if names:
        return tuple(names)
    if columns is None:
        raise BadInput("the XGBoost model has no feature names: name the columns it was trained on")
    return columns


def _base_score(learner: dict[str, Any]) -> float:
    parameters = take_object(learner, "learner_model_param", _MODEL)
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


def _best_trees(learner: dict[str, Any], inner: dict[str, Any]) -> int | None:
    """How many trees there are up to the best iteration; None without early stopping."""
    count = len(take_list(inner, "trees", _MODEL))
    attributes = learner.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    best, limit = (_count(attributes, name) for name in ("best_iteration", "best_ntree_limit"))
    if best is not None:
        best = (best + 1) * (_parameter(inner, "num_parallel_tree") or 1)
    for name, trees in (("best_iteration", best), ("best_ntree_limit", limit)):
        if trees is not None and trees > count:
            raise BadInput(
                f"the XGBoost model has {count} trees, and its {name} needs {trees}: save it whole"
            )
    return best


def _parameter(inner: dict[str, Any], name: str) -> int | None:
    content = {"gbtree_model_param": {}, **inner}
    return _count(take_object(content, "gbtree_model_param", _MODEL), name)


def _count(content: dict[str, Any], name: str) -> int | None:
    """A number that XGBoost writes as a text; None where there is none."""
    text = content.get(name)
    if text is None:
        return None
    if not (isinstance(text, str) and re.fullmatch(r"\d{1,7}", text)):
        raise BadInput(f"the {name} of the XGBoost model is {a_json(text)}, not a whole number")
    return int(text)


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
    objective, width = objective_for(model.link, XGBOOST_RAW, profile), len(featureset_names)
    columns = np.array(positions(model.feature_names, featureset_names), dtype=np.int64)
    zero_flag = needs_zero_flag(model, XGBOOST_RAW, profile, never_missing)
    forest = model.with_base_as_tree().forest
    trees = [
        _raw_tree(forest, nodes, number, columns, width)
        for number, nodes in enumerate(forest.tree_nodes())
    ]
    count = len(trees)
    definition: dict[str, Any] = {
        "learner": {
            "attributes": {},
            "feature_names": list(featureset_names),
            "feature_types": ["float"] * width,
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
                "num_feature": str(width),
                "num_target": "1",
            },
            "objective": {"name": objective},
        },
        "version": [2, 1, 0],
    }
    if zero_flag:
        definition["missing_as_zero"] = True
    return definition


def _raw_tree(
    forest: Forest, nodes: range, number: int, columns: NDArray[np.int64], n_features: int
) -> dict[str, Any]:
    part = slice(nodes.start, nodes.stop)
    leaf = forest.is_leaf[part]
    left = np.where(leaf, -1, forest.left[part] - nodes.start)
    right = np.where(leaf, -1, left + 1)
    parents = np.full(len(nodes), 2**31 - 1)
    split = np.flatnonzero(~leaf)
    parents[left[split]] = parents[right[split]] = split
    outputs = np.where(leaf, forest.value[part], 0.0).astype(np.float32)
    conditions = np.where(leaf, outputs, forest.threshold[part])
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
        "split_type": [0] * len(nodes),
        "sum_hessian": [1.0] * len(nodes),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(nodes)),
            "size_leaf_vector": "1",
        },
    }
