"""What `upload` and `verify` say of a model: the proof of its scores, how far features moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from owpc_ltr.api.results import Moved, Orders, Parity


def print_proof(parity: Parity) -> None:
    """Whether a search gets the scores of the laptop, in one line."""
    compared = (
        "engine vs. local scores"
        if parity.scored_by == "engine"
        else "the client scores it: stored model vs. local scores"
    )
    typer.echo(f"{compared}: {parity.compared()}, {parity.in_words()}")


def print_drift(features: Sequence[Moved], rankings: Orders | None, since: str) -> None:
    """How far features moved and what it does to rankings, in one line."""
    if not features or rankings is None:
        typer.echo(f"feature drift since {since}: not known, for the model remembers no features")
        return
    if features[0].by == 0.0:
        typer.echo(f"feature drift since {since}: none")
        return
    typer.echo(
        f"feature drift since {since}: up to {features[0].by:.2g} standard deviations "
        f"('{features[0].feature}'); {rankings.words}"
    )


def drift_as_dict(features: Sequence[Moved], rankings: Orders | None) -> dict[str, Any] | None:
    """The same as JSON; None where nothing is known."""
    if rankings is None:
        return None
    return {"features": [asdict(one) for one in features], "rankings": asdict(rankings)}
