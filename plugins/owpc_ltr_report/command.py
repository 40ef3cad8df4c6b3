"""`owpc-ltr report`: one HTML page on a ranker, to be shown to who never saw the project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import MODEL_OR_FEATURE, Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import FieldSource, MaxFeatures, Memory, Metrics, PluginFiles, Seed
from owpc_ltr.cli.output import progress


@dataclass(frozen=True)
class Asked:
    """What a ranker is measured on, and against what."""

    data: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Judged queries to measure it on: Parquet, LETOR text, or a folder."),
    ] = None
    baseline: Annotated[
        str | None,
        MODEL_OR_FEATURE,
        typer.Option(
            help="What it should beat: another MODEL.json, a TREC run, feature:NAME; default: the "
            "last of several rankers."
        ),
    ] = None
    metric: Metrics = None
    queries: Annotated[
        str, typer.Option(help="auto (held-out ones if the model knows them), all, train, …")
    ] = "auto"
    examples: Annotated[
        int, typer.Option(min=0, help="Queries shown of those that lose, and that gain most.")
    ] = 3


@grouped
def report(
    rankers: Annotated[
        list[str],
        MODEL_OR_FEATURE,
        typer.Argument(help="Files of models or rerankers, the new one first; or feature:NAME."),
    ],
    *,
    asked: Asked,
    out: Annotated[
        Path,
        Writes(standard_output="the page is a file to open in a browser: name it, not -"),
        typer.Option(help="The page (HTML)."),
    ],
    feature_cost: Annotated[
        Path | None, Reads(), typer.Option(help="What features cost, as profile --json prints it.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The heading of the page.")] = None,
    fields: FieldSource,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    seed: Seed = 0,
    plugin: PluginFiles = None,
) -> None:
    """Write one HTML page on rankers, which needs no network.

    Is the first one better, by how much, how sure is that, where does it lose, and why? What there
    is no data for is left out, and the page says how to get it. With --documents the page has
    titles of documents where it shows queries.
    """
    from owpc_ltr.api.evaluation import METRICS
    from owpc_ltr.api.partitions import open_or_read, room_from
    from owpc_ltr_report.rankers import report_on_rankers
    from owpc_ltr_report.report import read_latency

    judged = None
    if asked.data is not None:
        room = room_from(memory)
        judged = open_or_read(asked.data, memory=room, max_features=max_features)
    parts = [] if feature_cost is None else [read_latency(feature_cost)]
    with progress() as show:
        page = report_on_rankers(
            rankers, judged, baseline=asked.baseline, metrics=asked.metric or METRICS,
            queries=asked.queries, examples=asked.examples, documents=fields.documents,
            id_field=fields.id_field, parts=parts, out=out, title=title, seed=seed, progress=show,
            plugins=plugin or (),
        )  # fmt: skip
    if page.verdict is not None:
        typer.echo(page.verdict.sentence)
    typer.echo(f"wrote {out}")
