"""Every recorded model of a real node: its scores are the emulator's, its export what was taken."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from owpc_ltr.features.expressions import compile_expression
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.emulator import emulate, rejection_reason
from owpc_ltr.formats.engine_versions import LINEAR, RANKLIB, XGBOOST, XGBOOST_RAW
from owpc_ltr.formats.ltr_plugin import PluginTrees, read_definition
from owpc_ltr.formats.ranklib import Ensembles, Sum, parse_ranklib
from owpc_ltr.formats.stored_model import StoredModel
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
        names = stored.featureset.feature_names
        message = rejection_reason(
            stored.definition, stored.type, names, PROFILE, stored.feature_normalizers
        )
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
    models: list[Recorded], values: dict[str, dict[str, float]]
) -> None:
    formats = []
    for stored, model, model_type, definition in exported(models):
        names = stored.featureset.feature_names
        assert rejection_reason(definition, model_type, names, PROFILE) is None
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
    assert counts == {LINEAR: 8, XGBOOST: 31, XGBOOST_RAW: 31, RANKLIB: 3}


def test_what_is_written_in_a_recorded_models_own_format_is_the_recorded_one_number_for_number(
    models: list[Recorded],
) -> None:
    """But for the base score, which the plugin leaves out: it is one more tree."""
    compared = 0
    for stored, model, model_type, definition in exported(models):
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
