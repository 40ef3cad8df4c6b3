"""Metrics against enumeration of all tied orders, and their invariances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from owpc_ltr.metrics import Metric, parse_metric, per_query

Array = NDArray[Any]
Dataset = tuple[Array, Array, Array]

EVERY_METRIC = (
    "ndcg",
    "ndcg@3",
    "ndcg@2,gain=linear",
    "ndcg-letor",
    "ndcg-letor@4",
    "map",
    "map@3",
    "map,relevant-above=1",
    "mrr",
    "mrr@2",
    "winner-takes-all",
    "precision@3",
    "recall@2",
    "err",
    "err@3",
    "err,max-grade=3",
    "pairwise-error",
    "rbp",
    "rbp@3,persistence=0.5",
    "rbp,relevant-above=1",
    "rbp@4,gain=linear,max-grade=3",
    "rbp,gain=exponential",
)


def dataset(queries: list[tuple[list[float], list[int]]]) -> Dataset:
    scores = np.array([score for query in queries for score in query[0]], dtype=np.float64)
    labels = np.array([label for query in queries for label in query[1]], dtype=np.float32)
    offsets = np.cumsum([0] + [len(query[0]) for query in queries])
    return scores, labels, offsets


def value_of_order(metric: Any, labels: list[float]) -> float:
    """The metric of labels listed best first, NaN where it is undefined."""
    k = metric.cutoff or len(labels)
    relevant = [label > getattr(metric, "relevant_above", 0.0) for label in labels]
    pairs = [(above, below) for above, below in itertools.combinations(labels, 2) if above != below]
    if not (pairs if metric.name == "pairwise-error" else any(relevant)):
        return math.nan
    hits = [rank for rank, hit in enumerate(relevant, start=1) if hit]
    seen = [rank for rank in hits if rank <= k]
    oracle: dict[str, Callable[[], float]] = {
        "ndcg": lambda: _dcg(metric, labels[:k]) / _dcg(metric, sorted(labels)[::-1][:k]),
        "map": lambda: sum((place + 1) / rank for place, rank in enumerate(seen)) / len(hits),
        "mrr": lambda: 1 / hits[0] if seen else 0.0,
        "winner-takes-all": lambda: float(relevant[0]),
        "precision": lambda: len(seen) / k,
        "recall": lambda: len(seen) / len(hits),
        "err": lambda: _err(metric, labels[:k]),
        "rbp": lambda: _rbp(metric, labels[:k]),
        "pairwise-error": lambda: sum(above < below for above, below in pairs) / len(pairs),
    }
    return oracle[metric.name]()


def _err(metric: Any, labels: list[float]) -> float:
    value, reached = 0.0, 1.0
    for rank, label in enumerate(labels, start=1):
        stop = (2**label - 1) / 2**metric.max_grade
        value, reached = value + reached * stop / rank, reached * (1 - stop)
    return value


def _rbp(metric: Any, labels: list[float]) -> float:
    worth: Callable[[float], float] = {
        "binary": lambda label: float(label > metric.relevant_above),
        "linear": lambda label: label / metric.max_grade,
        "exponential": lambda label: (2**label - 1) / (2**metric.max_grade - 1),
    }[metric.gain]
    p: float = metric.persistence
    return (1 - p) * sum(worth(label) * p**place for place, label in enumerate(labels))


def _dcg(metric: Any, labels: list[float]) -> float:
    total = 0.0
    for rank, label in enumerate(labels, start=1):
        gain = 2**label - 1 if metric.gain == "exponential" else label
        letor = 1.0 if rank <= 2 else 1 / math.log2(rank)
        total += gain * (letor if metric.discount == "letor" else 1 / math.log2(1 + rank))
    return total


def orders(scores: list[float], labels: list[float]) -> Iterator[list[float]]:
    """The labels in every order that agrees with the scores."""
    levels = sorted(set(scores), reverse=True)
    groups = [[y for s, y in zip(scores, labels, strict=True) if s == level] for level in levels]
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [label for group in choice for label in group]


def enumerated(metric: Metric, scores: list[float], labels: list[float]) -> float:
    values = [value_of_order(metric, order) for order in orders(scores, labels)]
    if metric.ties == "expected":
        return math.fsum(values) / len(values)
    if metric.ties == "file-order":
        return values[0]
    best_is_largest = metric.higher_is_better == (metric.ties == "optimistic")
    return max(values) if best_is_largest else min(values)


@st.composite
def tied_queries(draw: st.DrawFn) -> list[tuple[list[float], list[int]]]:
    """A few queries of up to 6 documents, with few distinct scores and grades."""
    query = st.integers(0, 6).flatmap(
        lambda m: st.tuples(
            st.lists(st.sampled_from([0.0, 1.0, 2.0, math.inf]), min_size=m, max_size=m),
            st.lists(st.integers(0, 3), min_size=m, max_size=m),
        )
    )
    return draw(st.lists(query, min_size=1, max_size=3))


@pytest.mark.parametrize("ties", ["expected", "pessimistic", "optimistic", "file-order"])
@pytest.mark.parametrize("name", EVERY_METRIC)
@settings(max_examples=25, deadline=None)
@given(queries=tied_queries())
def test_every_metric_equals_enumeration_of_all_tied_orders(
    name: str, ties: str, queries: list[tuple[list[float], list[int]]]
) -> None:
    metric = parse_metric(f"{name},ties={ties},empty=skip")
    wanted = [
        enumerated(metric, scores, [float(label) for label in labels]) if scores else math.nan
        for scores, labels in queries
    ]
    np.testing.assert_allclose(metric.per_query(*dataset(queries)), wanted, atol=1e-12)


def test_seven_tied_documents_equal_the_mean_of_their_5040_orders() -> None:
    labels = [0, 3, 0, 1, 0, 2, 0]
    data = dataset([([0.0] * 7, labels)])
    for name in EVERY_METRIC:
        metric = parse_metric(name)
        wanted = enumerated(metric, [0.0] * 7, [float(label) for label in labels])
        assert metric.per_query(*data)[0] == pytest.approx(wanted, abs=1e-12), name


def of_metric(name: str) -> Callable[[Array, Array, Array], Array]:
    metric = parse_metric(f"{name},empty=skip")
    return metric.per_query


def assert_blind_to_file_order(
    values: Callable[[Array, Array, Array], Array], rng: np.random.Generator
) -> None:
    scores, labels, offsets = graded(rng)
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    shuffled = np.lexsort((rng.random(len(scores)), query))
    np.testing.assert_allclose(
        values(scores[shuffled], labels[shuffled], offsets),
        values(scores, labels, offsets),
        atol=1e-12,
    )


def assert_blind_to_scale(
    values: Callable[[Array, Array, Array], Array], rng: np.random.Generator
) -> None:
    scores, labels, offsets = graded(rng)
    wanted = values(scores, labels, offsets)
    for transform in (np.exp, lambda s: 3 * s - 100, np.arctan):
        np.testing.assert_array_equal(values(transform(scores), labels, offsets), wanted)


def assert_queries_apart(
    values: Callable[[Array, Array, Array], Array], rng: np.random.Generator
) -> None:
    scores, labels, offsets = graded(rng)
    wanted = values(scores, labels, offsets)
    for query in range(0, len(offsets) - 1, 7):
        rows = slice(offsets[query], offsets[query + 1])
        alone = values(
            scores[rows], labels[rows], np.array([0, offsets[query + 1] - offsets[query]])
        )
        np.testing.assert_allclose(alone, wanted[query : query + 1], atol=1e-12)


def assert_swaps_help(
    values: Callable[[Array, Array, Array], Array], better: int, rng: np.random.Generator
) -> None:
    for _ in range(50):
        labels = rng.integers(0, 4, size=9).astype(np.float32)
        i, j = sorted(rng.choice(9, size=2, replace=False))
        if labels[i] < labels[j]:
            swapped = labels.copy()
            swapped[[i, j]] = labels[[j, i]]
            scores, offsets = -np.arange(9.0), np.array([0, 9])
            gain = values(scores, swapped, offsets) - values(scores, labels, offsets)
            assert np.isnan(gain[0]) or better * gain[0] >= -1e-12


def graded(rng: np.random.Generator) -> Dataset:
    lengths = rng.integers(0, 30, size=120)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.choice([0, 1, 2, 3], p=[0.6, 0.2, 0.1, 0.1], size=offsets[-1])
    return rng.integers(-4, 5, size=offsets[-1]) / 2.0, labels.astype(np.float32), offsets


@pytest.mark.parametrize("name", EVERY_METRIC)
def test_metrics_keep_their_invariances(name: str, rng: np.random.Generator) -> None:
    values = of_metric(name)
    assert_blind_to_file_order(values, rng)
    assert_blind_to_scale(values, rng)
    assert_queries_apart(values, rng)
    assert_swaps_help(values, 1 if parse_metric(name).higher_is_better else -1, rng)
    data = graded(rng)
    bounded = values(*data)
    bounded = bounded[~np.isnan(bounded)]
    assert len(bounded) > 50
    assert (bounded >= -1e-12).all()
    assert (bounded <= 1 + 1e-12).all()


def test_the_invariances_catch_liars(rng: np.random.Generator) -> None:
    with pytest.raises(AssertionError):
        assert_blind_to_file_order(of_metric("map,ties=file-order"), rng)
    with pytest.raises(AssertionError):
        assert_blind_to_scale(
            lambda s, y, o: np.add.reduceat(s * y, o[:-1].clip(0, len(s) - 1)), rng
        )
    with pytest.raises(AssertionError):
        assert_queries_apart(lambda s, y, o: parse_metric("mrr").per_query(s, y, o) - s.mean(), rng)
    with pytest.raises(AssertionError):
        assert_swaps_help(of_metric("map"), -1, rng)


@pytest.mark.parametrize("name", EVERY_METRIC)
def test_policies_bracket_the_expected_value(name: str, rng: np.random.Generator) -> None:
    data = graded(rng)
    policies = ("pessimistic", "expected", "optimistic")
    worst, mean, best = (of_metric(f"{name},ties={ties}")(*data) for ties in policies)
    if not parse_metric(name).higher_is_better:
        worst, best = best, worst
    defined = ~np.isnan(mean)
    assert (worst[defined] <= mean[defined] + 1e-12).all()
    assert (mean[defined] <= best[defined] + 1e-12).all()
    assert (worst[defined] < best[defined] - 0.01).any()


def test_metrics_asked_together_are_the_metrics_asked_alone(rng: np.random.Generator) -> None:
    data = graded(rng)
    metrics = [parse_metric(name) for name in EVERY_METRIC]
    for metric, values in per_query(metrics, *data).items():
        np.testing.assert_array_equal(values, metric.per_query(*data))


def test_a_perfect_ranking_is_worth_exactly_one(rng: np.random.Generator) -> None:
    labels = rng.permutation(50).astype(np.float32)
    assert parse_metric("ndcg").mean(labels.astype(np.float64), labels, np.array([0, 50])) == 1.0


@pytest.mark.parametrize("name", EVERY_METRIC)
def test_scores_of_any_number_type_are_ranked_alike(name: str, rng: np.random.Generator) -> None:
    scores, labels, offsets = graded(rng)
    wanted = of_metric(name)(scores, labels, offsets)
    for kind in (np.float32, np.float16, np.int64):
        np.testing.assert_array_equal(
            of_metric(name)((scores * 2).astype(kind), labels, offsets), wanted
        )
