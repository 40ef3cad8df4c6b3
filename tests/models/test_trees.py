"""Forests: against a walk by hand, from malformed files, and as tables of blocks."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from owpc_ltr import save_model
from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.plugin_free import (
    LARGEST_VALUE,
    PluginFreeTrees,
    digits_of,
    numbers_of,
    plugin_free_model,
    plugin_free_trees,
    score_shift,
    store_plugin_free,
)
from owpc_ltr.formats.ranklib import up_to
from owpc_ltr.formats.tree_builder import GrowingForest, NodeTable, below
from owpc_ltr.models.analysis import LOWEST_RESCORED
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.models.trees import (
    DEEPEST,
    HIGHEST,
    LEAF,
    LINKS,
    MOST_CODES,
    ROUNDS_TO_FINITE,
    BinTable,
    Forest,
    TreeModel,
    blocks_of,
    shortest_floats,
    tables_of,
)
from tests.small_models import random_forest

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
        rows[0], rows[1] = np.inf, -np.inf
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


@given(FLOATS, FLOATS | st.floats(allow_nan=False, allow_infinity=False))
def test_below_decides_as_up_to_and_including(value: float, threshold: float) -> None:
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


SHARED = {
    "roots": [0, 1],
    "feature": [0, -1, -1, -1],
    "left": [2, 0, 0, 0],
    **dict.fromkeys(("threshold", "default_left", "value"), [0] * 4),
}


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
        (SHARED, "child in another tree"),
        ({"threshold": [np.inf, 0, 0, 0, 0, 0]}, "threshold of node 0"),
        ({"threshold": [np.nan, 0, 0, 0, 0, 0]}, "threshold of node 0"),
        ({"value": [0, 0, 0, 0, 0, 1e39]}, "output of node 5"),
        ({"feature": [0, -2, -1, -1, -1, -1]}, "feature number -2"),
    ],
)
def test_a_forest_that_is_none_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        forest(**changes)


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


def test_numbers_are_read_up_to_what_rounds_to_a_finite_float32() -> None:
    assert np.float32(ROUNDS_TO_FINITE) == np.float32(HIGHEST)
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(np.nextafter(ROUNDS_TO_FINITE, np.inf)))


NAMES = tuple("abcdefg")
FEATURES = FeatureSet(
    "letters", tuple(Feature(name, ("k",), {"match": {name: "{{k}}"}}) for name in NAMES)
)
SEEDS = st.integers(0, 2**32 - 1)


def documents(rng: np.random.Generator, count: int = 60) -> Matrix:
    """Values that meet again, of many sizes, with gaps, zeros of both signs and infinities."""
    scale = 10.0 ** rng.integers(-6, 7, len(NAMES))
    features = (np.round(rng.normal(size=(count, len(NAMES))), 1) * scale).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    features[0], features[1], features[2], features[3] = np.nan, 0.0, np.inf, -np.inf
    features[4] = np.float32(-0.0)
    return features


def drawn(seed: int, **how: int) -> tuple[Forest, Matrix]:
    rng = np.random.default_rng(seed)
    features = documents(rng)
    finite = np.where(np.isfinite(features), features, np.nan)
    return random_forest(rng, finite, how.pop("trees", int(rng.integers(1, 40))), **how), features


def bins_of(values: Any, thresholds: Any) -> Any:
    bins = np.searchsorted(thresholds, values, side="right") + 1
    return np.where(np.isnan(values), 0, bins)


def table_score(table: BinTable, features: Matrix) -> Any:
    columns = zip(table.columns, table.thresholds, strict=True)
    return table.values[tuple(bins_of(features[:, column], each) for column, each in columns)]


@given(SEEDS)
def test_tables_add_up_to_the_forest(seed: int) -> None:
    forest, features = drawn(seed)
    tables, constant = tables_of(forest, NAMES)
    total = constant + sum((table_score(table, features) for table in tables), np.zeros(60))
    np.testing.assert_allclose(total, forest.score(features), rtol=0, atol=1e-11)


@given(SEEDS)
def test_the_bins_of_a_block_fit_into_one_float32(seed: int) -> None:
    forest, _ = drawn(seed)
    blocks = plugin_free_trees(TreeModel(NAMES, forest), NAMES).blocks
    tables = [table for block in blocks for table in block.read_tables()]
    assert len(tables) == len(tables_of(forest, NAMES)[0])
    assert all(np.prod(block.sizes) <= MOST_CODES for block in blocks)


@example(1273331140, "logistic")
@given(SEEDS, st.sampled_from(LINKS))
def test_the_text_in_a_store_scores_as_the_model_does_plus_its_shift(seed: int, link: str) -> None:
    """A document's score is off by what is rounded on the way, and by no more.

    The value of each table is rounded to units. The sums of blocks, their total, and the score are
    rounded to float32, each by 2⁻²⁴ of its size at most. The logistic function rises by 1/4 of its
    argument at most.
    """
    forest, features = drawn(seed)
    model = TreeModel(NAMES, forest, 0.3, link)
    stored = store_plugin_free(model, FEATURES, "m")
    form = plugin_free_model(replace(stored, definition=json.loads(json.dumps(stored.definition))))
    assert isinstance(form, PluginFreeTrees)
    assert form == plugin_free_trees(model, NAMES)
    scores = form.score(NAMES, features)
    expected = model.score(features) + score_shift(stored)
    rounding, (_, tables) = 2.0**-24, form.size
    in_tables = tables * form.unit / 2
    total = forest.score(features) + model.base + form.middle + in_tables
    in_total = in_tables + total * ((1 + rounding) ** 2 - 1)
    in_sum = in_total * (1.0 if link == "identity" else 0.25)
    bound = in_sum + rounding * (expected + in_sum)
    assert (np.abs(scores - expected) <= bound).all()
    assert scores.min() >= LOWEST_RESCORED
    assert scores.max() <= form.interval.high * (1 + 1e-6)


def test_blocks_that_share_features_ask_each_of_them_once() -> None:
    rng = np.random.default_rng(3)
    features = np.round(rng.normal(size=(60, 4)), 1).astype(np.float32)
    forest = random_forest(rng, features, trees=60, depth=2, features=2)
    tables, _ = tables_of(forest, NAMES)
    asked = [len(block.columns) for block in blocks_of(tables)]
    apart = sum(len(table.columns) for table in tables)
    assert sum(asked) < apart / 2


def test_a_full_block_is_left_for_another() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(2000, 7)).astype(np.float32)
    forest = random_forest(rng, features, trees=700, depth=1, features=1)
    form = plugin_free_trees(TreeModel(NAMES, forest), NAMES)
    assert len(form.blocks) > 1
    assert max(np.prod(block.sizes) for block in form.blocks) > 2**18
    wanted = forest.score(features) + form.shift
    np.testing.assert_allclose(form.score(NAMES, features), wanted, rtol=1e-6)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1))
def test_written_thresholds_part_the_same_float32_numbers(values: list[float]) -> None:
    thresholds = np.unique(np.array(values, np.float32))
    starts = 3 * np.arange(len(thresholds), dtype=np.int32)
    first = np.zeros(3 * len(thresholds), np.int32)
    first[starts] = starts + 1
    forest = Forest(
        starts,
        np.tile(np.array([0, -1, -1], np.int32), len(thresholds)),
        np.repeat(thresholds, 3),
        first,
        np.zeros(3 * len(thresholds), bool),
        np.tile([0.0, 0.0, 1.0], len(thresholds)),
    )
    (block,) = plugin_free_trees(TreeModel(("a",), forest), ("a",)).blocks
    beside = (np.nextafter(thresholds, np.float32(end)) for end in (-np.inf, np.inf))
    near = np.concatenate([thresholds, *beside])
    written = np.array(block.thresholds[0])
    bins = np.searchsorted(written, near.astype(np.float64), side="right") + 1
    np.testing.assert_array_equal(bins, bins_of(near, thresholds))


@given(st.lists(st.integers(0, 2**24 - 1)), st.sampled_from([4, 5]))
def test_numbers_written_as_digits_are_read_again(numbers: list[int], width: int) -> None:
    text = digits_of(numbers, width)
    assert len(text) == width * len(numbers)
    assert numbers_of(text, width, "it").tolist() == numbers


@pytest.mark.parametrize("text", ["abc", "ab~d", "ab\x00d", "äbcd", 7, None])
def test_text_that_is_no_digits_is_refused(text: object) -> None:
    with pytest.raises(BadInput, match="it "):
        numbers_of(text, 4, "it")


def test_tables_that_are_too_large_are_refused_with_what_would_fit() -> None:
    many, _ = drawn(5, depth=5, features=6, trees=30)
    with pytest.raises(Refused, match=r"3 features are the most.*optimizer.depth=3"):
        tables_of(many, NAMES)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 3)).astype(np.float32)
    large = random_forest(rng, features, trees=3000, depth=2, features=2)
    with pytest.raises(Refused, match=r"values, .* for 'a' and 'b', .*optimizer.bins=64"):
        tables_of(large, NAMES)


def test_what_is_no_forest_or_splits_on_what_no_query_scores_is_refused() -> None:
    derived = Feature("b", (), "a + 1", DERIVED)
    features = tuple(derived if each.name == "b" else each for each in FEATURES.features)
    for model, featureset, message in (
        (LinearModel(NAMES, np.ones(7)), FEATURES, "kind 'linear'"),
        (TreeModel(NAMES, drawn(1)[0]), replace(FEATURES, features=features), "a derived_expr"),
    ):
        with pytest.raises(Refused, match=message):
            store_plugin_free(model, featureset, "m")


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("unit"),
        lambda d: d.update(unit=-1.0),
        lambda d: d.update(link="probit"),
        lambda d: d.update(middle="much"),
        lambda d: d["blocks"][0].pop("values"),
        lambda d: d["blocks"][0].update(thresholds=[[0.0] * 5000] * 3),
        lambda d: d.update(format=2),
        lambda d: d.update(more=1),
    ],
)
def test_a_damaged_form_in_a_store_is_told_as_such(damage: object) -> None:
    stored = store_plugin_free(TreeModel(NAMES, drawn(2)[0]), FEATURES, "m")
    definition = json.loads(json.dumps(stored.definition))
    damage(definition)  # type: ignore[operator]
    with pytest.raises(BadInput, match="the stored model 'm'"):
        plugin_free_model(replace(stored, definition=definition))
    other = replace(FEATURES, features=FEATURES.features[1:])
    with pytest.raises(BadInput, match="reads 'a'"):
        plugin_free_model(replace(stored, featureset=other))


def test_an_unknown_link_is_named_on_one_short_line() -> None:
    for link in ("a\x1b[31m\n", "k" * 900):
        with pytest.raises(BadInput, match="identity or logistic, not") as caught:
            TreeModel(NAMES, drawn(2)[0], link=link)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 120


def test_scripts_are_the_same_for_every_model() -> None:
    sources = set()
    for seed in range(5):
        form = plugin_free_trees(TreeModel(NAMES, drawn(seed)[0], link=LINKS[seed % 2]), NAMES)
        text = json.dumps(form.query({name: {"match": {name: "x"}} for name in NAMES}))
        sources |= set(_sources(json.loads(text)))
    assert len(sources) == 3


def _sources(tree: object) -> list[str]:
    if isinstance(tree, list):
        return [source for part in tree for source in _sources(part)]
    if not isinstance(tree, dict):
        return []
    own = [tree["source"]] if isinstance(tree.get("source"), str) else []
    return own + [source for part in tree.values() for source in _sources(part)]


def test_another_value_or_threshold_in_a_block_is_another_score() -> None:
    """The liars: what they change is seen in the scores."""
    forest, features = drawn(4, trees=6)
    form = plugin_free_trees(TreeModel(NAMES, forest), NAMES)
    honest = form.score(NAMES, features)
    block = form.blocks[0]
    higher = tuple(tuple(t + 1e9 for t in each) for each in block.thresholds)
    other = digits_of(LARGEST_VALUE - numbers_of(block.values, 5, "values"), 5)
    for lie in (replace(block, values=other), replace(block, thresholds=higher)):
        scores = replace(form, blocks=(lie, *form.blocks[1:])).score(NAMES, features)
        assert np.abs(scores - honest).max() > 1e-3
