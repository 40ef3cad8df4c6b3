"""Live means of queries that are asked more or less often: as of queries that are repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from owpc_ltr_metrics.ndcg import NDCG

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.live_queries import LiveQueries
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveQuestion, measure_live
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Served

TIMES = (3, 0, 1, 5, 2, 1)
DOCUMENTS = [f"d{n}" for n in range(6)]


def judged(query: int, importance: float | None = None) -> JudgedQuery:
    grades = np.random.default_rng(query).integers(0, 3, 5).astype(np.float32)
    grades[0] = 1
    return JudgedQuery(f"q{query}", {"keywords": "red"}, DOCUMENTS[:5], grades, None, importance)


def served(request: SearchRequest, seed: int) -> Served:
    # Repeated queries get the lists of the query that they repeat.
    number = int((request.query_id or "").partition("-")[0][1:])
    return Served(tuple(np.random.default_rng([seed, number]).permutation(DOCUMENTS)), 1)


def found(queries: list[JudgedQuery], **how: bool) -> LiveEvaluation:
    question = LiveQuestion("i", {}, queries, [NDCG(cutoff=3)], 10, **how)
    return measure_live(question, lambda q: served(q, 1), lambda q: served(q, 2))


def figures(one: LiveEvaluation) -> list[float]:
    measured = one.measured[0]
    assert measured.bounds is not None
    both = (measured.comparison, measured.condensed)
    means = [figure for pair in both for figure in (pair.mean_a, pair.mean_b, pair.mean_difference)]
    return [*means, *measured.bounds[0], *measured.bounds[1]]


PLAIN = [judged(n) for n in range(len(TIMES))]
OFTEN = [judged(n, importance=float(times)) for n, times in enumerate(TIMES)]
REPEATED = [
    replace(judged(n), query_id=f"q{n}-{turn}") for n, k in enumerate(TIMES) for turn in range(k)
]


def test_a_live_mean_of_weighted_queries_is_that_of_repeated_ones() -> None:
    often, plain = found(OFTEN), found(PLAIN)
    assert figures(often) == pytest.approx(figures(found(REPEATED)))
    assert figures(often) != pytest.approx(figures(plain), abs=1e-3)
    assert (often.weighted, often.as_dict()["weighted"]) == (True, True)
    assert (plain.weighted, "weighted" in plain.as_dict()) == (False, False)


def test_who_wants_no_weights_gets_the_figures_without() -> None:
    assert figures(found(OFTEN, unweighted=True)) == figures(found(PLAIN))
    alike = [replace(query, importance=2.0) for query in PLAIN]
    assert found(alike).measured[0].comparison == found(PLAIN).measured[0].comparison
    live = LiveQueries(Judgments(OFTEN), unweighted=True)
    assert live.question("i", {}, [], None).weights is None
    assert replace(live, unweighted=False).question("i", {}, [], None).weights is not None
