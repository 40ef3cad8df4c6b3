from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.errors import BadInput

QUERIES = ["a", "a", "b", "b", "b", "c"]


def small(**parts: Any) -> RankingDataset:
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    return make_dataset(features, [0, 1, 2, 0, 0, 1], QUERIES, **parts)


def full() -> RankingDataset:
    return small(
        document_ids=pa.array([f"d{i}" for i in range(6)]),
        comments=pa.array([f"c{i}" for i in range(6)]),
        query_params=pa.array(["{}", '{"k":1}', "{}"]),
        query_weights=np.array([1.0, 2.0, 3.0]),
        document_weights=np.arange(6, dtype=np.float32),
        document_fields={"site": pa.array(["x", None, "y", "y", "x", "x"])},
        feature_scales=np.array([1.0, 0.5]),
        featureset_hash="abc",
        manifest={"judged": 6},
    )


def test_a_query_is_a_view_not_a_copy() -> None:
    data = small()
    query = data[1]
    assert query.query_id == "b"
    assert np.shares_memory(query.features, data.features)
    assert np.shares_memory(query.labels, data.labels)
    assert query.features.tolist() == [[4, 5], [6, 7], [8, 9]]


def test_the_queries_together_are_the_dataset() -> None:
    data = full()
    assert np.array_equal(np.vstack([q.features for q in data]), data.features)
    assert np.array_equal(np.concatenate([q.weights for q in data]), data.weights)
    assert [q.query_id for q in data] == ["a", "b", "c"]


@given(order=st.permutations(range(3)))
def test_selecting_all_queries_in_another_order_and_back_changes_nothing(order: list[int]) -> None:
    data = full()
    there = data.select(np.array(order))
    back = there.select(np.argsort(order))
    assert back.fingerprint == data.fingerprint
    assert back.document_ids == data.document_ids
    assert back.comments == data.comments
    assert back.query_params == data.query_params
    assert back.document_fields == data.document_fields
    assert np.array_equal(back.query_importance, data.query_importance)


def test_each_part_follows_its_query() -> None:
    data = full().select(np.array([2, 0]))
    assert data.query_ids.to_pylist() == ["c", "a"]
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.features.tolist() == [[10, 11], [0, 1], [2, 3]]
    assert data.labels.tolist() == [1, 0, 1]
    assert data.weights.tolist() == [5, 0, 1]
    assert data.query_importance.tolist() == [3, 1]
    assert data.document_ids is not None
    assert data.document_ids.to_pylist() == ["d5", "d0", "d1"]
    assert data.document_fields is not None
    assert data.document_fields["site"].to_pylist() == ["x", "x", None]


def test_nothing_may_be_selected() -> None:
    nothing = full().select(np.array([], np.int64))
    assert (nothing.n_queries, nothing.n_documents, nothing.n_features) == (0, 0, 2)
    assert not nothing.has_missing


def test_what_is_not_given_counts_one() -> None:
    data = small()
    assert data.weights.tolist() == [1] * 6
    assert data.query_importance.tolist() == [1] * 3
    assert data.scales.tolist() == [1] * 2


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ([[1, 2], [3, 4]], False),
        ([[1, np.nan], [3, 4]], True),
        ([[np.inf, 2], [-np.inf, 4]], False),
        ([[3e38, 2], [3e38, 4]], False),
        ([[np.inf, np.nan], [-np.inf, 4]], True),
    ],
)
def test_infinities_are_not_missing_values(values: list[list[float]], missing: bool) -> None:
    data = make_dataset(values, [0, 1], ["q", "q"])
    assert data.has_missing is missing
    filled = data.without_missing()
    assert not np.isnan(filled.features).any()
    assert np.array_equal(filled.features, np.where(np.isnan(data.features), 0, data.features))
    assert (filled is data) is not missing


def test_the_fingerprint_tells_apart_what_is_learned_from() -> None:
    data = full()
    changed = [
        replace(data, features=data.features + 1),
        replace(data, labels=data.labels + 1),
        replace(data, document_weights=data.weights + 1),
        replace(data, query_weights=data.query_importance + 1),
        replace(data, feature_names=("x", "y")),
        replace(data, query_ids=pa.array(["a", "b", "d"])),
        data.select(np.array([0, 1])),
    ]
    assert len({data.fingerprint, *(one.fingerprint for one in changed)}) == 8
    assert replace(data, comments=None, manifest=None).fingerprint == data.fingerprint


def test_query_ids_may_be_whole_numbers_or_text_of_any_kind() -> None:
    text = pa.array(["7", "7", "8"])
    kinds = [
        [7, 7, 8],
        np.array([7, 7, 8]),
        text,
        np.array(["7", "7", "8"]),
        pa.chunked_array([text[:1], text[1:]]),
        text.dictionary_encode(),
        text.cast(pa.large_string()),
    ]
    for ids in kinds:
        assert make_dataset([[1], [2], [3]], [0, 0, 1], ids).query_ids.to_pylist() == ["7", "8"]


def test_an_id_keeps_its_last_zero_byte() -> None:
    assert make_dataset([[1], [2]], [0, 1], ["a", "a\0"]).n_queries == 2


@pytest.mark.parametrize(
    ("features", "labels", "ids", "message"),
    [
        ([1.0, 2.0], [0, 1], ["a", "a"], "features have 1 dimensions"),
        ([[1.0], [2.0]], [0, 1], ["a"], "query_ids has 1 entries where 2 rows"),
        ([[1.0], [2.0]], [0], ["a", "a"], "labels has 1 entries where 2 are needed"),
        ([[1.0], [2.0]], [0, 1], [1.0, np.nan], "query ids must be text or whole numbers"),
        ([[1.0], [2.0]], [0, 1], ["a", None], "and some are missing"),
        ([[1.0], [2.0]], [0, np.nan], ["a", "a"], "labels must be finite .* entry 2 is nan"),
        ([[1.0], [2.0]], [0, -1], ["a", "a"], "labels must be finite .* entry 2 is -1"),
    ],
)
def test_rows_that_make_no_dataset_are_refused(
    features: Any, labels: Any, ids: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make_dataset(features, labels, ids)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"features": np.zeros((6, 2))}, "features must be a float32 matrix"),
        ({"features": np.zeros((2, 6), np.float32).T}, "features must be C-contiguous"),
        ({"features": np.zeros((5, 2), np.float32)}, "offsets must run from 0 to .* 5"),
        ({"labels": np.zeros(6)}, "labels must be a one-dimensional float32 array"),
        ({"offsets": np.array([0, 2, 5, 6], np.int32)}, "offsets must be .* int64"),
        ({"offsets": np.array([], np.int64)}, "offsets must run"),
        ({"offsets": np.array([1, 2, 5, 6])}, "offsets must run"),
        ({"offsets": np.array([0, 2, 2, 6])}, "offsets must increase"),
        ({"query_ids": pa.array(["a", "b"])}, "query_ids has 2 entries where 3 are needed"),
        ({"query_ids": pa.array(["a", "b", "a"])}, "query 'a' stands in two places"),
        ({"query_ids": pa.array(["a", "b", None])}, "query_ids must be Arrow strings"),
        ({"query_ids": pa.array([1, 2, 3])}, "query_ids must be Arrow strings"),
        ({"feature_names": ("x",)}, "feature_names has 1 entries where 2 are needed"),
        ({"feature_names": ("x", "x")}, "the feature name 'x' stands twice"),
        ({"document_ids": pa.array(["a"])}, "document_ids has 1 entries where 6"),
        ({"comments": pa.array(["a"])}, "comments has 1 entries where 6"),
        ({"document_fields": {"site": pa.array(["a"])}}, "field 'site' has 1 entries where 6"),
        ({"query_params": pa.array(["a"])}, "query_params has 1 entries where 3"),
        ({"query_weights": np.ones(2)}, "query_weights has 2 entries where 3"),
        ({"query_weights": np.array([1.0, -1, 1])}, "query_weights must be .* entry 2 is -1"),
        ({"document_weights": np.ones(6)}, "document_weights must be .* float32"),
        ({"feature_scales": np.ones(3)}, "feature_scales has 3 entries where 2"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(full(), **part)
