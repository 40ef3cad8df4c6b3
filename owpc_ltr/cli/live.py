"""Options of what is asked live: judged queries, in an application's own query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.options import Params
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.engine.live_queries import LiveQueries

LiveQuery = Annotated[
    Path | None,
    Reads(),
    typer.Option(
        "--query-template",
        help="Your application's query (JSON), with {{keywords}}; default: all text fields.",
    ),
]
LiveWindow = Annotated[
    int, typer.Option("--window", min=1, help="How many of the best documents are rescored.")
]


@dataclass(frozen=True)
class LiveOptions:
    """Lists of the whole index, as users get them."""

    live: Annotated[
        bool, typer.Option("--live", help="Rank the whole index, as users get it; see --judgments.")
    ] = False
    judgments: Annotated[
        Path | None, Reads(), typer.Option(help="Judged queries to ask live: TSV, CSV, qrels …")
    ] = None
    topics: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The texts of the queries, where qrels do not have them."),
    ] = None
    query_template: LiveQuery = None
    window: LiveWindow = DEFAULT_WINDOW
    in_flight: Annotated[int, typer.Option(help="Searches under way at the same time.")] = 4
    param: Params = None

    def proof(self, queries: str) -> LiveQueries:
        """What is asked. Raises UsageError where it is not said which queries."""
        from owpc_ltr.engine.live_queries import LiveQueries
        from owpc_ltr.features.parameters import named_params

        if self.judgments is None:
            raise UsageError("--live asks judged queries: give them with --judgments FILE")
        return LiveQueries(
            self.judgments, self.query_template, self.window, queries, self.topics,
            named_params(self.param or ()), self.in_flight,
        )  # fmt: skip

    def refuse_without_live(self) -> None:
        """Refuse judgments that would not be asked."""
        if self.judgments is not None and not self.live:
            raise UsageError("--judgments are asked live: add --live, or leave them out")
        if self.param and not self.live:
            raise UsageError("--param is asked live: add --live, or leave it out")
