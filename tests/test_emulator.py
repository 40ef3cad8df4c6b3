"""The emulator against recorded engines and RankLib itself: the scores, and the refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.emulator import emulate, rejection_reason
from owpc_ltr.formats.engine_versions import (
    LINEAR,
    RANKLIB,
    XGBOOST,
    XGBOOST_RAW,
    ServingProfile,
    serving_profile,
)
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_dump import from_dump
from owpc_ltr.formats.xgboost_model import to_raw
from owpc_ltr.models.trees import TreeModel

NAMES = ("title_bm25", "body_bm25", "pop", "n", "phrase", "tag_is")
RECORDED = replace(serving_profile("opensearch", "3.8.0"), missing_as_zero=True)
GOLDEN = Path(__file__).parent / "golden" / "ranklib"


def feature_set(names: tuple[str, ...]) -> FeatureSet:
    return FeatureSet("f", tuple(Feature(name, (), {"match_all": {}}) for name in names))


def stored(model_type: str, definition: Any, names: tuple[str, ...], **more: Any) -> StoredModel:
    return StoredModel("m", model_type, definition, feature_set(names), more)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_ranklibs_algorithms_score_as_ranklib_did(path: Path) -> None:
    golden = json.loads((GOLDEN / "scores.json").read_text())
    rows = np.array(golden["features"], np.float32)
    wanted = np.array(golden["scores"][path.stem])
    names = tuple("abcde")
    scores = emulate(stored(RANKLIB, path.read_text(), names), rows, RECORDED)
    assert scores.tolist() == wanted.astype(np.float32).tolist()
    model = from_ranklib(path.read_text(), names)
    intercept = float(model.record["imported"].get("intercept", "0"))
    assert model.score(rows) + intercept == pytest.approx(wanted, abs=1e-6)
    again = emulate(stored(RANKLIB, to_ranklib(model, names, RECORDED), names), rows, RECORDED)
    assert again + intercept == pytest.approx(wanted, abs=1e-6)


ONE_SPLIT = {
    "objective": "rank:ndcg",
    "splits": [
        {
            "nodeid": 0,
            "depth": 0,
            "split": "a",
            "split_condition": 1.0,
            "yes": 1,
            "no": 2,
            "missing": 1,
            "children": [{"nodeid": 1, "leaf": 10.0}, {"nodeid": 2, "leaf": 20.0}],
        }
    ],
}
"""1 is not below 1; 0 is below 1; missing goes left."""


@pytest.mark.parametrize(
    ("engine", "version", "missing"),
    [
        ("opensearch", "3.2.0", 20),
        ("opensearch", "3.7.9", 20),
        ("opensearch", "3.8.0", 10),
        ("opensearch", "4.0.0", 10),
        ("elasticsearch", "9.1.2", 10),
    ],
)
def test_a_missing_feature_goes_where_the_version_sends_it(
    engine: str, version: str, missing: float
) -> None:
    rows = np.array([[1], [0], [np.nan]], np.float32)
    scores = emulate(stored(XGBOOST, ONE_SPLIT, ("a",)), rows, serving_profile(engine, version))
    assert scores.tolist() == [20, 10, missing]


def test_old_versions_fill_zeros_and_know_no_rank_ndcg() -> None:
    rows = np.array([[1], [0], [np.nan]], np.float32)
    below_zero = json.loads(json.dumps(ONE_SPLIT).replace("1.0", "-1.0"))
    for engine, version in (
        ("opensearch", "3.1.0"),
        ("opensearch", "2.19.6"),
        ("elasticsearch", "8.9.2"),
    ):
        old = serving_profile(engine, version)
        message = rejection_reason(ONE_SPLIT, XGBOOST, ("a",), old)
        assert message
        assert "refuses the objective 'rank:ndcg'" in message
        for model in (ONE_SPLIT, below_zero):
            pairwise = {**model, "objective": "rank:pairwise"}
            scores = emulate(stored(XGBOOST, pairwise, ("a",)), rows, old)
            assert scores[2] == scores[1]


def test_the_zero_flag_counts_only_where_it_is_known() -> None:
    rows = np.array([[np.nan]], np.float32)
    plain = serving_profile("opensearch", "3.8.0")
    flagged = {**ONE_SPLIT, "missing_as_zero": True}
    flagged["splits"] = [{**ONE_SPLIT["splits"][0], "missing": 2}]  # type: ignore[dict-item]
    assert "does not know 'missing_as_zero'" in str(
        rejection_reason(flagged, XGBOOST, ("a",), plain)
    )
    assert emulate(stored(XGBOOST, flagged, ("a",)), rows, RECORDED) == [10]
    model = from_dump(ONE_SPLIT, ("a",))
    # The raw parser of the release skips the key in silence; the newer one reads it.
    raw = {**to_raw(with_missing_right(model), ("a",), plain), "missing_as_zero": True}
    assert emulate(stored(XGBOOST_RAW, raw, ("a",)), rows, plain) == [20]
    assert emulate(stored(XGBOOST_RAW, raw, ("a",)), rows, RECORDED) == [10]


def with_missing_right(model: TreeModel) -> TreeModel:
    return replace(
        model, forest=replace(model.forest, default_left=np.zeros_like(model.forest.default_left))
    )


def test_what_derives_from_a_missing_feature_is_missing_to_trees_and_not_to_a_sum() -> None:
    """As a node with the plugin did: logged is what follows from 0, scored is nothing."""
    sources = (Feature("b", (), {}), Feature("a", (), "b * 2 + 1", DERIVED))
    features = FeatureSet("f", sources)
    # Where b is missing, 1 is logged for a: not below 1. Missing, it goes left.
    rows = np.array([[np.nan, 1], [0, 1], [-1, -1]], np.float32)
    trees = StoredModel("m", XGBOOST, ONE_SPLIT, features)
    plain = serving_profile("opensearch", "3.8.0")
    assert emulate(trees, rows, plain).tolist() == [10, 20, 10]
    assert emulate(trees, rows, serving_profile("opensearch", "3.5.0")).tolist() == [20, 20, 10]
    old = serving_profile("opensearch", "3.1.0")
    pairwise = replace(trees, definition={**ONE_SPLIT, "objective": "rank:pairwise"})
    assert emulate(pairwise, rows, old).tolist() == [20, 20, 10]
    flagged = replace(trees, definition={**ONE_SPLIT, "missing_as_zero": True})
    assert emulate(flagged, rows, RECORDED).tolist() == [20, 20, 10]
    linear = StoredModel("m", LINEAR, {"a": 1.0}, features)
    assert emulate(linear, rows, plain).tolist() == [1, 1, -1]


def test_a_raw_model_read_by_column_number_is_emulated_so() -> None:
    rows = np.array([[5, 0]], np.float32)
    raw = to_raw(from_dump(ONE_SPLIT, ("a",)), ("a",), RECORDED)
    by_name = emulate(stored(XGBOOST_RAW, raw, ("b", "a")), rows, RECORDED)
    by_number = emulate(
        stored(XGBOOST_RAW, raw, ("b", "a")), rows, serving_profile("elasticsearch", "8.15.3")
    )
    assert (by_name.tolist(), by_number.tolist()) == ([10], [20])


def test_linear_models_fill_missing_with_zero_before_they_normalise() -> None:
    model = stored(LINEAR, {"a": 2.0}, ("a",), a={"standard": {"mean": 3, "standard_deviation": 2}})
    scores = emulate(model, np.array([[np.nan], [5.0]], np.float32), RECORDED)
    assert scores.tolist() == [-3.0, 2.0]


def test_what_the_engine_would_refuse_is_not_scored() -> None:
    with pytest.raises(BadInput, match="unknown feature 'b'"):
        emulate(stored(LINEAR, {"b": 1.0}, ("a",)), np.zeros((1, 1), np.float32), RECORDED)
    with pytest.raises(BadInput, match="has 1 features, the data 2"):
        emulate(stored(LINEAR, {"a": 1.0}, ("a",)), np.zeros((1, 2), np.float32), RECORDED)


@pytest.mark.parametrize(
    ("definition", "model_type", "message"),
    [
        ('{"a": 1, "a": 2}', LINEAR, "'a' stands twice"),
        ('{"a": NaN}', LINEAR, "NaN is not a JSON number"),
        ('{"a": 1e999}', LINEAR, "not a float32"),
        ("[" * 300 + "]" * 300, LINEAR, "nested deeper than 200"),
        ("## LambdaMART\n<!DOCTYPE a [<!ENTITY b 'c'>]><ensemble/>", RANKLIB, "not well-formed"),
        ("## LambdaMART\n<ensemble></ensemble>", RANKLIB, "no trees"),
        ("## RankNet\n1 2\n0\n0 0 1.0\n0 1 1.0", RANKLIB, "neuron 2 of layer 0 has no weights"),
        ("## Linear Regression\n1:0.5", RANKLIB, "has 0 weights of feature 0"),
        ("## Coordinate Ascent\n0:1 1:0.5", RANKLIB, "has 1 weights of feature 0"),
        ("## Coordinate Ascent\n1:NaN", RANKLIB, "not feature:weight"),
        ("", RANKLIB, "names no algorithm"),
        (b"## MART", RANKLIB, "text"),
        (5, XGBOOST, "list or an object"),
        ({"a": 1}, "model/lightgbm", "does not take model/lightgbm"),
    ],
)
def test_hostile_definitions_are_foreseen(definition: Any, model_type: str, message: str) -> None:
    found = rejection_reason(definition, model_type, ("a", "b"), RECORDED)
    assert found is not None
    assert message in found
    assert "\n" not in found


def test_profiles_follow_the_versions() -> None:
    def rules(engine: str, version: str) -> tuple[Any, ...]:
        profile = serving_profile(engine, version)
        return tuple(profile.missing.get(kind) for kind in (LINEAR, XGBOOST, XGBOOST_RAW))

    assert rules("opensearch", "2.19.1") == ("zero", "zero", None)
    assert rules("opensearch", "3.1.0") == ("zero", "zero", "zero")
    assert rules("opensearch", "3.2.0") == ("zero", "right", "right")
    assert rules("opensearch", "3.8.0-SNAPSHOT") == ("zero", "default", "default")
    assert rules("elasticsearch", "8.9.2") == ("zero", "zero", None)
    assert rules("elasticsearch", "8.17.3") == ("zero", "default", "right")
    assert rules("elasticsearch", "9.0.8") == ("zero", "default", "default")
    assert serving_profile("opensearch", "2.19.6").bm25_factor == 2.2
    assert serving_profile("opensearch", "3.0.0").bm25_factor == 1.0
    assert str(serving_profile("opensearch", "3.8.0")) == "opensearch 3.8.0"


@pytest.mark.parametrize(("engine", "version"), [("opensearch", "x"), ("vespa", "8.0.0")])
def test_an_unknown_engine_or_version_is_a_usage_error(engine: str, version: str) -> None:
    with pytest.raises(UsageError):
        serving_profile(engine, version)


def test_profiles_are_values() -> None:
    assert isinstance(RECORDED, ServingProfile)
    assert serving_profile("opensearch", "3.8.0") == serving_profile("opensearch", "3.8.0")
