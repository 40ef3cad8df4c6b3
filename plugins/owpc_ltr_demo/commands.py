"""The command of this plugin: `owpc-ltr demo`, in Python `owpc_ltr.demo`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr demo`."""
    summary = "Run the whole workflow on Python's own documentation."
    return [Command("demo", "owpc_ltr_demo.demo:demo", summary, extra="owpc-ltr[node]")]
