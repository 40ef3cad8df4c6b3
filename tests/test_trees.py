"""Forests and tree models: against a walk by hand, and against liars about their shape."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from owpc_ltr.errors import BadInput
from owpc_ltr.formats.tree_builder import GrowingForest, NodeTable, below, up_to
from owpc_ltr.models.model_file import load_scoring_model, save_model
from owpc_ltr.models.trees import (
    DEEPEST,
    HIGHEST,
    LEAF,
    ROUNDS_TO_FINITE,
    Forest,
    TreeModel,
    shortest_floats,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SMALL_ENOUGH = st.floats(width=32, min_value=-(2.0**126), max_value=2.0**126)


def forest(**changes: Any) -> Forest:
    """Two trees: a < 1 ? (b < 0 ? 1 : 2) : 4, and the leaf 8."""
    arrays: dict[str, Any] = {
        "roots": [0, 5],
        "feature": [0, 1, -1, -1, -1, -1],
        "threshold": [1, 0, 0, 0, 0, 0],
        "left": [1, 3, 0, 0, 0, 0],
        "default_left": [True, False, False, False, False, False],
        "value": [0, 0, 4, 1, 2, 8],
        **changes,
    }
    types = (np.int32, np.int32, np.float32, np.int32, np.bool_, np.float64)
    return Forest(*(np.array(arrays[n], t) for n, t in zip(arrays, types, strict=True)))


def random_model(rng: np.random.Generator, trees: int = 5, width: int = 4) -> TreeModel:
    growing = GrowingForest()
    for _ in range(trees):
        size = int(rng.integers(0, 12))
        feature, left = np.full(2 * size + 1, LEAF), np.zeros(2 * size + 1, dtype=np.int64)
        leaves = [0]
        for split in range(size):
            node = leaves.pop(int(rng.integers(len(leaves))))
            feature[node], left[node] = rng.integers(width), 2 * split + 1
            leaves += [2 * split + 1, 2 * split + 2]
        n = len(feature)
        growing.add(
            NodeTable(
                feature,
                np.round(rng.normal(size=n), 1).astype(np.float32).astype(np.float64),
                left,
                left + 1,
                rng.random(n) < 0.5,
                rng.normal(size=n),
            ),
            "a random tree",
        )
    return TreeModel(tuple("abcdefgh"[:width]), growing.forest("a random forest"))


def walk(model: TreeModel, row: Any) -> float:
    """The score by the definition, one document at a time."""
    f, total = model.forest, model.base
    for root in f.roots:
        node = int(root)
        while f.feature[node] != LEAF:
            x = row[f.feature[node]]
            left = f.default_left[node] if np.isnan(x) else x < f.threshold[node]
            node = int(f.left[node]) + (not left)
        total += f.value[node]
    return float(total)


def some_rows(rng: np.random.Generator, n: int = 200, width: int = 4) -> Any:
    rows = np.round(rng.normal(size=(n, width)), 1).astype(np.float32)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


def test_scores_are_those_of_a_walk_by_hand(rng: np.random.Generator) -> None:
    for _ in range(5):
        model = replace(random_model(rng), base=0.25)
        rows = some_rows(rng)
        wanted = [walk(model, row) for row in rows]
        assert model.score(rows) == pytest.approx(wanted, rel=1e-14, abs=1e-14)
        assert model.with_base_as_tree().score(rows) == pytest.approx(wanted, rel=1e-14, abs=1e-14)


def test_single_precision_rounds_after_every_tree() -> None:
    big = forest(value=[0, 0, 1e8, 1, 2, 1.0])
    assert big.score_single(np.array([[5, 0]], np.float32))[0] == np.float32(1e8)
    assert big.score(np.array([[5, 0]], np.float32))[0] == 1e8 + 1


def test_missing_as_zero_scores_as_zeros_do(rng: np.random.Generator) -> None:
    model, rows = random_model(rng), some_rows(rng)
    zeros = np.nan_to_num(rows, nan=0.0)
    as_zero = model.with_missing_as_zero()
    assert (as_zero.score(rows) == model.score(zeros)).all()
    assert (as_zero.score(zeros) == model.score(zeros)).all()


def test_a_model_file_gives_back_the_model(rng: np.random.Generator, tmp_path: Path) -> None:
    model = replace(random_model(rng), base=0.1, link="logistic", record={"seed": 1})
    save_model(model, tmp_path / "m.json")
    again = load_scoring_model(tmp_path / "m.json")
    assert isinstance(again, TreeModel)
    assert again.as_dict() == model.as_dict()
    assert again.record == model.record
    rows = some_rows(rng)
    assert (again.score(rows) == model.score(rows)).all()


@given(FLOATS, FLOATS)
def test_below_decides_as_up_to_and_including(value: float, threshold: float) -> None:
    v, t = np.float32(value), np.float64(threshold)
    if v < np.finfo(np.float32).max:
        assert (v <= t) == (v < below(np.array([t]))[0])


@given(FLOATS, st.floats(allow_nan=False, allow_infinity=False))
def test_below_decides_so_for_thresholds_in_float64(value: float, threshold: float) -> None:
    v = np.float32(value)
    if abs(v) < np.finfo(np.float32).max:
        assert (float(v) <= threshold) == bool(v < below(np.array([threshold]))[0])


@given(SMALL_ENOUGH, SMALL_ENOUGH)
def test_up_to_decides_as_below(value: float, threshold: float) -> None:
    v, t = np.float32(value), np.float32(threshold)
    assert (v < t) == (v <= up_to(np.array([t]))[0])


@given(FLOATS)
@example(999999986991104.0)
def test_shortest_floats_read_back_as_the_same_float32(value: float) -> None:
    written = shortest_floats(np.array([value], np.float32))[0]
    assert np.float32(written) == np.float32(value)
    assert digits(written) <= digits(float(np.float32(value)))


def digits(number: float) -> int:
    """How many digits it is written with, but for zeros at its end."""
    return len(Decimal(repr(number)).normalize().as_tuple().digits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0, 3, 0, 0, 0, 0]}, "children out of place"),
        ({"left": [1, 1, 0, 0, 0, 0]}, "children out of place"),
        ({"left": [1, 2, 0, 0, 0, 0]}, "parents, not one"),
        ({"left": [1, 4, 0, 0, 0, 0]}, "parents, not one"),
        ({"left": [1, 5, 0, 0, 0, 0]}, "children out of place"),
        ({"left": [1, 2**30, 0, 0, 0, 0]}, "children out of place"),
        ({"left": [1, 3, 0, 0, 0]}, "different lengths"),
        ({"roots": []}, "do not ascend from node 0"),
        ({"roots": [0, 0]}, "do not ascend from node 0"),
        ({"roots": [0, 6]}, "beyond the forest's 6 nodes"),
        ({"roots": [0]}, "node 5 has 0 parents"),
        ({"roots": [0, 1]}, "parents, not one"),
        ({"threshold": [np.inf, 0, 0, 0, 0, 0]}, "threshold of node 0"),
        ({"threshold": [np.nan, 0, 0, 0, 0, 0]}, "threshold of node 0"),
        ({"value": [0, 0, 0, 0, 0, 1e39]}, "output of node 5"),
        ({"feature": [0, -2, -1, -1, -1, -1]}, "feature number -2"),
    ],
)
def test_a_forest_that_is_none_is_refused(changes: dict[str, Any], message: str) -> None:
    forest()
    with pytest.raises(BadInput, match=message):
        forest(**changes)


def test_a_tree_that_shares_nodes_with_another_is_refused() -> None:
    size = 4
    none = [0] * size
    with pytest.raises(BadInput, match="child in another tree"):
        forest(
            roots=[0, 1],
            feature=[0, -1, -1, -1],
            left=[2, 0, 0, 0],
            threshold=none,
            default_left=none,
            value=none,
        )


def test_a_chain_is_taken_up_to_the_depth_limit() -> None:
    def chain(depth: int) -> None:
        nodes = np.arange(2 * depth + 1)
        split = (nodes % 2 == 0) & (nodes < 2 * depth)
        left = np.where(split, nodes + 1, 0)
        none = np.zeros(len(nodes))
        table = NodeTable(np.where(split, 0, LEAF), none, left, left + 1, none > 0, none)
        GrowingForest().add(table, "the chain")

    chain(DEEPEST)
    with pytest.raises(BadInput, match="deeper than 64"):
        chain(DEEPEST + 1)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([1, 0, -1], [2, 2, -1], "two parents, or is its own ancestor"),
        ([1, -1, -1], [1, -1, -1], "two parents"),
        ([1, -1, -1], [3, -1, -1], "node 3 is not among its 3 nodes"),
        ([-5, -1, -1], [1, -1, -1], "node -5 is not among"),
        ([0, -1, -1], [1, -1, -1], "its own ancestor"),
    ],
)
def test_a_table_that_is_no_tree_is_refused(left: Any, right: Any, message: str) -> None:
    columns = np.array(left), np.array(right)
    feature = np.where(columns[0] == -1, LEAF, 0)
    none = np.zeros(3)
    with pytest.raises(BadInput, match=message):
        GrowingForest().add(NodeTable(feature, none, *columns, none > 0, none), "it")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("left", [1, 3, 0, 0, 0, 0.5]),
        ("left", [1, 3, 0, 0, 0, 2**40]),
        ("left", "ab"),
        ("default_left", [1, 0, 2, 0, 0, 0]),
        ("value", [0, 0, 4, 1, 2, "8"]),
        ("threshold", [1, True, 0, 0, 0, 0]),
        ("value", [0, 0, 4, 1, 2, 10**400]),
        ("base", "x"),
        ("base", 1e300),
        ("link", "log"),
        ("feature", [0, 2, -1, -1, -1, -1]),
    ],
)
def test_a_damaged_model_is_refused(key: str, value: object) -> None:
    content = TreeModel(("a", "b"), forest()).as_dict()
    TreeModel.from_dict(content, ("a", "b"), {})
    with pytest.raises(BadInput):
        TreeModel.from_dict({**content, key: value}, ("a", "b"), {})


def test_a_matrix_of_another_width_is_refused() -> None:
    with pytest.raises(BadInput, match="scores 2 features, the data has 3"):
        TreeModel(("a", "b"), forest()).score(np.zeros((1, 3), np.float32))


def test_numbers_are_read_up_to_what_rounds_to_a_finite_float32() -> None:
    assert np.float32(ROUNDS_TO_FINITE) == np.float32(HIGHEST)
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(np.nextafter(ROUNDS_TO_FINITE, np.inf)))
