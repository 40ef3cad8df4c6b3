"""What an application sends: rescored windows that are large enough, and nothing that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from owpc_ltr.engine.search.request import SearchRequest, check_query, default_query, request_body
from owpc_ltr.engine.search.search import search_stored
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.formats.model_conversion import export_linear
from tests.engine.fake_engine import FakeEngine
from tests.engine.small_cluster import FEATURESET, Small, linear, small_cluster

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}


@pytest.fixture(scope="module")
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


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
    both = search_stored(
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
        search_stored(
            small.engine,
            small.store,
            SearchRequest(small.index, QUERY, PARAMS),
            None,
            title_field="nosuch",
        )


def test_the_default_query_searches_every_text_field(small: Small) -> None:
    query: dict[str, Any] = default_query(small.engine, small.index)
    assert query == {"multi_match": {"query": "{{keywords}}", "fields": ["body", "title"]}}


@pytest.mark.parametrize(
    "answer", [{"timed_out": True, "_shards": {"failed": 0}},
               {"timed_out": False, "_shards": {"failed": 1}}]
)  # fmt: skip
def test_a_part_of_an_answer_is_refused(answer: dict[str, Any], small: Small) -> None:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.client.settings import ConnectionSettings

    with FakeEngine() as fake:
        fake.on("POST", "/docs/_search", {**answer, "hits": {"hits": []}})
        with pytest.raises(Refused, match="part of the index"):
            search_stored(
                Engine(ConnectionSettings(fake.url)),
                small.store,
                SearchRequest("docs", QUERY, PARAMS),
                None,
            )
