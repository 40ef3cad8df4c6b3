"""The model for Elasticsearch's own learning to rank, and eland's of the same model: one content.

OWPC_LTR_TEST_ELAND names a Python that has eland, xgboost, lightgbm and scikit-learn; eland asks
for other versions of what this project uses, and so has an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_exports.elastic import to_elastic
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from owpc_ltr import import_model
from owpc_ltr.formats.other_trees import from_sklearn
from owpc_ltr.models.trees import TreeModel
from tests.foreign_models import NAMES, data

SCRIPT = Path(__file__).with_name("eland_models.py")
LIBRARIES = ("xgboost", "lightgbm", "tree", "forest")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of eland's environment, and what eland made of them."""
    python = os.environ.get("OWPC_LTR_TEST_ELAND")
    if not python:
        pytest.skip("no Python with eland: set OWPC_LTR_TEST_ELAND to one")
    folder = tmp_path_factory.mktemp("eland")
    rows, labels = data(np.random.default_rng(7))
    np.savez(folder / "data.npz", rows=rows, labels=labels)
    subprocess.run([python, SCRIPT, folder], check=True, capture_output=True)
    return folder


def ours(name: str, folder: Path) -> TreeModel:
    """The same model: read from the library's file, or fitted again by the same random state."""
    if name == "xgboost":
        made = import_model(folder / "xgboost.json", feature_names=NAMES)
    elif name == "lightgbm":
        (folder / "lightgbm.txt").write_bytes((folder / "lightgbm.json").read_bytes())
        made = import_model(folder / "lightgbm.txt")
    else:
        rows, labels = np.load(folder / "data.npz")["rows"], np.load(folder / "data.npz")["labels"]
        filled = np.nan_to_num(rows)
        kinds = {
            "tree": DecisionTreeRegressor(max_depth=4, random_state=1),
            "forest": RandomForestRegressor(5, max_depth=3, random_state=1, n_jobs=1),
        }
        made = from_sklearn(kinds[name].fit(filled, labels), NAMES, missing="as-trained")
    assert isinstance(made, TreeModel)
    return made


@pytest.mark.parametrize("name", LIBRARIES)
def test_elands_and_ours_are_the_same_by_content(name: str, folder: Path) -> None:
    eland = content(json.loads((folder / f"{name}.eland.json").read_text()))
    mine = content(to_elastic(ours(name, folder), NAMES)["trained_model"])
    assert len(mine) == len(eland) > 0
    for my_tree, their_tree in zip(mine, eland, strict=True):
        assert [node[0] for node in my_tree] == [node[0] for node in their_tree]
        # LightGBM's split around zero is at ±1e-35, which no feature tells from 0.
        sides = [np.array([node[1] for node in tree]) for tree in (my_tree, their_tree)]
        assert sides[0] == pytest.approx(sides[1], rel=0, abs=1e-30)
        leaves = [np.array([node[3] for node in tree]) for tree in (my_tree, their_tree)]
        assert leaves[0] == pytest.approx(leaves[1], abs=1e-6)
        for mine_way, their_way in zip(my_tree, their_tree, strict=True):
            # eland leaves it out for models that were fitted without missing values.
            assert their_way[2] in {None, mine_way[2]}


Tree = list[tuple[int, float, bool | None, float]]
"""From the root down, left before right: feature, the least float32 to the right, way, leaf."""


def content(trained: dict[str, Any]) -> list[Tree]:
    """What a trained model means, whatever its comparisons and the numbers of its nodes."""
    if "tree" in trained:
        return [list(_walk(trained["tree"]["tree_structure"], 0, 1.0))]
    ensemble = trained["ensemble"]
    parts = ensemble["trained_models"]
    given = ensemble.get("aggregate_output", {}).get("weighted_sum", {}).get("weights")
    weights = given or [1.0] * len(parts)
    trees = [
        list(_walk(part["tree"]["tree_structure"], 0, weight))
        for part, weight in zip(parts, weights, strict=True)
    ]
    # eland adds XGBoost's base score as a tree of one leaf, also where it is nothing.
    return [tree for tree in trees if [node[0] for node in tree] != [-1] or tree[0][3] != 0]


def _walk(nodes: list[dict[str, Any]], at: int, weight: float) -> Iterator[Any]:
    (node,) = (node for node in nodes if node["node_index"] == at)
    if "left_child" not in node:
        yield -1, 0.0, None, weight * node["leaf_value"]
        return
    yield node["split_feature"], _least_right(node), node.get("default_left"), 0.0
    yield from _walk(nodes, node["left_child"], weight)
    yield from _walk(nodes, node["right_child"], weight)


def _least_right(node: dict[str, Any]) -> float:
    """The least float32 that goes right, as features are float32."""
    threshold = node["threshold"]
    near = np.float32(threshold)
    if node["decision_type"] == "lt":
        # XGBoost's are float32 themselves, which eland writes in nine digits.
        return float(near) + 0.0
    assert node["decision_type"] == "lte"
    right = near if float(near) > threshold else np.nextafter(near, np.float32(np.inf))
    return float(right) + 0.0
