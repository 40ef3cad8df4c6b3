"""A local OpenSearch or Elasticsearch node."""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command

_COMMANDS = {
    "start": "Start a node, and wait until it is ready.",
    "stop": "Stop a node.",
    "status": "Show the state of a node; without a port, of every node.",
    "logs": "Print the end of a node's log, also of one that has ended.",
}


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr engine`."""
    group = Command("engine", "", "A real OpenSearch or Elasticsearch on this machine.")
    module, extra = "owpc_ltr_node.engine", "owpc-ltr[node]"
    return [
        group,
        *(
            Command(f"engine {name}", f"{module}:{name}", summary, extra=extra)
            for name, summary in _COMMANDS.items()
        ),
    ]


@hookimpl
def ltr_default_url() -> str:
    """The address of the node on the usual port, or of the most recently started one."""
    from owpc_ltr_node.engine import default_url

    return default_url()
