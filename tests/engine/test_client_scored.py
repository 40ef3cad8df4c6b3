"""Trees where no plugin runs them: kept in the store, proven by their features, scored here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.engine.defaults import MAX_DRIFT, PARITY_TOLERANCE
from owpc_ltr.engine.deployment.model_upload import Uploaded, upload_model
from owpc_ltr.engine.deployment.parity import logged
from owpc_ltr.engine.deployment.serving_mode import Budget
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.search.search import search_stored
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST, serving_profile
from owpc_ltr.formats.model_conversion import client_model, is_client_scored, to_stored_model
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.trees import TreeModel
from tests.engine.small_cluster import FEATURESET, Small, probes, small_cluster
from tests.models import trees

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}
OPENSEARCH = serving_profile("opensearch", "3.8.0")


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


def put(small: Small, model: TreeModel, **options: Any) -> Uploaded:
    options = {"budget": Budget(0), **options}
    return upload_model(
        small.engine, small.store, model, FEATURESET, small.index, small.name, **options
    )


def index_again(small: Small, documents: int) -> None:
    """Documents written once more, as they are but for one word: statistics of the index move."""
    for number in range(documents):
        path = f"/{small.index}/_doc/d{number}"
        source = small.engine.request("GET", path)["_source"]
        source["body"] += " alpha"
        small.engine.request("PUT", path, params={"refresh": "true"}, body=source)


@dataclass
class Rounding:
    """A store that keeps a tree's leaf otherwise than it was sent."""

    store: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put_model(self, stored: StoredModel) -> None:
        wrong = dict(stored.definition)
        wrong["value"] = [0.26 if value == 0.25 else value for value in wrong["value"]]
        assert wrong != stored.definition
        self.store.put_model(replace(stored, definition=wrong))


def test_trees_are_kept_whole_and_read_back_as_they_were(small: Small) -> None:
    model = trees(small)
    done = put(small, model)
    assert done.parity.scored_by == "client"
    assert done.parity.largest_difference == 0.0
    assert [one.by for one in done.features] == [0.0] * 3
    assert done.rankings is not None
    assert (done.rankings.tau, done.rankings.ndcg_difference) == (1.0, 0.0)
    stored = small.store.get_model(done.model)
    assert is_client_scored(stored)
    features = np.random.default_rng(2).uniform(0, 9, (50, 3)).astype(np.float32)
    features[::5] = np.nan
    np.testing.assert_array_equal(client_model(stored).score(features), model.score(features))


def test_a_search_orders_the_window_by_the_trees_own_scores(small: Small) -> None:
    model = trees(small)
    stored = small.store.get_model(put(small, model).model)
    both = search_stored(
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


def test_documents_indexed_again_move_features_and_the_upload_passes_and_tells(
    small: Small,
) -> None:
    model = trees(small)
    index_again(small, 3)
    done = put(small, model)
    assert done.parity.largest_difference == 0.0
    # Far more than the tolerance of scores, and yet nothing is wrong.
    assert 1e-4 < done.features[0].by < MAX_DRIFT
    assert done.features[0].feature == "body"
    assert done.rankings is not None
    assert done.rankings.tau > 0.8
    assert done.rankings.ndcg_difference is not None


def test_a_wrong_stored_tree_is_refused_and_taken_out(small: Small) -> None:
    lying = replace(small, store=cast(Store, Rounding(small.store)))
    with pytest.raises(Refused, match=r"read back from the store scores differently: by 0\.01 on"):
        put(lying, trees(small))
    assert small.store.list_models() == []


def test_features_of_another_meaning_are_refused_with_what_that_does_to_rankings(
    small: Small,
) -> None:
    other = {"match": {"title": "{{keywords}}"}}
    features = [replace(one, template=other) if one.name == "body" else one
                for one in FEATURESET.features]  # fmt: skip
    edited = replace(FEATURESET, features=tuple(features))
    model = trees(small, edited)
    with pytest.raises(Refused, match=r"feature 'body' is not what it was.*deviations") as caught:
        put(small, model)
    for words in ("(0.25 is allowed)", "Kendall's tau", "ndcg@10", "--max-drift"):
        assert words in str(caught.value)
    assert small.store.list_models() == []
    allowed = put(small, model, max_drift=1e6)
    assert allowed.features[0].by > MAX_DRIFT
    assert allowed.rankings is not None
    assert allowed.rankings.tau < 0.95


def test_a_model_that_remembers_no_features_is_proven_and_its_drift_is_not_known(
    small: Small,
) -> None:
    done = put(small, trees(small, probes=probes()))
    assert done.parity.largest_difference == 0.0
    assert (done.features, done.rankings) == ((), None)


def test_verify_says_the_same_two_figures(small: Small) -> None:
    done = put(small, trees(small))
    found = verify_model(
        small.engine, small.store, done.model, small.index, tolerance=PARITY_TOLERANCE
    )
    assert found.drift == ()
    assert found.parity is not None
    assert found.parity.scored_by == "client"
    index_again(small, 3)
    found = verify_model(
        small.engine, small.store, done.model, small.index, tolerance=PARITY_TOLERANCE
    )
    assert found.parity is not None
    assert found.parity.largest_difference == 0.0
    assert found.features[0].by > 1e-4
    assert found.rankings is not None
    assert found.rankings.tau > 0.8


def test_a_damaged_stored_model_is_not_taken(small: Small) -> None:
    definition = {**to_stored_model(trees(small), FEATURESET, "m", "plugin-free").definition}
    definition["left"] = [0] * 8
    with pytest.raises(BadInput, match="damaged"):
        small.store.put_model(StoredModel("m", "owpc-ltr/trees", definition, FEATURESET))
    with pytest.raises(BadInput, match="damaged"):
        client_model(StoredModel("m", "owpc-ltr/trees", "text", FEATURESET))


def test_the_plugin_gets_trees_in_the_first_format_that_scores_them_exactly(small: Small) -> None:
    model = trees(small)
    stored = to_stored_model(model, FEATURESET, "m", "ltr-plugin", OPENSEARCH)
    assert stored.type == XGBOOST
    json.dumps(stored.definition)
    # Up to 3.1 a missing feature counts 0: only what goes there anyway can be exported.
    old = serving_profile("opensearch", "2.19.0")
    as_zero = to_stored_model(model.with_missing_as_zero(), FEATURESET, "m", "ltr-plugin", old)
    assert as_zero.type == XGBOOST
    # From 3.2 on it goes right, which RankLib's trees do not: they take 0.
    right = serving_profile("opensearch", "3.3.0")
    ranklib = to_stored_model(model.with_missing_as_zero(), FEATURESET, "m", "ltr-plugin", right)
    assert ranklib.type == RANKLIB
    with pytest.raises(Refused, match="unknown version"):
        to_stored_model(model, FEATURESET, "m", "ltr-plugin")
