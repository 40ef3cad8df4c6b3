"""The command of this plugin: `owpc-ltr keep`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr keep`."""
    summary = "Keep a ranker up to date: train, prove, try and promote, or roll back."
    return [Command("keep", "owpc_ltr_keep.keep:keep", summary)]
