"""The papers' protocols and risk bounds on LETOR."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer both."""
    summaries = {
        "reproduce": "Run a paper's protocol on your LETOR folder.",
        "bounds": "Evaluate the papers' risk bounds for a linear model.",
    }
    return [
        Command(name, f"owpc_ltr_papers.{name}:{name}", summary)
        for name, summary in summaries.items()
    ]
