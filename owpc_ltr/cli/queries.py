"""The queries that commands send: an application's own, filled with what a user types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.options import Params
from owpc_ltr.engine.options import DEFAULT_WINDOW


@dataclass(frozen=True)
class Question:
    """What is asked, how much of it is shown, and how much rescored."""

    size: Annotated[
        int | None, typer.Option(min=1, help="How many results; default: the query's, or 10.")
    ] = None
    window: Annotated[
        int, typer.Option(min=1, help="How many of the best documents are rescored.")
    ] = DEFAULT_WINDOW
    query: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Your application's query or whole search (JSON), with {{keywords}} where the "
            "user's words go; default: all text fields.",
        ),
    ] = None
    param: Params = None

    def asked(self) -> dict[str, Any]:
        """Everything but the keywords, as searches take it."""
        from owpc_ltr.features.parameters import named_params

        return {
            "query": self.query,
            "params": named_params(self.param or ()),
            "size": self.size,
            "window": self.window,
        }
