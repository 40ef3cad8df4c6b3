"""Experiments with users: two rankers interleaved, and a verdict from clicks at any time.

- `experiment_log`: what users did, out of User Behavior Insights or files; `verdict`: what clicks
  say
- `start`, `status`, `stop`: the commands
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


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
        Command(
            "experiment status",
            "owpc_ltr_experiment.status:experiment_status",
            "Say what the clicks say so far: the verdict, and what it rests on.",
        ),
        Command(
            "experiment stop",
            "owpc_ltr_experiment.stop:experiment_stop",
            "Stop an experiment, and switch the alias to B if it is better.",
        ),
    ]
