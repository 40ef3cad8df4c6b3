"""Trees where no plugin runs them: kept in the store, proven by their features, scored here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.deployment.drift import verify
from owpc_ltr.engine.deployment.parity import logged
from owpc_ltr.engine.deployment.upload import TOLERANCE, upload
from owpc_ltr.engine.search.compare import search
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.interop.client_scored import client_model, is_client_scored
from owpc_ltr.interop.engine_versions import RANKLIB, XGBOOST, serving_profile
from owpc_ltr.interop.export import export_model
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.models.forest import Forest
from owpc_ltr.models.parity_samples import packed, unpacked
from owpc_ltr.models.trees import TreeModel
from tests.engine.small_cluster import FEATURESET, Small, probes, small_cluster

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}
OPENSEARCH = serving_profile("opensearch", "3.8.0")


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


def forest() -> Forest:
    """size < 4 ? (body < 1 ? −1 : 2) : 0.25, and title < 1.2 ? 0 : 1."""
    return Forest(
        np.array([0, 5], np.int32),
        np.array([2, 1, -1, -1, -1, 0, -1, -1], np.int32),
        np.array([4, 1, 0, 0, 0, 1.2, 0, 0], np.float32),
        np.array([1, 3, 0, 0, 0, 6, 0, 0], np.int32),
        np.array([False, True, False, False, False, True, False, False]),
        np.array([0, 0, 0.25, -1, 2, 0, 0, 1.0]),
    )


def trees(small: Small, **changed: Any) -> TreeModel:
    """Trees that remember features as the engine gives them."""
    asked = []
    for probe in probes():
        ids, features = logged(small.engine, small.store, FEATURESET, small.index, probe)
        assert ids == probe["document_ids"]
        asked.append({**probe, "features": packed(features), "labels": [0.0] * len(ids)})
    record = {"probes": asked, "featureset_hash": FEATURESET.hash, **changed}
    return TreeModel(FEATURESET.feature_names, forest(), 0.5, record=record)


def put(small: Small, model: TreeModel) -> Any:
    return upload(small.engine, small.store, model, FEATURESET, small.index, small.name)


def test_trees_are_kept_whole_and_read_back_as_they_were(small: Small) -> None:
    model = trees(small)
    done = put(small, model)
    assert done.parity.compared == "features"
    assert done.parity.largest_difference == 0.0
    stored = small.store.get_model(done.model)
    assert is_client_scored(stored)
    features = np.random.default_rng(2).uniform(0, 9, (50, 3)).astype(np.float32)
    features[::5] = np.nan
    np.testing.assert_array_equal(client_model(stored).score(features), model.score(features))


def test_a_search_orders_the_window_by_the_trees_own_scores(small: Small) -> None:
    model = trees(small)
    stored = small.store.get_model(put(small, model).model)
    both = search(
        small.engine, small.store, SearchRequest(small.index, QUERY, PARAMS, 10, 30), stored
    )
    assert both.scored_by == "client"
    assert both.reason == ""
    assert len(both.after) == 10
    probe = {"params": PARAMS, "document_ids": [f"d{n}" for n in range(small.documents)]}
    ids, features = logged(small.engine, small.store, FEATURESET, small.index, probe)
    local = dict(zip(ids, model.score(features), strict=True))
    scores = [hit.score for hit in both.after]
    assert scores == [local[hit.document_id] for hit in both.after]
    assert scores == sorted(scores, reverse=True)
    with pytest.raises(Refused, match="scored by the client"):
        request_body(small.store, stored, SearchRequest(small.index, QUERY, PARAMS))


def test_features_that_changed_since_training_are_refused_and_named(small: Small) -> None:
    model = trees(small)
    probe = model.record["probes"][1]
    features = unpacked(probe["features"], 12, 3)
    features[4, 1] = np.nan if np.isfinite(features[4, 1]) else 1.0
    probe["features"] = packed(features)
    with pytest.raises(Refused, match=r"feature 'body'.*when the model was trained"):
        put(small, model)
    assert small.store.list_models() == []


def test_without_remembered_features_there_is_nothing_to_prove_it_by(small: Small) -> None:
    with pytest.raises(Refused, match="remembers no features"):
        put(small, trees(small, probes=probes()))
    assert small.store.list_models() == []


def test_verify_compares_features_and_says_so(small: Small) -> None:
    done = put(small, trees(small))
    found = verify(small.engine, small.store, done.model, small.index, tolerance=TOLERANCE)
    assert found.drift == ()
    assert found.parity is not None
    assert found.parity.compared == "features"


def test_a_damaged_stored_model_is_not_taken(small: Small) -> None:
    definition = {**export_model(trees(small), FEATURESET, "m", "plugin-free").definition}
    definition["left"] = [0] * 8
    with pytest.raises(BadInput, match="damaged"):
        small.store.put_model(StoredModel("m", "owpc-ltr/trees", definition, FEATURESET))
    with pytest.raises(BadInput, match="damaged"):
        client_model(StoredModel("m", "owpc-ltr/trees", "text", FEATURESET))


def test_the_plugin_gets_trees_in_the_first_format_that_scores_them_exactly(small: Small) -> None:
    model = trees(small)
    stored = export_model(model, FEATURESET, "m", "ltr-plugin", OPENSEARCH)
    assert stored.type == XGBOOST
    json.dumps(stored.definition)
    # Up to 3.1 a missing feature counts 0: only what goes there anyway can be exported.
    old = serving_profile("opensearch", "2.19.0")
    as_zero = export_model(model.with_missing_as_zero(), FEATURESET, "m", "ltr-plugin", old)
    assert as_zero.type == XGBOOST
    # From 3.2 on it goes right, which RankLib's trees do not: they take 0.
    right = serving_profile("opensearch", "3.3.0")
    ranklib = export_model(model.with_missing_as_zero(), FEATURESET, "m", "ltr-plugin", right)
    assert ranklib.type == RANKLIB
    with pytest.raises(Refused, match="unknown version"):
        export_model(model, FEATURESET, "m", "ltr-plugin")
