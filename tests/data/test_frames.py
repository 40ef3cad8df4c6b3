"""Data frames of every library give one dataset; what cannot be a feature is named."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrError, from_frame, make_dataset
from owpc_ltr.data.construction import table_of
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.models.linear import LinearModel
from tests.datasets import same

COLUMNS: dict[str, list[Any]] = {
    "query_id": ["a", "a", "b", "b"],
    "grade": [1, 0, 2, 0],
    "bm25": [1.5, None, 3.5, 4.5],
    "clicks": [1, 2, 3, 4],
    "fresh": [True, False, True, None],
}
NAMES = ("bm25", "clicks", "fresh")


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    """The columns as a frame of each library that is installed."""
    table = pa.table(columns)
    return [
        table,
        table.to_batches()[0],
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        pd.DataFrame(columns),
        pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
        pl.DataFrame(columns),
    ]


def test_frames_of_all_libraries_are_one_dataset() -> None:
    expected = make_dataset(
        [[1.5, 1, 1], [np.nan, 2, 0], [3.5, 3, 1], [4.5, 4, np.nan]],
        [1, 0, 2, 0],
        ["a", "a", "b", "b"],
        feature_names=NAMES,
    )
    for frame in frames(COLUMNS):
        assert same(from_frame(frame, query="query_id", label="grade"), expected)


ROW = st.tuples(
    st.integers(0, 3),
    st.integers(0, 4),
    st.none() | st.floats(-1e30, 1e30),
    st.integers(-(2**40), 2**40),
)


@given(st.lists(ROW, min_size=1, max_size=20))
def test_frames_of_all_libraries_agree_on_any_rows(rows: list[tuple[Any, ...]]) -> None:
    rows.sort(key=lambda row: row[0])
    columns = dict(zip(("q", "y", "x", "n"), map(list, zip(*rows, strict=True)), strict=True))
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.int64())
    table = pa.table(columns, schema=pa.schema(list(zip(columns, kinds, strict=True))))
    array = np.array([[np.nan if x is None else x, n] for _, _, x, n in rows])
    expected = make_dataset(array, columns["y"], columns["q"], feature_names=("x", "n"))
    for frame in (table, table.to_pandas(), pl.from_arrow(table)):
        assert same(from_frame(frame, query="q", label="y"), expected)


def test_a_relation_of_duckdb_is_a_frame() -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    relation = duckdb.sql(
        "select * from (values ('a', 1, 2.5::decimal(4, 1)), ('a', 0, null)) t(query_id, grade, x)"
    )
    data = from_frame(relation, query="query_id", label="grade")
    assert data.feature_names == ("x",)
    assert data.features[0, 0] == 2.5
    assert np.isnan(data.features[1, 0])


def test_the_index_of_a_shuffled_frame_is_no_feature() -> None:
    frame = pd.DataFrame(COLUMNS)[["grade", "query_id", "bm25"]].iloc[[1, 0, 3, 2]]
    assert from_frame(frame, query="query_id", label="grade").feature_names == ("bm25",)


def test_ids_may_be_categories() -> None:
    frame = pd.DataFrame(COLUMNS).astype({"query_id": "category"})
    polars = pl.DataFrame(COLUMNS).with_columns(pl.col("query_id").cast(pl.Categorical))
    for each in (frame, polars):
        data = from_frame(each, query="query_id", label="grade")
        assert data.query_ids.to_pylist() == ["a", "b"]


def test_numbers_of_every_type_are_features() -> None:
    values = [1, 2]
    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(5, 2)]
    columns: dict[str, Any] = {"q": [7, 7], "y": [0.0, 1.0]}
    for kind in kinds:
        numbers: Any = [Decimal(v) for v in values] if pa.types.is_decimal(kind) else values
        numbers = np.array(values, np.float16) if kind == pa.float16() else numbers
        columns[str(kind)] = pa.array(numbers, kind)
    columns["nothing"] = pa.nulls(2)
    columns["coded"] = pa.array([1.0, 2.0]).dictionary_encode()
    data = from_frame(pa.table(columns), query="q", label="y")
    assert np.array_equal(data.features[:, :-2], [[1] * 5, [2] * 5])
    assert np.isnan(data.features[:, -2]).all()
    assert data.features[:, -1].tolist() == values


def test_columns_have_the_parts_that_they_are_said_to_have() -> None:
    table = pa.table({**COLUMNS, "doc": [4, 3, 2, 1], "w": [1, 2, 0, 1]})
    data = from_frame(
        table, "query_id", "grade", document="doc", weight="w", features=["clicks", "bm25"]
    )
    assert data.feature_names == ("clicks", "bm25")
    assert data.doc_ids is not None
    assert data.doc_ids.to_pylist() == ["4", "3", "2", "1"]
    assert data.weights.tolist() == [1, 2, 0, 1]
    assert data.features[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("changed", "options", "error", "message"),
    [
        ({"title": list("wxyz")}, {}, BadInput, r"'title' is .*\('w', for instance\).*features=\["),
        ({"day": [datetime.date(2024, 1, 1)] * 4}, {}, BadInput, "the column 'day' is date32"),
        ({"tags": [[1.0]] * 4}, {}, BadInput, "the column 'tags' is list<"),
        (
            {"grade": [1, None, 0, 0]},
            {},
            BadInput,
            r"'grade' has no value in row 2 \(index 1\) \(1 are miss",
        ),
        (
            {"query_id": ["a", "a", None, None]},
            {},
            BadInput,
            r"'query_id' has no value in row 3 \(index 2\)",
        ),
        ({"query_id": [1.5] * 4}, {}, BadInput, "query ids must be text or whole numbers"),
        ({"grade": list("wxyz")}, {}, BadInput, "the column 'grade' is .*give a label column"),
        (
            {"grade": [1, -1, 0, 0]},
            {},
            BadInput,
            r"labels must be finite .* entry 2 \(index 1\) is -1",
        ),
        (
            {"bm25": [0, 1, 1e39, 0]},
            {},
            BadInput,
            r"feature 'bm25', row 3 \(index 2\): 1e\+39 is beyond float",
        ),
        ({}, {"query": "qid"}, BadInput, "no column 'qid' for query ids; it has query_id, grade,"),
        ({}, {"features": ["bm26"]}, BadInput, "no column 'bm26' for a feature"),
        ({}, {"features": ["grade"]}, UsageError, "the column 'grade' is label and feature"),
        ({}, {"features": "bm25"}, UsageError, "features is one text"),
        ({}, {"features": []}, BadInput, "the data frame has no feature"),
    ],
)
def test_a_column_that_cannot_be_what_it_is_said_to_be_is_named(
    changed: dict[str, Any], options: dict[str, Any], error: type[OwpcLtrError], message: str
) -> None:
    table = pa.table({**COLUMNS, **changed})
    with pytest.raises(error, match=message):
        from_frame(table, **{"query": "query_id", "label": "grade", **options})


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(BadInput, match="a list is not a data frame: give one of pandas"):
        table_of([1, 2])
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(BadInput, match="the data frame cannot be read: Duplicate column names"):
        table_of(twice)
    mixed = pd.DataFrame({"a": pd.Series(["x", 1, object()], dtype=object)})
    with pytest.raises(BadInput, match="the data frame cannot be read"):
        table_of(mixed)


def test_the_names_of_a_frame_are_those_of_the_features() -> None:
    for frame in frames({"x": [1.0, 2.0], "z": [3, 4]}):
        data = make_dataset(frame, pd.Series([0, 1]), pl.Series(["a", "a"]))
        assert data.feature_names == ("x", "z")
        assert data.features.tolist() == [[1, 3], [2, 4]]


def test_a_model_picks_its_columns_by_name() -> None:
    model = LinearModel(("z", "x"), np.array([10.0, 1.0]))
    for frame in frames({"x": [1.0, None], "other": ["a", "b"], "z": [3, 4]}):
        assert model.score(frame).tolist() == [31.0, 40.0]


def test_a_column_that_a_model_lacks_is_named() -> None:
    model = LinearModel(("z", "x"), np.ones(2))
    with pytest.raises(BadInput, match="no column 'z' for a feature; it has x"):
        model.score(pd.DataFrame({"x": [1.0]}))
    with pytest.raises(BadInput, match=r"the column 'z' is .* numbers are needed"):
        model.score(pl.DataFrame({"x": [1.0], "z": ["a"]}))
