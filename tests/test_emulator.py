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
from owpc_ltr.formats.engine_versions import (
    LINEAR,
    RANKLIB,
    XGBOOST,
    XGBOOST_RAW,
    serving_profile,
)
from owpc_ltr.formats.ltr_plugin import PluginTrees, emulate, read_definition, rejection_reason
from owpc_ltr.formats.ranklib import Ensembles, Sum, from_ranklib, parse_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_json import from_dump, to_raw
from owpc_ltr.models.trees import TreeModel
from tests.engine.memory_engine import find
from tests.engine.recorded import (
    PROFILE,
    Exchange,
    Recorded,
    creations,
    exported,
    load_exchanges,
    scores_of,
)

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
        message = rejection_reason(stored(XGBOOST, ONE_SPLIT, ("a",)), old)
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
        rejection_reason(stored(XGBOOST, flagged, ("a",)), plain)
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
    found = rejection_reason(stored(model_type, definition, ("a", "b")), RECORDED)
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
    assert str(serving_profile("opensearch", "3.8.0")) == "opensearch 3.8.0"


@pytest.mark.parametrize(("engine", "version"), [("opensearch", "x"), ("vespa", "8.0.0")])
def test_an_unknown_engine_or_version_is_a_usage_error(engine: str, version: str) -> None:
    with pytest.raises(UsageError):
        serving_profile(engine, version)


# Refusals that are about names, sets and parameters, not about the model itself.
ELSEWHERE = {"084", "091", "095", "097", "099"}
# Answers with a model's scores that cannot be recomputed, and why.
BEYOND = {
    "168": "its creation was not recorded",
    "198": "adds the search's own score, which was not recorded by itself",
    "199": "adds the search's own score, which was not recorded by itself",
    "208": "a feature is NaN, at which logging already stops",
    "209": "a feature is NaN, at which logging already stops",
}
UNSCORED = {
    "lin_nanf": "a feature is NaN",
    "lin_v": "was created with a validation, and never searched with",
    "rl_fidtoobig": "every search with it fails",
    "xj_categorical": "was never searched with",
}
"""Models that were taken and of which no score was recorded, and why."""
RANKLIB_KINDS = {"COORDINATE ASCENT", "LINEAR REGRESSION", "LAMBDAMART"}
"""Those recorded; RankLib's own scores of all ten are in `golden/ranklib`."""


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    found = shared_data.parent / "protocol" / "ltr-plugin"
    if not found.is_dir():
        pytest.skip(f"no recorded exchanges at {found}")
    return found


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
    found = {}
    for hit in exchanges["071"].answer["hits"]["hits"]:
        logged = hit["fields"]["_ltrlog"][0]["main"]
        row = {entry["name"]: entry.get("value", np.nan) for entry in logged}
        known = {name: float(np.float32(np.nan_to_num(value))) for name, value in row.items()}
        row["derived"] = derived({**known, "boostp": 0.5})
        row["scripted"] = known["title_bm25"] * 3.0 + sizes[hit["_id"]]
        found[hit["_id"]] = row
    return found


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
        if exchange.status != 200 or name is None or number in BEYOND:
            continue
        scores = scores_of(exchange)
        features = rows(values, known[name].featureset, list(scores))
        emulated = emulate(known[name], features, PROFILE)
        assert emulated.tolist() == [np.float32(score) for score in scores.values()], number
        seen.add(name)
    assert known.keys() - seen == UNSCORED.keys()
    kinds = {parse_ranklib(known[name].definition)[0] for name in seen
             if known[name].type == RANKLIB}  # fmt: skip
    assert kinds == RANKLIB_KINDS


def test_every_recorded_refusal_of_a_model_is_foreseen_and_no_other(
    models: list[Recorded],
) -> None:
    refusals = 0
    for each in models:
        stored = each.model
        message = rejection_reason(stored, PROFILE)
        if each.number in ELSEWHERE:
            assert message is None
        elif stored.name == "rl_fidtoobig":  # taken, and every search fails
            assert message
            assert "uses feature 99 of 6" in message
        else:
            assert (message is None) == each.taken, (each.number, message)
            refusals += not each.taken
    assert refusals == 30


def test_what_is_written_for_a_recorded_model_is_foreseen_to_be_taken_and_scores_as_it_does(
    written: list[tuple[StoredModel, Any, str, Any]], values: dict[str, dict[str, float]]
) -> None:
    formats = []
    for stored, model, model_type, definition in written:
        names = stored.featureset.feature_names
        normalisers = stored.feature_normalizers
        again = StoredModel("m", model_type, definition, stored.featureset, normalisers)
        assert rejection_reason(again, PROFILE) is None
        if "nanf" in names:
            continue
        features = rows(values, stored.featureset, list(values))
        scores = emulate(again, features, PROFILE)
        own = features[:, [names.index(name) for name in model.feature_names]]
        assert scores == pytest.approx(model.score(own), rel=1e-6, abs=1e-6), stored.name
        formats.append(model_type)
    counts = {model_type: formats.count(model_type) for model_type in formats}
    assert counts == {LINEAR: 8, XGBOOST: 31, XGBOOST_RAW: 31, RANKLIB: 3}


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
        elif model_type == RANKLIB:
            check_same_ranklib(stored.definition, definition)
        else:
            theirs, ours = (
                read_definition(each, model_type, names, PROFILE)
                for each in (stored.definition, definition)
            )
            assert isinstance(theirs, PluginTrees)
            assert isinstance(ours, PluginTrees)
            check_same_trees(theirs, ours, model.base)
        compared += 1
    assert compared == 42


def check_same_ranklib(recorded: str, written: str) -> None:
    """The same numbers; a coordinate ascent is written as a regression, whose intercept is 0."""
    theirs, ours = (parse_ranklib(text)[1] for text in (recorded, written))
    if isinstance(theirs, Sum):
        assert isinstance(ours, Sum)
        one, other = (
            dict(zip(s.columns, map(np.float32, s.weights), strict=True)) for s in (theirs, ours)
        )
        assert {column: weight for column, weight in other.items() if weight} == one
        return
    assert isinstance(theirs, Ensembles)
    assert isinstance(ours, Ensembles)
    for part in ("roots", "feature", "threshold", "left", "value"):
        one, other = (getattr(each.forests[0], part) for each in (theirs, ours))
        assert (one.astype(np.float32) == other.astype(np.float32)).all(), part


def check_same_trees(theirs: PluginTrees, ours: PluginTrees, base: float) -> None:
    whole = len(theirs.forest.feature)
    directions = theirs.forest.default_left
    if theirs.zero_flag:  # written into each split
        directions = theirs.forest.threshold > 0
    assert (ours.forest.default_left[:whole] == directions)[~theirs.forest.is_leaf].all()
    for part in ("feature", "threshold", "left", "value"):
        one, other = (getattr(each.forest, part)[:whole] for each in (theirs, ours))
        assert (one == other).all(), part
    assert theirs.link == ours.link
    assert ours.forest.value[whole:].tolist() == ([float(np.float32(base))] if base else [])
