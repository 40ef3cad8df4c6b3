"""The emulator of the LTR plugin against recorded engines and RankLib."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.expressions import compile_expression
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import LINEAR, RANKLIB, XGBOOST, StoredModel, serving_profile
from owpc_ltr.formats.xgboost_json import from_dump
from owpc_ltr.models.linear import LinearModel
from tests.engine.memory_engine import find
from tests.engine.recorded import (
    PROFILE,
    Exchange,
    Recorded,
    creations,
    exported,
    load_exchanges,
    scores_of,
    written_here,
)

NAMES = ("title_bm25", "body_bm25", "pop", "n", "phrase", "tag_is")
RECORDED = replace(serving_profile("opensearch", "3.8.0"), missing_as_zero=True)
GOLDEN = Path(__file__).parents[1] / "golden" / "ranklib"


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
    model = from_ranklib(path.read_text(), names)
    intercept = float(model.record["imported"].get("intercept", "0"))
    assert model.score(rows) + intercept == pytest.approx(wanted, abs=1e-6)
    if isinstance(model, LinearModel):
        return
    definition = to_ranklib(model, names, RECORDED)  # type: ignore[arg-type]
    again = emulate(stored(RANKLIB, definition, names), rows, RECORDED)
    assert again == pytest.approx(wanted, abs=1e-6)


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


def test_old_versions_fill_zeros() -> None:
    rows = np.array([[1], [0], [np.nan]], np.float32)
    below_zero = json.loads(json.dumps(ONE_SPLIT).replace("1.0", "-1.0"))
    for engine, version in (
        ("opensearch", "3.1.0"),
        ("opensearch", "2.19.6"),
        ("elasticsearch", "8.9.2"),
    ):
        old = serving_profile(engine, version)
        for model in (ONE_SPLIT, below_zero):
            scores = emulate(stored(XGBOOST, model, ("a",)), rows, old)
            assert scores[2] == scores[1]


def test_the_zero_flag_counts_only_where_it_is_known() -> None:
    rows = np.array([[np.nan]], np.float32)
    plain = serving_profile("opensearch", "3.8.0")
    flagged = {**ONE_SPLIT, "missing_as_zero": True}
    flagged["splits"] = [{**ONE_SPLIT["splits"][0], "missing": 2}]  # type: ignore[dict-item]
    with pytest.raises(BadInput, match="does not know 'missing_as_zero'"):
        emulate(stored(XGBOOST, flagged, ("a",)), rows, plain)
    assert emulate(stored(XGBOOST, flagged, ("a",)), rows, RECORDED) == [10]


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
    assert emulate(trees, rows, old).tolist() == [20, 20, 10]
    flagged = replace(trees, definition={**ONE_SPLIT, "missing_as_zero": True})
    assert emulate(flagged, rows, RECORDED).tolist() == [20, 20, 10]
    linear = StoredModel("m", LINEAR, {"a": 1.0}, features)
    assert emulate(linear, rows, plain).tolist() == [1, 1, -1]


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
        ('{"a": 1, "a": 2}', LINEAR, "'a' occurs twice"),
        ('{"a": NaN}', LINEAR, "NaN is not a JSON number"),
        ('{"a": 1e999}', LINEAR, "not a float32"),
        ("[" * 300 + "]" * 300, LINEAR, "nested deeper than 200"),
        ("## LambdaMART\n<!DOCTYPE a [<!ENTITY b 'c'>]><ensemble/>", RANKLIB, "not well-formed"),
        ("## LambdaMART\n<ensemble></ensemble>", RANKLIB, "no trees"),
        ("## RankNet\n1 2\n0\n0 0 1.0\n0 1 1.0", RANKLIB, "neuron 2 of layer 0 has no weights"),
        ("## Linear Regression\n1:0.5", RANKLIB, "has 0 weights of feature 0"),
        ("## Linear Regression\n0:1 1:0.5", RANKLIB, "is written as model/linear"),
        ("## Coordinate Ascent\n0:1 1:0.5", RANKLIB, "has 1 weights of feature 0"),
        ("## Coordinate Ascent\n1:NaN", RANKLIB, "not feature:weight"),
        ("", RANKLIB, "names no algorithm"),
        (b"## MART", RANKLIB, "text"),
        (5, XGBOOST, "list or an object"),
        ({"a": 1}, "model/lightgbm", "no model is written as model/lightgbm"),
    ],
)
def test_hostile_definitions_are_refused(definition: Any, model_type: str, message: str) -> None:
    rows = np.zeros((1, 2), np.float32)
    with pytest.raises(BadInput) as error:
        emulate(stored(model_type, definition, ("a", "b")), rows, RECORDED)
    assert message in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("engine", "version", "missing"),
    [
        ("opensearch", "2.19.1", "zero"),
        ("opensearch", "3.1.0", "zero"),
        ("opensearch", "3.2.0", "right"),
        ("opensearch", "3.8.0-SNAPSHOT", "default"),
        ("elasticsearch", "8.9.2", "zero"),
        ("elasticsearch", "8.17.3", "default"),
    ],
)
def test_profiles_follow_the_versions(engine: str, version: str, missing: str) -> None:
    assert serving_profile(engine, version).missing == missing


def test_the_key_of_missing_values_is_known_to_some_versions_of_opensearch() -> None:
    known = {v: serving_profile("opensearch", v).missing_as_zero
             for v in ("3.6.0", "3.6.1", "3.7.0", "3.8.0", "3.8.1")}  # fmt: skip
    assert list(known.values()) == [False, True, False, False, True]
    assert not serving_profile("elasticsearch", "9.1").missing_as_zero
    assert str(serving_profile("opensearch", "3.8.0")) == "opensearch 3.8.0"


@pytest.mark.parametrize(("engine", "version"), [("opensearch", "x"), ("vespa", "8.0.0")])
def test_an_unknown_engine_or_version_is_a_usage_error(engine: str, version: str) -> None:
    with pytest.raises(UsageError):
        serving_profile(engine, version)


# Answers with a model's scores that cannot be recomputed, and why.
BEYOND = {
    "168": "its creation was not recorded",
    "198": "adds the search's own score, which was not recorded by itself",
    "199": "adds the search's own score, which was not recorded by itself",
    "208": "a feature is NaN, at which logging already stops",
    "209": "a feature is NaN, at which logging already stops",
}


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    recordings = shared_data.parent / "protocol" / "ltr-plugin"
    if not recordings.is_dir():
        pytest.skip(f"no recorded exchanges at {recordings}")
    return recordings


@pytest.fixture(scope="module")
def exchanges(folder: Path) -> dict[str, Exchange]:
    return load_exchanges(folder)


@pytest.fixture(scope="module")
def models(exchanges: dict[str, Exchange]) -> list[Recorded]:
    return list(creations(exchanges))


@pytest.fixture(scope="module")
def written(models: list[Recorded]) -> list[tuple[StoredModel, Any, str, Any]]:
    return list(exported(models))


@pytest.fixture(scope="module")
def values(exchanges: dict[str, Exchange], folder: Path) -> dict[str, dict[str, float]]:
    """Every feature of every document: as the node logged it, or as its template says."""
    lines = (folder / "corpus.bulk.ndjson").read_text().splitlines()
    sizes = {
        str(json.loads(head)["index"]["_id"]): json.loads(document)["n"]
        for head, document in zip(lines[::2], lines[1::2], strict=True)
    }
    derived = compile_expression("title_bm25 * 2 + ln(1 + n) * boostp")
    rows_by_id = {}
    for hit in exchanges["071"].answer["hits"]["hits"]:
        logged = hit["fields"]["_ltrlog"][0]["main"]
        row = {entry["name"]: entry.get("value", np.nan) for entry in logged}
        known = {name: float(np.float32(np.nan_to_num(value))) for name, value in row.items()}
        row["derived"] = derived({**known, "boostp": 0.5})
        row["scripted"] = known["title_bm25"] * 3.0 + sizes[hit["_id"]]
        rows_by_id[hit["_id"]] = row
    return rows_by_id


def rows(
    values: dict[str, dict[str, float]], featureset: FeatureSet, documents: list[str]
) -> NDArray[np.float32]:
    names = featureset.feature_names
    return np.array([[values[d][name] for name in names] for d in documents], np.float32)


def test_every_recorded_score_of_a_model_is_the_emulators_bit_for_bit(
    exchanges: dict[str, Exchange], models: list[Recorded], values: dict[str, dict[str, float]]
) -> None:
    known = {each.model.name: each.model for each in models if each.taken}
    seen = set()
    for number, exchange in exchanges.items():
        name = (find(exchange.body, "sltr") or {}).get("model")
        if exchange.status != 200 or number in BEYOND or name is None:
            continue
        if not written_here(known[name]):
            continue
        scores = scores_of(exchange)
        features = rows(values, known[name].featureset, list(scores))
        emulated = emulate(known[name], features, PROFILE)
        assert emulated.tolist() == [np.float32(score) for score in scores.values()], number
        seen.add(name)
    assert len(seen) == 22
    assert {known[name].type for name in seen} == {LINEAR, XGBOOST, RANKLIB}


def test_what_is_written_for_a_recorded_model_scores_as_it_does(
    written: list[tuple[StoredModel, Any, str, Any]], values: dict[str, dict[str, float]]
) -> None:
    formats = []
    for stored, model, model_type, definition in written:
        names = stored.featureset.feature_names
        normalisers = stored.feature_normalizers
        again = StoredModel("m", model_type, definition, stored.featureset, normalisers)
        if "nanf" in names:
            continue
        features = rows(values, stored.featureset, list(values))
        scores = emulate(again, features, PROFILE)
        own = features[:, [names.index(name) for name in model.feature_names]]
        assert scores == pytest.approx(model.score(own), rel=1e-6, abs=1e-6), stored.name
        formats.append(model_type)
    counts = {model_type: formats.count(model_type) for model_type in formats}
    assert counts == {LINEAR: 8, XGBOOST: 31, RANKLIB: 1}


def test_what_is_written_in_a_recorded_models_own_format_is_the_recorded_one_number_for_number(
    written: list[tuple[StoredModel, Any, str, Any]],
) -> None:
    """But for the base score, which the plugin leaves out: it is one more tree."""
    compared = 0
    for stored, model, model_type, definition in written:
        names = stored.featureset.feature_names
        if model_type != stored.type:
            continue
        if model_type == LINEAR:
            recorded = stored.definition
            recorded = json.loads(recorded) if isinstance(recorded, str) else recorded
            weights = {name: np.float32(recorded.get(name, 0)) for name in names}
            assert {name: np.float32(w) for name, w in definition.items()} == weights
        else:
            read = from_dump if model_type == XGBOOST else from_ranklib
            theirs = stored.definition
            if model_type == XGBOOST and isinstance(theirs, str):
                theirs = json.loads(theirs)
            check_same_trees(read(theirs, names), read(definition, names), model.base)
        compared += 1
    assert compared > 20


def check_same_trees(theirs: Any, ours: Any, base: float) -> None:
    whole = len(theirs.forest.feature)
    for part in ("feature", "threshold", "left", "default_left", "value"):
        theirs_part, other = (getattr(each.forest, part)[:whole] for each in (theirs, ours))
        assert (theirs_part.astype(np.float32) == other.astype(np.float32)).all(), part
    assert theirs.link == ours.link
    assert ours.forest.value[whole:].tolist() == ([float(np.float32(base))] if base else [])
