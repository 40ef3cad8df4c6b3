"""Thousands of damaged model files: each is refused in one line, or is a model that scores."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xgboost

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.files.strict_json import parse_json
from owpc_ltr.formats.engine_versions import LINEAR, RANKLIB, XGBOOST, XGBOOST_RAW, serving_profile
from owpc_ltr.formats.lightgbm import from_lightgbm
from owpc_ltr.formats.ltr_plugin import emulate, rejection_reason
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_dump import from_dump, to_dump
from owpc_ltr.formats.xgboost_model import from_raw, to_raw
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import KINDS
from owpc_ltr.models.networks import Layer, LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model
from tests.faults.damaged_models import LIGHTGBM, mutant

NAMES = ("a", "b", "c")
ENGINE = serving_profile("opensearch", "3.8.0")
ROWS = np.array([[0, 1, 2], [-1, 0.5, np.nan], [np.nan] * 3, [1e30, -1e30, 0]], np.float32)


def a_tree_model(rng: np.random.Generator) -> TreeModel:
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    matrix = xgboost.DMatrix(rows, rows[:, 0] * rows[:, 1], feature_names=list(NAMES))
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 3)
    return from_raw(json.loads(booster.save_raw("json"))).with_missing_as_zero()


def sources(rng: np.random.Generator) -> list[tuple[str, Callable[[str], Model | None]]]:
    """Sound texts, each with what reads it."""
    model = a_tree_model(rng)
    network = LogisticNetwork(
        NAMES, (Layer(np.ones((2, 3)), np.ones(2)), Layer(np.ones((1, 2)), np.ones(1)))
    )
    own = {"kind": "trees", **model.as_dict()}
    return [
        (json.dumps(to_raw(model, NAMES, ENGINE)), lambda t: from_raw(parse_json(t, "it"))),
        (
            json.dumps(to_dump(model, NAMES, ENGINE)),
            lambda t: from_dump(parse_json(t, "it"), NAMES),
        ),
        (json.dumps(own), lambda t: TreeModel.from_dict(_complete(parse_json(t, "it")), NAMES, {})),
        (LIGHTGBM, from_lightgbm),
        (to_ranklib(model, NAMES, ENGINE), lambda t: from_ranklib(t, NAMES)),
        (to_ranklib(network, NAMES, ENGINE), lambda t: from_ranklib(t, NAMES)),
        ("## RankBoost\n1:0.5:1.5 2:-0.25:0.5", lambda t: from_ranklib(t, NAMES)),
        ("## Linear Regression\n0:1.5 1:0.5 3:-2.5E-1", lambda t: from_ranklib(t, NAMES)),
    ]


def _complete(content: Any) -> dict[str, Any]:
    """Refuse what `load_model` would before it lets a model read itself."""
    wanted = {"kind", "link", "base", "roots", "feature", "threshold", "left"}
    if not isinstance(content, dict) or not wanted | {"default_left", "value"} <= set(content):
        raise BadInput("not a model")
    return content


def check_accepted(model: Model) -> None:
    """A model that was taken must score, survive its own file, and export to the same scores."""
    rows = np.resize(ROWS, (len(ROWS), len(model.feature_names)))
    scores = model.score(rows)
    assert np.isfinite(scores).all()
    content = json.loads(json.dumps(model.as_dict(), allow_nan=False))
    assert model.kind in KINDS
    again = type(model).from_dict(content, model.feature_names, {})  # type: ignore[attr-defined]
    assert (again.score(rows) == scores).all()
    if isinstance(model, TreeModel):
        features = tuple(Feature(name, (), {}) for name in model.feature_names)
        definition = to_dump(model, model.feature_names, ENGINE)
        stored = StoredModel("m", XGBOOST, definition, FeatureSet("f", features))
        served = emulate(stored, rows, ENGINE)
        tolerance = 1e-5 * max(1.0, abs(model.base), float(np.abs(model.forest.value).max()))
        assert np.isfinite(served).all() or tolerance > 1e30
        if np.isfinite(served).all():
            assert np.abs(served - scores).max() <= tolerance


@pytest.mark.parametrize("trials", [1_000, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_damaged_models_are_refused_or_sound(trials: int, rng: np.random.Generator) -> None:
    chance = random.Random(11)  # noqa: S311
    taken, messages = 0, []
    readers = sources(rng)
    for text, read in readers:
        model = read(text)
        assert model is not None
        check_accepted(model)
    for number in range(trials):
        text, read = readers[number % len(readers)]
        try:
            model = read(mutant(text, chance))
        except BadInput as error:
            messages.append(str(error))
            continue
        assert model is not None
        taken += 1
        if number % 3 == 0:  # each reader in its turn
            check_accepted(model)
    assert len(messages) > trials // 2
    assert [message for message in messages if not message.isprintable()] == []
    assert max(map(len, messages)) < 300
    assert taken > trials // 20


def test_damaged_definitions_are_foreseen_or_scored(rng: np.random.Generator) -> None:
    chance = random.Random(12)  # noqa: S311
    model = a_tree_model(rng)
    texts = [
        (XGBOOST, json.dumps(to_dump(model, NAMES, ENGINE))),
        (XGBOOST_RAW, json.dumps(to_raw(model, NAMES, ENGINE))),
        (RANKLIB, to_ranklib(model, NAMES, ENGINE)),
        (LINEAR, '{"a": 0.5, "b": -1.25e0, "c": 3}'),
    ]
    features = FeatureSet("f", tuple(Feature(name, (), {}) for name in NAMES))
    for number in range(1_000):
        model_type, text = texts[number % len(texts)]
        broken = mutant(text, chance)
        stored = StoredModel("m", model_type, broken, features)
        message = rejection_reason(stored, ENGINE)
        if message is None:
            scores = emulate(stored, ROWS[:1], ENGINE)
            assert len(scores) == 1
        else:
            assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 100_000, "nested deeper"),
        ('{"a": "' + "[" * 1000 + '"', "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("\ud800", "not valid JSON"),
        ('{"learner": 1, "learner": 2}', "'learner' stands twice"),
        (" " * 50_000_001, "larger than 50000000 bytes"),
    ],
)
def test_bombs_are_refused_before_they_are_built(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_json(text, "it")


def test_a_text_that_only_quotes_brackets_is_not_deep() -> None:
    assert parse_json('{"a": "' + "[" * 1000 + '"}', "it") == {"a": "[" * 1000}


def test_a_weight_that_its_normaliser_makes_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match="larger than any number"):
        LinearModel(("a",), np.array([1e30]), {"a": Normaliser("standard", 0.0, 1e-300)})
