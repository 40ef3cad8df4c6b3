"""Datasets in files: read whole, opened as a folder of parts, written as such a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import DEFAULT_BUCKETS, MaxFeatureNumber
from owpc_ltr.errors import UsageError
from owpc_ltr.files.tables import is_parquet
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Writes, job, public, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset


@public
def read_dataset(
    paths: Annotated[str | Path | Sequence[str | Path], Argument.DATA],
    *,
    n_features: int | None = None,
    max_feature_number: int | None = None,
) -> RankingDataset:
    """The dataset in a file, or in several, which are joined: Parquet, or LETOR text (.gz, .xz).

    A folder of parts (see `partition`) is read whole; `open_dataset` reads it part by part.
    `n_features` is for LETOR text that leaves its last features out, `max_feature_number` for LETOR
    text with feature numbers above 10,000, which may be ids. Raises BadInput, naming the file and
    the line, if a file cannot be read; naming both files, if their features differ or they have the
    same query.
    """
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise UsageError("there is no file to read: name one or more")
    parts = [_read(Path(path), n_features, max_feature_number) for path in several]
    if len(parts) == 1:
        return parts[0]
    from owpc_ltr.data.construction import join_datasets

    return join_datasets(parts, [str(path) for path in several])


@public
def open_dataset(folder: str | Path, *, memory: int | str | None = None) -> PartitionedDataset:
    """The dataset in a folder of parts, for `train`, `evaluate` and `select`; none is read yet.

    They read it part by part. `memory` is how many bytes of parts may stay in memory between
    passes, or a text as "4G" (default: 512 MiB). `read_dataset(folder)` reads all of it at once.
    Raises BadInput if the folder is not a dataset, was not finished, or lacks a part.
    """
    from owpc_ltr.data.partitioned import open_partitioned

    return open_partitioned(folder, memory)


def is_partitioned(path: Path) -> bool:
    """Whether a path is a folder of parts, finished or not."""
    try:
        if not path.is_dir():
            return False
        from owpc_ltr.data.partitioned import FOLDER_PATTERNS

        return any(any(path.glob(pattern)) for pattern in FOLDER_PATTERNS)
    except OSError:
        return False


def dataset_of(
    data: Any, *, memory: int | str | None = None, max_feature_number: int | None = None
) -> Any:
    """The dataset of a file, of a folder, or of (features, labels, query ids); others unchanged."""
    if isinstance(data, Path | str):
        return open_or_read(data, memory=memory, max_feature_number=max_feature_number)
    if isinstance(data, tuple) and len(data) == 3:  # features, labels and query ids
        import numpy as np

        from owpc_ltr.data.construction import make_dataset

        # Three folds are a tuple, too.
        if np.ndim(data[1]) == 1:
            return make_dataset(*data)
    if hasattr(data, "training"):
        raise UsageError("these are the parts of a split: give one of them, as parts.training")
    if not (hasattr(data, "n_queries") or hasattr(data, "n_judgments")) and not isinstance(
        data, list | tuple
    ):
        raise UsageError(
            f"a {type(data).__name__} is no dataset: give a dataset, its file, or (features, "
            "labels, query ids)"
        )
    return data


def open_or_read(
    path: str | Path, *, memory: int | str | None = None, max_feature_number: int | None = None
) -> RankingDataset | PartitionedDataset:
    """The dataset in a file, read; or in a folder of parts, to be read part by part."""
    if is_partitioned(Path(path)):
        return open_dataset(path, memory=memory)
    return read_dataset(path, max_feature_number=max_feature_number)


@dataclass(frozen=True)
class PartitionSummary:
    """The sizes of a folder of parts, for the command line."""

    queries: int
    documents: int
    features: int
    parts: int

    @classmethod
    def of(cls, data: PartitionedDataset) -> PartitionSummary:
        """The summary of what `partition` returned."""
        return cls(data.n_queries, data.n_documents, data.n_features, len(data.pieces))

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents of {self.queries:,} queries, {self.features} features, "
            f"in {self.parts:,} parts"
        )


@job(shows=PartitionSummary.of)
def partition(
    data: Annotated[
        str | Path | Sequence[str | Path] | RankingDataset,
        Reads(
            "Dataset files: Parquet, or LETOR text (.gz, .xz); each query in one.", cli=list[Path]
        ),
        Argument.DATA,
    ],
    *,
    out: Annotated[
        str | Path,
        Writes(
            "The folder to write: a new one, or an empty one.",
            needs_folder=False,
            or_folder=True,
            standard_output="a folder of parts cannot be written to standard output: name a folder",
        ),
    ],
    buckets: Annotated[
        int, Help("Shares of a split that are multiples of 1/BUCKETS are whole buckets.")
    ] = DEFAULT_BUCKETS,
    n_features: Annotated[
        int | None, "Features of LETOR text; default: the largest number in it."
    ] = None,
    max_feature_number: MaxFeatureNumber = None,
    progress: Progress = silent,
) -> PartitionedDataset:
    """Write datasets as one folder of Parquet files.

    Files of any size are read part by part. `train`, `evaluate` and `select` take the folder as a
    dataset, and keep no more of it in memory than they are told to. pyarrow, polars, DuckDB, Dask
    and Spark read it as one table. An interrupted run starts again from the beginning.

    A query's bucket is decided by the hash that splits use. Raises BadInput if files do not fit
    together or a query is in two places, UsageError for a folder that holds something else,
    DiskFault.
    """
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import write_partitioned

    datasets: Iterable[RankingDataset]
    if isinstance(data, RankingDataset):
        datasets = [data]
    else:
        paths = [data] if isinstance(data, str | Path) else data
        datasets = _stream(list(map(Path, paths)), n_features, max_feature_number, progress)
    write_partitioned(datasets, out, buckets=buckets)
    return open_dataset(out)


def _stream(
    paths: Sequence[Path],
    n_features: int | None,
    max_feature_number: int | None,
    progress: Progress,
) -> Iterator[RankingDataset]:
    """The queries of Parquet files or LETOR text, told by content, a part at a time."""
    from owpc_ltr.data.construction import stream_parquet
    from owpc_ltr.data.letor import stream_letor

    queries = 0
    for path in paths:
        parts = (
            stream_parquet(path)
            if is_parquet(path)
            else stream_letor(path, n_features=n_features, max_feature_number=max_feature_number)
        )
        for part in parts:
            queries += part.n_queries
            progress(f"{path.name}: {queries:,} queries", None)
            yield part


def _read(path: Path, n_features: int | None, max_feature_number: int | None) -> RankingDataset:
    """One dataset, told by content: a folder of parts, our Parquet, or LETOR text."""
    from owpc_ltr.data.letor import read_letor
    from owpc_ltr.data.parquet import load_dataset

    if is_partitioned(path):
        return open_dataset(path).load()
    if is_parquet(path) and n_features is None:
        return load_dataset(path)
    return read_letor(path, n_features=n_features, max_feature_number=max_feature_number)
