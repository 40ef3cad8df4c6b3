"""The options of `owpc-ltr train` that say what to learn, as calls take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from owpc_ltr.cli.files import MODEL_OR_FEATURE
from owpc_ltr.cli.options import Grid, Settings
from owpc_ltr.errors import UsageError


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

    def of_a_model(self) -> dict[str, Any]:
        """What to learn, as `train` takes it; what is left out is for it to say."""
        return self._named(loss=self.loss, optimizer=self.optimizer)

    def of_a_reordering(self) -> dict[str, Any]:
        """The same, as `train_reranker` takes it."""
        return self._named(loss=self.loss, reranker=self.reranker)

    def _named(self, **parts: str | None) -> dict[str, Any]:
        from owpc_ltr.api.plugins import named_grids, named_settings

        named: dict[str, Any] = {"select": self.select, **parts}
        return {
            "settings": named_settings(self.setting or ()),
            "grid": named_grids(self.grid or ()),
            **{key: value for key, value in named.items() if value is not None},
        }


@dataclass(frozen=True)
class CurveOptions:
    """Whether a feature has a weight or a curve."""

    piecewise_linear: Annotated[
        bool,
        typer.Option(
            "--piecewise-linear",
            help="A curve for each feature instead of a weight, by any optimizer of linear models.",
        ),
    ] = False
    knots: Annotated[
        int | None,
        typer.Option(min=2, help="With --piecewise-linear: how many knots a curve has at most."),
    ] = None

    def asked(self) -> dict[str, Any]:
        """What is asked, as `train` takes it. Raises UsageError for knots of no curve."""
        if not self.piecewise_linear:
            if self.knots is not None:
                raise UsageError("--knots are those of curves: add --piecewise-linear")
            return {}
        knots = {} if self.knots is None else {"knots": self.knots}
        return {"piecewise_linear": True, **knots}
