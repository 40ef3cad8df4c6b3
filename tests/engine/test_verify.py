"""The proof of an uploaded model repeats from the cluster alone, and names what drifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.model_upload import Uploaded
from owpc_ltr.engine.deployment.parity import PARITY_TOLERANCE, ProofLimits
from owpc_ltr.engine.deployment.proof import ScoredDocuments, feature_drifts
from owpc_ltr.engine.deployment.verify import Verification, verify_model
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import Feature
from owpc_ltr.models.model_file import packed, unpacked
from tests.engine.deployed import Scriptless
from tests.engine.deployed import put as upload
from tests.engine.small_cluster import FEATURESET, Small, fill, linear


def put(small: Small, *weights: float, **record: Any) -> Uploaded:
    model = linear(weights or (1.0, 0.5, -0.2), **record)
    return upload(small, model)


def look(small: Small, model: str, **limits: Any) -> Verification:
    return verify_model(small.engine, small.store, model, small.index, limits=ProofLimits(**limits))


def test_a_model_that_nothing_happened_to_verifies_from_the_cluster_alone(small: Small) -> None:
    done = put(small)
    verification = look(small, done.model)
    assert verification.drift == ()
    assert verification.parity is not None
    assert verification.parity.documents == 48
    assert verification.parity.largest_difference <= PARITY_TOLERANCE
    assert [feature.by for feature in verification.features] == [0.0] * 3
    again = verify_model(small.engine, small.store, done.model)
    assert (again.index, again.drift) == (small.index, ())


def test_the_deployment_record_gives_back_the_very_model(small: Small) -> None:
    done = put(small, 1 / 3, -2e-7, 5.5, loss={"name": "owpc", "settings": {}})
    deployment = DeploymentRecords(small.engine, small.store).get(done.model)
    ranker = deployment.ranker()
    features = np.random.default_rng(1).normal(size=(9, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        ranker.score(features), linear((1 / 3, -2e-7, 5.5)).score(features)
    )
    assert ranker.record["loss"]["name"] == "owpc"
    assert deployment.featureset == FEATURESET
    assert deployment.parity == done.parity.as_dict()
    assert len(deployment.samples) == 4
    assert all(len(p["scores"]) == len(p["document_ids"]) == 12 for p in deployment.samples)
    brief = DeploymentRecords(small.engine, small.store).find(done.model, whole=False)
    assert brief is not None
    assert (brief.content, brief.samples) == ({}, ())
    assert brief.interval == deployment.interval


def test_a_model_without_a_deployment_record_is_named(small: Small) -> None:
    with pytest.raises(BadInput, match="no deployment record"):
        look(small, "never-00000000")


@pytest.mark.modules
def test_a_request_that_the_engine_refuses_since_is_drift(small: Small) -> None:
    """Applications get an error, though every score is as it was."""
    done = put(small)
    engine = cast("Engine", Scriptless(small.engine))
    verification = look(
        replace(small, engine=engine, store=small.store_through(engine)), done.model
    )
    assert verification.parity is not None
    assert verification.parity.largest_difference <= PARITY_TOLERANCE
    (drift,) = verification.drift
    assert "cannot execute [inline] scripts" in drift
    bounded = put(small, 1.0, 0.0, 0.0)
    assert look(replace(small, engine=engine), bounded.model).drift == ()


@pytest.mark.usefixtures("own_index")
def test_features_that_moved_are_named_with_how_far(small: Small) -> None:
    done = put(small)
    small.engine.request(
        "POST",
        f"/{small.index}/_update_by_query",
        params={"refresh": "true"},
        body={"script": {"source": "ctx._source.size *= 3"}, "query": {"match_all": {}}},
    )
    verification = look(small, done.model)
    (words,) = verification.drift
    assert words.startswith("feature 'size' drifted by")
    assert verification.features[0].feature == "size"
    assert verification.features[0].mean_now == pytest.approx(
        3 * verification.features[0].mean_before
    )
    assert verification.parity is not None
    assert verification.parity.largest_difference <= PARITY_TOLERANCE
    assert look(small, done.model, max_drift=1e3).drift == ()


@pytest.mark.usefixtures("own_index")
def test_an_index_made_again_is_no_drift_and_another_mapping_is(small: Small) -> None:
    done = put(small)
    small.engine.request("DELETE", f"/{small.index}")
    fill(small.engine, small.index, small.documents)
    verification = look(small, done.model)
    assert verification.drift == ()
    assert verification.notes == (
        f"the index '{small.index}' was created again, with the same mapping and analysis",
    )
    small.engine.request(
        "PUT", f"/{small.index}/_mapping", body={"properties": {"new": {"type": "keyword"}}}
    )
    assert any("mapping" in words for words in look(small, done.model).drift)


def switch(small: Small, before: str, after: str) -> None:
    actions = [
        {"remove": {"index": before, "alias": f"{small.index}-live"}},
        {"add": {"index": after, "alias": f"{small.index}-live"}},
    ]
    small.engine.request("POST", "/_aliases", body={"actions": actions})


@pytest.fixture
def alias(small: Small) -> Iterator[str]:
    """An alias of the index, and another index that it can be switched to."""
    name = f"{small.index}-live"
    small.engine.request("PUT", f"/{small.index}/_alias/{name}")
    yield name
    small.engine.request("DELETE", f"/{small.index}-v2")


@pytest.mark.usefixtures("own_index")
def test_an_alias_that_is_switched_to_an_identical_copy_is_no_drift(
    small: Small, alias: str
) -> None:
    done = upload(small, linear(), index=alias)
    fill(small.engine, f"{small.index}-v2", small.documents)
    switch(small, small.index, f"{small.index}-v2")
    verification = verify_model(small.engine, small.store, done.model)
    assert verification.drift == ()
    (note,) = verification.notes
    assert f"'{alias}' is now {small.index}-v2 (at the upload {small.index})" in note
    assert "the same mapping" in note


@pytest.mark.modules
@pytest.mark.usefixtures("own_index")
def test_an_alias_that_is_switched_to_another_mapping_is_named_with_what_fails(
    small: Small, alias: str
) -> None:
    done = upload(small, linear(), index=alias)
    texts = {"title": {"type": "text"}, "body": {"type": "text"}, "size": {"type": "keyword"}}
    mapped = {"mappings": {"properties": texts}}
    small.engine.request("PUT", f"/{small.index}-v2", body=mapped)
    copied = {"source": {"index": small.index}, "dest": {"index": f"{small.index}-v2"}}
    small.engine.request("POST", "/_reindex", params={"refresh": "true"}, body=copied)
    switch(small, small.index, f"{small.index}-v2")
    verification = verify_model(small.engine, small.store, done.model)
    assert verification.parity is None
    mapping, feature = verification.drift
    assert f"{small.index}-v2" in mapping
    assert "another mapping or analysis" in mapping
    assert feature == (
        f"feature 'size' (fields: size) cannot be computed on '{alias}': a field is mapped as "
        "another type than the query on it needs"
    )


def test_an_edited_feature_set_and_one_that_is_gone_are_drift(small: Small) -> None:
    done = put(small)
    edited = replace(
        FEATURESET, features=(Feature("title", (), {"match_all": {}}), *FEATURESET.features[1:])
    )
    small.store.put_featureset(edited, replace=True)
    assert look(small, done.model).drift == ("'title' of the feature set 'small' changed",)
    small.store.delete_featureset("small")
    assert look(small, done.model).drift == ("the feature set 'small' is gone",)


def test_another_engine_version_is_drift(small: Small) -> None:
    done = put(small)
    deployments = DeploymentRecords(small.engine, small.store)
    old = deployments.get(done.model)
    deployments.put(replace(old, engine={**old.engine, "version": "2.19.0"}))
    (words,) = look(small, done.model).drift
    assert words.startswith("the engine's version changed from 2.19.0 to ")
    assert put(small).model == done.model
    assert look(small, done.model).drift == ()


def test_an_upgrade_that_divides_text_scores_is_told_with_what_it_does_to_rankings(
    small: Small,
) -> None:
    """As OpenSearch 3 does with BM25: 2.2 times as high in the record of an upload before it."""
    done = put(small)
    deployments = DeploymentRecords(small.engine, small.store)
    old = deployments.get(done.model)
    samples = []
    for sample in old.samples:
        features = unpacked(sample["features"], len(sample["document_ids"]), 3)
        scaled = features * np.array([2.2, 2.2, 1.0], np.float32)
        samples.append({**sample, "features": packed(scaled)})
    engine = {**old.engine, "version": "2.19.0"}
    deployments.put(replace(old, engine=engine, samples=tuple(samples)))
    verification = look(small, done.model)
    version, *others = verification.drift
    assert version.startswith("the engine's version changed from 2.19.0 to ")
    assert sorted(words.partition(" by ")[0] for words in others) == [
        "feature 'body' drifted",
        "feature 'title' drifted",
    ]
    assert verification.rankings is not None
    assert verification.rankings.swapped > 0
    assert f"{verification.rankings.swapped} pairs swapped" in str(verification)
    assert verification.parity is not None
    assert verification.parity.largest_difference <= PARITY_TOLERANCE


@pytest.mark.modules
def test_scores_that_no_longer_agree_are_drift(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(small)
    monkeypatch.setattr(
        "owpc_ltr.engine.deployment.proof._Scorer._engine_scores", lambda *a: np.zeros(len(a[-1]))
    )
    (words,) = look(small, done.model).drift
    assert words.startswith("the engine scores differently")


def test_how_far_a_feature_moved_is_its_mean_step_in_standard_deviations() -> None:
    before = np.array([[0.0, 1.0], [2.0, 1.0]], np.float32)
    now = np.array([[0.5, 1.0], [2.5, np.nan]], np.float32)
    scores = np.zeros(2)
    query = ScoredDocuments({}, ("a", "b"), None, now, before, scores, scores)
    by = {each.feature: each for each in feature_drifts(("x", "y"), [query])}
    assert by["x"].by == pytest.approx(0.5)
    assert by["y"].by == pytest.approx(0.5)
    assert by["y"].newly_missing == 0.5


# --- what is known of models, and which can go


def test_only_models_that_no_name_means_are_taken_out(small: Small) -> None:
    first, second, third = (put(small, 1.0, weight, 0.0) for weight in (0.1, 0.2, 0.3))
    assert prunable(small.engine, small.store) == []
    for name in (first.model, third.model):
        with pytest.raises(Refused, match="a model in use is not removed"):
            prune(small.engine, small.store, [name])
    Aliases(small.engine, small.store).roll_back(small.name)
    assert prunable(small.engine, small.store) == [third.model]
    with pytest.raises(BadInput, match="exact name"):
        prune(small.engine, small.store, [third.model, "m-00000000"])
    prune(small.engine, small.store, [third.model])
    assert sorted(small.store.list_models()) == sorted([first.model, second.model])
    assert DeploymentRecords(small.engine, small.store).find(third.model) is None
