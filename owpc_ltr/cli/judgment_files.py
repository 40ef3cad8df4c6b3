"""Files of judgments, as commands read and write them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads

if TYPE_CHECKING:
    pass


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
