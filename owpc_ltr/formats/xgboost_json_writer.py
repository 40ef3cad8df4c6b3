"""`model/xgboost+json` written: a model as the nested trees that the LTR plugin reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from owpc_ltr.formats.columns import positions
from owpc_ltr.formats.engine_versions import XGBOOST, ServingProfile
from owpc_ltr.formats.missing_values import needs_zero_flag
from owpc_ltr.formats.objectives import objective_for
from owpc_ltr.models.trees import TreeModel, shortest_floats


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
    left = forest.left.tolist()
    default_left = forest.default_left.tolist()
    leaves = forest.is_leaf.tolist()
    trees = []
    for nodes in forest.tree_nodes():
        made: dict[int, dict[str, Any]] = {}
        depth = _depths(nodes, left, leaves)
        for node in reversed(nodes):
            number = node - nodes.start
            if leaves[node]:
                made[node] = {"nodeid": number, "leaf": values[node]}
                continue
            yes = left[node] - nodes.start
            made[node] = {
                "nodeid": number,
                "depth": depth[number],
                "split": names[node],
                "split_condition": thresholds[node],
                "yes": yes,
                "no": yes + 1,
                "missing": yes if default_left[node] else yes + 1,
                "children": [made.pop(left[node]), made.pop(left[node] + 1)],
            }
        trees.append(made[nodes.start])
    return trees


def _depths(nodes: range, left: list[int], leaves: list[bool]) -> list[int]:
    depth = [0] * len(nodes)
    for node in nodes:
        if not leaves[node]:
            child = left[node] - nodes.start
            depth[child] = depth[child + 1] = depth[node - nodes.start] + 1
    return depth
