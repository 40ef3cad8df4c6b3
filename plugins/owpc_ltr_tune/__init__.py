"""Tuning of the application's own query: its boosts and other numbers, before any model.

- `numbers`: the numbers of a query template that can be tuned, found or marked
- `clauses`: scores of judged documents by the clauses of a query, and by settings of its numbers
- `tune`: the command: the search for a setting, and the comparison with the original
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr tune`."""
    summary = "Tune the boosts and other numbers of your application's query."
    return [Command("tune", "owpc_ltr_tune.tune:tune", summary, panel="Train")]
