"""The command of this plugin: `owpc-ltr mcp`."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr mcp`."""
    summary = "Serve jobs as tools for an agent, over standard input and output."
    return [Command("mcp", "owpc_ltr_mcp.server:mcp", summary, extra="owpc-ltr[mcp]")]
