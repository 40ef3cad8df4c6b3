"""Datasets from arrays: any kind of number and any order of rows, or one line that says why not."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.errors import BadInput, OwpcLtrWarning

X = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], dtype=np.float32)
LABELS, IDS = [0, 1, 2, 0], ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    "features",
    [
        X.tolist(),
        X.astype(np.float64),
        X.astype(np.float16),
        X.astype(np.longdouble),
        X.astype(int),
        X.astype(np.uint8),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        X.astype(object),
        np.ma.MaskedArray(X),
        [tuple(row) for row in X],
        list(X),
    ],
)
def test_numbers_of_any_kind_and_layout_are_the_same_features(features: Any) -> None:
    data = make_dataset(features, LABELS, IDS)
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert np.array_equal(data.features, X)


def test_float32_rows_that_lie_as_they_must_are_not_copied() -> None:
    assert np.shares_memory(make_dataset(X, LABELS, IDS).features, X)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(LABELS),
        np.array(LABELS, np.float64),
        np.array(LABELS, object),
        pa.array(LABELS),
        pa.chunked_array([LABELS[:1], LABELS[1:]]),
        [float(label) for label in LABELS],
    ],
)
def test_labels_are_numbers_of_any_kind(labels: Any) -> None:
    assert make_dataset(X, labels, IDS).labels.tolist() == LABELS


def test_labels_may_say_yes_and_no() -> None:
    assert make_dataset(X, [True, False, True, False], IDS).labels.tolist() == [1, 0, 1, 0]


def test_missing_values_of_any_kind_are_nan() -> None:
    masked = np.ma.MaskedArray([[1.0, 2], [3, 4]], [[False, True], [False, False]])
    for features in ([[1, None], [3, 4]], [[1, np.nan], [3, 4]], masked):
        data = make_dataset(features, [0, 1], ["a", "a"])
        assert np.isnan(data.features).tolist() == [[False, True], [False, False]]


def test_what_float32_cannot_tell_apart_is_rounded() -> None:
    assert make_dataset([[0.1], [2**24 + 1]], [0, 1], [1, 1]).features.tolist() == [
        [np.float32(0.1)],
        [2**24],
    ]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"X": [[1.0, 1e39], [1, 2]]}, r"features\[0, 1\] is 1e\+39, which is beyond float32"),
        ({"X": [[1.0, 2], [1, 10**400]]}, r"features\[1, 1\] is '1000.*a int, and must be"),
        ({"X": [["1.5", 2], [1, 2]]}, r"features\[0, 0\] is '1.5', a str, and must be a number"),
        ({"X": np.array([["1", "2"], ["1", "x"]])}, "features must be numbers, and these are <U1"),
        ({"X": [[1, b"x"], [1, 2]]}, r"features\[0, 1\] is .*x.*, a bytes"),
        ({"X": [[1, [2]], [1, [2]]]}, "features hold a list where a number must stand"),
        ({"X": [[1, 2], [3]]}, r"rows of different lengths \(1 to 2\): give each row one"),
        ({"X": np.zeros((2, 2), complex)}, "features must be numbers, and these are complex128"),
        ({"X": np.zeros((2, 2), "M8[s]")}, "these are datetime64"),
        ({"X": scipy.sparse.eye(2)}, r"a sparse matrix.*X\.toarray\(\)"),
        ({"X": [1.0, 2.0]}, "features have 1 dimensions.*one row a document"),
        ({"X": 3.0}, "features have 0 dimensions"),
        ({"y": ["good", "bad"]}, r"labels\[0\] is 'good', a str, and must be a number"),
        ({"y": ["1", "0"]}, r"labels\[0\] is '1', a str"),
        ({"y": [[0], [1]]}, "labels have 2 dimensions, and must be one number a row"),
        ({"y": [0, 1e39]}, r"labels\[1\] is 1e\+39, which is beyond float32"),
        ({"y": [0, np.inf]}, "labels must be finite and not negative: entry 2 is inf"),
        ({"y": [0, None]}, "labels must be finite and not negative: entry 2 is nan"),
        ({"y": [0, 1, 1]}, "labels has 3 entries where 2 are needed"),
        ({"q": [2]}, r"sizes of groups are no ids; give np\.repeat"),
        ({"q": [1.0, 1.0]}, "query ids must be text or whole numbers.* are double"),
        ({"q": [True, True]}, "query ids must be text or whole numbers.* are bool"),
        ({"q": ["a", 1]}, "query ids are of several kinds"),
        ({"q": ["a", None]}, "the first in row 2"),
        ({"document_ids": ["d"]}, "document_ids has 1 entries where 2 are needed"),
        ({"document_weights": ["x", "y"]}, r"document_weights\[0\] is 'x'"),
        ({"feature_names": ["x"]}, "feature_names has 1 entries where 2 are needed"),
    ],
)
def test_what_is_no_number_or_does_not_fit_is_refused_in_one_line(
    given_: dict[str, Any], message: str
) -> None:
    parts = {"X": [[1.0, 2], [3, 4]], "y": [0, 1], "q": ["a", "a"], **given_}
    with pytest.raises(BadInput, match=message) as caught:
        make_dataset(parts.pop("X"), parts.pop("y"), parts.pop("q"), **parts)
    assert "\n" not in str(caught.value)


def test_names_ids_and_weights_are_taken_as_lists() -> None:
    data = make_dataset(
        X, LABELS, IDS, ["x", "y"], document_ids=[4, 3, 2, 1], document_weights=[1, 2, 3, 4],
        query_weights=[1, 2],
    )  # fmt: skip
    assert data.feature_names == ("x", "y")
    assert data.document_ids is not None
    assert data.document_ids.to_pylist() == ["4", "3", "2", "1"]
    assert data.weights.dtype == np.float32
    assert data.query_importance.dtype == np.float64


def scattered(order: list[int]) -> RankingDataset:
    """Seven rows of three queries, in some order."""
    rows = np.array(order)
    return make_dataset(
        np.arange(14).reshape(7, 2)[rows],
        np.arange(7)[rows],
        np.array(["a", "a", "a", "b", "b", "c", "c"])[rows],
        document_ids=[f"d{row}" for row in order],
        document_weights=np.arange(7)[rows],
        comments=pa.array([f"c{row}" for row in order]),
        document_fields={"site": pa.array([f"s{row}" for row in order])},
    )


@given(order=st.permutations(range(7)))
def test_the_order_of_the_rows_changes_nothing_but_the_order(order: list[int]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = scattered(order)
    assert all(issubclass(one.category, OwpcLtrWarning) for one in said)
    assert bool(data.notes) == bool(said)
    # Every part went with its row, and the rows of a query keep the order that they had.
    rows = data.labels.astype(int)
    assert data.features.tolist() == [[2 * row, 2 * row + 1] for row in rows]
    assert data.weights.tolist() == rows.tolist()
    assert data.document_ids == pa.array([f"d{row}" for row in rows])
    assert data.comments == pa.array([f"c{row}" for row in rows])
    assert data.document_fields is not None
    assert data.document_fields["site"] == pa.array([f"s{row}" for row in rows])
    letters = np.array(list("aaabbcc"))[np.array(order)]
    first = list(dict.fromkeys(letters.tolist()))
    assert data.query_ids.to_pylist() == first
    kept = [[row for row, own in zip(order, letters, strict=True) if own == q] for q in first]
    assert [query.labels.tolist() for query in data] == kept


def test_it_is_said_that_rows_were_brought_together() -> None:
    with pytest.warns(OwpcLtrWarning, match="the rows of 1 of 2 queries did not stand together"):
        data = make_dataset([[1], [2], [3]], [0, 1, 2], ["a", "b", "a"])
    assert data.notes == (
        "the rows of 1 of 2 queries did not stand together, and were brought together",
    )
    assert data.notes[0] in repr(data)
    assert data.labels.tolist() == [0, 2, 1]
    assert replace(data, comments=None).notes == data.notes


def test_an_entry_is_named_as_it_was_given_and_not_as_it_was_sorted() -> None:
    with pytest.raises(BadInput, match="entry 3 is -1"):
        make_dataset([[1], [2], [3]], [0, 1, -1], ["a", "b", "a"])
