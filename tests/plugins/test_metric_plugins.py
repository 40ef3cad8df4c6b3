"""Metrics of plugins: compiled ones ranking by ranking, and rank-biased precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.host.registry import installed
from owpc_ltr.metrics import parse_metric
from owpc_ltr.metrics.training_metrics import MeanMetric, SteppedMetric, is_compiled

METRICS = [
    "map", "map@4", "map,relevant-above=1", "map,empty=one", "mrr", "mrr@3", "winner-takes-all",
    "precision@5", "precision@5,short=zero", "recall@7", "recall@3,empty=one", "ndcg", "ndcg@5",
    "ndcg@5,short=zero", "ndcg@3,gain=linear", "ndcg-letor@4", "ndcg@100,empty=skip",
    "rbp", "rbp@3,persistence=0.5,empty=one", "rbp@9,gain=linear,max-grade=2,short=zero",
]  # fmt: skip
TIES = ["expected", "file-order"]
STEPS = np.array([0.0, 0.125, -0.125, 0.5, -0.5, 1.0, -3.0, 1e3])


def ragged(rng: np.random.Generator) -> RankingDataset:
    """Queries of 1 to 90 documents, graded; two have no relevant document."""
    sizes = np.append(rng.integers(1, 12, 30), [1, 2, 90, 70])
    queries = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.integers(0, 3, len(queries)) * (queries % 11 != 3)
    return make_dataset(np.zeros((len(queries), 1)), labels, queries)


def scores_of(data: RankingDataset, rng: np.random.Generator, tied: bool) -> tuple[Vector, Vector]:
    size = data.n_documents
    if tied:
        return rng.integers(-2, 3, size) / 2, rng.integers(-2, 3, size) / 2
    return rng.normal(size=size), rng.normal(size=size)


def values_of(name: str, data: RankingDataset, scores: Vector, direction: Vector) -> Vector:
    metric = parse_metric(name)
    at_rest = metric.per_query(np.zeros(data.n_documents), data.labels, data.offsets)
    return SteppedMetric(metric, data, at_rest).along(scores, direction, STEPS)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", METRICS)
def test_every_step_has_the_values_of_the_metric(
    name: str, ties: str, rng: np.random.Generator
) -> None:
    data = ragged(rng)
    metric = parse_metric(f"{name},ties={ties}")
    for tied in (False, True):
        scores, direction = scores_of(data, rng, tied)
        values_of_steps = values_of(str(metric), data, scores, direction)
        for step, values in zip(STEPS, values_of_steps, strict=True):
            expected = metric.per_query(scores + step * direction, data.labels, data.offsets)
            if tied:
                np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-15)
            else:
                # To the last bit: a climb takes the first of equal steps.
                np.testing.assert_array_equal(values, expected)


def test_the_sample_tells_conventions_apart(rng: np.random.Generator) -> None:
    data = ragged(rng)
    scores, direction = scores_of(data, rng, tied=True)
    for measure in ("map", "ndcg@5", "mrr", "precision@5"):
        values_of_ties = [
            values_of(f"{measure},ties={ties}", data, scores, direction) for ties in TIES
        ]
        assert values_of_ties[0].mean() != values_of_ties[1].mean()
    values = [values_of(name, data, scores, direction).tolist() for name in METRICS]
    assert len({str(value) for value in values}) == len(METRICS)


def test_threads_do_not_change_a_bit(rng: np.random.Generator) -> None:
    sizes = rng.integers(50, 200, 300)
    queries = np.repeat(np.arange(300), sizes)
    data = make_dataset(np.zeros((len(queries), 1)), rng.integers(0, 3, len(queries)), queries)
    measured = MeanMetric(data, "map")
    scores, direction = scores_of(data, rng, tied=False)
    values, other_values = (measured.along(scores, direction, STEPS, threads) for threads in (1, 2))
    assert len(scores) * len(STEPS) > 200_000
    np.testing.assert_array_equal(values, other_values)


@pytest.mark.parametrize("name", ["map", "ndcg@5", "err@5", "pairwise-error", "map,empty=skip"])
def test_means_along_a_line_are_those_of_each_step(name: str, rng: np.random.Generator) -> None:
    data = ragged(rng)
    data = replace(data, query_weights=rng.choice([0.0, 0.5, 2.0], data.n_queries))
    measured = MeanMetric(data, name)
    scores, direction = scores_of(data, rng, tied=False)
    np.testing.assert_array_equal(
        measured.along(scores, direction, STEPS),
        [measured.mean(scores + step * direction) for step in STEPS],
    )


def test_all_metrics_but_two_are_compiled() -> None:
    metrics = [plugin.cls() for plugin in installed().all("metric") if plugin.shipped]
    missing = [metric.name for metric in metrics if not is_compiled(metric)]
    assert missing == ["err", "pairwise-error"]
    assert len(metrics) > 6


def test_a_metric_that_is_not_compiled_is_told(rng: np.random.Generator) -> None:
    data = ragged(rng)
    with pytest.raises(ValueError, match="err is not compiled"):
        SteppedMetric(parse_metric("err"), data, np.zeros(data.n_queries))


def test_a_score_that_has_no_place_is_refused_by_name(rng: np.random.Generator) -> None:
    data = ragged(rng)
    scores, direction = scores_of(data, rng, tied=False)
    scores[3] = np.nan
    with pytest.raises(BadInput, match="has a score that is NaN"):
        MeanMetric(data, "map").along(scores, direction, STEPS)


persistences = st.floats(0.0, 0.99)


def value(text: str, labels: list[int]) -> float:
    """Of one list, best first."""
    scores, offsets = -np.arange(float(len(labels))), np.array([0, len(labels)])
    return parse_metric(text).mean(scores, np.array(labels, np.float32), offsets)


@given(st.integers(1, 60), persistences)
def test_a_perfect_list_lacks_the_residual(n: int, p: float) -> None:
    assert value(f"rbp,persistence={p}", [1] * n) == pytest.approx(1 - p**n, abs=1e-12)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=20), persistences)
def test_what_is_not_seen_adds_at_most_the_residual(seen: list[int], p: float) -> None:
    text = f"rbp,persistence={p}"
    low, high = value(text, seen), value(text, seen + [1] * 3000)
    assert high - low == pytest.approx(p ** len(seen), abs=1e-9)
    assert value(text, seen + [0] * 3000) == pytest.approx(low, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_who_never_goes_on_sees_the_winner(documents: list[tuple[int, int]]) -> None:
    scores, labels = np.array(documents, dtype=np.float64).T
    values, wanted = (
        parse_metric(text).per_query(scores, labels.astype(np.float32), np.array([0, len(labels)]))
        for text in ("rbp,persistence=0", "winner-takes-all")
    )
    np.testing.assert_allclose(values, wanted, atol=1e-12)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=20))
def test_two_grades_are_binary_whatever_the_gain(labels: list[int]) -> None:
    binary = value("rbp", labels)
    for gain in ("linear", "exponential"):
        assert value(f"rbp,gain={gain},max-grade=1", labels) == pytest.approx(binary, abs=1e-12)


def test_values_do_not_depend_on_how_many_relevant_documents_there_are() -> None:
    assert value("rbp@3", [1, 0, 1, 0]) == value("rbp@3", [1, 0, 1, 1])
    assert value("rbp,persistence=0.5", [1, 0, 1, 0]) == pytest.approx(0.5 + 0.125)


def test_labels_beyond_the_scale_are_refused() -> None:
    with pytest.raises(BadInput, match=r"cannot count the label 5: .* max-grade="):
        value("rbp,gain=linear", [5, 0])
    with pytest.raises(BadInput, match="cannot count the label -1"):
        value("rbp,gain=exponential", [1, -1])
