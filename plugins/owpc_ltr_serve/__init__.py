"""A service that ranks: rerank APIs over HTTP for every model of the registry."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr serve`."""
    summary = "Serve models over HTTP, in the shapes of rerank APIs."
    return [Command("serve", "owpc_ltr_serve.serve:serve", summary, extra="owpc-ltr[serve]")]
