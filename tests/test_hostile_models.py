"""Damaged definitions of stored models are refused or scored; bombs are refused at once."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import xgboost

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.files.strict_json import parse_json
from owpc_ltr.formats.engine_versions import LINEAR, RANKLIB, XGBOOST, serving_profile
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.ranklib import to_ranklib
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_json import from_raw, to_dump
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import TreeModel
from tests.faults.damaged_models import mutant

NAMES = ("a", "b", "c")
ENGINE = serving_profile("opensearch", "3.8.0")
ROWS = np.array([[0, 1, 2], [-1, 0.5, np.nan], [np.nan] * 3, [1e30, -1e30, 0]], np.float32)


def a_tree_model(rng: np.random.Generator) -> TreeModel:
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    matrix = xgboost.DMatrix(rows, rows[:, 0] * rows[:, 1], feature_names=list(NAMES))
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 3)
    return from_raw(json.loads(booster.save_raw("json"))).with_missing_as_zero()


def test_damaged_definitions_are_refused_or_scored(rng: np.random.Generator) -> None:
    chance = random.Random(12)  # noqa: S311
    model = a_tree_model(rng)
    texts = [
        (XGBOOST, json.dumps(to_dump(model, NAMES, ENGINE))),
        (RANKLIB, to_ranklib(model, NAMES, ENGINE)),
        (LINEAR, '{"a": 0.5, "b": -1.25e0, "c": 3}'),
    ]
    features = FeatureSet("f", tuple(Feature(name, (), {}) for name in NAMES))
    for number in range(1_000):
        model_type, text = texts[number % len(texts)]
        broken = mutant(text, chance)
        stored = StoredModel("m", model_type, broken, features)
        message = ""
        try:
            assert len(emulate(stored, ROWS[:1], ENGINE)) == 1
        except BadInput as error:
            message = str(error)
        assert not message or message.isprintable()


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
