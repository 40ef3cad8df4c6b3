"""Explained searches on a real node: what is said of each hit adds up to what the engine served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.explain_search import ExplainRequest, explain_ranked
from owpc_ltr.engine.search.request import search_request
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel, Normaliser
from owpc_ltr.models.model_file import with_record
from tests.commands import Run
from tests.engine.deployed import liar, put
from tests.engine.small_cluster import (
    FEATURESET,
    Small,
    linear,
    probes,
    shared_cluster,
    small_cluster,
)
from tests.small_models import trees

pytestmark = pytest.mark.filterwarnings("ignore:the client scores")

NAMES = FEATURESET.feature_names
QUERY = {"match": {"body": "{{keywords}}"}}
WORDS = "alpha beta gamma"


small = shared_cluster(documents=1200)


def searching(small: Small, **more: Any) -> dict[str, Any]:
    """What a search is asked with."""
    return {"index": small.index, "query_template": QUERY, **more}


def normalised(_small: Small) -> LinearModel:
    scaled = {"body": Normaliser("standard", 0.7, 0.4), "size": Normaliser("min_max", 0.5, 8.5)}
    return LinearModel(NAMES, np.array([1.0, 0.5, -0.2]), scaled, linear().record)


def curves(_small: Small) -> AdditiveModel:
    return AdditiveModel(
        NAMES,
        {
            "title": Curve(np.array([0.5, 1.5]), np.array([0.0, 2.0]), -0.5),
            "size": Curve(np.array([1.0, 4.0, 8.0]), np.array([0.3, -1.0, 0.7]), 0.1),
        },
        linear().record,
    )


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize("client_scored", [True, False])
@pytest.mark.parametrize("kind", [normalised, curves, trees], ids=lambda kind: kind.__name__)
def test_what_is_said_of_a_thousand_hits_adds_up_to_what_was_served(
    small: Small, kind: Any, client_scored: bool
) -> None:
    check_a_thousand_hits(small, put(small, kind(small), client_scored=client_scored).model)


@pytest.mark.parametrize("kind", [normalised, trees], ids=lambda kind: kind.__name__)
def test_what_the_plugin_serves_is_explained_in_the_same_way(
    kind: Any, node_for: Callable[[str], str]
) -> None:
    with small_cluster(node_for("ltr-plugin"), 1200, kind="ltr-plugin") as small:
        check_a_thousand_hits(small, put(small, kind(small)).model)


def check_a_thousand_hits(small: Small, model: str) -> None:
    asked = searching(small, size=1000, window=1000)
    explanation = small.cluster.explain(WORDS, model=model, **asked)
    both = small.cluster.search(WORDS, model=model, **asked)
    assert explanation.warnings == ()
    assert len(explanation.hits) == explanation.documents == 1000
    assert [hit.document_id for hit in explanation.hits] == [hit.document_id for hit in both.after]
    assert [hit.rank_before for hit in explanation.hits] == [hit.other_rank for hit in both.after]
    served = np.array([hit.score for hit in both.after])
    added = np.array([explanation.baseline + hit.contributions.sum() for hit in explanation.hits])
    assert np.abs(added - served).max() <= 1e-6 * np.ptp(served)
    # A check that could not fail would pass without the largest contributor, too.
    short = added - [np.abs(hit.contributions).max() for hit in explanation.hits]
    assert np.abs(short - served).max() > 1e-2 * np.ptp(served)


def test_a_missing_feature_is_shown_as_missing_and_as_the_engine_takes_it(small: Small) -> None:
    uploaded = put(small, curves(small))
    asked = searching(small, size=100)
    explanation = small.cluster.explain(WORDS, model=uploaded.model, **asked)
    untitled = [hit for hit in explanation.hits if np.isnan(hit.values[0])]
    assert untitled
    assert {float(hit.contributions[0]) for hit in untitled} == {-0.5}


def test_a_reordered_window_is_explained_by_its_reranker(small: Small) -> None:
    from owpc_ltr_rerankers.exchangeable import ExchangeableReordering, ReorderingShape

    shape = ReorderingShape("cosine,similarity:body")
    learned = ExchangeableReordering(NAMES, shape, np.array([[0.4, -0.9]]), np.ones(1))
    ranker = ReorderingModel(linear(), "exchangeable", learned, linear().record)
    asked = searching(small, size=20, window=50)
    explanation = small.cluster.explain(WORDS, reranker=ranker, **asked)
    both = small.cluster.search(WORDS, reranker=ranker, deadline=30, **asked)
    assert explanation.warnings == ()
    assert [hit.document_id for hit in explanation.hits] == [hit.document_id for hit in both.after]
    for hit, served in zip(explanation.hits, both.after, strict=True):
        assert [part.name for part in hit.parts] == [
            "the list by cosine",
            "the list by similarity:body",
        ]
        total = (
            explanation.baseline + hit.contributions.sum() + sum(part.amount for part in hit.parts)
        )
        assert np.isclose(total, served.score, atol=1e-9)
    of_one_document = small.cluster.explain(
        WORDS, explanation.hits[9].document_id, reranker=ranker, **asked
    )
    assert [hit.rank for hit in of_one_document.hits] == [10]


def test_an_engine_that_serves_other_scores_is_told_of(small: Small) -> None:
    uploaded = put(small, linear())
    stored = small.store.get_model(uploaded.model)
    request = search_request(small.cluster, WORDS, index=small.index, query_template=QUERY)
    honest = explain_ranked(small.engine, small.store, request, stored, ExplainRequest(WORDS, 10))
    assert honest.warnings == ()
    lying = liar(small)
    (warning,) = explain_ranked(
        small.engine, lying.store, request, stored, ExplainRequest(WORDS, 10)
    ).warnings
    assert "what was served is not what is explained" in warning


def test_a_model_without_a_deployment_record_is_explained_where_the_store_can_tell_it(
    small: Small,
) -> None:
    linear_one = put(small, with_record(linear((0.5, 0.25, 1.0)), linear().record)).model
    scripted = put(small, trees(small)).model
    for name in (linear_one, scripted):
        DeploymentRecords(small.engine, small.store).delete(name)
    asked = searching(small)
    assert small.cluster.explain(WORDS, model=linear_one, **asked).hits
    with pytest.raises(BadInput, match="has no deployment record"):
        small.cluster.explain(WORDS, model=scripted, **asked)


def test_a_query_that_finds_nothing_and_a_document_that_is_not_found(small: Small) -> None:
    uploaded = put(small, linear())
    asked = searching(small, model=uploaded.model)
    assert small.cluster.explain("nosuchword", **asked).hits == ()
    with pytest.raises(UsageError, match="'nobody' is not among the 30 documents"):
        small.cluster.explain(WORDS, "nobody", window=30, **asked)


@pytest.fixture
def run(small: Small, monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    Path("query.json").write_text(json.dumps(QUERY))
    return run


def test_the_command_line_explains_a_search(small: Small, run: Run) -> None:
    put(small, linear(probes=probes()))
    index = ("--index", small.index, "--query-template", "query.json", *small.place)
    request = ("--search", WORDS, *index)
    code, out, err = run("explain", small.name, *request, "--size", "3")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("█" in line for line in lines) >= 3
    listed = json.loads(run("explain", small.name, *request, "--size", "3", "--json")[1])
    assert [hit["rank"] for hit in listed["hits"]] == [1, 2, 3]
    last = listed["hits"][2]["document_id"]
    code, out, err = run("explain", small.name, last, *request)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "rank 3 of" in out
    assert "weight 0.5" in out
    asked = ("--model", small.name, *index)
    code, out, err = run("search", WORDS, *asked, "--size", "3", "--explain")
    assert (code, err) == (0, "")
    assert "the engine took" in out
    assert "█" in out
    request = json.loads(run("search", WORDS, *asked, "--size", "3", "--explain", "--json")[1])
    ids = [hit["document_id"] for hit in request["after"]]
    assert [hit["document_id"] for hit in request["explanation"]["hits"]] == ids
