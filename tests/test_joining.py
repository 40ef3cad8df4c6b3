"""Several files as one dataset: the same as if they were one file, or refused naming both."""

from __future__ import annotations

import gzip
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.letor import write_letor
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.errors import BadInput, UsageError


def dataset(queries: int = 6) -> RankingDataset:
    rows = queries * 3
    return make_dataset(
        np.arange(rows * 2).reshape(rows, 2),
        np.arange(rows) % 3,
        np.repeat([f"q{number}" for number in range(queries)], 3),
        document_ids=[f"d{row}" for row in range(rows)],
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
    for name in ("document_ids", "comments", "query_params", "document_fields", "featureset_hash"):
        assert getattr(joined, name) == getattr(data, name)
    assert joined.scales.tolist() == [1, 2]


def test_what_a_part_lacks_is_what_it_counts_as() -> None:
    one, other = halves(dataset())
    joined = join_datasets(
        [one, replace(other, document_weights=None, query_weights=None, comments=None,
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
        ({"document_ids": None}, "a.txt has document ids and b.txt has none"),
        ({"query_params": None}, "a.txt has query params and b.txt has none"),
        ({"document_fields": None}, "a.txt and b.txt have other document fields"),
    ],
)
def test_parts_that_are_not_alike_are_refused_naming_both(
    changed: dict[str, Any], message: str
) -> None:
    one, other = halves(dataset())
    with pytest.raises(BadInput, match=message):
        join_datasets([one, replace(other, **changed)], ["a.txt", "b.txt"])


def test_a_query_in_two_files_is_refused_naming_both() -> None:
    data = dataset()
    parts = [*halves(data), data.select(np.array([3]))]
    with pytest.raises(BadInput, match="query 'q3' is in b and in c: put a query's rows in one"):
        join_datasets(parts, ["a", "b", "c"])


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
    assert joined.document_ids == plain.document_ids
    assert read_dataset(str(paths[1])).fingerprint == second.fingerprint


def test_text_of_fewer_features_is_read_with_their_number(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 qid:1 1:2 3:4\n")
    (tmp_path / "b").write_text("1 qid:2 1:2\n")
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(BadInput, match=r"other features: 3 against 1; .*say n_features"):
        read_dataset(paths)
    assert read_dataset(paths, n_features=3).features.tolist() == [[2, 0, 4], [2, 0, 0]]


def test_no_file_is_no_dataset() -> None:
    with pytest.raises(UsageError, match="there is no file to read"):
        read_dataset([])
