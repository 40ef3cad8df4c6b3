"""The command of this plugin: `owpc-ltr judge clicks`, in Python `owpc_ltr.judge_clicks`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr judge clicks`."""
    function = "owpc_ltr_clicks.judge_clicks:judge_clicks"
    return [Command("judge clicks", function, "Make judgments from clicks, with a click model.")]
