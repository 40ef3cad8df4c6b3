"""Live results of a whole index: unjudged documents, and weighted means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_metrics.ndcg import NDCG

import owpc_ltr as ltr
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.judged_data import ChosenQueries, choose_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan
from owpc_ltr.evaluation.ranked_lists import RankedLists, ranked_lists, within_window
from owpc_ltr.metrics import parse_metric
from tests.datasets import seen_sides

BOUNDED = ("precision@3", "mrr@3", "winner-takes-all", "err@3", "ndcg@3", "ndcg@3,gain=linear")
DOCUMENTS = [f"d{number}" for number in range(8)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[str]], list[dict[str, float]]]:
    """Lists of a few documents, and grades of some of these and of others."""
    lists, grades = [], []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(DOCUMENTS))
        lists.append(order[: draw(st.integers(0, 6))])
        judged = draw(st.lists(st.sampled_from(DOCUMENTS), unique=True, max_size=6))
        grades.append({name: float(draw(st.integers(0, 3))) for name in judged})
    return lists, grades


def made(case: tuple[list[list[str]], list[dict[str, float]]], depth: int = 5) -> RankedLists:
    return ranked_lists(*case, depth)


def of_one(name: str, labels: list[float]) -> float:
    """The metric of one list, in its order."""
    metric = parse_metric(name)
    scores = -np.arange(len(labels), dtype=np.float64)
    return float(metric.per_query(scores, np.array(labels, np.float32), [0, len(labels)])[0])  # type: ignore[arg-type]


@given(cases(), st.sampled_from([*BOUNDED, "map@5", "recall@4", "mrr@5"]))
def test_unjudged_documents_are_irrelevant_and_missed_ones_below_all(case: Any, name: str) -> None:
    values = made(case).unjudged_irrelevant(parse_metric(name))
    for value, ranked, grades in zip(values, *case, strict=True):
        shown = ranked[:5]
        missed = [grade for name, grade in grades.items() if name not in shown]
        labels = [grades.get(doc_id, 0.0) for doc_id in shown] + [0.0] * 5 + missed
        assert value == pytest.approx(of_one(name, labels))


@given(cases(), st.sampled_from([*BOUNDED, "map@5", "recall@4"]))
def test_condensed_lists_are_the_lists_without_the_unjudged(case: Any, name: str) -> None:
    ranked, grades = case
    closed_up = [
        [doc_id for doc_id in row[:5] if doc_id in known]
        for row, known in zip(ranked, grades, strict=True)
    ]
    metric = parse_metric(name)
    expected = made((closed_up, grades)).unjudged_irrelevant(metric)
    assert made(case).condensed(metric).tolist() == pytest.approx(expected.tolist())


@given(cases(), st.sampled_from(BOUNDED))
def test_no_grades_of_unjudged_documents_pass_the_bounds(case: Any, name: str) -> None:
    metric = parse_metric(name)
    lists = made(case)
    low, high = lists.unjudged_irrelevant(metric), lists.highest_possible(metric)
    assert high is not None
    assert (low <= high + 1e-12).all()
    top = lists.highest
    for row, (ranked, grades) in enumerate(zip(*case, strict=True)):
        unjudged = [doc_id for doc_id in ranked[:3] if doc_id not in grades]
        for assumed in product((0.0, 1.0, top), repeat=len(unjudged)):
            whole = {**grades, **dict(zip(unjudged, assumed, strict=True))}
            value = float(made(([ranked], [whole])).unjudged_irrelevant(metric)[0])
            if "ndcg" not in name:
                assert low[row] - 1e-9 <= value <= high[row] + 1e-9
            else:
                # Its own ideal can only be larger than that of the judged documents.
                assert value <= high[row] + 1e-9


@given(cases(), st.sampled_from(BOUNDED))
def test_where_all_is_judged_the_bounds_are_the_value(case: Any, name: str) -> None:
    ranked, grades = case
    whole = [dict.fromkeys(row, 0.0) | known for row, known in zip(ranked, grades, strict=True)]
    lists, metric = made((ranked, whole)), parse_metric(name)
    high = lists.highest_possible(metric)
    assert high is not None
    assert high.tolist() == pytest.approx(lists.unjudged_irrelevant(metric).tolist(), abs=1e-6)
    assert lists.condensed(metric).tolist() == lists.unjudged_irrelevant(metric).tolist()


def test_metrics_that_count_all_relevant_documents_have_no_bounds() -> None:
    lists = made(([["d1"]], [{"d1": 1.0}]))
    for name in ("map", "map@3", "recall@3", "ndcg", "mrr"):
        assert lists.highest_possible(parse_metric(name)) is None
    # A missed document is worth nothing in a metric without a cutoff.
    missed = ranked_lists([["a"]], [{"b": 1.0}], 4)
    for name in ("map", "mrr", "ndcg"):
        assert missed.unjudged_irrelevant(within_window(parse_metric(name), 4)).tolist() == [0.0]


def test_what_is_judged_and_what_is_within_the_window_is_counted() -> None:
    lists = ranked_lists(
        [["a", "b", "c", "d"], ["x"], []],
        [{"a": 0.0, "d": 2.0, "z": 1.0}, {"y": 0.0}, {"a": 1.0}],
        3,
    )
    assert lists.judged_at(2).tolist() == pytest.approx([0.5, 0.0, np.nan], nan_ok=True)
    assert lists.recall.tolist() == pytest.approx([0.0, np.nan, 0.0], nan_ok=True)
    wider = ranked_lists([["a", "b", "c", "d"]], [{"a": 0.0, "d": 2.0, "z": 1.0}], 4)
    assert wider.recall.tolist() == [0.5]


def test_a_metric_without_a_cutoff_looks_at_the_window_and_no_further() -> None:
    assert within_window(parse_metric("map"), 50) == parse_metric("map@50")
    assert within_window(parse_metric("ndcg@10"), 50) == parse_metric("ndcg@10")
    wta = parse_metric("winner-takes-all")
    assert within_window(wta, 50) == wta
    with pytest.raises(UsageError, match="further than the window of 50"):
        within_window(parse_metric("ndcg@51"), 50)
    with pytest.raises(UsageError, match="pairs of judged documents"):
        within_window(parse_metric("pairwise-error"), 50)


def asked(names: Sequence[str]) -> list[JudgedQuery]:
    return [JudgedQuery(name, {"keywords": name}, ["d"], np.ones(1, np.float32)) for name in names]


def test_where_nothing_is_known_of_the_training_all_queries_count_and_it_is_said() -> None:
    chosen = choose_queries({"m": {}}, asked(["a", "b"]))
    assert (chosen.queries.tolist(), chosen.side) == ([0, 1], "unknown")
    assert "it may have seen these" in chosen.warnings[0]
    assert [warning.check for warning in chosen.seen["m"]] == ["unknown-training"]
    with pytest.raises(Refused, match="nothing tells the test queries of this data"):
        choose_queries({"m": {}}, asked(["a"]), "test")
    inside = [name for name in map(str, range(50)) if HashSplit().sides_of([name])[0] == "train"]
    with pytest.raises(Refused, match="no query is held out from m"):
        choose_queries({"m": {"source": seen_sides(inside, HashSplit())}}, asked(inside))


TIMES = (3, 0, 1, 5, 2, 1)
DOCUMENTS_WEIGHTED = [f"d{n}" for n in range(6)]


def judged(query: int, importance: float | None = None) -> JudgedQuery:
    grades = np.random.default_rng(query).integers(0, 3, 5).astype(np.float32)
    grades[0] = 1
    return JudgedQuery(
        f"q{query}", {"keywords": "red"}, DOCUMENTS_WEIGHTED[:5], grades, None, importance
    )


def served(query: JudgedQuery, seed: int) -> list[str]:
    # Repeated queries get the lists of the query that they repeat.
    number = int(query.query_id.partition("-")[0][1:])
    return list(np.random.default_rng([seed, number]).permutation(DOCUMENTS_WEIGHTED))


def comparison_of(queries: list[JudgedQuery], **how: Any) -> RankerComparison:
    new, old = ([served(query, seed) for query in queries] for seed in (2, 1))
    chosen = ChosenQueries(np.arange(len(queries)), "all")
    plan = ComparisonPlan((NDCG(cutoff=3),), baseline="query")
    lists = {"the model": new, "query": old}
    return LiveResults(lists, queries, chosen, plan, None, depth=10, alone=old, **how).compared()


def figures(comparison: RankerComparison) -> list[float]:
    pair = comparison.pairs[0]
    assert pair.left_out is not None
    both = (pair.comparison, pair.left_out)
    return [figure for pair in both for figure in (pair.mean_a, pair.mean_b, pair.mean_difference)]


PLAIN = [judged(n) for n in range(len(TIMES))]
OFTEN = [judged(n, importance=float(times)) for n, times in enumerate(TIMES)]
REPEATED = [
    replace(judged(n), query_id=f"q{n}-{turn}") for n, k in enumerate(TIMES) for turn in range(k)
]


def test_a_live_mean_of_weighted_queries_is_that_of_repeated_ones() -> None:
    often, plain = comparison_of(OFTEN), comparison_of(PLAIN)
    assert figures(often) == pytest.approx(figures(comparison_of(REPEATED)))
    assert figures(often) != pytest.approx(figures(plain), abs=1e-3)
    assert (often.weighted, plain.weighted) == (True, False)


def test_who_wants_no_weights_gets_the_figures_without() -> None:
    assert figures(comparison_of(OFTEN, weighted=False)) == figures(comparison_of(PLAIN))
    alike = [replace(query, importance=2.0) for query in PLAIN]
    assert comparison_of(alike).pairs[0].comparison == comparison_of(PLAIN).pairs[0].comparison


def test_live_results_are_a_comparison_for_tables_and_pages() -> None:
    comparison = comparison_of(PLAIN)
    assert comparison.headline == ("the model", "query")
    assert comparison.verdict() == comparison.pairs[0].verdict
    assert comparison.per_query.column_names[2:] == ["ndcg@3 the model", "ndcg@3 query"]
    pytest.importorskip("owpc_ltr_report")
    page = ltr.report([comparison])
    assert page.verdict is not None
    assert page.verdict.mood == comparison.verdict().outcome
