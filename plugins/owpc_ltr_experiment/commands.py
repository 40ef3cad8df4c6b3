"""The commands of this plugin: `owpc-ltr experiment start`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.signatures import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr experiment`."""
    return [
        Command("experiment", "", "Two rankers compared by the clicks of users."),
        Command(
            "experiment start",
            "owpc_ltr_experiment.start:experiment_start",
            "Freeze two rankers to compare them by the clicks of users.",
        ),
    ]
