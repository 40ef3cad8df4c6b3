"""`model/xgboost+json`: XGBoost's JSON dump, as `Booster.get_dump` writes it, read and written."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import a_json, shown
from owpc_ltr.formats.engine_versions import (
    XGBOOST,
    ServingProfile,
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
    written_trees,
)

_SPLIT = ("depth", "split", "split_condition", "yes", "no", "children")
_NODE = frozenset({"nodeid", "leaf", "missing", *_SPLIT})
_STATISTICS = frozenset({"gain", "cover"})


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
    allowed = _NODE | _STATISTICS if statistics else _NODE
    needed = (*_SPLIT, "missing") if needs_missing else _SPLIT
    growing = GrowingForest()
    for number, tree in enumerate(trees):
        where = f"tree {number} of the XGBoost dump"
        growing.add(_read_tree(tree, columns, allowed, needed, where), where)
    model = TreeModel(feature_names, growing.forest("the XGBoost dump"), link=link)
    return with_missing_flag(model, content)


def _read_tree(
    root: Any,
    columns: dict[str, int],
    allowed: Set[str],
    needed: tuple[str, ...],
    where: str,
) -> NodeTable:
    """Unroll one nested tree, level by level."""
    rows: list[Node] = []
    level, size = [root], 1
    for _ in range(DEEPEST + 1):
        following: list[Any] = []
        for node in level:
            _check_node(node, allowed, where)
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


def _check_node(node: Any, allowed: Set[str], where: str) -> None:
    if not isinstance(node, dict):
        raise BadInput(f"{where} has {a_json(node)} where a node should be")
    unknown = sorted(set(node) - allowed)
    if unknown:
        raise BadInput(f"{where} has a node with an unknown field '{shown(unknown[0])}'")
    if type(node.get("nodeid")) is not int:
        raise BadInput(f"{where} has a node without 'nodeid'")


def _check_split(node: dict[str, Any], needed: tuple[str, ...], where: str) -> bool:
    """Whether missing values go left. Raises BadInput where the plugin would refuse the split."""
    here = f"{where}, node {node['nodeid']}"
    if isinstance(node.get("split_condition"), list):
        raise BadInput(f"{here} is a categorical split, which no engine scores: encode as numbers")
    absent = [key for key in needed if key not in node]
    if absent:
        raise BadInput(f"{here} is a split without '{absent[0]}'")
    if not isinstance(node["split"], str):
        raise BadInput(f"{here} splits on {a_json(node['split'])}, not on a feature's name")
    children, yes, no = node["children"], node["yes"], node["no"]
    if not isinstance(children, list) or len(children) != 2:
        raise BadInput(f"{here} has not two children")
    ids = [child.get("nodeid") if isinstance(child, dict) else None for child in children]
    if any(type(number) is not int for number in (node["depth"], yes, no)) or ids != [yes, no]:
        raise BadInput(f"{here}: 'yes' and 'no' do not name its first and second child")
    missing = node.get("missing", no)
    if type(missing) is not int or missing not in (yes, no):
        raise BadInput(f"{here}: 'missing' names neither child")
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
    definition["splits"] = _written_trees(model.with_base_as_tree())
    return definition


def _written_trees(model: TreeModel) -> list[dict[str, Any]]:
    forest = model.forest
    values = shortest_floats(forest.value.astype(np.float32))
    thresholds = shortest_floats(forest.threshold)
    names = [model.feature_names[column] for column in forest.feature]  # a leaf's is not read
    left, default_left = forest.left.tolist(), forest.default_left.tolist()
    first, depth = forest.roots[forest.tree_of_node].tolist(), _depths(forest)

    def leaf(node: int) -> dict[str, Any]:
        return {"nodeid": node - first[node], "leaf": values[node]}

    def split(node: int, low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
        yes = left[node] - first[node]
        return {
            "nodeid": node - first[node],
            "depth": depth[node],
            "split": names[node],
            "split_condition": thresholds[node],
            "yes": yes,
            "no": yes + 1,
            "missing": yes if default_left[node] else yes + 1,
            "children": [low, high],
        }

    return written_trees(forest, leaf, split)


def _depths(forest: Forest) -> list[int]:
    """How many splits are above each node: children follow their parent."""
    depth = [0] * len(forest.feature)
    for node in np.flatnonzero(~forest.is_leaf).tolist():
        child = int(forest.left[node])
        depth[child] = depth[child + 1] = depth[node] + 1
    return depth
