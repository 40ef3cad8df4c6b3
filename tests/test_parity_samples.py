"""Parity samples: chosen by the hash of query ids, whatever their order, and read back exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.splits import query_positions
from owpc_ltr.errors import BadInput
from owpc_ltr.models.parity_samples import (
    DOCUMENTS,
    QUERIES,
    dataset_of,
    packed,
    parity_samples_of,
    unpacked,
)


def logged(queries: int = 60, documents: int = 3) -> RankingDataset:
    """Judged documents as they come from an engine."""
    generator = np.random.default_rng(0)
    rows = queries * documents
    features = generator.normal(size=(rows, 2)).astype(np.float32)
    features[::5, 1] = np.nan
    return make_dataset(
        features,
        generator.integers(0, 3, rows).astype(np.float32),
        np.repeat([f"query {i}" for i in range(queries)], documents),
        document_ids=pa.array([f"d{i}" for i in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"words {i}"}) for i in range(queries)]),
    )


def test_the_queries_of_the_lowest_hashes_are_remembered_in_their_order() -> None:
    data = logged()
    lowest = np.sort(np.argsort(query_positions(data, "probes"))[:QUERIES])
    chosen = [sample["query_id"] for sample in parity_samples_of(data)]
    assert chosen == data.query_ids.take(pa.array(lowest)).to_pylist()
    assert chosen != data.query_ids[:QUERIES].to_pylist()


def test_the_order_of_the_queries_chooses_none() -> None:
    data = logged()
    shuffled = data.select(np.random.default_rng(1).permutation(60))
    one, other = parity_samples_of(data), parity_samples_of(shuffled)
    by_id = {sample["query_id"]: sample for sample in other}
    assert [by_id[sample["query_id"]] for sample in one] == one
    assert len(other) == len(one) == QUERIES


def test_a_query_that_leaves_takes_no_other_with_it() -> None:
    data = logged()
    chosen = [sample["query_id"] for sample in parity_samples_of(data)]
    others = [i for i, query in enumerate(data.query_ids.to_pylist()) if query != chosen[0]]
    left = [sample["query_id"] for sample in parity_samples_of(data.select(np.array(others)))]
    assert set(chosen[1:]) < set(left)


@pytest.mark.parametrize("queries", [1, 5, 60, 100])
def test_as_many_queries_are_remembered_as_there_are_or_are_wanted(queries: int) -> None:
    assert len(parity_samples_of(logged(), queries)) == min(queries, 60)


def test_a_sample_is_what_was_logged() -> None:
    data = logged(documents=DOCUMENTS + 2)
    for sample in parity_samples_of(data):
        query = data.query_ids.to_pylist().index(sample["query_id"])
        rows = slice(query * (DOCUMENTS + 2), query * (DOCUMENTS + 2) + DOCUMENTS)
        assert sample["params"] == {"keywords": f"words {query}"}
        assert sample["document_ids"] == data.document_ids[rows].to_pylist()  # type: ignore[index]
        assert sample["labels"] == data.labels[rows].tolist()
        assert unpacked(sample["features"], DOCUMENTS, 2).tobytes() == data.features[rows].tobytes()


def test_samples_read_back_as_judged_queries() -> None:
    data = logged()
    samples = json.loads(json.dumps(parity_samples_of(data), allow_nan=False))
    read = dataset_of(samples, data.feature_names)
    chosen = [data.query_ids.to_pylist().index(sample["query_id"]) for sample in samples]
    expected = data.select(np.array(chosen))
    assert read.query_ids.to_pylist() == expected.query_ids.to_pylist()
    assert np.array_equal(read.labels, expected.labels)
    assert np.array_equal(read.offsets, expected.offsets)
    assert read.features.tobytes() == expected.features.tobytes()


@pytest.mark.parametrize("missing", ["query_params", "document_ids"])
def test_what_no_engine_logged_cannot_be_asked_again(missing: str) -> None:
    absent: dict[str, Any] = {missing: None}
    assert parity_samples_of(replace(logged(), **absent)) == []


@given(st.lists(st.floats(width=32), min_size=6, max_size=6))
def test_packed_features_come_back_bit_by_bit(values: list[float]) -> None:
    matrix = np.array(values, np.float32).reshape(3, 2)
    assert unpacked(packed(matrix), 3, 2).tobytes() == matrix.tobytes()
    assert unpacked(packed(np.asfortranarray(matrix)), 3, 2).tobytes() == matrix.tobytes()


@pytest.mark.parametrize("text", ["AAAA", "?", packed(np.zeros((2, 2), np.float32))])
def test_features_of_another_size_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="the features of a sample are not 3 rows of 2"):
        unpacked(text, 3, 2)
