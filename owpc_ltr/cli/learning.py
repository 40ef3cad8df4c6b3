"""The options of `owpc-ltr train` that say what to learn, as a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import MODEL_OR_FEATURE
from owpc_ltr.cli.options import Grid, Settings
from owpc_ltr.cli.plans import Choosing

if TYPE_CHECKING:
    from owpc_ltr.training.rerankers import RerankingPlan
    from owpc_ltr.training.train import Plan


@dataclass(frozen=True)
class Learning:
    """What to learn, with what settings, and what chooses among them."""

    loss: Annotated[
        str | None,
        typer.Option(help="Which loss; default: owpc, for a reranker bregman. See: plugins."),
    ] = None
    optimizer: Annotated[str | None, typer.Option(help="Which optimizer; default: larank.")] = None
    reranker: Annotated[
        str | None,
        typer.Option(help="Learn to reorder whole lists instead, on top of --base."),
    ] = None
    base: Annotated[
        str | None,
        MODEL_OR_FEATURE,
        typer.Option(help="What a reranker starts from: MODEL.json, or feature:NAME."),
    ] = None
    setting: Settings = None
    grid: Grid = None
    select: Annotated[
        str | None,
        typer.Option(
            help="The metric by which validation queries choose; default: map, for a reranker "
            "ndcg@10."
        ),
    ] = None

    def model_plan(self, normalise: str | None, plugins: Sequence[Path]) -> Plan:
        """The plan of a model, with the defaults of models."""
        from owpc_ltr.host import registry as registries

        choosing = Choosing(self.setting or (), self.grid or (), self.select or "map")
        loss, optimizer = self.loss or "owpc", self.optimizer or "larank"
        return choosing.model_plan(registries.load(plugins), loss, optimizer, normalise or "scale")

    def reranking_plan(self, plugins: Sequence[Path]) -> RerankingPlan:
        """The plan of the reranker, with the defaults of rerankers."""
        from owpc_ltr.host import registry as registries

        choosing = Choosing(self.setting or (), self.grid or (), self.select or "ndcg@10")
        loss, reranker = self.loss or "bregman", str(self.reranker)
        return choosing.reranking_plan(registries.load(plugins), loss, reranker)
