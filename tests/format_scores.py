"""Scores by the definitions of Solr's and Elasticsearch's model files, computed anew."""

from __future__ import annotations

from typing import Any

import numpy as np


def solr_score(definition: dict[str, Any], row: dict[str, float]) -> float:
    """Solr's rule: missing is 0, left up to and including the threshold plus its slack."""

    def walk(node: dict[str, Any]) -> np.float32:
        if "value" in node:
            return np.float32(node["value"])
        bound = np.float32(node["threshold"]) + np.float32(1e-6)
        x = np.float32(np.nan_to_num(row[node["feature"]]))
        return walk(node["left"] if x <= bound else node["right"])

    return float(sum(float(t["weight"]) * walk(t["root"]) for t in definition["params"]["trees"]))


def elastic_score(definition: dict[str, Any], row: Any) -> float:
    """Elasticsearch's rule: in float64, a missing value by default_left."""
    total = 0.0
    for part in definition["trained_model"]["ensemble"]["trained_models"]:
        nodes = {node["node_index"]: node for node in part["tree"]["tree_structure"]}
        node = nodes[0]
        while "leaf_value" not in node:
            x = float(row[node["split_feature"]])
            left = node["default_left"] if np.isnan(x) else x < node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        total += node["leaf_value"]
    return total
