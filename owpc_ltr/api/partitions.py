"""`partition` and `open_dataset`: datasets that are larger than memory, as folders of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.opening import open_or_read
from owpc_ltr.data.options import room_from

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset

__all__ = ["open_dataset", "open_or_read", "partition", "room_from", "sample_of"]

Progress = Callable[[str, float | None], None]


def open_dataset(
    folder: str | Path, *, memory: int | None = None, half: bool = False
) -> PartitionedDataset:
    """The dataset in a folder of parts, for `train`, `evaluate` and `select`; none is read yet.

    They go through it part by part. `memory` is how many bytes of parts may stay in memory between
    passes: 512 MiB unless said. With `half` training rounds feature values to 11 binary digits, so
    that twice as many fit. `read_dataset(folder)` reads all of it at once. Raises BadInput where
    the folder is no dataset, was not finished, or lacks a part.
    """
    from owpc_ltr.data.partitioned.cache import Room, room_of
    from owpc_ltr.data.partitioned.dataset import open_partitioned

    return open_partitioned(folder, Room(room_of(memory).size, half))


def sample_of(data: RankingDataset | PartitionedDataset) -> RankingDataset:
    """The data; of a folder the first part, whose queries are a sample by the hash of their ids."""
    from owpc_ltr.data.partitioned.dataset import head_of

    return head_of(data)


def partition(
    data: str | Path | Sequence[str | Path] | RankingDataset,
    out: str | Path,
    *,
    buckets: int = 20,
    n_features: int | None = None,
    max_features: int | None = None,
    progress: Progress | None = None,
) -> PartitionedDataset:
    """Write a dataset, or the files of one (Parquet, LETOR text), as the folder `out`.

    Files are read a part at a time, however large they are. A query's bucket is decided by the
    hash that splits use: shares of a split that are multiples of 1 / `buckets` are whole buckets.
    Whoever is stopped begins anew. Raises BadInput where files do not fit together or a query is
    in two places, UsageError for a folder that holds something else, DiskFault.
    """
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.writing import write_partitioned

    if isinstance(data, RankingDataset):
        write_partitioned([data], out, buckets=buckets)
        return open_dataset(out)
    several = [data] if isinstance(data, str | Path) else list(data)
    paths = [Path(path) for path in several]
    streamed = _stream(paths, n_features, max_features, progress or _silent)
    write_partitioned(streamed, out, buckets=buckets)
    return open_dataset(out)


def _stream(
    paths: Sequence[Path], n_features: int | None, max_features: int | None, progress: Progress
) -> Iterator[RankingDataset]:
    from owpc_ltr.data.partitioned.writing import stream_dataset

    queries = 0
    for path in paths:
        for part in stream_dataset(path, n_features, max_features):
            queries += part.n_queries
            progress(f"{path.name}: {queries:,} queries", None)
            yield part


def _silent(*_: Any) -> None:
    """Report nothing."""
