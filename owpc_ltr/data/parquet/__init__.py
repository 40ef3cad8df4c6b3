"""Datasets as Parquet files.

Columns: `query_id`, `document_id`, `label`, `document_weight`, `query_weight`, `query_params`,
`comment` (those that the dataset has), then one float32 column a feature, under its own name.
What concerns a query stands on each of its rows. The rest is JSON in the file's metadata, under
`owpc_ltr`: the features in order, their columns and scales, feature-set hash, manifest.
"""

from __future__ import annotations

from owpc_ltr.data.parquet.reading import load_dataset
from owpc_ltr.data.parquet.writing import save_dataset

__all__ = ["load_dataset", "save_dataset"]
