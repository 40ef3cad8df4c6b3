"""Search requests: large enough rescore windows, and stable pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.deployment.deployment_record import immutable_name
from owpc_ltr.engine.search.request import (
    FLOOR,
    KEEP,
    SearchRequest,
    check_query,
    default_query,
    lift,
    request_body,
    window_safe,
)
from owpc_ltr.engine.search.search import search_ranked, titles_of
from owpc_ltr.engine.stores.feature_queries import linear_rescorers
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.analysis import UNKNOWN, ScoreInterval, score_interval
from owpc_ltr.models.linear import LinearModel, Normaliser
from tests.engine.small_cluster import FEATURESET, Small, linear, shared_cluster, small_cluster

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}


small = shared_cluster()


STORED = export_linear(linear(), FEATURESET, "m")


def test_the_window_is_never_smaller_than_what_is_shown(small: Small) -> None:
    body = request_body(small.store, STORED, SearchRequest("docs", QUERY, PARAMS, 50, 10))
    assert {clause["window_size"] for clause in body["rescore"]} == {50}
    body = request_body(small.store, STORED, SearchRequest("docs", QUERY, PARAMS, 10, 70))
    assert {clause["window_size"] for clause in body["rescore"]} == {70}
    assert body["size"] == 10


def test_without_a_model_the_request_is_the_query_alone(small: Small) -> None:
    body = request_body(small.store, None, SearchRequest("docs", QUERY, PARAMS))
    assert body == {"query": {"match": {"body": "alpha gamma"}}, "size": 10}


@pytest.mark.parametrize("part", ["sort", "collapse", "rescore", "scroll"])
def test_a_query_that_cannot_be_rescored_is_refused_by_name(part: str, small: Small) -> None:
    with pytest.raises(UsageError, match=f"'{part}'"):
        check_query({part: {}})
    with pytest.raises(UsageError, match=f"'{part}'"):
        SearchRequest(small.index, {part: {}}, PARAMS)


def test_both_rankings_name_each_others_ranks(small: Small) -> None:
    both = search_ranked(
        small.engine,
        small.store,
        SearchRequest(small.index, QUERY, PARAMS, 60),
        STORED,
        title_field="title",
    )
    before = {hit.document_id: rank for rank, hit in enumerate(both.before, 1)}
    after = {hit.document_id: rank for rank, hit in enumerate(both.after, 1)}
    assert before.keys() == after.keys()
    assert before != after
    assert [hit.other_rank for hit in both.after] == [before[h.document_id] for h in both.after]
    assert [hit.other_rank for hit in both.before] == [after[h.document_id] for h in both.before]
    scores = [hit.score for hit in both.after]
    assert scores == sorted(scores, reverse=True)


def test_a_field_that_is_not_there_is_named(small: Small) -> None:
    with pytest.raises(BadInput, match="no field 'nosuch'"):
        search_ranked(
            small.engine,
            small.store,
            SearchRequest(small.index, QUERY, PARAMS),
            None,
            title_field="nosuch",
        )


def test_the_default_query_searches_every_text_field(small: Small) -> None:
    query: dict[str, Any] = default_query(small.engine, small.index)
    assert query == {"multi_match": {"query": "{{keywords}}", "fields": ["body", "title"]}}


# Every document matches, so that there are many beyond a small window.
QUERY_WINDOW: dict[str, Any] = {
    "bool": {"must": [{"match_all": {}}], "should": [{"match": {"body": "{{keywords}}"}}]}
}
WINDOW, PAGE, DOCUMENTS = 20, 7, 240
NAMES = set(FEATURESET.feature_names)
SEEN = np.array([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])


CLUSTERS = {
    "one shard": (1, "plugin-free"),
    "three shards": (3, "plugin-free"),
    "three shards, plugin": (3, "ltr-plugin"),
}


@pytest.fixture(scope="module", params=CLUSTERS)
def small_window(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Small]:
    shards, kind = CLUSTERS[request.param]
    with small_cluster(node_for(kind), DOCUMENTS, shards, kind) as made:
        yield made


@pytest.fixture(scope="module")
def outliers(small_window: Small) -> Iterator[Small]:
    """A tenth of the documents of a size that was never seen, the best of the search among them."""
    best = ids_of(
        small_window, request_body(small_window.store, None, asked(small_window, WINDOW))
    )[::2]
    kind = small_window.store.kind
    with small_cluster(small_window.engine.settings.url, DOCUMENTS, 3, kind) as other:
        script = {"source": "ctx._source.size = 1000 + 1000 * params.at.indexOf(ctx._id)",
                  "params": {"at": best}}  # fmt: skip
        other.engine.request(
            "POST",
            f"/{other.index}/_update_by_query",
            params={"refresh": "true"},
            body={"script": script, "query": {"ids": {"values": best}}},
        )
        yield other


def model(*weights: float) -> LinearModel:
    return LinearModel(FEATURESET.feature_names, np.array(weights))


def kept(small: Small, ranker: LinearModel) -> StoredModel:
    stored = export_linear(ranker, FEATURESET, "m")
    stored = replace(stored, name=immutable_name("m", stored))
    small.store.put_model(stored)
    return stored


def pages(
    small: Small, ranker: LinearModel, interval: ScoreInterval | None
) -> list[tuple[str, float]]:
    """All documents in the order of pages of seven, as an application turns them."""
    stored = kept(small, ranker)
    body = request_body(small.store, stored, asked(small, PAGE, WINDOW), interval)
    ranking: list[tuple[str, float]] = []
    while True:
        answer = small.engine.request(
            "POST", f"/{small.index}/_search", body={**body, "from": len(ranking), "_source": False}
        )
        hits = answer["hits"]["hits"]
        if not hits:
            return ranking
        ranking += [(hit["_id"], hit["_score"]) for hit in hits]


MODELS = {
    "above zero": model(1.0, 0.5, 0.1),
    "below zero": model(-1.0, -0.5, -0.1),
    "both": model(1.0, -0.7, 0.3),
    "zero": model(0.0, 0.0, 0.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_pages_never_repeat_a_document_and_scores_never_rise(
    name: str, small_window: Small
) -> None:
    ranker = MODELS[name]
    interval = score_interval(ranker, NAMES, SEEN)
    check_pages(pages(small_window, ranker, interval), {WINDOW, 3 * WINDOW})


def check_pages(ranking: list[tuple[str, float]], windows: set[int]) -> None:
    assert len(ranking) == len({document for document, _ in ranking}) == DOCUMENTS
    scores = [score for _, score in ranking]
    assert scores == sorted(scores, reverse=True)
    inside = [score for score in scores if score >= FLOOR / 2]
    assert max(scores[len(inside) :]) < FLOOR * 2.0**-40
    # Each shard rescores its own window.
    assert len(inside) in windows


@pytest.mark.parametrize("weights", [(1.0, 0.5, -0.1), (1.0, -0.7, -0.3), (-1.0, -1.0, -1.0)])
def test_values_that_were_never_seen_cannot_push_a_document_out_of_its_window(
    weights: tuple[float, ...], outliers: Small
) -> None:
    ranker = model(*weights)
    interval = score_interval(ranker, NAMES, SEEN)
    assert not interval.proven
    check_pages(pages(outliers, ranker, interval), {3 * WINDOW})
    # The liar: an interval that only says that it is proven lets them fall out of it.
    with pytest.raises(AssertionError):
        check_pages(pages(outliers, ranker, replace(interval, proven=True)), {3 * WINDOW})


def test_what_holds_values_that_were_never_seen_leaves_all_other_scores_as_they_are(
    small_window: Small,
) -> None:
    ranker = MODELS["both"]
    interval = score_interval(ranker, NAMES, SEEN)
    held, plain = (
        dict(pages(small_window, ranker, each))
        for each in (interval, replace(interval, proven=True))
    )
    inside = [document for document, score in plain.items() if score >= FLOOR / 2]
    lifted = held[inside[0]] - plain[inside[0]]
    assert inside == [document for document, score in held.items() if score >= FLOOR / 2]
    for document in inside:
        assert held[document] - plain[document] == pytest.approx(lifted, abs=1e-5)


def test_the_request_as_it_was_does_repeat_documents(small_window: Small) -> None:
    """The liar: without the constants, pages of a model with scores below zero are no order."""
    ranking = pages(small_window, MODELS["below zero"], None)
    scores = [score for _, score in ranking]
    documents = {document for document, _ in ranking}
    assert len(documents) < DOCUMENTS or scores != sorted(scores, reverse=True)


@pytest.mark.parametrize("name", ["below zero", "both"])
def test_the_order_within_the_window_is_the_models_and_beyond_it_the_searchs(
    name: str, small_window: Small
) -> None:
    ranker = MODELS[name]
    safe = [
        document for document, _ in pages(small_window, ranker, score_interval(ranker, NAMES, SEEN))
    ]
    stored = kept(small_window, ranker)
    first = request_body(small_window.store, stored, asked(small_window, WINDOW, WINDOW))
    plain = request_body(small_window.store, None, asked(small_window, DOCUMENTS))
    assert safe[:WINDOW] == ids_of(small_window, first)
    beyond = safe[3 * WINDOW :]
    assert [
        document for document in ids_of(small_window, plain) if document in set(beyond)
    ] == beyond


def asked(small: Small, size: int, window: int = 100) -> SearchRequest:
    return SearchRequest(small.index, QUERY_WINDOW, PARAMS, size, window)


def ids_of(small: Small, body: dict[str, Any]) -> list[str]:
    answer = small.engine.request("POST", f"/{small.index}/_search", body=body)
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def test_a_lift_comes_first_and_where_none_is_needed_or_known_there_is_none() -> None:
    query = {"query_weight": 0, "rescore_query_weight": 1}
    clauses: list[dict[str, Any]] = [{"window_size": 5, "query": query} for _ in range(2)]
    lifted = window_safe(clauses, ScoreInterval(-3.0, 2.0, proven=True))
    assert [each["query"]["query_weight"] for each in lifted] == [KEEP, 1.0, 0]
    assert lifted[0]["query"]["rescore_query_weight"] == 4.0
    positive = window_safe(clauses, ScoreInterval(1.0, 2.0, proven=True))
    assert [each["query"]["query_weight"] for each in positive] == [KEEP, 0]
    assert window_safe(clauses, UNKNOWN) == clauses
    assert clauses[0]["query"]["query_weight"] == 0


@pytest.mark.parametrize(
    ("shift", "weights", "seen", "least"),
    [
        # Normalisers leave an intercept of +30: what was seen takes 40 away, and the model 10.
        (15.0, [-1.0, -1.0], [20.0, 20.0], 40.0),
        # What was hardly or never seen may still be 1.
        (0.0, [-5.0, -5.0], [0.0, 0.1], 10.0),
        (0.0, [-2.0, 3.0], [4.0, 1.0], 8.0),
    ],
)
def test_no_score_that_was_reckoned_with_is_held(
    shift: float, weights: list[float], seen: list[float], least: float
) -> None:
    names = ("a", "b")
    normalisers = {name: Normaliser("standard", shift, 1.0) for name in names} if shift else {}
    model = LinearModel(names, np.array(weights), normalisers)
    interval = score_interval(model, (), np.array([[0.0, 0.0], seen]))
    assert not interval.proven
    queries = {name: {"match": {name: "x"}} for name in names}
    clauses = window_safe(linear_rescorers(model, queries, 10), interval)
    scripts = [
        each["query"]["rescore_query"]["script_score"]["script"]["params"]["most"]
        for each in clauses
        if "script_score" in each["query"]["rescore_query"]
    ]
    assert len(scripts) == 1
    assert scripts[0] >= least
    # However far a sum goes, the window is lifted above it.
    offset = clauses[0]["query"]["rescore_query_weight"]
    assert clauses[0]["query"]["rescore_query"] == {"match_all": {}}
    intercept = model.folded()[1]
    assert offset + min(intercept, 0.0) - scripts[0] >= FLOOR


def test_what_the_plugin_scores_is_held_at_the_lower_end_where_that_is_not_proven() -> None:
    sltr = {"sltr": {"model": "m", "params": {}}}
    query = {"rescore_query": sltr, "query_weight": 0, "rescore_query_weight": 1}
    clause = {"window_size": 5, "query": query}
    (held,) = window_safe([clause], ScoreInterval(-3.0, 2.0, proven=False))
    script = held["query"]["rescore_query"]["script_score"]
    assert script["query"] == sltr
    assert script["script"]["params"] == {"lift": 4.0, "floor": FLOOR}
    assert held["query"]["query_weight"] == KEEP
    # Proven, it is lifted by a rescorer of its own, and no script is needed.
    lifted = window_safe([clause], ScoreInterval(-3.0, 2.0, proven=True))
    assert [each["query"]["rescore_query"] for each in lifted] == [{"match_all": {}}, sltr]


def test_a_cluster_without_scripts_is_told_what_to_do() -> None:
    reason = "cannot execute [inline] scripts"
    refusal = EngineRefusal("POST /docs/_search", 400, "illegal_argument_exception", reason)
    assert "script.allowed_types" in str(refusal)
    assert "interval.holds" in str(refusal)
    assert "upload it again, with the LTR plugin by `store_kind='plugin-free'`: the" in str(refusal)


@pytest.mark.parametrize("low", [-1e6, -3.0, -1.0, -1e-9, 0.0, FLOOR / 3, FLOOR, 1.0])
def test_the_lifted_lowest_score_is_at_the_floor_or_above_and_the_constant_is_small(
    low: float,
) -> None:
    assert low + lift(low) >= FLOOR
    assert lift(low) == 0.0 or math.log2(lift(low)).is_integer()
    assert lift(low) <= 2 * max(FLOOR, abs(low) + FLOOR)


def test_a_guessed_title_is_one_that_tells_hits_apart() -> None:
    hits: list[Any] = [
        {
            "_id": str(n),
            "_source": {"title": "split", "qualified_name": f"m{n}.split", "name": n // 3},
        }
        for n in range(6)
    ]
    last = {"_id": "last", "_source": {"title": "join"}}
    title = titles_of([*hits, last], None)
    assert [title(hit) for hit in hits[:2]] == ["m0.split", "m1.split"]
    assert (title(last), title({"_id": "7", "_source": {}})) == ("join", "7")
    assert titles_of(hits, "title")(hits[0]) == "split"
    distinct = titles_of([{"_id": "1", "_source": {"title": "a", "name": "b"}}], None)
    assert distinct({"_id": "1", "_source": {"title": "a", "name": "b"}}) == "a"
