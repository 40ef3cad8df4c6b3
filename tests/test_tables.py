"""A forest is its tables, its blocks, and the text of these: the same score for every document."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.plugin_free.form import plugin_free_model, score_shift
from owpc_ltr.formats.plugin_free.trees import (
    LARGEST_VALUE,
    digits_of,
    numbers_of,
    plugin_free_trees,
    read_plugin_free_trees,
    store_plugin_free_trees,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.score_range import LOWEST_RESCORED
from owpc_ltr.models.tables import MOST_CODES, bins_of, blocks_of, tables_of
from owpc_ltr.models.trees import LINKS, Forest, TreeModel
from tests.forests import random_forest

NAMES = tuple("abcdefg")
FEATURES = FeatureSet(
    "letters", tuple(Feature(name, ("k",), {"match": {name: "{{k}}"}}) for name in NAMES)
)
SEEDS = st.integers(0, 2**32 - 1)


def documents(rng: np.random.Generator, count: int = 60) -> Matrix:
    """Values that meet again, of many sizes, with gaps, zeros of both signs and infinities."""
    scale = 10.0 ** rng.integers(-6, 7, len(NAMES))
    found = (np.round(rng.normal(size=(count, len(NAMES))), 1) * scale).astype(np.float32)
    found[rng.random(found.shape) < 0.2] = np.nan
    found[0], found[1], found[2], found[3] = np.nan, 0.0, np.inf, -np.inf
    found[4] = np.float32(-0.0)
    return found


def drawn(seed: int, **how: int) -> tuple[Forest, Matrix]:
    rng = np.random.default_rng(seed)
    features = documents(rng)
    finite = np.where(np.isfinite(features), features, np.nan)
    return random_forest(rng, finite, how.pop("trees", int(rng.integers(1, 40))), **how), features


@given(SEEDS)
def test_tables_add_up_to_the_forest(seed: int) -> None:
    forest, features = drawn(seed)
    tables, constant = tables_of(forest, NAMES)
    total = constant + sum((table.score(features) for table in tables), np.zeros(len(features)))
    np.testing.assert_allclose(total, forest.score(features), rtol=0, atol=1e-11)


@given(SEEDS)
def test_blocks_read_the_bins_of_their_features_out_of_one_float32(seed: int) -> None:
    forest, features = drawn(seed)
    tables, constant = tables_of(forest, NAMES)
    blocks = blocks_of(tables)
    assert sum(len(block.tables) for block in blocks) == len(tables)
    for block in blocks:
        assert np.prod(block.sizes) <= MOST_CODES
    total = constant + sum((block.score(features) for block in blocks), np.zeros(len(features)))
    np.testing.assert_allclose(total, forest.score(features), rtol=0, atol=1e-11)


@given(SEEDS, st.sampled_from(LINKS))
def test_the_text_in_a_store_scores_as_the_model_does_plus_its_shift(seed: int, link: str) -> None:
    forest, features = drawn(seed)
    model = TreeModel(NAMES, forest, 0.3, link)
    stored = store_plugin_free_trees(model, FEATURES, "m")
    form = read_plugin_free_trees(json.loads(json.dumps(stored.definition)), "it")
    assert form == plugin_free_trees(model, NAMES)
    scores = form.score(NAMES, features)
    spread = form.interval.high - form.interval.low
    difference = np.abs(scores - score_shift(stored) - model.score(features))
    assert difference.max() <= 1e-6 * max(1.0, spread)
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
    tables, constant = tables_of(forest, NAMES)
    blocks = blocks_of(tables)
    assert len(blocks) > 1
    assert max(np.prod(block.sizes) for block in blocks) > 2**18
    np.testing.assert_allclose(
        constant + sum(block.score(features) for block in blocks),
        forest.score(features),
        atol=1e-10,
    )


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
    found = np.searchsorted(written, near.astype(np.float64), side="right") + 1
    np.testing.assert_array_equal(found, bins_of(near, thresholds))


@given(st.lists(st.integers(0, 2**24 - 1)), st.sampled_from([4, 5]))
def test_numbers_written_as_digits_are_read_again(numbers: list[int], width: int) -> None:
    text = digits_of(numbers, width)
    assert len(text) == width * len(numbers)
    assert numbers_of(text, width, "it").tolist() == numbers


@pytest.mark.parametrize("text", ["abc", "ab~d", "ab\x00d", "äbcd", 7, None])
def test_text_that_is_no_digits_is_refused(text: object) -> None:
    with pytest.raises(BadInput, match="it "):
        numbers_of(text, 4, "it")


def test_a_path_of_four_features_is_refused_by_name_with_what_would_fit() -> None:
    forest, _ = drawn(5, depth=5, features=6, trees=30)
    with pytest.raises(Refused) as refusal:
        tables_of(forest, NAMES)
    assert "3 features are the most" in str(refusal.value)
    assert "optimizer.depth=3" in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_tables_that_are_too_large_are_refused_with_what_would_fit() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 3)).astype(np.float32)
    forest = random_forest(rng, features, trees=3000, depth=2, features=2)
    with pytest.raises(Refused, match=r"values, .* for 'a' and 'b', .*optimizer.bins=64"):
        tables_of(forest, NAMES)


def test_what_is_no_forest_or_splits_on_what_no_query_scores_is_refused() -> None:
    with pytest.raises(Refused, match="kind 'linear'"):
        store_plugin_free_trees(LinearModel(NAMES, np.ones(7)), FEATURES, "m")
    forest, _ = drawn(1)
    derived = Feature("b", (), "a + 1", DERIVED)
    features = tuple(derived if each.name == "b" else each for each in FEATURES.features)
    with pytest.raises(Refused, match="'b', a derived_expression"):
        store_plugin_free_trees(TreeModel(NAMES, forest), replace(FEATURES, features=features), "m")


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
    forest, _ = drawn(2)
    stored = store_plugin_free_trees(TreeModel(NAMES, forest), FEATURES, "m")
    definition = json.loads(json.dumps(stored.definition))
    damage(definition)  # type: ignore[operator]
    with pytest.raises(BadInput, match="the stored model 'm'"):
        plugin_free_model(replace(stored, definition=definition))


def test_a_form_of_other_features_than_its_set_is_damaged() -> None:
    stored = store_plugin_free_trees(TreeModel(NAMES, drawn(2)[0]), FEATURES, "m")
    other = replace(FEATURES, features=tuple(f for f in FEATURES.features if f.name != "a"))
    with pytest.raises(BadInput, match="reads 'a'"):
        plugin_free_model(replace(stored, featureset=other))


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
