"""`judge pool`: which queries and documents are judged, and the sheets that are graded."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.judgment_tables import read_queries, write_sheet
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.live_results.judge_pool import JudgmentPool, pool, random_sample
from owpc_ltr.engine.live_results.rankers import LiveRanker
from owpc_ltr.engine.search.client_scoring import Serve, Served, serve_all
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.errors import BadInput, Refused, UsageError
from tests.engine.memory_engine import whole
from tests.rankers import live_ranker

SHARED = SearchRequest("i", {"match_all": {}}, {})


class Index:
    """An engine that has documents d0 … d19, and nothing else."""

    settings = SimpleNamespace(url="memory:")

    def request(self, _method: str, _path: str, *, body: Any, **_: Any) -> Any:
        ids = [doc_id for doc_id in body["query"]["ids"]["values"] if int(doc_id[1:]) < 20]
        hits = [{"_id": doc_id, "_source": {"title": f"about {doc_id}"}} for doc_id in ids]
        return whole(hits, len(hits))


def asked_pool(*names: str) -> list[JudgedQuery]:
    nothing = np.zeros(0, np.float32)
    return [JudgedQuery(name, {"keywords": name, "query": name}, [], nothing) for name in names]


def always(*documents: str) -> Serve:
    return lambda _request: Served(documents, 1)


def pooled(
    rankings: list[list[str]],
    judged: dict[str, frozenset[str]] | None = None,
    run: TrecRun | None = None,
    **plan: Any,
) -> JudgmentPool:
    rankers: list[LiveRanker | TrecRun]
    rankers = [live_ranker(always(*ranking), "i") for ranking in rankings]
    rankers += [] if run is None else [run]
    engine: Any = Index()
    return pool(engine, "i", rankers, asked_pool("q1", "q2"), judged=judged or {}, **plan)


def test_each_document_is_there_once_however_many_rankers_bring_it() -> None:
    judgment_pool = pooled([["d1", "d2", "d3"], ["d3", "d4", "d1"]], depth=2)
    for query in judgment_pool.queries:
        assert sorted(query.doc_ids) == ["d1", "d2", "d3", "d4"]
    assert judgment_pool.n_documents == 8


@given(st.permutations([f"d{n}" for n in range(12)]), st.integers(0, 99))
def test_the_order_tells_nothing_of_ranks_and_rankers(order: list[str], seed: int) -> None:
    judgment_pool = pooled([order], seed=seed)
    other = pooled([sorted(order)[:6], sorted(order)[6:]], seed=seed)
    assert [q.doc_ids for q in judgment_pool.queries] == [q.doc_ids for q in other.queries]


def test_another_seed_or_query_draws_another_order() -> None:
    ranking = [f"d{n}" for n in range(20)]
    judgment_pool, other_pool = pooled([ranking]), pooled([ranking], seed=1)
    assert judgment_pool.queries[0].doc_ids != other_pool.queries[0].doc_ids
    assert judgment_pool.queries[0].doc_ids != judgment_pool.queries[1].doc_ids


def test_judged_and_absent_documents_are_left_out_and_counted() -> None:
    run = TrecRun(
        pa.array(["q1", "q1", "other"]), pa.array(["d5", "d99", "d7"]), np.zeros(3), "x", "run"
    )
    judgment_pool = pooled([["d1", "d2"]], {"q1": frozenset({"d1", "d8"})}, run=run)
    assert [sorted(q.doc_ids) for q in judgment_pool.queries] == [["d2", "d5"], ["d1", "d2"]]
    assert (judgment_pool.judged, judgment_pool.absent) == (1, 1)
    done = pooled([["d1"]], {"q1": frozenset({"d1"})})
    assert [query.query_id for query in done.queries] == ["q2"]


def test_a_larger_sample_has_the_queries_of_a_smaller_one_in_whatever_order_they_stand() -> None:
    queries = asked_pool(*(f"q{number}" for number in range(60)))
    few, many = random_sample(queries, 20, 0), random_sample(queries, 30, 0)
    assert (len(few), len(many)) == (20, 30)
    assert few == [query for query in many if query in few]
    assert random_sample(queries[::-1], 20, 0) == few[::-1]
    assert random_sample(queries, 20, 1) != few
    assert random_sample(queries, 100, 0) == queries


def test_every_query_is_as_likely_to_be_drawn() -> None:
    queries = asked_pool(*(f"q{number}" for number in range(60)))
    drawn = Counter(q.query_id for seed in range(600) for q in random_sample(queries, 20, seed))
    error = np.sqrt(1 / 3 * 2 / 3 / 600)
    assert np.abs(np.array([drawn[q.query_id] for q in queries]) / 600 - 1 / 3).max() < 4 * error


def test_a_sheet_says_nothing_of_ranks_and_has_no_grade_yet(tmp_path: Path) -> None:
    judgment_pool = pooled([["d1", "d2"]])
    path = tmp_path / "sheet.csv"
    shown = {"d1": {"title": 'a "b",\n c', "tags": ["x", "y"]}}
    write_sheet(judgment_pool.queries, ["title", "tags"], shown, path)
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert list(rows[0]) == [
        "query_id", "query", "doc_id", "document:title", "document:tags", "grade",
    ]  # fmt: skip
    assert {row["grade"] for row in rows} == {""}
    first = next(row for row in rows if row["doc_id"] == "d1")
    assert (first["document:title"], first["document:tags"]) == ('a "b", c', "x, y")


def test_queries_are_read_from_lines_tables_and_judgments(tmp_path: Path) -> None:
    path = tmp_path / "queries"
    path.write_text("red shoes\n\nq2\tblue hats\n")
    plain = [(query.query_id, query.params["query"]) for query in read_queries(path)]
    assert plain == [("red shoes", "red shoes"), ("q2", "blue hats")]
    path.write_text("query_id,query,year,doc_id,grade,document:title\nq1,rambo,1982,7,4,x\n"
                    "q1,rambo,1982,9,0,y\nq2,rocky,,7,1,z\n")  # fmt: skip
    tabled = {query.query_id: query.params for query in read_queries(path)}
    rambo = {"keywords": "rambo", "query": "rambo", "year": "1982"}
    assert tabled == {"q1": rambo, "q2": {"keywords": "rocky", "query": "rocky"}}
    assert all(not query.doc_ids for query in read_queries(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query_id,query\nq1,one\nq1,two\n", "line 3: query 'q1' has another text"),
        ("query_id,query\nq1,\n", "line 2: the query or its id is empty"),
        ("query_id,query\nq1,one,more\n", "line 2: 3 fields where the header has 2"),
        ("\n", "has no queries"),
    ],
)
def test_queries_that_cannot_be_right_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "queries"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_queries(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [("q.csv", "Search Term,sku\nshoes,1\n"), ("q.tsv", "Search Term\tsku\tgrade\nshoes\t1\t2\n")],
)
def test_lines_of_a_table_are_no_queries(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    message = (
        r"no column is called 'query': found 'Search Term', .* do: `columns=\{\"query\": \"q\"\}`$"
    )
    with pytest.raises(BadInput, match=message):
        read_queries(path)
    assert [query.query_id for query in read_queries(path, {"query": "Search Term"})] == ["shoes"]
    path.write_text("q1\tred, or blue\nq2\tgreen\n" if name == "q.tsv" else "shoes\nred hats\n")
    assert len(read_queries(path)) == 2


def test_all_ways_are_asked_every_query_in_turning_order_and_answered_in_order() -> None:
    heard: list[tuple[str, str]] = []

    def way(name: str) -> Serve:
        def serve(request: SearchRequest) -> Served:
            heard.append((name, request.params["n"]))
            return Served((f"{name}{request.params['n']}",), 1)

        return serve

    queries = [JudgedQuery(f"q{n}", {"n": str(n)}, [], np.zeros(0, np.float32)) for n in range(4)]
    shares: list[float | None] = []
    a, b = serve_all(
        (way("a"), way("b")), queries, SHARED, 1, lambda _text, done: shares.append(done)
    )
    assert [query.doc_ids[0] for query in a] == ["a0", "a1", "a2", "a3"]
    assert [query.doc_ids[0] for query in b] == ["b0", "b1", "b2", "b3"]
    assert [name for name, _ in heard] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    with pytest.raises(UsageError, match="in_flight"):
        serve_all((way("a"),), queries, SHARED, 0)


def test_a_query_that_the_engine_refuses_is_named() -> None:
    def refuses(_request: SearchRequest) -> Served:
        raise EngineRefusal("the search", 400, "too_many_nested_clauses", "maxClauseCount")

    with pytest.raises(Refused, match=r"^query 'q7': the engine refuses the search"):
        serve_all((refuses,), asked_pool("q7"), SHARED)


def test_a_search_that_fails_ends_all_of_them() -> None:
    def fails(_request: SearchRequest) -> Served:
        raise BadInput("no such field")

    with pytest.raises(BadInput, match="no such field"):
        serve_all((fails,), asked_pool(*map(str, range(40))), SHARED)


def test_some_judged_documents_are_graded_again_for_common_pairs() -> None:
    """No more than others, the same for a seed, and of those that rankers bring."""
    judged = {"q1": frozenset({"d1", "d2", "d3", "d19"}), "q2": frozenset({"d1"})}
    ranking = [f"d{n}" for n in range(6)]
    plain = pooled([ranking], judged)
    judgment_pool = pooled([ranking], judged, common=30)
    assert (plain.common, judgment_pool.common) == (0, 4)
    assert judgment_pool.n_documents == plain.n_documents + 4
    assert {*judgment_pool.queries[0].doc_ids} == {*ranking}
    two = pooled([ranking], judged, common=2)
    again = pooled([ranking], judged, common=2)
    assert [q.doc_ids for q in two.queries] == [q.doc_ids for q in again.queries]
    assert (two.common, two.judged) == (2, plain.judged - 2)
    assert "(2 for a second time, as raters need common pairs)" in " ".join(str(two).split())
    # A sheet of one new document has one more at most.
    few = pooled(
        [["d1", "d2", "d9"]],
        {"q1": frozenset({"d1", "d2", "d9"}), "q2": judged["q2"] | {"d2"}},
        common=30,
    )
    assert few.common == 1
