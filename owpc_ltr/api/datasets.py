"""Datasets and runs in and out, as a notebook asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from owpc_ltr.data.frame_dataset import from_frame
from owpc_ltr.data.runs import TrecRun, read_run, write_ranking
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.cache import Room
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model
    from owpc_ltr.training.cross_validation import Fold

__all__ = [
    "from_frame",
    "read_dataset",
    "read_folds",
    "read_run",
    "read_splits",
    "write_ranking",
    "write_run",
]


def read_dataset(
    paths: str | Path | Sequence[str | Path],
    *,
    n_features: int | None = None,
    max_features: int | None = None,
) -> RankingDataset:
    """The dataset in a file, or in several, which are joined: Parquet, or LETOR text (.gz, .xz).

    A folder of parts (see `partition`) is read whole; `open_dataset` goes through it in parts.
    `n_features` is for LETOR text that leaves its last features out, `max_features` for such of
    more than 10,000, which otherwise are taken for ids. Raises BadInput, naming the
    file and the line, where one cannot be read; naming both files, where they have other features
    or the same query.
    """
    from owpc_ltr.data.joining import join_datasets

    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise UsageError("there is no file to read: name one or more")
    parts = [_read(Path(path), n_features, max_features) for path in several]
    return join_datasets(parts, [str(path) for path in several])


def write_run(
    ranker: Model | ReorderingModel | TrecRun | Vector,
    data: RankingDataset,
    path: str | Path,
    *,
    tag: str = "owpc-ltr",
    depth: int | None = None,
) -> None:
    """Write a ranking of a dataset (a ranker's, or scores, one a document) as a TREC run.

    At most `depth` documents a query; of a run those that it retrieved. See
    `owpc_ltr.data.runs.write_scores`.
    """
    from owpc_ltr.data.runs import write_scores
    from owpc_ltr.models.reordering import dataset_scores

    scores = ranker if isinstance(ranker, np.ndarray) else dataset_scores(ranker, data)
    retrieved = ~np.isnan(scores) if isinstance(ranker, TrecRun) else None
    write_scores(scores, data, path, tag, depth, retrieved)


def read_folds(
    paths: Sequence[Path | str],
    *,
    max_features: int | None = None,
    memory: int | Room | None = None,
) -> RankingDataset | PartitionedDataset | list[Fold[RankingDataset]]:
    """One dataset; or the folds of folders that have a train, a vali and a test file each.

    Of a dataset that is a folder of parts, so many bytes may stay in `memory`.
    """
    from owpc_ltr.training.cross_validation import read_folds as read

    return read([Path(path) for path in paths], max_features, memory)


def read_splits(
    path: Path | str,
    validation: Path | str | None = None,
    validation_share: float = 0.2,
    test_share: float = 0.2,
    *,
    max_features: int | None = None,
    memory: int | Room | None = None,
) -> DatasetSplits[RankingDataset] | DatasetSplits[PartitionedDataset]:
    """The queries of a file to learn from and to choose settings on, with their names for records.

    The latter are those of another file, or a share of the first by the hash of the query ids.
    Of a folder of parts nothing is read yet; so many bytes of it may stay in `memory`.
    """
    from owpc_ltr.data.partitioned.manifest import is_partitioned
    from owpc_ltr.data.splits import HashSplit, split_queries, with_validation

    if is_partitioned(Path(path)):
        return _splits_of_parts(Path(path), validation, validation_share, test_share, memory)
    data = read_dataset(path, max_features=max_features)
    if validation is not None:
        given = read_dataset(validation, max_features=max_features)
        return with_validation(data, given, Path(path).name, Path(validation).name)
    split = HashSplit(validation_share, test_share)
    return split_queries(data, split, Path(path).name, ("train", "validation"))


def _splits_of_parts(
    path: Path,
    given: Path | str | None,
    validation: float,
    test: float,
    memory: int | Room | None,
) -> DatasetSplits[PartitionedDataset]:
    from owpc_ltr.data.partitioned.dataset import open_partitioned, split_parts
    from owpc_ltr.data.splits import HashSplit, with_validation

    data = open_partitioned(path, memory)
    if given is None:
        return split_parts(data, HashSplit(validation, test), path.name, ("train", "validation"))
    other = open_partitioned(given, memory)
    return with_validation(data, other, path.name, Path(given).name)


def _read(path: Path, n_features: int | None, max_features: int | None) -> RankingDataset:
    from owpc_ltr.data.letor import read_letor
    from owpc_ltr.data.parquet import read_dataset as read_one
    from owpc_ltr.data.partitioned.manifest import is_partitioned

    if is_partitioned(path):
        from owpc_ltr.data.partitioned.dataset import open_partitioned

        return open_partitioned(path).load()
    if n_features is None:
        return read_one(path, max_features)
    return read_letor(path, n_features=n_features, max_features=max_features)
