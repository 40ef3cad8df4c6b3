"""`owpc-ltr index`: documents into an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.cluster import Cluster
from owpc_ltr.cli.files import Reads, read_json_object
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
        bool, typer.Option("--recreate", help="Delete an index of this name first.")
    ] = False,
    cluster: Cluster,
    as_json: Json = False,
) -> None:
    """Index documents, every one accounted for: the engine's count is compared with the file's."""
    from owpc_ltr.engine.indexing import create_index, index_documents, merge_segments
    from owpc_ltr.errors import UsageError

    if append and recreate:
        raise UsageError("--append keeps the index, and --recreate deletes it: choose one")
    body = _read_settings(settings)
    engine = cluster.connect()
    existing = "append" if append else "recreate" if recreate else "refuse"
    # The first document is looked at before anything is made or deleted.
    numbered = _begun(documents, id_field)
    create_index(engine, index, body, existing=existing)
    with progress() as show:
        report = index_documents(engine, index, numbered, show)
        if not append:
            show("merging segments", None)
            merge_segments(engine, index)
    if as_json:
        print_json(asdict(report))
    else:
        typer.echo(f"indexed {report.sent} documents; '{index}' holds {report.documents}")


def _begun(path: Path, id_field: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents of a file with their ids, the first one already read and found good."""
    from owpc_ltr.files.json_lines import read_json_lines, with_ids

    numbered = with_ids(read_json_lines(path), id_field, str(path))
    return chain([next(numbered)], numbered)


def _read_settings(path: Path | None) -> dict[str, Any] | None:
    return None if path is None else read_json_object(path)
