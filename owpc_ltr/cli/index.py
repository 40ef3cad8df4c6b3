"""`owpc-ltr index`: documents into an index."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.cluster import ClusterOptions
from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json, progress


@grouped
def index(
    documents: Annotated[
        Path, Reads(), typer.Argument(help="One JSON document a line; also .gz, .xz or .zst.")
    ],
    *,
    index: Annotated[str, typer.Option(help="The index to make.")],
    id_field: Annotated[
        str | None, typer.Option(help="The field that is the document's id; else the line number.")
    ] = None,
    settings: Annotated[
        Path | None, Reads(), typer.Option(help="Settings and mappings of the index (JSON).")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to an index that is there.")
    ] = False,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate",
            help="Replace an index of this name by the new one, once that is complete.",
        ),
    ] = False,
    cluster: ClusterOptions,
    as_json: Json = False,
) -> None:
    """Index documents, every one accounted for.

    They stand in the file as one JSON object a line; the engine's count is compared with the
    file's.

    The whole file is read before anything is made, and an index that cannot be completed is taken
    away again. With --recreate the name is moved in one step, as an alias of the new index, and the
    old one's other aliases with it; so are documents that were left half indexed. With --append
    documents replace those of the same id, and are counted apart.
    """
    from owpc_ltr.api.files import read_json_object
    from owpc_ltr.errors import UsageError

    if append and recreate:
        raise UsageError("--append keeps the index, and --recreate deletes it: choose one")
    body = None if settings is None else read_json_object(settings)
    with progress() as show:
        report = cluster.connect().index(
            documents,
            index,
            id_field=id_field,
            settings=body,
            existing="append" if append else "recreate" if recreate else "refuse",
            progress=show,
        )
    if as_json:
        print_json(asdict(report))
        return
    new = report.sent - report.replaced
    told = f" ({new} new, {report.replaced} replaced)" if append else ""
    typer.echo(f"indexed {report.sent} documents{told}; '{index}' holds {report.documents}")
