"""Ensembles of trees as Elasticsearch's own learning to rank keeps them (`_ml/trained_models`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import (
    a_json,
    take,
    take_integers,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.formats.stored_model import positions
from owpc_ltr.formats.tree_builder import GrowingForest, Node, below, leaf, node_table
from owpc_ltr.models.trees import TreeModel, to_single

WEIGHTED_SUM = "weighted_sum"


def from_elastic(content: dict[str, Any]) -> TreeModel:
    """The model of a body of PUT _ml/trained_models, or of what GET with its definition answers."""
    where = "the Elasticsearch model"
    configurations = content.get("trained_model_configs")
    if isinstance(configurations, list) and len(configurations) == 1:
        (content,) = configurations
    if "definition" not in content:
        raise BadInput(
            f"{where} has no 'definition': fetch it with GET _ml/trained_models/NAME?"
            "include=definition&decompress_definition=true"
        )
    definition = take_object(content, "definition", where)
    return read_ensemble(take_object(definition, "trained_model", where))


def read_ensemble(trained: dict[str, Any], feature_names: Sequence[str] | None = None) -> TreeModel:
    """The model that an ensemble of trees is, of its own features or of the columns so called.

    Raises BadInput for any other trained model.
    """
    where = "the ensemble"
    ensemble = take_object(trained, "ensemble", "the trained model")
    aggregation = take_object(ensemble, "aggregate_output", where)
    output = "".join(aggregation)
    if output != WEIGHTED_SUM:
        raise BadInput(
            f"{where} aggregates by {shown(output)}, not {WEIGHTED_SUM}: it ranks nothing"
        )
    names = take_strings(ensemble, "feature_names", where)
    feature_names = feature_names or names
    columns = positions(names, feature_names)
    growing = GrowingForest()
    parts = take_list(ensemble, "trained_models", where)
    weights = take_numbers({"weights": [1] * len(parts), **aggregation[output]}, "weights", where)
    if len(weights) != len(parts):
        raise BadInput(f"{where} has {len(parts)} trees and {len(weights)} weights")
    for part, weight in zip(parts, weights.tolist(), strict=True):
        tree = take_object(part, "tree", where)
        if take_strings(tree, "feature_names", where) != names:
            raise BadInput(f"a tree of {where} has other features than it")
        nodes = take_list(tree, "tree_structure", where)
        table = node_table([_read_node(node, columns) for node in nodes])
        growing.add(replace(table, value=table.value * weight), where)
    return TreeModel(tuple(feature_names), growing.forest(where))


def rounded_up(threshold: Vector) -> Vector:
    """Float32 numbers t' such that, for every float32 v, v < threshold exactly where v < t'."""
    rounded = to_single(threshold)
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(rounded, np.float32(np.inf))
    return np.where(rounded < threshold, above, rounded).astype(np.float64)


def _read_node(node: Any, columns: list[int]) -> Node:
    where = "a node of the ensemble"
    if isinstance(node, dict) and "leaf_value" in node:
        output = node["leaf_value"]
        output = output if isinstance(output, list) else [output]
        if len(output) != 1:
            raise BadInput(f"{where} has {len(output)} outputs, not one")
        return leaf(take_numbers({"leaf_value": output}, "leaf_value", where).item())
    decision = take(node, "decision_type", where)
    if decision not in ("lt", "lte"):
        raise BadInput(f"{where} decides by {a_json(decision)}, not lt or lte")
    split, left, right, default = (
        take(node, key, where)
        for key in ("split_feature", "left_child", "right_child", "default_left")
    )
    threshold = take_numbers({"threshold": [take(node, "threshold", where)]}, "threshold", where)
    whole = take_integers({"split": [split, left, right]}, "split", where).tolist()
    if not 0 <= whole[0] < len(columns) or type(default) is not bool:
        raise BadInput(f"{where} is not a split: {a_json(node)}")
    # Float32 values are below a float64 threshold where they are below the next float32 upwards.
    bound = (rounded_up if decision == "lt" else below)(threshold).item()
    return columns[whole[0]], bound, whole[1], whole[2], default, 0.0
