"""Tools for agents: the jobs of the command line by the Model Context Protocol, with guard rails.

- `tools`: which jobs are tools, their schemas, their arguments, and the folder of all files
- `server`: the protocol; calls of tools, answers, evidence of the session, and attempts on the
  same queries
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr mcp`."""
    summary = "Serve jobs as tools for an agent, over standard input and output."
    return [Command("mcp", "owpc_ltr_mcp.server:mcp", summary, extra="owpc-ltr[mcp]")]
