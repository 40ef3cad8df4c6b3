"""Seats: where the nodes of a local cluster stand, and how they find each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from owpc_ltr.errors import UsageError
from owpc_ltr_node import probe
from owpc_ltr_node.config import LocalNode
from owpc_ltr_node.release import OPENSEARCH

TRANSPORT = 9300
"""From which port on the nodes of a cluster look for one to speak with each other."""


@dataclass(frozen=True)
class Seat:
    """One node of a cluster: its number from 1 on, its own ports and folder.

    `transport_port` is None where the node, alone, chooses one itself.
    """

    number: int
    port: int
    transport_port: int | None
    folder: Path

    def node(self, cluster: LocalNode) -> LocalNode:
        """What is asked for, as this one node of it."""
        return replace(cluster, port=self.port, transport_port=self.transport_port, nodes=1)


def seats_of(node: LocalNode, folder: Path, taken: Collection[int] = ()) -> list[Seat]:
    """The seats of what is asked for; the first has its port, `taken` ones are left alone."""
    if node.nodes == 1:
        return [Seat(1, node.port, node.transport_port, folder)]
    ports = [node.port, *probe.free_ports(node.port + 1, node.nodes - 1, taken)]
    first = node.transport_port or TRANSPORT
    transport = probe.free_ports(first, node.nodes, {*taken, *ports})
    numbers = range(1, node.nodes + 1)
    return list(map(Seat, numbers, ports, transport, (folder / f"node-{n}" for n in numbers)))


def check_seats(node: LocalNode, folder: Path) -> None:
    """Raise UsageError for a folder of other nodes than these: they would lose indices, or vote."""
    there = sum(path.is_dir() for path in folder.glob("node-*")) or (folder / "data").is_dir()
    if there and there != node.nodes:
        raise UsageError(
            f"--data {folder} is that of {_nodes(there)}, and {_nodes(node.nodes)} cannot "
            "go on with it: name another folder"
        )


def meeting(seats: Sequence[Seat], engine: str) -> dict[str, str]:
    """The settings by which nodes become one cluster, and only these."""
    if len(seats) == 1:
        return {"discovery.type": "single-node"}
    first = "cluster_manager" if engine == OPENSEARCH else "master"
    hosts = ", ".join(f'"127.0.0.1:{seat.transport_port}"' for seat in seats)
    names = ", ".join(f'"{name_of(seat, seats)}"' for seat in seats)
    return {"discovery.seed_hosts": f"[{hosts}]", f"cluster.initial_{first}_nodes": f"[{names}]"}


def name_of(seat: Seat, seats: Sequence[Seat]) -> str:
    """The name of a node, by the port that names the cluster."""
    own = "" if len(seats) == 1 else f"-{seat.number}"
    return f"owpc-ltr-{seats[0].port}{own}"


def _nodes(number: int) -> str:
    return "one node" if number == 1 else f"{number} nodes"
