"""What `upload` and `verify` say of a model: the proof of its scores, how far features moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from owpc_ltr.api.results import Moved, Orders, Parity


def print_proof(parity: Parity) -> None:
    """Whether a search gets the local scores, in one line."""
    typer.echo(str(parity))


def print_drift(features: Sequence[Moved], rankings: Orders | None, since: str) -> None:
    """How far features moved and what it does to rankings, in one line."""
    from owpc_ltr.engine.deployment.feature_drift import drift_line

    typer.echo(drift_line(features, rankings, since))
