"""Datasets as files: one Parquet file each, whose columns anybody can read by name.

Columns: `query_id`, `document_id`, `label`, `document_weight`, `query_weight`, `query_params`,
`comment` (those that the dataset has), then one float32 column a feature, under its own name.
What concerns a query stands on each of its rows. The rest is JSON in the file's metadata, under
`owpc_ltr`: the features in order, their columns and scales, feature-set hash, manifest.

- form: the columns; saving, loading: each one way
"""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.parquet.reading import load_dataset
from owpc_ltr.data.parquet.writing import save_dataset
from owpc_ltr.files.regular import open_regular

__all__ = ["load_dataset", "read_dataset", "save_dataset"]


def read_dataset(path: Path | str, max_features: int | None = None) -> RankingDataset:
    """A dataset in a file of either kind, told by content: our Parquet, or LETOR text.

    `max_features` is for LETOR text of more than 10,000.
    """
    from owpc_ltr.data.letor import read_letor

    path = Path(path)
    with open_regular(path) as file:
        parquet = file.read(4) == b"PAR1"
    return load_dataset(path) if parquet else read_letor(path, max_features=max_features)
