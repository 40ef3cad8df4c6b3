"""The commands of this plugin: `owpc-ltr reproduce` and `owpc-ltr bounds`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.signatures import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer both."""
    return [
        Command(
            "reproduce",
            "owpc_ltr_papers.reproduce:reproduce",
            "Run a paper's protocol on your LETOR folder.",
        ),
        Command(
            "bounds",
            "owpc_ltr_papers.bounds:bounds",
            "Evaluate the papers' risk bounds for a linear model.",
        ),
    ]
