"""Files of judgments, as commands read and write them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.output import print_json

if TYPE_CHECKING:
    from owpc_ltr.api.results import Judgments


@dataclass(frozen=True)
class Reading:
    """How a file of judgments is read."""

    topics: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The texts of the queries, where qrels do not have them."),
    ] = None
    duplicates: Annotated[
        str,
        typer.Option(help="Of a document judged twice for a query: refuse, first, max or mean."),
    ] = "refuse"
    skip_unjudged: Annotated[
        bool,
        typer.Option("--skip-unjudged", help="Leave out lines without a grade, and say how many."),
    ] = False

    def how(self) -> dict[str, Any]:
        """The same, as calls take it."""
        return asdict(self)


Format = Annotated[
    str,
    typer.Option("--as", help="The format to write: tsv, csv, jsonl, parquet, qrels, srw, quepid."),
]


def write(judgments: Judgments, out: Path, name: str, *, as_json: bool) -> None:
    """Write judgments as a format, and say how many."""
    from owpc_ltr.api.judgments import write_judgments

    write_judgments(judgments, out, format=name)
    counts = {"queries": len(judgments.queries), "judgments": judgments.n_judgments}
    if as_json:
        print_json({"out": str(out), "format": name, **counts})
        return
    typer.echo(
        f"wrote {out}: {judgments.n_judgments:,} judgments of {len(judgments.queries):,} queries "
        f"as {name}"
    )
