"""Options of what is asked live: judged queries, in an application's own query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import ClusterOptions
from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.options import Params
from owpc_ltr.cli.output import warn
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.live import LiveProof
    from owpc_ltr.api.results import PartitionedDataset, RankingDataset
    from owpc_ltr.cli.output import Progress

LiveQuery = Annotated[
    Path | None,
    Reads(),
    typer.Option(
        "--query",
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
    query: LiveQuery = None
    window: LiveWindow = DEFAULT_WINDOW
    in_flight: Annotated[int, typer.Option(help="Searches under way at the same time.")] = 4
    param: Params = None

    def proof(self, queries: str, show: Progress) -> LiveProof:
        """What is asked. Raises UsageError where it is not said which queries."""
        from owpc_ltr.api.live import LiveProof
        from owpc_ltr.features.parameters import named_params

        if self.judgments is None:
            raise UsageError("--live asks judged queries: give them with --judgments FILE")
        return LiveProof(
            self.judgments, self.query, self.window, queries, self.topics, self.in_flight, show,
            named_params(self.param or ()),
        )  # fmt: skip

    def refuse_without_live(self) -> None:
        """Refuse judgments that would not be asked."""
        if self.judgments is not None and not self.live:
            raise UsageError("--judgments are asked live: add --live, or leave them out")
        if self.param and not self.live:
            raise UsageError("--param is asked live: add --live, or leave it out")


@dataclass(frozen=True, kw_only=True)
class JudgmentCheck:
    """An engine that is asked whether judgments are of what users see."""

    index: Annotated[
        str | None,
        typer.Option(help="Ask this index for some queries: does it bring what was judged?"),
    ] = None
    query: LiveQuery = None
    cluster: ClusterOptions

    def warn_of(self, data: RankingDataset | PartitionedDataset) -> list[str]:
        """Say what looks harmful, where an index was named; what was said."""
        return warn_of_judgments(self.cluster, data, self.index, self.query)


def warn_of_judgments(
    cluster: ClusterOptions,
    data: RankingDataset | PartitionedDataset,
    index: str | None,
    query: Path | None,
) -> list[str]:
    """Ask the engine for some queries of the data, and say what looks harmful in its judgments."""
    if index is None:
        if query is not None:
            raise UsageError("--query is asked of an index: name it with --index")
        return []
    from owpc_ltr.data.partitioned.dataset import head_of

    doubts = cluster.connect().check_judgments(head_of(data), index=index, query=query)
    for doubt in doubts:
        warn(doubt)
    return doubts
