"""Metrics against enumeration of all tied orders, other implementations and published figures."""

from __future__ import annotations

import csv
import itertools
import lzma
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from owpc_ltr_metrics.ndcg import NDCG

from owpc_ltr.metrics import Metric, RankedQueries, parse_metric
from owpc_ltr.metrics.metric import Ties
from owpc_ltr.plugin_checks import check_metric

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


def counted(metric: Metric, values: list[float]) -> float:
    """What ties count whose orders have these values, that of the file first."""
    if metric.ties == "expected":
        return math.fsum(values) / len(values)
    return values[0]


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


@pytest.mark.parametrize("name", EVERY_METRIC)
@given(queries=tied_queries())
def test_every_metric_equals_enumeration_of_all_tied_orders(
    name: str, queries: list[tuple[list[float], list[int]]]
) -> None:
    usual = parse_metric(f"{name},empty=skip")
    values = [
        [
            value_of_order(usual, order)
            for order in orders(scores, [float(label) for label in labels])
        ]
        for scores, labels in queries
    ]
    for ties in get_args(Ties):
        metric = replace(usual, ties=ties)
        wanted = [counted(metric, possible) for possible in values]
        np.testing.assert_allclose(metric.per_query(*dataset(queries)), wanted, atol=1e-12)


def of_metric(name: str) -> Callable[[Array, Array, Array], Array]:
    metric = parse_metric(f"{name},empty=skip")
    return metric.per_query


def graded(rng: np.random.Generator) -> Dataset:
    lengths = rng.integers(0, 30, size=120)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.choice([0, 1, 2, 3], p=[0.6, 0.2, 0.1, 0.1], size=offsets[-1])
    return rng.integers(-4, 5, size=offsets[-1]) / 2.0, labels.astype(np.float32), offsets


@pytest.mark.parametrize("name", EVERY_METRIC)
def test_every_metric_keeps_its_promises(name: str) -> None:
    check_metric(parse_metric(name), top_grade=3)


def test_metrics_asked_together_are_the_metrics_asked_alone(rng: np.random.Generator) -> None:
    data = graded(rng)
    metrics = [parse_metric(name) for name in EVERY_METRIC]
    queries = RankedQueries(*data)
    for metric in metrics:
        np.testing.assert_array_equal(metric.of(queries), metric.per_query(*data))


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


@pytest.fixture
def untied(rng: np.random.Generator) -> Dataset:
    lengths = rng.integers(1, 40, size=200)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.choice([0, 1, 2, 3, 4], p=[0.6, 0.2, 0.1, 0.05, 0.05], size=offsets[-1])
    return rng.permutation(offsets[-1]).astype(np.float64), labels.astype(np.float32), offsets


def as_trec(data: Dataset) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    scores, labels, offsets = data
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for query, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
        qrels[f"{query}"] = {f"d{i}": int(labels[i]) for i in range(start, stop)}
        run[f"{query}"] = {f"d{i}": float(scores[i]) for i in range(start, stop)}
    return qrels, run


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("map", "AP"),
        ("map@5", "AP@5"),
        ("map,relevant-above=1", "AP(rel=2)"),
        ("mrr", "RR"),
        ("mrr@3", "RR@3"),
        ("precision@5", "P@5"),
        ("recall@5", "R@5"),
        ("ndcg,gain=linear", "nDCG"),
        ("ndcg@5,gain=linear", "nDCG@5"),
        ("winner-takes-all", "Success@1"),
    ],
)
def test_agrees_with_ir_measures_on_untied_scores(name: str, theirs: str, untied: Dataset) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    measure = ir_measures.parse_measure(theirs)
    qrels, run = as_trec(untied)
    wanted = {int(m.query_id): m.value for m in ir_measures.iter_calc([measure], qrels, run)}
    values = parse_metric(name).per_query(*untied)
    # trec_eval keeps scores in single precision, and leaves queries without documents out.
    np.testing.assert_allclose(values, [wanted.get(q, 0.0) for q in range(len(values))], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("ndcg@5", "nDCG(dcg='exp-log2')@5"),
        ("ndcg@20", "nDCG(dcg='exp-log2')@20"),
        ("err@5", "ERR@5"),
    ],
)
def test_agrees_with_gdeval_on_untied_scores(name: str, theirs: str, untied: Dataset) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    if not ir_measures.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    measure = ir_measures.parse_measure(theirs)
    qrels, run = as_trec(untied)
    wanted = {int(m.query_id): m.value for m in ir_measures.gdeval.iter_calc([measure], qrels, run)}
    values = parse_metric(name).per_query(*untied)
    assert len(wanted) > 150
    # gdeval prints five decimals.
    np.testing.assert_allclose(values[list(wanted)], list(wanted.values()), atol=1e-5)


@pytest.mark.parametrize("cutoff", [None, 1, 5, 10])
def test_expected_ndcg_agrees_with_scikit_learn_under_ties(
    cutoff: int | None, untied: Dataset
) -> None:
    ndcg_score = pytest.importorskip("sklearn.metrics").ndcg_score
    scores, labels, offsets = untied
    scores = np.floor(scores / 700.0)
    metric = NDCG(cutoff, gain="linear")
    values = metric.per_query(scores, labels, offsets)
    for query, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
        if stop - start > 1:
            wanted = ndcg_score([labels[start:stop]], [scores[start:stop]], k=cutoff)
            assert values[query] == pytest.approx(wanted, abs=1e-9)


def read_letor(paths: list[Path], n_features: int) -> tuple[Array, Array, Array]:
    """Features, labels and offsets of LETOR text in which every feature is written."""
    rows, queries = [], []
    for path in paths:
        for line in lzma.decompress(path.read_bytes()).decode("ascii").splitlines():
            label, query, *features = line.split("#")[0].split()
            rows.append([label, *(feature.partition(":")[2] for feature in features)])
            queries.append(query)
    table = np.array(rows, dtype=np.float64)
    assert table.shape[1] == n_features + 1
    starts = [i for i, query in enumerate(queries) if i == 0 or query != queries[i - 1]]
    return table[:, 1:], table[:, 0].astype(np.float32), np.array([*starts, len(rows)])


def test_reproduces_the_published_single_feature_results_of_letor_2(shared_data: Path) -> None:
    folder = shared_data / "letor2-ohsumed"
    features, labels, offsets = read_letor([folder / f"S{i}.txt.xz" for i in range(1, 6)], 25)
    assert len(offsets) - 1 == 106
    compared = 0
    for table, name in (("NDCG", "ndcg-letor@"), ("Precision", "precision@")):
        path = folder / "csv" / f"SingleFeatures_OHSUMED.{table}.csv"
        header, *rows = list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
        for row in rows:
            scores = features[:, int(float(row[0])) - 1]
            for column, published in zip(header[1:], row[1:], strict=True):
                _, _, cutoff = column.partition("@")
                text = name + cutoff if cutoff else "map"
                metric = parse_metric(f"{text},ties=file-order")
                assert metric.mean(scores, labels, offsets) == pytest.approx(
                    float(published), abs=1e-6
                )
                compared += 1
    assert compared == 25 * (10 + 11)


def test_the_order_of_ohsumeds_files_is_worth_nothing_under_expected_ties(
    shared_data: Path, rng: np.random.Generator
) -> None:
    fives = []
    for i in range(1, 6):
        path = shared_data / "letor3-ohsumed" / f"S{i}.txt.xz"
        _, labels, offsets = read_letor([path], 45)
        equal = np.zeros(len(labels))
        in_file_order = parse_metric("map,ties=file-order").mean(equal, labels, offsets)
        expected = parse_metric("map").mean(equal, labels, offsets)
        shuffled = [
            parse_metric("map").mean(rng.random(len(labels)), labels, offsets) for _ in range(50)
        ]
        assert expected == pytest.approx(np.mean(shuffled), abs=4 * np.std(shuffled) / 50**0.5)
        fives.append((in_file_order, expected))
    flattered, honest = np.mean(fives, axis=0)
    assert flattered == pytest.approx(0.4274, abs=5e-5)
    assert honest == pytest.approx(0.3069, abs=5e-4)


def test_the_burges_example_of_a_thousand_documents() -> None:
    # Burges, Ragno & Le 2006, section 3: relevant at 1 and 1000, then at 2 and 3.
    offsets = np.array([0, 1000])
    scores = -np.arange(1.0, 1001.0)
    before, after = np.zeros((2, 1000), dtype=np.float32)
    before[[0, 999]], after[[1, 2]] = 1, 1
    value = {
        name: [parse_metric(name).mean(scores, labels, offsets) for labels in (before, after)]
        for name in ("winner-takes-all", "mrr", "pairwise-error", "map")
    }
    assert value["winner-takes-all"] == [1.0, 0.0]
    assert value["mrr"] == [1.0, 0.5]
    assert value["pairwise-error"] == [998 / 1996, 2 / 1996]
    assert value["map"] == pytest.approx([(1 + 2 / 1000) / 2, (1 / 2 + 2 / 3) / 2])
