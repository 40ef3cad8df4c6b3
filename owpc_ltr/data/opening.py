"""A dataset by its path: a file is read, a folder of parts is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.data.parquet import read_dataset
from owpc_ltr.data.partitioned.dataset import open_partitioned
from owpc_ltr.data.partitioned.manifest import is_partitioned

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.cache import Room
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset


def open_or_read(
    path: str | Path, *, memory: int | Room | None = None, max_features: int | None = None
) -> RankingDataset | PartitionedDataset:
    """The dataset in a file, read; or in a folder of parts, to be read part by part."""
    if is_partitioned(Path(path)):
        return open_partitioned(path, memory)
    return read_dataset(Path(path), max_features)
