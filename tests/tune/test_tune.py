"""Tuning on a real node: scores are the engine's, planted boosts are found, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_tune import clauses as clauses_of_queries
from owpc_ltr_tune.clauses import LoggedClauses, searches_of
from owpc_ltr_tune.numbers import tunable
from owpc_ltr_tune.tune import TunedQuery, tune

import owpc_ltr
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.judged_data import without_features
from owpc_ltr.metrics import parse_metric
from tests.commands import Run
from tests.engine.small_cluster import (
    WORDS,
    Small,
    judged_titles,
    linear,
    shared_cluster,
)

small = shared_cluster(documents=120)
TEXT = "{{keywords}}"
TITLE, BODY = {"match": {"title": TEXT}}, {"match": {"body": {"query": TEXT, "boost": 0.5}}}
PHRASE = {"match_phrase": {"title": {"query": TEXT, "slop": 1}}}
LARGE = {"range": {"size": {"gte": 5}}}
FIELDS = {"query": TEXT, "fields": ["title^2", "body"]}


def functions(mode: str, boost_mode: str, **more: Any) -> dict[str, Any]:
    parts = [
        {"filter": LARGE, "weight": 2},
        {"field_value_factor": {"field": "size", "modifier": "ln1p"}, "weight": 0.5},
        {"filter": {"match": {"body": "alpha"}}, "weight": 3},
    ]
    how = {"score_mode": mode, "boost_mode": boost_mode}
    return {"function_score": {"query": TITLE, "functions": parts, **how, **more}}


QUERIES: dict[str, dict[str, Any]] = {
    "best fields": {"multi_match": FIELDS},
    "most fields": {"multi_match": {**FIELDS, "type": "most_fields", "boost": 3}},
    "phrase": {"multi_match": {**FIELDS, "type": "phrase", "slop": 5, "tie_breaker": 0.2}},
    "cross fields": {"multi_match": {**FIELDS, "type": "cross_fields"}},
    "words of each field": {"multi_match": {**FIELDS, "minimum_should_match": "100%"}},
    "must and should": {"bool": {"must": [TITLE], "should": [BODY, PHRASE], "filter": LARGE}},
    "must not": {"bool": {"should": [TITLE, BODY], "must_not": [LARGE], "boost": 2}},
    "two of three": {"bool": {"should": [TITLE, BODY, LARGE], "minimum_should_match": 2}},
    "two thirds": {"bool": {"should": [TITLE, BODY, PHRASE], "minimum_should_match": "-34%"}},
    "named by the application": {
        "bool": {"should": [{"match": {"title": {"query": TEXT, "_name": "0"}}}, BODY]}
    },
    "dis_max": {"dis_max": {"queries": [TITLE, BODY, PHRASE], "tie_breaker": 0.3, "boost": 2}},
    "in each other": {
        "dis_max": {"queries": [{"bool": {"must": [TITLE, BODY]}}, {"multi_match": FIELDS}]}
    },
    "constant": {"bool": {"should": [{"constant_score": {"filter": TITLE, "boost": 4}}, BODY]}},
    **{f"functions, {mode}": functions(mode, "multiply") for mode in
       ("multiply", "sum", "avg", "first", "max", "min")},
    **{f"boost mode {mode}": functions("sum", mode, max_boost=3.0, boost=1.5) for mode in
       ("replace", "sum", "avg", "max", "min")},
    "a form that only the engine knows": functions("sum", "multiply", min_score=0.1),
}  # fmt: skip


def logged(small: Small, queries: Judgments, **how: Any) -> LoggedClauses:
    given = {"taken_apart": True, "most_searches": 100_000, "in_flight": 2, **how}
    data, metric = without_features(queries), parse_metric("ndcg@10")
    return LoggedClauses(small.engine, small.index, data, metric, progress=lambda *_: None, **given)


def settings(query: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The query as it is, and with other values drawn."""
    numbers, rng = tunable(query, "query.json"), np.random.default_rng(0)
    drawn = [
        tuple(number.values[rng.integers(len(number.values))] for number in numbers.numbers)
        for _ in range(count)
    ]
    complete = filter(numbers.is_complete, (numbers.now, *drawn))
    return [numbers.query(setting) for setting in complete]


@pytest.mark.parametrize("name", QUERIES)
def test_scores_of_every_setting_are_the_engines(small: Small, name: str) -> None:
    clauses = logged(small, judged_titles(small, 6, 0))
    for query in settings(QUERIES[name], 4):
        assert clauses.difference(query) <= 1e-5, query


def test_a_sum_is_asked_once_and_what_cannot_be_taken_apart_for_each_setting(small: Small) -> None:
    judged = judged_titles(small, 6, 0)
    for name, in_one in (("best fields", True), ("cross fields", False)):
        clauses, tried = logged(small, judged), settings(QUERIES[name], 5)
        for query in tried:
            clauses.value(query)
        of_each = len({json.dumps(query) for query in tried})
        assert clauses.searches == 6 * (1 if in_one else of_each)
        assert searches_of(tunable(QUERIES[name], ""), taken_apart=True) == (1 if in_one else 33)
        assert searches_of(tunable(QUERIES[name], ""), taken_apart=False) > 30


def test_documents_that_a_query_does_not_match_are_not_retrieved(small: Small) -> None:
    """They have no rank, even where nothing stands above them."""
    grades = np.array([1, 0], np.float32)
    params = {"keywords": "nowhere", "query": "nowhere"}
    judged = Judgments([JudgedQuery("q", params, ["d0", "d1"], grades)])
    clauses = logged(small, judged)
    assert not clauses.scores({"multi_match": FIELDS}).matched.any()
    assert clauses.value({"multi_match": FIELDS}) == 0.0
    assert clauses.value({"match_all": {}}) > 0.0


UNTUNED = {"multi_match": {"query": TEXT, "fields": ["body^4", "title"]}}


def tuned(small: Small, judged: Judgments, **how: Any) -> TunedQuery:
    given: dict[str, Any] = {"query_template": UNTUNED, "index": small.index, **how}
    return tune(small.cluster, judgments=judged, **given)


@pytest.fixture(scope="module")
def judged(small: Small) -> Judgments:
    """100 queries whose answers are told by the title, by a judge that errs."""
    return judged_titles(small, 100, 3)


@pytest.fixture(scope="module")
def result(small: Small, judged: Judgments) -> TunedQuery:
    return tuned(small, judged)


def test_a_planted_boost_is_found_and_held_out_queries_show_it(result: TunedQuery) -> None:
    body, title, _ = map(float, result.best)
    assert title > 2 * body
    assert result.value > result.was
    assert result.taken_apart
    assert result.difference < 1e-5
    assert result.comparison.verdict().outcome == "better"
    assert result.comparison.headline == ("tuned", "original")
    assert result.comparison.split == "test"
    # A fifth of the queries, which chose nothing.
    assert result.n_queries + result.comparison.n_queries == 100
    assert [str(metric) for metric in result.comparison.metrics] == ["ndcg@10", "recall@1000"]
    text = str(result)
    assert max(map(len, text.splitlines())) <= 80
    assert "of what recall@1000 looks at is unjudged" not in text
    assert json.dumps(result.as_dict())


def test_a_query_that_was_tuned_before_keeps_what_it_has_seen(
    small: Small, judged: Judgments, result: TunedQuery
) -> None:
    """Other queries tune it again, and those of both times are left out."""
    others = Judgments([
        replace(query, query_id=f"new{query.query_id}", params=dict.fromkeys(
            ("keywords", "query"), f"{query.params['query']} new"))
        for query in judged_titles(small, 40, 5).queries
    ])  # fmt: skip
    again = tuned(small, others, query_template=result.body)
    both = Judgments([*judged.queries, *others.queries])
    compared = small.cluster.compare_live(
        {"again": again.body, "untuned": UNTUNED}, judgments=both, index=small.index
    )
    assert compared.n_queries == result.comparison.n_queries + again.comparison.n_queries


@pytest.mark.thorough
def test_where_the_formula_is_wrong_the_engine_scores_every_setting(
    small: Small, judged: Judgments, result: TunedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_tie(body: Any, leaf: Any) -> Any:
        return largest({**body, "tie_breaker": 0.0}, leaf)

    largest = clauses_of_queries._dis_max
    monkeypatch.setattr(clauses_of_queries, "_dis_max", without_tie)
    again = tuned(small, judged)
    assert not again.taken_apart
    assert again.searches > 10 * result.searches
    assert again.query == result.query
    assert "the engine scored each setting" in " ".join(str(again).split())


def test_it_stops_when_the_searches_are_spent_and_says_so(small: Small, judged: Judgments) -> None:
    few = tuned(small, judged, query_template=QUERIES["cross fields"], searches=200)
    assert few.stopped
    assert few.searches <= 200
    assert "give more `searches`" in str(few) or "give more --searches" in str(few)
    with pytest.raises(Refused, match="too few"):
        tuned(small, judged, query_template=QUERIES["cross fields"], searches=20)


def test_queries_without_an_irrelevant_judgment_are_ranked_among_what_the_query_finds(
    small: Small, judged: Judgments
) -> None:
    """With relevant documents alone, every order would be perfect."""
    relevant, taken = list[JudgedQuery](), set[str]()
    for query in judged.queries:
        best = np.flatnonzero(query.grades > 1).tolist()
        free = [number for number in best if query.doc_ids[number] not in taken]
        for number in free[:1]:
            taken.add(query.doc_ids[number])
            one = slice(number, number + 1)
            relevant.append(
                JudgedQuery(
                    query.query_id,
                    query.params,
                    query.doc_ids[one],
                    query.grades[one],
                    judged_by=["ann"],
                )
            )
    result = tuned(small, Judgments(relevant))
    assert 0.0 < result.was < result.value < 1.0


def test_queries_of_one_request_leave_nothing_to_compare(small: Small) -> None:
    query = judged_titles(small, 1, 0).queries[0]
    same = [replace(query, query_id=f"q{number}") for number in range(8)]
    with pytest.raises(Refused, match="of other requests"):
        tuned(small, Judgments(same))


def test_what_was_tuned_is_never_measured_on_the_queries_that_tuned_it(
    run: Run, small: Small, judged: Judgments, tmp_path: Path
) -> None:
    """By whatever command: as a query, as a template, and as that of an uploaded model."""
    from owpc_ltr.data.judgment_tables import write_judgments

    write_judgments(judged, tmp_path / "judged.tsv")
    (tmp_path / "query.json").write_text(json.dumps(UNTUNED))
    place = [*small.place, "--index", small.index, "--judgments", "judged.tsv"]
    at = [*place[:2], *place[-4:]]
    out = run.output("tune", "query.json", "--out", "tuned.json", *at)
    assert "wrote tuned.json" in out
    template = json.loads((tmp_path / "tuned.json").read_text())
    assert template.keys() == {"query", "tuned_on"}

    def queries_of(*words: str) -> int:
        printed = json.loads(run.output("compare-live", *words, "--json", *place))
        assert printed["split"] == "test"
        return int(printed["n_queries"])

    held_out = queries_of("tuned.json", "query.json")
    assert 10 <= held_out <= 30
    linear((1.0, 0.2, 0.0)).save(tmp_path / "model.json")
    assert queries_of("model.json", "--query-template", "tuned.json") == held_out
    with_template = ["--query-template", "tuned.json", *small.place]
    run.output("upload", "model.json", "--name", small.name, "--index", small.index, *with_template)
    assert queries_of(small.name, "query.json") == held_out
    # No engine is sent the record.
    for command in ("search", "request"):
        out = run.output(
            command, "alpha beta", "--model", small.name, "--index", small.index, *with_template
        )
        assert "tuned_on" not in out


@pytest.mark.thorough
def test_where_no_boost_matters_nothing_is_better(small: Small) -> None:
    """40 worlds in which relevance has nothing to do with the texts."""
    outcomes = []
    for world in range(40):
        rng = np.random.default_rng(world)
        queries = []
        for number in range(60):
            words = [WORDS[number % 8], WORDS[(number % 8 + number // 8 + 1) % 8]]
            text = f"{' '.join(words)} world{world}number{number}"
            names = [f"d{place}" for place in rng.permutation(120)[:40]]
            grades = (rng.random(40) < 0.2).astype(np.float32)
            params = {"keywords": text, "query": text}
            queries.append(JudgedQuery(text, params, names, grades, judged_by=["ann"] * 40))
        result = tuned(small, Judgments(queries))
        assert result.value >= result.was
        outcomes.append(str(result.comparison.verdict().outcome))
    assert outcomes.count("better") == 0


def test_the_job_is_there_for_python() -> None:
    assert owpc_ltr.tune is tune
