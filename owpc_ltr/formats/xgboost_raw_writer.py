"""`model/xgboost+json+raw` written: a model as the file that XGBoost itself would load."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.formats.columns import positions
from owpc_ltr.formats.engine_versions import XGBOOST_RAW, ServingProfile
from owpc_ltr.formats.missing_values import needs_zero_flag
from owpc_ltr.formats.objectives import objective_for
from owpc_ltr.models.trees import TreeModel, shortest_floats


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
