"""Metrics against other implementations, where the conventions coincide, and published figures."""

from __future__ import annotations

import csv
import itertools
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from owpc_ltr_metrics.ndcg import NDCG

from owpc_ltr.metrics import all_tied_baseline, parse_metric

Array = NDArray[Any]
Dataset = tuple[Array, Array, Array]


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
        in_file_order = all_tied_baseline(parse_metric("map,ties=file-order"), labels, offsets)
        expected = all_tied_baseline(parse_metric("map"), labels, offsets)
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
