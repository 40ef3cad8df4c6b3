"""Whether a port is free, and whether the node on it answers, is healthy, has the LTR plugin."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection
from http.client import HTTPConnection, HTTPException
from typing import Any

from owpc_ltr.errors import EngineUnavailable

LTR_PLUGINS = ("opensearch-ltr", "ltr")


def check_free(port: int, option: str) -> None:
    """Raise EngineUnavailable where another program listens on the port, and name it."""
    if not _is_free(port):
        raise EngineUnavailable(
            f"port {port} is taken by {_holder(port)}: end it, or choose another with {option}"
        )


def free_ports(first: int, count: int, taken: Collection[int] = ()) -> list[int]:
    """So many ports from `first` on that nobody listens on, and that are not `taken`."""
    found: list[int] = []
    for port in range(first, 65536):
        if len(found) == count:
            return found
        if port not in taken and _is_free(port):
            found.append(port)
    raise EngineUnavailable(
        f"there are not {count} free ports from {first} on: choose a lower one with --port"
    )


def ask(port: int, path: str, timeout: float = 5.0) -> Any:
    """What the node answers to a GET, as JSON; None if it does not answer, or not with that."""
    # No proxy must come between us and our own machine.
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def health(port: int, cluster: int | None = None) -> tuple[str | None, int]:
    """The health of what we started there (green, yellow, red), and its number of nodes.

    `cluster` is the port that names it, if that is another. None, and none, without an answer.
    """
    answer = ask(port, "/_cluster/health")
    if not isinstance(answer, dict) or answer.get("cluster_name") != f"owpc-ltr-{cluster or port}":
        return None, 0
    nodes = answer.get("number_of_nodes")
    return str(answer.get("status")), nodes if type(nodes) is int else 0


def has_ltr_plugin(port: int) -> bool | None:
    """Whether the node runs the LTR plugin; None without an answer."""
    answer = ask(port, "/_cat/plugins?format=json")
    if not isinstance(answer, list):
        return None
    return any(plugin.get("component") in LTR_PLUGINS for plugin in answer)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _holder(port: int) -> str:
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                if connection.pid is None:
                    break
                process = psutil.Process(connection.pid)
                return f"'{process.name()}' (pid {connection.pid})"
    except psutil.Error:
        pass  # another user's process is not ours to look at
    return "another program"
