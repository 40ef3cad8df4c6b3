"""A real OpenSearch node on this machine, for trying things on."""

from owpc_ltr.engine.node import LocalNode, log_file, start, status, statuses, stop

__all__ = ["LocalNode", "log_file", "start", "status", "statuses", "stop"]
