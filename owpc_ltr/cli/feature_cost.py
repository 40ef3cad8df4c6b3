"""Costs of features, as `train --feature-cost` reads them, and the path that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.output import print_table

if TYPE_CHECKING:
    from owpc_ltr.api.results import Costs


@dataclass(frozen=True)
class FeatureCosts:
    """What features cost, and what that is worth."""

    feature_cost: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Leave out features that cost more than they are worth: what `profile --json` "
            'printed, or {"feature": milliseconds}. Chosen on the validation queries.'
        ),
    ] = None
    feature_price: Annotated[
        float, typer.Option(min=0, help="What a millisecond must gain of the --select metric.")
    ] = 0.001

    def read(self) -> Costs | None:
        """The costs of the file, if one is given."""
        from owpc_ltr.api.training import read_costs

        path = self.feature_cost
        return None if path is None else read_costs(path, self.feature_price)


def print_path(chosen: Mapping[str, Any]) -> None:
    """Each model that was tried, from all features down, and what was kept."""
    keys = ("features", "milliseconds", "validation", "worth")
    print_table(
        ["LEFT OUT", "FEATURES", "MS", "VALIDATION", "WORTH"],
        [(step["dropped"] or "–", *(step[key] for key in keys)) for step in chosen["path"]],
    )  # fmt: skip
    typer.echo(f"kept {len(chosen['kept'])} features: {', '.join(chosen['kept'])}")
