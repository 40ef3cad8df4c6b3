"""Some of a Parquet dataset: what is learned from, the query ids, or a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.arrow_numbers import arrow_of, numbers_in
from owpc_ltr.data.consistency import infinite_value
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.parquet.reading import Parts, changed, opened
from owpc_ltr.data.parquet.schema import LEARNABLE
from owpc_ltr.errors import BadInput


def load_learnable(path: Path, digest: str) -> RankingDataset:
    """What is learned from in a file that was read before: features, labels, weights, query ids.

    Pages have checksums; the digest is compared with that in the file, and not reckoned again.
    """
    with opened(path) as parquet:
        parts = Parts(path, parquet, LEARNABLE)
        if parts.about.get("digest") != digest:
            raise changed(path)
        return parts.dataset()


def load_query_params(path: Path, digest: str) -> pa.StringArray | None:
    """The parameters of each query of a file, as JSON; None where it has none."""
    with opened(path) as parquet:
        if Parts(path, parquet).about.get("digest") != digest:
            raise changed(path)
        if "query_params" not in parquet.schema_arrow.names:
            return None
        read = parquet.read(columns=["query_id", "query_params"])
        ids = read.column("query_id").combine_chunks()
        ends = numbers_in(pc.run_end_encode(ids, run_end_type=pa.int64()).run_ends)
        # They stand on each row of a query.
        return read.column("query_params").take(arrow_of(ends - 1)).cast(pa.string())


def load_queries(path: Path, digest: str) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """The query ids of a file, and how many documents each has; nothing else is read."""
    with opened(path) as parquet:
        if Parts(path, parquet).about.get("digest") != digest:
            raise changed(path)
        column = parquet.read(columns=["query_id"]).column("query_id").combine_chunks()
        column.validate(full=True)
        runs = pc.run_end_encode(column, run_end_type=pa.int64())
        return runs.values, np.diff(numbers_in(runs.run_ends), prepend=0)


def stream_groups(path: Path) -> Iterator[RankingDataset]:
    """Each row group of a file, as a dataset; a query may go on in the next one.

    Pages have checksums; the digest is of the whole, and not looked at.
    """
    with opened(path) as parquet:
        for group in range(parquet.num_row_groups):
            part = Parts(path, parquet, groups=(group,)).dataset()
            if np.isinf(part.features).any():
                raise BadInput(f"cannot read {path}: {infinite_value(part)}")
            yield part
