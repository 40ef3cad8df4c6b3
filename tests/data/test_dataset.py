"""Datasets from arrays and from several files, or one line that says why not."""

from __future__ import annotations

import gzip
import lzma
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrWarning, from_frame, read_dataset, save_dataset
from owpc_ltr.data.construction import join_datasets, make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import BadInput, UsageError
from tests.datasets import same

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
    assert make_dataset(X, [True, False, True, False], IDS).labels.tolist() == [1, 0, 1, 0]


def test_features_are_float32_not_copied_where_they_are_and_nan_where_they_are_missing() -> None:
    assert np.shares_memory(make_dataset(X, LABELS, IDS).features, X)
    masked = np.ma.MaskedArray([[1.0, 2], [3, 4]], [[False, True], [False, False]])
    for features in ([[1, None], [3, 4]], [[1, np.nan], [3, 4]], masked):
        data = make_dataset(features, [0, 1], ["a", "a"])
        assert np.isnan(data.features).tolist() == [[False, True], [False, False]]
    rounded = make_dataset([[0.1], [2**24 + 1]], [0, 1], [1, 1]).features
    assert rounded.tolist() == [[np.float32(0.1)], [2**24]]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"X": [[1.0, 1e39], [1, 2]]}, r"features\[0, 1\] is 1e\+39, which is beyond float32"),
        ({"X": [[1.0, 2], [1, 10**400]]}, r"features\[1, 1\] is '1000.*a int, and must be"),
        ({"X": [["1.5", 2], [1, 2]]}, r"features\[0, 0\] is '1.5', a str, and must be a number"),
        ({"X": np.array([["1", "2"], ["1", "x"]])}, "features must be numbers, and these are <U1"),
        ({"X": [[1, b"x"], [1, 2]]}, r"features\[0, 1\] is .*x.*, a bytes"),
        ({"X": [[1, [2]], [1, [2]]]}, "features hold a list in place of a number"),
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
        ({"y": [0, np.inf]}, r"labels must be finite and not negative: entry 2 \(index 1\) is inf"),
        ({"y": [0, None]}, r"labels must be finite and not negative: entry 2 \(index 1\) is nan"),
        ({"y": [0, 1, 1]}, "labels has 3 entries where 2 are needed"),
        ({"y": [0, -1]}, r"labels must be finite and not negative: entry 2 \(index 1\) is -1"),
        ({"q": ["a"]}, "query_ids has 1 entries where 2 rows"),
        (
            {"q": [1.0, np.nan]},
            r"query ids must be text .* missing: the first in row 2 \(index 1\)",
        ),
        ({"q": [2]}, r"sizes of groups are not ids; give np\.repeat"),
        ({"q": [1.5, 1.5]}, "query ids must be text or whole numbers.* are double"),
        ({"q": [True, True]}, "query ids must be text or whole numbers.* are bool"),
        ({"q": ["a", 1]}, "query ids are of several kinds"),
        ({"q": ["a", None]}, r"and some are missing: the first in row 2 \(index 1\)"),
        ({"doc_ids": ["d"]}, "doc_ids has 1 entries where 2 are needed"),
        ({"document_weights": ["x", "y"]}, r"document_weights\[0\] is 'x'"),
        ({"feature_names": ["x"]}, "feature_names has 1 entries where 2 are needed"),
    ],
)
def test_what_is_no_number_or_does_not_fit_is_refused_in_one_line(
    given_: dict[str, Any], message: str
) -> None:
    parts = {"X": [[1.0, 2], [3, 4]], "y": [0, 1], "q": ["a", "a"], **given_}
    with pytest.raises(BadInput, match=message):
        make_dataset(parts.pop("X"), parts.pop("y"), parts.pop("q"), **parts)


def scattered(order: list[int]) -> RankingDataset:
    """Seven rows of three queries, in some order."""
    rows = np.array(order)
    return make_dataset(
        np.arange(14).reshape(7, 2)[rows],
        np.arange(7)[rows],
        np.array(["a", "a", "a", "b", "b", "c", "c"])[rows],
        doc_ids=[f"d{row}" for row in order],
        document_weights=np.arange(7)[rows],
        comments=pa.array([f"c{row}" for row in order]),
        document_fields={"site": pa.array([f"s{row}" for row in order])},
    )


@given(order=st.permutations(range(7)))
def test_the_order_of_the_rows_changes_nothing_but_the_order(order: list[int]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = scattered(order)
    assert all(issubclass(warning.category, OwpcLtrWarning) for warning in said)
    assert bool(data.notes) == bool(said)
    # Every part went with its row, and the rows of a query keep the order that they had.
    rows = data.labels.astype(int)
    assert data.features.tolist() == [[2 * row, 2 * row + 1] for row in rows]
    assert data.weights.tolist() == rows.tolist()
    assert data.doc_ids == pa.array([f"d{row}" for row in rows])
    assert data.comments == pa.array([f"c{row}" for row in rows])
    assert data.document_fields is not None
    assert data.document_fields["site"] == pa.array([f"s{row}" for row in rows])
    letters = np.array(list("aaabbcc"))[np.array(order)]
    first = list(dict.fromkeys(letters.tolist()))
    assert data.query_ids.to_pylist() == first
    kept = [[row for row, own in zip(order, letters, strict=True) if own == q] for q in first]
    assert [query.labels.tolist() for query in data] == kept


def test_it_is_said_that_rows_were_brought_together() -> None:
    note = "the rows of 1 of 2 queries were not next to each other, and were brought together"
    with pytest.warns(OwpcLtrWarning, match=note):
        data = make_dataset([[1], [2], [3]], [0, 1, 2], ["a", "b", "a"])
    assert data.notes == (note,)
    assert note in repr(data)
    assert data.labels.tolist() == [0, 2, 1]
    assert replace(data, comments=None).notes == data.notes
    # An entry is named as it was given, and not as it was sorted.
    with pytest.raises(BadInput, match=r"entry 3 \(index 2\) is -1"):
        make_dataset([[1], [2], [3]], [0, 1, -1], ["a", "b", "a"])


QUERIES = ["a", "a", "b", "b", "b", "c"]


def small(**parts: Any) -> RankingDataset:
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    return make_dataset(features, [0, 1, 2, 0, 0, 1], QUERIES, **parts)


def full() -> RankingDataset:
    return small(
        doc_ids=pa.array([f"d{i}" for i in range(6)]),
        comments=pa.array([f"c{i}" for i in range(6)]),
        query_params=pa.array(["{}", '{"k":1}', "{}"]),
        query_weights=np.array([1.0, 2.0, 3.0]),
        document_weights=np.arange(6, dtype=np.float32),
        document_fields={"site": pa.array(["x", None, "y", "y", "x", "x"])},
        feature_scales=np.array([1.0, 0.5]),
        featureset_hash="abc",
        manifest={"judged": 6},
    )


def test_a_query_is_a_view_and_the_queries_together_are_the_dataset() -> None:
    data = full()
    query = data[1]
    assert query.query_id == "b"
    assert np.shares_memory(query.features, data.features)
    assert np.shares_memory(query.labels, data.labels)
    assert query.features.tolist() == [[4, 5], [6, 7], [8, 9]]
    assert np.array_equal(np.vstack([q.features for q in data]), data.features)
    assert np.array_equal(np.concatenate([q.weights for q in data]), data.weights)
    assert [q.query_id for q in data] == ["a", "b", "c"]


def test_length_iteration_and_slices_go_by_queries() -> None:
    data = full()
    assert len(data) == len([*data]) == data.n_queries
    assert data[-1].query_id == "c"
    assert np.array_equal(data[-1].features, data[2].features)
    assert same(data[1:], data.select(np.array([1, 2])))
    assert same(data[::-1], data.select(np.array([2, 1, 0])))
    wrong: Any = "b"
    with pytest.raises(TypeError, match=r"number of a query .* is str: data.select"):
        data[wrong]
    for number in (3, -4):
        with pytest.raises(IndexError, match=f"query {number} of a dataset of 3"):
            data[number]


def test_a_frame_of_a_dataset_reads_back_as_the_dataset() -> None:
    data = full()
    frame = data.to_pandas()
    roles = ["query_id", "doc_id", "label", "weight", "query_weight"]
    assert [*frame.columns] == [*roles, *data.feature_names]
    assert frame["query_weight"].tolist() == [1, 1, 2, 2, 2, 3]
    again = from_frame(
        frame, "query_id", "label", "doc_id", "weight", features=[*data.feature_names]
    )
    plain = replace(data, query_weights=None)
    assert again.fingerprint == plain.fingerprint
    assert again.doc_ids == data.doc_ids
    assert [*small().to_pandas().columns] == ["query_id", "label", *data.feature_names]
    frame.loc[0, "1"] = 99  # of a copy
    assert data.features[0, 0] == 0
    with pytest.raises(BadInput, match="the feature 'label' has the name of another column"):
        replace(data, feature_names=("label", "b")).to_pandas()


def test_a_frame_names_the_library_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs pandas.*pip install pandas"):
        full().to_pandas()


@given(order=st.permutations(range(3)))
def test_selecting_all_queries_in_another_order_and_back_changes_nothing(order: list[int]) -> None:
    data = full()
    assert same(data.select(np.array(order)).select(np.argsort(order)), data)


def test_each_part_follows_its_query() -> None:
    data = full().select(np.array([2, 0]))
    assert data.query_ids.to_pylist() == ["c", "a"]
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.features.tolist() == [[10, 11], [0, 1], [2, 3]]
    assert data.labels.tolist() == [1, 0, 1]
    assert data.weights.tolist() == [5, 0, 1]
    assert data.query_importance.tolist() == [3, 1]
    assert data.doc_ids is not None
    assert data.doc_ids.to_pylist() == ["d5", "d0", "d1"]
    assert data.document_fields is not None
    assert data.document_fields["site"].to_pylist() == ["x", "x", None]


def test_some_documents_and_columns_are_those_of_the_dataset() -> None:
    data = full()
    assert same(data.select_documents(np.ones(data.n_documents, bool)), data)
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    assert same(
        data.select_documents(query != 1),
        data.select(np.flatnonzero(np.arange(data.n_queries) != 1)),
    )
    first = data.select_documents(np.isin(np.arange(data.n_documents), data.offsets))
    assert first.n_documents == first.n_queries == data.n_queries
    assert np.array_equal(first.features, data.features[data.offsets[:-1]], equal_nan=True)
    assert same(data.select_features(data.feature_names), data)
    turned = data.select_features(data.feature_names[::-1])
    assert np.array_equal(turned.features, data.features[:, ::-1], equal_nan=True)
    assert turned.features.flags.c_contiguous
    assert np.array_equal(turned.scales, data.scales[::-1])


def test_nothing_may_be_selected() -> None:
    nothing = full().select(np.array([], np.int64))
    assert (nothing.n_queries, nothing.n_documents, nothing.n_features) == (0, 0, 2)
    assert not nothing.has_missing


def test_what_is_not_given_counts_one() -> None:
    data = small()
    counts = (data.weights, data.query_importance, data.scales)
    assert [count.tolist() for count in counts] == [[1] * 6, [1] * 3, [1] * 2]


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
    assert len({data.fingerprint, *(dataset_of.fingerprint for dataset_of in changed)}) == 8
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
    # An id keeps its last zero byte.
    assert make_dataset([[1], [2]], [0, 1], ["a", "a\0"]).n_queries == 2


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
        ({"query_ids": pa.array(["a", "b", "a"])}, "query 'a' is in two places"),
        ({"query_ids": pa.array(["a", "b", None])}, "query_ids must be Arrow strings"),
        ({"query_ids": pa.array([1, 2, 3])}, "query_ids must be Arrow strings"),
        ({"feature_names": ("x",)}, "feature_names has 1 entries where 2 are needed"),
        ({"feature_names": ("x", "x")}, "the feature name 'x' occurs twice"),
        ({"doc_ids": pa.array(["a"])}, "doc_ids has 1 entries where 6"),
        ({"comments": pa.array(["a"])}, "comments has 1 entries where 6"),
        ({"document_fields": {"site": pa.array(["a"])}}, "field 'site' has 1 entries where 6"),
        ({"query_params": pa.array(["a"])}, "query_params has 1 entries where 3"),
        ({"query_weights": np.ones(2)}, "query_weights has 2 entries where 3"),
        (
            {"query_weights": np.array([1.0, -1, 1])},
            r"query_weights must be .* entry 2 \(index 1\) is -1",
        ),
        ({"document_weights": np.ones(6)}, "document_weights must be .* float32"),
        ({"feature_scales": np.ones(3)}, "feature_scales has 3 entries where 2"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(full(), **part)


def dataset(queries: int = 6) -> RankingDataset:
    rows = queries * 3
    return make_dataset(
        np.arange(rows * 2).reshape(rows, 2),
        np.arange(rows) % 3,
        np.repeat([f"q{number}" for number in range(queries)], 3),
        doc_ids=[f"d{row}" for row in range(rows)],
        document_weights=np.arange(rows),
        query_weights=np.arange(queries),
        query_params=pa.array([f'{{"keywords": "{number}"}}' for number in range(queries)]),
        comments=pa.array([f"c{row}" for row in range(rows)]),
        document_fields={"site": pa.array([f"s{row}" for row in range(rows)])},
        feature_scales=np.array([1.0, 2.0]),
        featureset_hash="x" * 64,
    )


def halves(data: RankingDataset) -> list[RankingDataset]:
    return [data.select(np.arange(2)), data.select(np.arange(2, data.n_queries))]


def test_the_parts_of_a_dataset_join_to_it() -> None:
    data = dataset()
    joined = join_datasets(halves(data), ["a", "b"])
    assert joined.fingerprint == data.fingerprint
    for name in ("doc_ids", "comments", "query_params", "document_fields", "featureset_hash"):
        assert getattr(joined, name) == getattr(data, name)
    assert joined.scales.tolist() == [1, 2]


def test_what_a_part_lacks_is_what_it_counts_as() -> None:
    first, other = halves(dataset())
    joined = join_datasets(
        [first, replace(other, document_weights=None, query_weights=None, comments=None,
                      feature_scales=None, featureset_hash=None)], ["a", "b"],
    )  # fmt: skip
    assert joined.weights.tolist() == [0, 1, 2, 3, 4, 5] + [1] * 12
    assert joined.query_importance.tolist() == [0, 1, 1, 1, 1, 1]
    assert joined.comments is not None
    assert joined.comments.to_pylist()[5:8] == ["c5", "", ""]
    assert joined.feature_scales is None
    assert joined.featureset_hash == "x" * 64


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"feature_names": ("1", "x")}, "a.txt and b.txt have other features: 2 against 2, '2' wh"),
        ({"featureset_hash": "y" * 64}, "a.txt and b.txt were logged with other versions"),
        ({"doc_ids": None}, "a.txt has document ids and b.txt has none"),
        ({"query_params": None}, "a.txt has query params and b.txt has none"),
        ({"document_fields": None}, "a.txt and b.txt have other document fields"),
        (
            {"query_ids": pa.array(["q0", "x", "y", "z"])},
            "query 'q0' is in a.txt and in b.txt: put a query's rows in one",
        ),
    ],
)
def test_parts_that_are_not_alike_are_refused_naming_both(
    changed: dict[str, Any], message: str
) -> None:
    first, other = halves(dataset())
    with pytest.raises(BadInput, match=message):
        join_datasets([first, replace(other, **changed)], ["a.txt", "b.txt"])


def test_files_of_every_kind_are_read_together(tmp_path: Path) -> None:
    data = dataset(8)
    plain = replace(data, comments=None, document_weights=None, query_weights=None,
                    query_params=None, document_fields=None, featureset_hash=None,
                    feature_scales=None)  # fmt: skip
    first, second, third, fourth = (plain.select(np.arange(at, at + 2)) for at in (0, 2, 4, 6))
    paths = [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.txt.xz", "d.parquet")]
    for part, path in ((first, paths[0]), (second, tmp_path / "b"), (third, tmp_path / "c")):
        write_letor(part, path)
    paths[1].write_bytes(gzip.compress((tmp_path / "b").read_bytes()))
    paths[2].write_bytes(lzma.compress((tmp_path / "c").read_bytes()))
    save_dataset(fourth, paths[3])
    joined = read_dataset([str(paths[0]), *paths[1:]])
    assert joined.fingerprint == plain.fingerprint
    assert joined.doc_ids == plain.doc_ids
    assert read_dataset(str(paths[1])).fingerprint == second.fingerprint


def test_text_of_fewer_features_is_read_with_their_number(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 qid:1 1:2 3:4\n")
    (tmp_path / "b").write_text("1 qid:2 1:2\n")
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(BadInput, match=r"other features: 3 against 1; .*say n_features"):
        read_dataset(paths)
    assert read_dataset(paths, n_features=3).features.tolist() == [[2, 0, 4], [2, 0, 0]]
    with pytest.raises(UsageError, match="there is no file to read"):
        read_dataset([])
