"""`owpc-ltr partition`: a dataset as a folder of parts, for data larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, MaxFeatures
from owpc_ltr.cli.output import print_json, progress


@grouped
def partition(
    data: Annotated[
        list[Path],
        Reads(),
        typer.Argument(help="Dataset files: Parquet, or LETOR text (.gz, .xz); each query in one."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="The folder to write: a new one, or an empty one.")],
    buckets: Annotated[
        int,
        typer.Option(help="Shares of a split that are multiples of 1/BUCKETS are whole buckets."),
    ] = 20,
    max_features: MaxFeatures = None,
    as_json: Json = False,
) -> None:
    """Write datasets as one folder of Parquet parts.

    Files are read a part at a time, however large they are. `train`, `evaluate` and `select` take
    the folder where they take a dataset, and keep no more of it than --memory. pyarrow, polars,
    DuckDB, Dask and Spark read it as one table. A run that is stopped begins anew when it is called
    again.
    """
    from owpc_ltr.api.partitions import partition as write

    with progress() as show:
        parts = write(data, out, buckets=buckets, max_features=max_features, progress=show)
    if as_json:
        print_json({
            "dataset": str(out),
            "queries": parts.n_queries,
            "documents": parts.n_documents,
            "features": parts.n_features,
            "parts": len(parts.pieces),
            "buckets": buckets,
        })  # fmt: skip
        return
    typer.echo(
        f"{out}: {parts.n_documents:,} documents of {parts.n_queries:,} queries, "
        f"{parts.n_features} features, in {len(parts.pieces):,} parts"
    )
