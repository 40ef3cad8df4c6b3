"""Datasets in memory, for work that cannot go through parts."""

from __future__ import annotations

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import UsageError


def in_memory(data: RankingDataset | PartitionedDataset, why: str) -> RankingDataset:
    """The data as one; `why` says what needs them so. UsageError where they do not fit."""
    if isinstance(data, RankingDataset):
        return data
    if data.nbytes > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {data.nbytes / 2**20:,.1f} MiB, more "
            f"than the {data.memory / 2**20:,.1f} MiB of --memory: give it more, or fewer queries"
        )
    return data.load()


def head_of(data: RankingDataset | PartitionedDataset) -> RankingDataset:
    """The data; of a folder the first part, whose queries are a sample by the hash of their ids."""
    return data.head if isinstance(data, PartitionedDataset) else data
