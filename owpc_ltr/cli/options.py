"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Also load this plugin file (FILE.py); may be repeated."),
]
Seed = Annotated[int, typer.Option(help="Makes the run repeatable, bit for bit.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; more than free cores only slow down.")]
Documents = Annotated[
    Path | None,
    typer.Option(help="The file that was indexed, for rerankers that read fields of documents."),
]
IdField = Annotated[
    str | None, typer.Option(help="The field of --documents with their ids; default: line numbers.")
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", help="As ndcg@10, map, mrr, precision@5; may be repeated."),
]
