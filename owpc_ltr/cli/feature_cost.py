"""Costs of features, as `train --feature-cost` reads them, and the path that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.output import print_table
from owpc_ltr.errors import UsageError

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
        float | None,
        typer.Option(min=0, help="What a millisecond must gain of the --select metric (.001)."),
    ] = None
    keep_gain: Annotated[
        float | None,
        typer.Option(
            help="Instead of a price: the cheapest model that keeps this share (.95, say) of what "
            "all features gain over the best one alone."
        ),
    ] = None
    gain_over: Annotated[
        str | None,
        typer.Option(help="The feature over which --keep-gain counts, where not the best alone."),
    ] = None

    def read(self) -> Costs | None:
        """The costs of the file, if one is given."""
        from owpc_ltr.api.training import read_costs

        if self.feature_cost is not None:
            return read_costs(
                self.feature_cost, self.feature_price, keep_gain=self.keep_gain, over=self.gain_over
            )
        if self.keep_gain is not None or self.gain_over is not None:
            raise UsageError("what keeps a gain has to be told what features cost: --feature-cost")
        return None


def print_path(chosen: Mapping[str, Any]) -> None:
    """Each model that was tried, from all features down, and what was kept."""
    keys = ("features", "milliseconds", "validation", "worth")
    worth = "WORTH" if "price" in chosen else "GAIN KEPT"
    print_table(
        ["LEFT OUT", "FEATURES", "MS", "VALIDATION", worth],
        [(step["dropped"] or "–", *(step[key] for key in keys)) for step in chosen["path"]],
    )  # fmt: skip
    if "gain" in chosen:
        typer.echo(
            f"all features gain {chosen['gain']:+.4f} over {chosen['over']}; the cheapest model "
            f"that keeps {chosen['keep_gain']:.0%} of it is chosen"
        )
    typer.echo(f"kept {len(chosen['kept'])} features: {', '.join(chosen['kept'])}")
