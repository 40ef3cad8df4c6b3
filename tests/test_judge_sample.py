"""`judge sample` and `judge pool`: what is judged next, and the sheets that are graded."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import judge_sample
from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import Codes
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.data.judgments.pools import read_queries, write_sheet
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.live_results.judge_pool import Pooled, pool
from owpc_ltr.engine.live_results.rankers import LiveRanker
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, serve_all
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.active_sampling import allocated, draw_next, strata_by_size
from owpc_ltr.evaluation.prediction_powered import PredictionPowered, prediction_powered
from tests.commands import Run
from tests.engine.memory_engine import whole
from tests.proxy_labels import PEOPLE, PROXY, RANKERS, SAMPLE, listed, run

__all__ = ["run"]

N = 500


def ids() -> list[str]:
    return [f"q{number}" for number in range(N)]


@given(st.integers(0, 10_000), st.integers(0, 300))
def test_no_other_allocation_of_as_many_is_better(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 100, 4)
    counts = np.minimum(rng.integers(0, 5, 4), sizes)
    spread = rng.uniform(0.1, 2.0, 4)
    found = allocated(sizes, counts, spread, n)
    least = np.maximum(counts, np.minimum(sizes, 2))
    assert (found >= least).all()
    assert (found <= sizes).all()
    assert found.sum() == min(sizes.sum(), max(least.sum(), counts.sum() + n))

    def variance(allocation: Any) -> float:
        return float(((sizes * spread) ** 2 / allocation).sum())

    for give in range(4):
        for take in range(4):
            moved = found.copy()
            moved[give] -= 1
            moved[take] += 1
            if (moved >= least).all() and (moved <= sizes).all():
                assert variance(moved) >= variance(found) - 1e-9


def test_equal_spread_is_drawn_in_proportion() -> None:
    found = allocated(np.array([100, 200, 300]), np.zeros(3, np.int64), np.ones(3), 60)
    assert found.tolist() == [10, 20, 30]


def test_strata_are_of_like_differences() -> None:
    differences = np.concatenate([np.zeros(60), np.linspace(-1, 1, 441)[:440]])
    strata = strata_by_size(differences)
    assert set(strata[:60]) == {0}
    assert np.bincount(strata)[1:].tolist() == pytest.approx([110] * 4, abs=2)
    order = np.argsort(np.abs(differences), kind="stable")
    assert (np.diff(strata[order]) >= 0).all()
    assert set(strata_by_size(np.zeros(9))) == {0}
    assert set(strata_by_size(np.ones(9))) == {0}


def test_a_judged_query_is_not_drawn_again_and_all_are_in_the_end() -> None:
    rng = np.random.default_rng(0)
    proxy = rng.normal(size=N)
    judged = np.arange(N) < 50
    strata = strata_by_size(proxy).astype(str)
    some = draw_next(proxy, strata, judged, ids(), 70)
    assert len(set(some.queries.tolist())) == 70
    assert some.queries.min() >= 50
    assert sum(one.to_judge for one in some.strata) == 70
    assert sum(one.judged for one in some.strata) == 50
    everything = draw_next(proxy, strata, judged, ids(), 10_000)
    assert sorted(everything.queries.tolist()) == list(range(50, N))
    assert all(one.probability == 1.0 for one in everything.strata)


def test_every_query_of_a_stratum_is_as_likely() -> None:
    rng = np.random.default_rng(0)
    proxy = rng.normal(size=60)
    strata = strata_by_size(proxy, 2).astype(str)
    drawn = np.zeros(60)
    for seed in range(600):
        found = draw_next(proxy, strata, np.zeros(60, bool), ids()[:60], 20, seed)
        drawn[found.queries] += 1
    for stratum in found.strata:
        own = drawn[strata == stratum.name] / 600
        error = np.sqrt(stratum.probability * (1 - stratum.probability) / 600)
        assert np.abs(own - stratum.probability).max() < 4.5 * error


class Round(NamedTuple):
    """A random sample of 40, then n that were drawn; beside a random sample of as many."""

    proxy: Vector
    human: Vector
    drawn: PredictionPowered
    plain: PredictionPowered


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    rng = np.random.default_rng(3)
    found = []
    for number in range(200):
        size = rng.exponential(0.3, N) * (rng.random(N) < 0.5)
        truth = 0.05 + size * rng.choice([1.5, -1.0], N) * (rng.random(N) < 0.8)
        proxy = size * np.where(rng.random(N) < 0.8, np.sign(truth), -np.sign(truth))
        order = rng.permutation(N)
        human = np.full(N, np.nan)
        human[order[:40]] = truth[order[:40]]
        strata = strata_by_size(proxy).astype(str)
        more = draw_next(proxy, strata, ~np.isnan(human), ids(), 60, number).queries
        human[more] = truth[more]
        plain = np.full(N, np.nan)
        plain[order[:100]] = truth[order[:100]]
        drawn = prediction_powered(proxy, human, ids(), strata=strata.tolist())
        found.append(Round(proxy, human, drawn, prediction_powered(proxy, plain, ids())))
    return found


MEAN_OF_ALL = 0.05 + 0.3 * 0.5 * 0.8 * 0.25


def test_drawn_queries_keep_the_interval_true_and_narrow_it_more_than_random_ones(
    rounds: list[Round],
) -> None:
    found = [one.drawn.by_both for one in rounds]
    covered = np.mean([one.low <= MEAN_OF_ALL <= one.high for one in found])
    # An interval that holds in 95 % is below this by chance once in a hundred.
    assert covered >= 0.95 - 2.3 * np.sqrt(0.95 * 0.05 / len(rounds))
    others = [one.plain.by_both for one in rounds]
    width, other = (np.mean([one.high - one.low for one in each]) for each in (found, others))
    assert width < 0.95 * other


def test_one_who_takes_the_drawn_queries_for_a_sample_of_all_is_caught(
    rounds: list[Round],
) -> None:
    """Bias shows in the estimates: by people alone, far from what all queries would say."""
    honest = [one.drawn.by_human.mean - MEAN_OF_ALL for one in rounds[:100]]
    cheat = [
        prediction_powered(one.proxy, one.human, ids()).by_human.mean - MEAN_OF_ALL
        for one in rounds[:100]
    ]
    error = np.std(honest) / np.sqrt(len(honest))
    assert abs(np.mean(honest)) < 4 * error
    assert abs(np.mean(cheat)) > 6 * error


def first_and_more(
    seed: int, spread_of: Callable[[Vector, Codes], Vector] | None
) -> tuple[float, float]:
    """What people's own sample says of all, and all: 40 at random, then 40 more by strata."""
    rng = np.random.default_rng(seed)
    proxy = rng.normal(size=N)
    truth = (rng.random(N) < 0.08) * rng.exponential(1.0, N)
    codes = strata_by_size(proxy)
    judged = np.arange(N) < 40
    if spread_of is None:
        more = draw_next(proxy, codes.astype(str), judged, ids(), 40, seed).queries
    else:
        sizes, counts = np.bincount(codes), np.bincount(codes[judged], minlength=codes.max() + 1)
        spread = spread_of(np.where(judged, truth, np.nan), codes)
        wanted = allocated(sizes, counts, spread, 40) - counts
        more = np.concatenate(
            [np.flatnonzero(~judged & (codes == code))[:k] for code, k in enumerate(wanted)]
        )
    human = np.where(judged, truth, np.nan)
    human[more] = truth[more]
    found = prediction_powered(np.zeros(N), human, ids(), strata=codes.astype(str).tolist())
    return found.by_human.mean, float(truth.mean())


def by_people(human: Vector, codes: Codes) -> Vector:
    """How far people's values of each stratum spread, as they said so far."""
    found = [np.nanstd(human[codes == code]) for code in range(codes.max() + 1)]
    return np.array(found) + 0.05


def test_one_who_draws_by_what_people_said_is_biased_and_the_draw_is_not() -> None:
    """Where few judged queries agree by luck, their mean is kept; elsewhere it is diluted."""
    away = {}
    for name, spread_of in (("honest", None), ("by people", by_people)):
        told = np.array([first_and_more(seed, spread_of) for seed in range(200)])
        errors = told[:, 0] - told[:, 1]
        away[name] = errors.mean() / (errors.std() / np.sqrt(len(errors)))
    assert abs(away["honest"]) < 3.5
    assert away["by people"] < -6


def rows_of(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(name).read_text().splitlines()))


def asked(**how: Any) -> Any:
    options = {"metric": "ndcg@5", "n": 30, "depth": 3, **how}
    human = options.pop("human", listed(PEOPLE, SAMPLE))
    return judge_sample(
        options.pop("rankers", list(RANKERS.values())),
        proxy_labels=PROXY,
        human_labels=human,
        **options,
    )


def test_the_documents_are_the_first_of_either_ranker() -> None:
    found = asked()
    judged = {query.query_id for query in listed(PEOPLE, SAMPLE).queries}
    assert len(found.queries) == 30
    for query in found.queries:
        assert query.query_id not in judged
        number = PROXY.query_ids.index(query.query_id).as_py()
        rows = slice(int(PROXY.offsets[number]), int(PROXY.offsets[number + 1]))
        wanted = set()
        for column in range(2):
            first = np.argsort(-PROXY.features[rows, column], kind="stable")[:3]
            wanted |= {f"d{rows.start + row}" for row in first.tolist()}
        assert set(query.doc_ids) == wanted
        assert len(query.doc_ids) == len(wanted)
    assert asked().queries[0].doc_ids == found.queries[0].doc_ids
    assert [q.query_id for q in asked(seed=1).queries] != [q.query_id for q in found.queries]


def test_what_people_said_has_no_say_in_what_is_drawn() -> None:
    wrong = replace(PEOPLE, labels=1 - PEOPLE.labels)
    one, other = asked(), asked(human=listed(wrong, SAMPLE))
    assert [query.query_id for query in one.queries] == [q.query_id for q in other.queries]
    assert one.strata == other.strata
    assert asked(human=listed(PEOPLE, SAMPLE[:30])).strata != one.strata


def test_more_are_drawn_where_the_rankers_differ() -> None:
    strata = asked(n=60, human=None).strata
    rates = [one.probability for one in strata]
    assert rates[-1] > 1.5 * rates[0]
    assert strata[0].largest < strata[-1].largest


def test_proxy_judgments_may_be_a_list_beside_the_data() -> None:
    names = range(PROXY.n_queries)
    one = judge_sample(list(RANKERS.values()), proxy_labels=listed(PROXY, names), data=PEOPLE, n=20)
    other = judge_sample(list(RANKERS.values()), proxy_labels=PROXY, n=20)
    assert [q.query_id for q in one.queries] == [q.query_id for q in other.queries]


def test_what_was_judged_is_measured_with_its_strata_and_drawn_from_again(
    run: Run,
) -> None:
    asked = ["judge", "sample", "linear.json", "feature:likes", "--proxy-labels", "clicks.parquet"]
    asked += ["--metric", "ndcg@5", "--n", "40"]
    out = run.output(*asked, "--human-labels", "sample.tsv", "--out", "next.csv")
    assert "of 40 queries to grade; strata: next.strata.csv" in " ".join(out.split())
    grades = {
        (query.query_id, name): int(grade)
        for query in listed(PEOPLE, range(PEOPLE.n_queries)).queries
        for name, grade in zip(query.doc_ids, query.grades, strict=True)
    }
    sheet = rows_of("next.csv")
    assert all(row["grade"] == "" for row in sheet)
    with Path("sample.tsv").open("a") as file:
        for row in sheet:
            grade = grades[row["query_id"], row["doc_id"]]
            file.write(f"{row['query_id']}\t{row['query']}\t{row['doc_id']}\t{grade}\n")
    compare = ["compare", "linear.json", "feature:likes", "--data", "sample.tsv", "--proxy-labels"]
    compare += ["clicks.parquet", "--metric", "ndcg@5", "--resamples", "100", "--json"]
    told = json.loads(run(*compare, "--strata", "next.strata.csv")[1])
    (pair,) = told["prediction_powered"]
    assert pair["n_human"] == len(SAMPLE) + 40
    # People's own means stand for all queries, too.
    assert told["pairs"][0]["mean_difference"] == pytest.approx(pair["by_human"]["mean"], rel=1e-6)
    again = [
        *asked,
        "--human-labels",
        "sample.tsv",
        "--strata",
        "next.strata.csv",
        "--out",
        "more.csv",
    ]
    code, out, _ = run(*again, "--json")
    found = json.loads(out)
    assert (code, found["queries"], found["strata_file"]) == (0, 40, "next.strata.csv")
    assert not Path("more.strata.csv").exists()
    before = {row["query_id"] for row in sheet}
    assert not before & {row["query_id"] for row in rows_of("more.csv")}


def test_what_cannot_be_is_refused(run: Run) -> None:
    with pytest.raises(UsageError, match="there are 3"):
        asked(rankers=["feature:bm25", "feature:likes", "linear.json"])
    with pytest.raises(UsageError, match="have human labels: none is left"):
        asked(human=PEOPLE)
    with pytest.raises(UsageError, match="live ranker"):
        asked(rankers=["live:a@b", "feature:likes"])
    with pytest.raises(BadInput, match="do not know their documents"):
        judge_sample(list(RANKERS.values()), proxy_labels=replace(PROXY, doc_ids=None))
    with pytest.raises(UsageError, match="nothing to judge"):
        asked(n=0)
    words = ["judge", "sample", "linear.json", "feature:likes", "--proxy-labels", "clicks.parquet"]
    assert run(*words, "--out", "clicks.parquet")[0] == 2
    assert run(*words, "--out", "-")[0] == 2


def test_an_empty_list_is_no_sample() -> None:
    with pytest.raises(BadInput, match="none of the queries"):
        asked(human=Judgments([]))


class Index:
    """An engine that has documents d0 … d19, and nothing else."""

    settings = SimpleNamespace(url="memory:")

    def request(self, _method: str, _path: str, *, body: Any, **_: Any) -> Any:
        ids = [one for one in body["query"]["ids"]["values"] if int(one[1:]) < 20]
        hits = [{"_id": one, "_source": {"title": f"about {one}"}} for one in ids]
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
) -> Pooled:
    rankers: list[LiveRanker | TrecRun]
    rankers = [LiveRanker(always(*ranking), None, "i") for ranking in rankings]
    rankers += [] if run is None else [run]
    engine: Any = Index()
    return pool(engine, "i", rankers, asked_pool("q1", "q2"), judged=judged or {}, **plan)


def test_each_document_is_there_once_however_many_rankers_bring_it() -> None:
    found = pooled([["d1", "d2", "d3"], ["d3", "d4", "d1"]], depth=2)
    for query in found.queries:
        assert sorted(query.doc_ids) == ["d1", "d2", "d3", "d4"]
    assert found.n_documents == 8


@given(st.permutations([f"d{n}" for n in range(12)]), st.integers(0, 99))
def test_the_order_tells_nothing_of_ranks_and_rankers(order: list[str], seed: int) -> None:
    one = pooled([order], seed=seed)
    other = pooled([sorted(order)[:6], sorted(order)[6:]], seed=seed)
    assert [q.doc_ids for q in one.queries] == [q.doc_ids for q in other.queries]


def test_another_seed_or_query_draws_another_order() -> None:
    ranking = [f"d{n}" for n in range(20)]
    one, two = pooled([ranking]), pooled([ranking], seed=1)
    assert one.queries[0].doc_ids != two.queries[0].doc_ids
    assert one.queries[0].doc_ids != one.queries[1].doc_ids


def test_judged_and_absent_documents_are_left_out_and_counted() -> None:
    run = TrecRun(
        pa.array(["q1", "q1", "other"]), pa.array(["d5", "d99", "d7"]), np.zeros(3), "x", "run"
    )
    found = pooled([["d1", "d2"]], {"q1": frozenset({"d1", "d8"})}, run=run)
    assert [sorted(q.doc_ids) for q in found.queries] == [["d2", "d5"], ["d1", "d2"]]
    assert (found.judged, found.absent) == (1, 1)
    done = pooled([["d1"]], {"q1": frozenset({"d1"})})
    assert [query.query_id for query in done.queries] == ["q2"]


def test_a_sheet_says_nothing_of_ranks_and_has_no_grade_yet(tmp_path: Path) -> None:
    found = pooled([["d1", "d2"]])
    path = tmp_path / "sheet.csv"
    shown = {"d1": {"title": 'a "b",\n c', "tags": ["x", "y"]}}
    write_sheet(found.queries, ["title", "tags"], shown, path)
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
        ("query_id,query\nq1,one\nq1,two\n", "line 3: query 'q1' stands there with another text"),
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


def test_all_ways_are_asked_every_query_in_turning_order_and_answered_in_order() -> None:
    heard: list[tuple[str, str]] = []

    def way(name: str) -> Serve:
        def serve(request: SearchRequest) -> Served:
            heard.append((name, request.params["n"]))
            return Served((f"{name}{request.params['n']}",), 1)

        return serve

    requests = [SearchRequest("i", {"match_all": {}}, {"n": str(n)}) for n in range(4)]
    told: list[float | None] = []
    a, b = serve_all((way("a"), way("b")), requests, 1, lambda _text, done: told.append(done))
    assert [one.doc_ids[0] for one in a] == ["a0", "a1", "a2", "a3"]
    assert [one.doc_ids[0] for one in b] == ["b0", "b1", "b2", "b3"]
    assert [name for name, _ in heard] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert told == [0.25, 0.5, 0.75, 1.0]
    with pytest.raises(UsageError, match="in_flight"):
        serve_all((way("a"),), requests, 0)


def test_a_query_that_the_engine_refuses_is_named() -> None:
    def refuses(_request: SearchRequest) -> Served:
        raise EngineRefusal("the search", 400, "too_many_nested_clauses", "maxClauseCount")

    requests = [SearchRequest("i", {"match_all": {}}, {}, query_id="q7")]
    with pytest.raises(Refused, match=r"^query 'q7': the engine refuses the search"):
        serve_all((refuses,), requests)


def test_a_search_that_fails_ends_all_of_them() -> None:
    def fails(_request: SearchRequest) -> Served:
        raise BadInput("no such field")

    requests = [SearchRequest("i", {"match_all": {}}, {}) for _ in range(40)]
    with pytest.raises(BadInput, match="no such field"):
        serve_all((fails,), requests)
