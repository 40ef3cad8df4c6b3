"""Dataset files of either kind as datasets of whole queries, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.files.regular import open_regular


def stream_dataset(
    path: Path, n_features: int | None = None, max_features: int | None = None
) -> Iterator[RankingDataset]:
    """The queries of our Parquet, or of LETOR text, told by content, a part at a time."""
    with open_regular(path) as file:
        parquet = file.read(4) == b"PAR1"
    if parquet:
        from owpc_ltr.data.partitioned.row_groups import stream_parquet

        return stream_parquet(path)
    from owpc_ltr.data.letor import stream_letor

    return stream_letor(path, n_features=n_features, max_features=max_features)
