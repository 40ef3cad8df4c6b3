"""The emulator against recorded engines and RankLib itself: the scores, and the refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.emulator import emulate, foresee
from owpc_ltr.engine.stores import StoredModel
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.featureset import Feature, FeatureSet
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.xgboost_json import from_dump
from owpc_ltr.formats.xgboost_json_writer import to_dump
from owpc_ltr.formats.xgboost_raw import from_raw
from owpc_ltr.formats.xgboost_raw_writer import to_raw
from owpc_ltr.profiles import (
    LINEAR,
    RANKLIB,
    XGBOOST,
    XGBOOST_RAW,
    ServingProfile,
    serving_profile,
)
from owpc_ltr.trees import TreeModel

NAMES = ("title_bm25", "body_bm25", "pop", "n", "phrase", "tag_is")
RECORDED = replace(serving_profile("opensearch", "3.8.0"), missing_as_zero=True)
GOLDEN = Path(__file__).parent / "golden" / "ranklib"
# Refusals that are about names, sets and parameters, not about the model itself.
ELSEWHERE = {
    "084-model-create-exists",
    "091-model-create-unknown-featureset",
    "095-model-create-no-name",
    "097-model-create-validation-missing",
}


def feature_set(names: tuple[str, ...]) -> FeatureSet:
    return FeatureSet("f", tuple(Feature(name, (), {"match_all": {}}) for name in names))


def stored(model_type: str, definition: Any, names: tuple[str, ...], **more: Any) -> StoredModel:
    return StoredModel("m", model_type, definition, feature_set(names), more)


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> dict[str, Any]:
    """Recorded requests and answers of a real node, by file name."""
    folder = shared_data.parent / "protocol" / "ltr-plugin"
    if not folder.is_dir():
        pytest.skip(f"no recorded exchanges at {folder}")
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*-*.json"))}


@pytest.fixture(scope="module")
def logged(exchanges: dict[str, Any]) -> dict[str, list[float]]:
    """The features of every document, as the node logged them."""
    hits = exchanges["071-log-all"]["response"]["body"]["hits"]["hits"]
    return {
        hit["_id"]: [float(v.get("value", "nan")) for v in hit["fields"]["_ltrlog"][0]["main"]]
        for hit in hits
    }


def created(exchanges: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Model name → exchange, type and definition, feature names; for every creation with both."""
    found = {}
    for name, exchange in exchanges.items():
        match = re.search(r"/_featureset/(\w+)/_createmodel", exchange["request"]["path"])
        body = exchange["request"]["body"]
        if isinstance(body, str) and not body.startswith('{"model"'):
            continue
        content = json.loads(body) if isinstance(body, str) else body
        inner = (content or {}).get("model", {}).get("model", {})
        if match and {"type", "definition"} <= set(inner):
            names = {"fs2": (*NAMES, "derived", "scripted"), "fsnan": ("nanf", "title_bm25")}
            found[name] = (content["model"].get("name"), inner, names.get(match[1], NAMES))
    return found


def test_every_recorded_score_is_the_emulators_bit_for_bit(
    exchanges: dict[str, Any], logged: dict[str, list[float]]
) -> None:
    models = {
        name: (inner, names)
        for key, (name, inner, names) in created(exchanges).items()
        if exchanges[key]["response"]["status"] == 201
    }
    seen = set()
    for exchange in exchanges.values():
        body = exchange["request"]["body"]
        if exchange["response"]["status"] != 200 or not isinstance(body, dict):
            continue
        rescore = body.get("rescore", {})
        clause = rescore.get("query", {}) if isinstance(rescore, dict) else {}
        name = clause.get("rescore_query", {}).get("sltr", {}).get("model")
        if name not in models or clause.get("query_weight") != 0 or body.get("size") != 400:
            continue
        inner, names = models[name]
        if names != NAMES:
            continue
        hits = exchange["response"]["body"]["hits"]["hits"]
        rows = np.array([logged[hit["_id"]] for hit in hits], np.float32)
        normalisers = inner.get("feature_normalizers", {})
        model = StoredModel(
            name, inner["type"], inner["definition"], feature_set(names), normalisers
        )
        scores = emulate(model, rows, RECORDED)
        assert scores.tolist() == [np.float32(hit["_score"]) for hit in hits], name
        seen.add(name)
    assert len(seen) >= 34
    assert {"lin_norm", "lin_partial", "xr_norm", "xr_perm", "xr_subset", "xr_parallel"} <= seen
    assert {"xr_base25", "xr_zero_flag", "xj_zero_flag", "rl_ca", "rl_lr", "rl_lm"} <= seen


def test_every_recorded_refusal_of_a_model_is_foreseen_and_no_other(
    exchanges: dict[str, Any],
) -> None:
    refusals = 0
    for key, (_, inner, names) in created(exchanges).items():
        message = foresee(
            inner["definition"],
            inner["type"],
            names,
            RECORDED,
            inner.get("feature_normalizers"),
        )
        accepted = exchanges[key]["response"]["status"] == 201
        if key in ELSEWHERE:
            assert message is None
        elif key == "192-model-create-rl_fidtoobig":  # taken, and every search fails
            assert message
            assert "uses feature 99 of 6" in message
        else:
            assert (message is None) == accepted, (key, message)
            refusals += not accepted
    assert refusals >= 25


def test_recorded_models_are_exported_as_the_node_took_them(
    exchanges: dict[str, Any], logged: dict[str, list[float]]
) -> None:
    rows = np.array(list(logged.values()), np.float32)
    dumps = raws = 0
    for key, (_, inner, names) in created(exchanges).items():
        if exchanges[key]["response"]["status"] != 201 or inner.get("feature_normalizers"):
            continue
        definition = inner["definition"]
        is_json = isinstance(definition, str) and inner["type"] != RANKLIB
        content = json.loads(definition) if is_json else definition
        if inner["type"] == XGBOOST and "as_zero" not in str(content)[:60]:
            model: Any = from_dump(content, names)
            written = to_dump(model, names, RECORDED)
            trees = content if isinstance(content, list) else content["splits"]
            dumps += single(written["splits"]) == single(trees)
            exact: dict[str, Any] = {XGBOOST: written, XGBOOST_RAW: to_raw(model, names, RECORDED)}
        elif inner["type"] == XGBOOST_RAW:
            model = from_raw(content, slice_best=False)
            exact = {XGBOOST: to_dump(model, names, RECORDED)}
            exact[XGBOOST_RAW] = to_raw(model, names, RECORDED)
            raws += 1
        elif inner["type"] == RANKLIB and key != "192-model-create-rl_fidtoobig":
            model = from_ranklib(content, names)
            exact = {RANKLIB: to_ranklib(model, names, RECORDED)}
        else:
            continue
        for model_type, made in exact.items():
            assert foresee(made, model_type, names, RECORDED) is None
            scores = emulate(stored(model_type, made, names), rows, RECORDED)
            own = rows[:, [names.index(name) for name in model.feature_names]]
            assert scores == pytest.approx(model.score(own), rel=1e-6, abs=1e-6), key
    assert dumps >= 10  # the recorded trees, number for number
    assert raws >= 14


def single(value: Any) -> Any:
    """JSON with every number as the float32 that the engine makes of it."""
    if isinstance(value, dict):
        return {key: single(part) for key, part in value.items()}
    if isinstance(value, list):
        return [single(part) for part in value]
    return float(np.float32(value)) if isinstance(value, float | int) else value


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
        message = foresee(ONE_SPLIT, XGBOOST, ("a",), old)
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
    assert "does not know 'missing_as_zero'" in str(foresee(flagged, XGBOOST, ("a",), plain))
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
    found = foresee(definition, model_type, ("a", "b"), RECORDED)
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
