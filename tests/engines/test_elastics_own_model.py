"""The model for Elasticsearch's own learning to rank, read and scored by Elastic's own classes."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_exports.elastic import Elastic

from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.plugin_checks.exports import sample_models
from tests.engines.elastic_trial import Trial, try_models
from tests.foreign_models import NAMES, data, raw, trained

FEATURES = FeatureSet(
    "f", tuple(Feature(name, ("q",), {"match": {name: "{{q}}"}}) for name in NAMES)
)
VERSIONS = ("8.13.4", "8.14.3", "8.15.5", "8.19.4", "9.2.4")
UNSHIFTED = ("8.13.4", "8.14.3", "8.15.5")
WITH_INPUT = ("8.13.4", "8.14.3")


def trial(model: TreeModel, rows: Any, version: str, name: str = "mine") -> Trial:
    features = tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in model.feature_names)
    made = Elastic().export(model, name, version, FeatureSet("f", features))
    return Trial(name, json.loads(made.text), model.feature_names, rows)


@pytest.mark.engines
@pytest.mark.parametrize("version", VERSIONS)
def test_elastics_own_classes_take_the_model_and_score_as_it_does_up_to_a_constant(
    version: str, rng: np.random.Generator
) -> None:
    rows, _ = data(rng)
    boosted = from_raw(raw(trained(rng, base_score=0.3)))
    samples = [(boosted, rows)]
    samples += [
        (sample.model, sample.documents)
        for sample in sample_models()
        if isinstance(sample.model, TreeModel)
    ]
    answers = try_models(version, [trial(model, rows, version) for model, rows in samples])
    assert len(samples) > 3
    assert any(model.link == "logistic" for model, _ in samples)
    for (model, documents), answer in zip(samples, answers, strict=True):
        wanted = replace(model, link="identity").score(documents)
        shift = np.asarray(answer["scores"]) - wanted
        assert shift == pytest.approx(np.median(shift), abs=1e-6 * np.abs(wanted).max())
        assert min(answer["scores"]) >= -1e-9 or version in UNSHIFTED


@pytest.mark.engines
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_refuses_the_body_of_the_others(
    version: str, rng: np.random.Generator
) -> None:
    rows, _ = data(rng)
    model = from_raw(raw(trained(rng)))
    other = VERSIONS[-1] if version in WITH_INPUT else WITH_INPUT[0]
    right, wrong = try_models(version, [trial(model, rows[:2], v) for v in (version, other)])
    assert "scores" in right
    assert "input" in wrong["error"]


@pytest.mark.engines
def test_a_name_is_taken_here_where_elastic_takes_it(rng: np.random.Generator) -> None:
    model = from_raw(raw(trained(rng)))
    whole = trial(model, np.zeros((1, len(NAMES))), VERSIONS[-1])
    names = ["m", "M", "a.b", "a-", "-a", "a_", "9", "a" * 64, "a" * 65, "a@b", "é", "a..b", ".a"]
    names += ["".join(rng.choice(list(string.printable[:75]), 3)) for _ in range(40)]
    answers = try_models(VERSIONS[-1], [replace(whole, id=name) for name in names])
    for name, answer in zip(names, answers, strict=True):
        try:
            Elastic().export(model, name, VERSIONS[-1], FEATURES)
        except UsageError:
            taken = False
        else:
            taken = True
        # Dots in a row, or first, are refused here for what they mean in an address.
        mended = ".." in name or name.startswith(".")
        assert taken == ("scores" in answer and not mended), (name, answer)


@pytest.mark.parametrize("version", ["7.17.3", "8.0", "8.12.2"])
def test_a_version_before_there_was_learning_to_rank_is_refused(
    version: str, rng: np.random.Generator
) -> None:
    with pytest.raises(UsageError, match=r"has no learning to rank of its own: that came with 8.1"):
        Elastic().export(from_raw(raw(trained(rng))), "m", version, FEATURES)


@pytest.mark.parametrize(("version", "named"), [("8.13", True), ("8.14.3", True), ("8.15", False)])
def test_the_names_of_the_features_are_given_where_elastic_asks_for_them(
    version: str, named: bool, rng: np.random.Generator
) -> None:
    made = Elastic().export(from_raw(raw(trained(rng))), "m", version, FEATURES)
    body = json.loads(made.text)
    assert (body.get("input") == {"field_names": list(NAMES)}) is named
    assert ("input" in body) is named


def test_a_logistic_model_keeps_its_ranking_and_says_so(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = replace(from_raw(raw(trained(rng))), link="logistic")
    made = Elastic().export(model, "m", "9.2", FEATURES)
    ensemble = json.loads(made.text)["definition"]["trained_model"]["ensemble"]
    assert ensemble["aggregate_output"] == {"weighted_sum": {}}
    log_odds = Elastic().scores(made, NAMES, rows)
    assert 1 / (1 + np.exp(-log_odds)) == pytest.approx(model.score(rows), abs=1e-6)
    assert made.log_odds
    assert [note for note in made.notes if "log-odds" in note]
    plain = Elastic().export(replace(model, link="identity"), "m", "9.2", FEATURES)
    assert not plain.log_odds
    assert not [note for note in plain.notes if "log-odds" in note]
    assert "Enterprise licence" in plain.notes[0]
    assert "up to a constant" in plain.notes[1]
