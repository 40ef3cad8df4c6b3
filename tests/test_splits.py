"""Splits by hash: disjoint, stable, never empty in silence, and remembered by their sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.scaling import with_scales
from owpc_ltr.data.splits import HashSplit, Origin, split_queries, with_validation
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.training.options import training_splits


def dataset(queries: int = 60) -> RankingDataset:
    rows = np.arange(queries * 3)
    return make_dataset(rows[:, None], rows % 3, [f"q{row // 3}" for row in rows])


@given(validation=st.floats(0.1, 0.4), test=st.floats(0.1, 0.4), salt=st.text(max_size=5))
def test_every_query_is_on_one_side(validation: float, test: float, salt: str) -> None:
    data = dataset()
    parts = data.split(validation, test, salt)
    queries = [set(part.query_ids.to_pylist()) for part in parts]
    assert sum(map(len, queries)) == data.n_queries
    assert set().union(*queries) == set(data.query_ids.to_pylist())
    assert [parts.training, parts.validation, parts.test] == list(parts)
    sides = HashSplit(validation, test, salt).sides(data)
    assert [(sides == side).sum() for side in ("train", "validation", "test")] == [
        part.n_queries for part in parts
    ]


def test_each_side_knows_where_it_is_from() -> None:
    data = dataset()
    parts = data.split()
    for part, side in zip(parts, ("train", "validation", "test"), strict=True):
        assert part.origin == Origin(data.fingerprint, HashSplit(), side)
    assert parts.source == {"fingerprint": data.fingerprint, "split": HashSplit().as_dict()}
    assert repr(parts).startswith("DatasetSplits: 60 queries, by hash: ")


def test_a_side_stays_one_where_its_queries_stay() -> None:
    part = dataset().split().training
    assert with_scales(part, "scale").origin == part.origin
    assert replace(part, featureset_hash="x").origin == part.origin
    assert part.select(np.arange(3)).origin is None
    assert part.split(salt="again").training.origin is None


def test_a_side_that_would_be_empty_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no query falls on the \w+ side: 2 queries are too few"):
        dataset(2).split()
    for shares in ((0.5, 0.5), (-0.1, 0.2), (float("nan"), 0.2)):
        with pytest.raises(BadInput, match="must leave queries to train on"):
            dataset().split(*shares)


def test_a_side_is_not_split_by_the_same_hash_again() -> None:
    with pytest.raises(
        UsageError, match=r"the train side of a split by the same hash.*another salt"
    ):
        dataset().split().training.split()


def test_a_side_without_a_share_is_not_there() -> None:
    data = dataset()
    parts = data.split(test=0)
    assert len(list(parts)) == 2
    with pytest.raises(UsageError, match=r"no test queries: their share is 0.*split\(test=0.2\)"):
        _ = parts.test
    assert data.split(validation=0).optional_validation is None
    whole = data.split(0, 0)
    assert whole.training is data
    assert whole.source == {"fingerprint": data.fingerprint}


def test_the_record_of_a_command_says_file_fingerprint_and_split_in_this_order(
    tmp_path: Path,
) -> None:
    data, other = dataset(), dataset(61)
    for name, one in (("a", data), ("b", other)):
        save_dataset(one, tmp_path / f"{name}.parquet")
    read, source = training_splits(tmp_path / "a.parquet", None, (0.2, 0.2))
    shares = {"validation": 0.2, "test": 0.2, "salt": "owpc-ltr"}
    fingerprint = ("fingerprint", data.fingerprint)
    assert source is not None
    assert list(source.items()) == [("data", "a.parquet"), fingerprint, ("split", shares)]
    assert list(read.sides) == ["train", "validation"]
    none, source = training_splits(tmp_path / "a.parquet", None, (0.0, 0.0))
    assert source is not None
    assert list(source.items()) == [("data", "a.parquet"), fingerprint]
    assert none.optional_validation is None
    given_, source = training_splits(tmp_path / "a.parquet", tmp_path / "b.parquet", (0.2, 0.2))
    assert source is not None
    assert list(source.items()) == [
        ("data", "a.parquet"),
        fingerprint,
        ("validation", "b.parquet"),
        ("validation_fingerprint", other.fingerprint),
    ]
    assert given_.training.fingerprint == data.fingerprint
    assert given_.validation.fingerprint == other.fingerprint


def test_data_that_are_one_side_of_a_split_are_not_split_again() -> None:
    training = dataset().split().training
    splits, source = training_splits(training, None, (0.2, 0.2))
    assert (splits.training, splits.optional_validation, source) == (training, None, None)


def test_a_command_makes_no_side_that_it_does_not_use() -> None:
    data = dataset(3)
    split = next(
        HashSplit(0.3, 0.3, str(salt))
        for salt in range(99)
        if set(HashSplit(0.3, 0.3, str(salt)).sides(data)) == {"train", "validation"}
    )
    parts = split_queries(data, split, wanted=("train", "validation"))
    assert sum(part.n_queries for part in parts) == 3
    with pytest.raises(BadInput, match="on the test side"):
        split_queries(data, split)


def test_validation_queries_may_be_another_dataset() -> None:
    data, other = dataset(), dataset(61)
    parts = with_validation(data, other)
    assert (parts.training, parts.optional_validation) == (data, other)
    assert "data" not in parts.source
