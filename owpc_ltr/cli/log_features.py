"""`owpc-ltr log-features`: judged queries and a feature set become a dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.judgment_files import Reading
from owpc_ltr.cli.options import ExtraFeatures, Index, Json
from owpc_ltr.cli.output import print_json, progress

if TYPE_CHECKING:
    from owpc_ltr.api.results import LogReport


@dataclass(frozen=True)
class Logging:
    """How the engine is asked, and what may be missing in the end."""

    in_flight: Annotated[
        int | None,
        typer.Option(
            help="The most searches at the same time; left out, as many as the engine bears."
        ),
    ] = None
    rate: Annotated[
        float | None, typer.Option(help="The most documents a second, to spare a busy cluster.")
    ] = None
    schedule: Annotated[
        str | None,
        typer.Option(help="Hours to ask the engine in, as 22:00-06:00; outside them it waits."),
    ] = None
    batch: Annotated[int, typer.Option(help="The most documents of one search.")] = 500
    max_absent: Annotated[
        float, typer.Option(help="Fail if a larger share of judged documents is not in the index.")
    ] = 0.01
    allow_rejected: Annotated[
        bool,
        typer.Option(
            "--allow-rejected",
            help="Leave out documents that the engine cannot score or whose values are not finite.",
        ),
    ] = False
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away the half-done work of an earlier run.")
    ] = False


@dataclass(frozen=True)
class FolderForm:
    """Whether the dataset is a folder of parts."""

    buckets: Annotated[
        int | None,
        typer.Option(help="Write a folder of parts, for data larger than memory; see partition."),
    ] = None
    part: Annotated[
        str | None,
        typer.Option(help="Log one part of such a folder, as 3/16; others may run beside it."),
    ] = None


@grouped
def log_features(
    *,
    index: Index = None,
    featureset: Annotated[
        str | None, typer.Option(help="A feature set of the cluster; default: the only one.")
    ] = None,
    judgments: Annotated[
        Path, Reads(), typer.Option(help="Judged queries: TSV, CSV, qrels …; also .gz or .xz.")
    ],
    extra_features: ExtraFeatures = None,
    out: Annotated[
        Path,
        Writes(False, "half-done work is kept beside --out: name a file, not -", or_folder=True),
        typer.Option(help="The dataset to write (Parquet); a folder with --buckets or --part."),
    ],
    folder: FolderForm,
    reading: Reading,
    logging: Logging,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Dask workers that ask the engine: local:4 (processes here), tcp://HOST:8786.",
        ),
    ] = None,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Log the features of judged documents out of the engine.

    Every judged document is logged, absent from the index, or rejected, and all are counted.
    Half-done work stays in OUT.run: the same command goes on from there, to the same bytes.
    """
    from owpc_ltr_dask.use_workers import workers_if_asked

    with progress() as show, workers_if_asked(cluster) as workers:
        report = place.connect().log_features(
            judgments,
            out,
            featureset=featureset,
            index=index,
            extra_features=extra_features,
            workers=workers,
            progress=show,
            **asdict(folder),
            **asdict(reading),
            **asdict(logging),
        )
    if as_json:
        print_json(_summary(report))
    else:
        for line in _lines(report):
            typer.echo(line)


def _summary(report: LogReport) -> dict[str, Any]:
    return {
        "dataset": str(report.path),
        **report.manifest,
        "resumed": report.resumed,
        "seconds": report.seconds,
        "pairs_per_second": report.pairs_per_second,
    }


def _lines(report: LogReport) -> list[str]:
    account, queries = report.counts, report.manifest["queries"]
    rejected = "".join(f"; {n:,} rejected: {why}" for why, n in account.rejected.items())
    lines = [
        f"{report.path}: {account.logged:,} documents of {queries['logged']:,} queries, "
        f"{len(report.manifest['missing'])} features",
        f"{account.judged:,} judged = {account.logged:,} logged + {account.absent:,} absent + "
        f"{account.n_rejected:,} rejected{rejected}",
        f"{report.pairs_per_second:,.0f} documents a second, {report.seconds:.1f} s",
    ]
    lines += [_joined(table) for table in report.manifest.get("joined_tables", ())]
    if queries["logged"] < queries["judged"]:
        lost = queries["judged"] - queries["logged"]
        lines.append(f"{lost:,} queries have no document left and are not in the dataset")
    if report.resumed:
        lines.append(f"{report.resumed:,} documents were there already, from an interrupted run")
    return lines


def _joined(table: dict[str, Any]) -> str:
    """A table's account: `ctr.parquet: ctr joined by query_id and document_id; …`."""
    return (
        f"{table['file']}: {', '.join(table['features'])} joined by {' and '.join(table['keys'])}; "
        f"{table['matched']:,} judged pairs have a row, {table['unmatched']:,} have none; "
        f"{table['unused']:,} of {table['rows']:,} rows met no pair"
    )
