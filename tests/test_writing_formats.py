"""What is written for an engine scores there as here, by that engine's own rules."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import xgboost
from owpc_ltr_exports.elastic import to_elastic, to_elastic_body
from owpc_ltr_exports.solr import solr_profile, to_solr

from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.emulator import emulate, rejection_reason
from owpc_ltr.formats.engine_versions import (
    RANKLIB,
    XGBOOST,
    XGBOOST_RAW,
    ServingProfile,
    serving_profile,
)
from owpc_ltr.formats.ltr_plugin import plugin_definition
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.xgboost_dump import from_dump, to_dump
from owpc_ltr.formats.xgboost_model import from_raw, to_raw
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.networks import Layer, LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from tests.format_scores import elastic_score, solr_score
from tests.xgboost_samples import (
    MIDDLE,
    NAMES,
    NEW,
    OBJECTIVES,
    OLD,
    data,
    predictions,
    raw,
    stored,
    trained,
    zero_model,
)


@pytest.mark.parametrize("profile", [OLD, NEW], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_exported_scores_as_the_model(
    rng: np.random.Generator, profile: ServingProfile, objective: str
) -> None:
    rows, _ = data(rng)
    model = zero_model(rng, objective=objective, base_score=0.3)
    more = ("x", *reversed(NAMES), "y")  # a feature set in another order
    wide = np.column_stack([rows[:, 0], rows[:, ::-1], rows[:, 0]])
    exports: list[tuple[str, object]] = [
        (XGBOOST, to_dump(model, more, profile)),
        (XGBOOST_RAW, to_raw(model, more, profile)),
    ]
    if model.link == "identity":
        exports.append((RANKLIB, to_ranklib(model, more, profile)))
    for model_type, definition in exports:
        assert rejection_reason(definition, model_type, more, profile) is None
        scores = emulate(stored(model_type, definition, more), wide, profile)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_a_model_of_missing_values_goes_to_engines_that_know_them(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    booster = trained(rng, base_score=0.5)
    model = from_raw(raw(booster))
    for to, model_type in ((to_dump, XGBOOST), (to_raw, XGBOOST_RAW)):
        scores = emulate(stored(model_type, to(model, NAMES, NEW)), rows, NEW)
        assert scores == pytest.approx(predictions(booster, rows), abs=1e-6)
        for profile in (OLD, MIDDLE):
            with pytest.raises(Refused, match="send a missing feature elsewhere"):
                to(model, NAMES, profile)
            # Features that match every document are safe anywhere.
            full = np.nan_to_num(rows)
            definition = to(model, NAMES, profile, never_missing=NAMES)
            scores = emulate(stored(model_type, definition), full, profile)
            assert scores == pytest.approx(predictions(booster, full), abs=1e-6)


def test_between_3_2_and_3_7_a_model_of_zeros_goes_as_ranklib(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = zero_model(rng)
    with pytest.raises(Refused, match="as model/ranklib"):
        to_dump(model, NAMES, MIDDLE)
    scores = emulate(stored(RANKLIB, to_ranklib(model, NAMES, MIDDLE)), rows, MIDDLE)
    assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_where_the_engine_knows_the_flag_a_model_of_zeros_says_so(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = zero_model(rng)
    flagged = replace(MIDDLE, missing_as_zero=True)
    for to, model_type in ((to_dump, XGBOOST), (to_raw, XGBOOST_RAW)):
        definition = to(model, NAMES, flagged)
        assert definition["missing_as_zero"] is True
        scores = emulate(stored(model_type, definition), rows, flagged)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)
        assert "missing_as_zero" not in to(model, NAMES, NEW)


def test_a_written_raw_model_loads_into_xgboost_and_predicts_the_same(
    rng: np.random.Generator,
) -> None:
    rows, _ = data(rng)
    for objective in ("rank:ndcg", "binary:logistic"):
        model = from_raw(raw(trained(rng, objective=objective, base_score=0.4)))
        text = json.dumps(to_raw(model, NAMES, NEW)).encode()
        assert predictions(xgboost.Booster(model_file=bytearray(text)), rows) == pytest.approx(
            model.score(rows), abs=1e-6
        )


def test_what_is_written_reads_back_as_the_same_trees(rng: np.random.Generator) -> None:
    model = replace(zero_model(rng), link="identity", base=0.0)
    single = model.forest.value.astype(np.float32).astype(np.float64)
    model = replace(model, forest=replace(model.forest, value=single))
    wanted = model.as_dict()
    assert from_dump(to_dump(model, NAMES, NEW), NAMES).as_dict() == wanted
    assert from_raw(to_raw(model, NAMES, NEW)).as_dict() == wanted
    again = from_ranklib(to_ranklib(model, NAMES, NEW), NAMES)
    assert isinstance(again, TreeModel)
    assert again.as_dict() == wanted


def test_linear_models_and_networks_go_through_ranklib(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    normalisers = {"b": Normaliser("standard", 1.5, 2.0), "d": Normaliser("min_max", 0.0, 4.0)}
    linear = LinearModel(NAMES, rng.normal(size=4), normalisers)
    hidden = Layer(rng.normal(size=(3, 4)), rng.normal(size=3))
    network = LogisticNetwork(NAMES, (hidden, Layer(rng.normal(size=(1, 3)), rng.normal(size=1))))
    for model in (linear, network):
        definition = to_ranklib(model, NAMES, OLD)
        scores = emulate(stored(RANKLIB, definition), rows, OLD)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)
    again = from_ranklib(to_ranklib(network, NAMES, OLD), NAMES)
    assert isinstance(again, LogisticNetwork)
    assert again.as_dict() == network.as_dict()
    content = json.loads(json.dumps(network.as_dict()))
    assert LogisticNetwork.from_dict(content, NAMES, {}).as_dict() == network.as_dict()


def test_solrs_file_scores_as_the_model_by_solrs_rule(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = zero_model(rng, base_score=0.3)
    definition = to_solr(model, solr_profile((9, 8, 1)))
    scores = [solr_score(definition, dict(zip(NAMES, row, strict=True))) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_solrs_linear_file_names_weights_and_normalisers() -> None:
    model = LinearModel(("a", "b"), np.array([0.1, 2.0]), {"b": Normaliser("min_max", 1.0, 3.0)})
    definition = to_solr(model, solr_profile((9, 8, 1)))
    assert definition["params"] == {"weights": {"a": 0.1, "b": 2.0}}
    assert definition["features"][1]["norm"]["params"] == {"min": "1.0", "max": "4.0"}


def test_elasticsearchs_file_scores_as_the_model_by_its_rule(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = from_raw(raw(trained(rng, base_score=0.3)))
    definition = to_elastic(model, NAMES)
    scores = [elastic_score(definition, row) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-12)
    with pytest.raises(Refused, match="rescore chain"):
        to_elastic(LinearModel(NAMES, np.ones(4)), NAMES)


def test_elasticsearchs_body_takes_the_feature_sets_queries(rng: np.random.Generator) -> None:
    features = tuple(Feature(name, (), {"match": {name: "{{q}}"}}) for name in NAMES)
    body = to_elastic_body(zero_model(rng), FeatureSet("f", features))
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert extractors[1]["query_extractor"]["query"] == {"match": {"b": "{{q}}"}}
    script = Feature("s", (), "1 + a", "derived_expression")
    with pytest.raises(Refused, match="'s' is not a mustache query"):
        to_elastic_body(zero_model(rng), FeatureSet("f", (*features, script)))


def test_what_an_engine_cannot_do_is_refused_before_it_is_asked(rng: np.random.Generator) -> None:
    model = zero_model(rng)
    with pytest.raises(Refused, match="needs the feature 'd'"):
        to_dump(model, NAMES[:3], NEW)
    with pytest.raises(Refused, match=r"opensearch 2\.19\.1 does not take .*\+raw"):
        to_raw(model, NAMES, serving_profile("opensearch", "2.19.1"))
    with pytest.raises(Refused, match="RankLib has no logistic output"):
        to_ranklib(replace(model, link="logistic"), NAMES, NEW)


def test_the_first_format_that_scores_a_model_exactly_is_chosen(rng: np.random.Generator) -> None:
    zeros, native = zero_model(rng), from_raw(raw(trained(rng)))
    assert plugin_definition(zeros, NAMES, OLD)[0] == XGBOOST
    assert plugin_definition(zeros, NAMES, MIDDLE)[0] == RANKLIB
    assert plugin_definition(zeros, NAMES, NEW)[0] == XGBOOST
    assert plugin_definition(native, NAMES, NEW)[0] == XGBOOST
    with pytest.raises(Refused, match="elsewhere than opensearch 3"):
        plugin_definition(native, NAMES, MIDDLE)
    with pytest.raises(Refused, match="has no linear models"):
        plugin_definition(LinearModel(NAMES, np.ones(4)), NAMES, NEW)
