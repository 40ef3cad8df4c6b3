"""A real OpenSearch node on this machine, from `pip install` alone.

`start(LocalNode(port=9200)).url` is all that a caller needs.
"""

from owpc_ltr_node.config import LocalNode
from owpc_ltr_node.inventory import (
    NodeStatus,
    default_url,
    log_file,
    status,
    statuses,
)
from owpc_ltr_node.lifecycle import start, stop
from owpc_ltr_node.report import Report, Silent

__all__ = [
    "LocalNode",
    "NodeStatus",
    "Report",
    "Silent",
    "default_url",
    "log_file",
    "start",
    "status",
    "statuses",
    "stop",
]
