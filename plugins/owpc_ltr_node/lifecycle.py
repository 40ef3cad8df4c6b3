"""Starting and stopping local nodes and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from owpc_ltr.errors import UsageError
from owpc_ltr_node import probe
from owpc_ltr_node.account import Account, closed_folder, node_account
from owpc_ltr_node.config import DEFAULT_PORT, LocalNode
from owpc_ltr_node.ending import end
from owpc_ltr_node.identity import live_process
from owpc_ltr_node.inventory import NodeStatus, status_of
from owpc_ltr_node.launch import check_folder, mark_folder
from owpc_ltr_node.lock import locked
from owpc_ltr_node.places import Places, find_places, writing_to
from owpc_ltr_node.record import (
    Record,
    read_record,
    read_records,
    record_file,
)
from owpc_ltr_node.release import OPENSEARCH, USUAL
from owpc_ltr_node.report import Report, Silent
from owpc_ltr_node.seats import check_seats, seats_of
from owpc_ltr_node.starting import await_health, launched


def start(
    node: LocalNode, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """Start a node, or all of a cluster, and wait for its health; nothing to do where it runs.

    What it needs is downloaded at the first start; later ones touch no network. Raises
    EngineUnavailable, saying what is in the way, and leaves no process behind then.
    """
    report = report or Silent()
    account = node_account()
    places = places or find_places(account)
    with _port_lock(places, node.port, report):
        record = _running(places, node, report)
        if record is not None:
            await_health(record, node.patience, report)
            return status_of(record)
        folder = _choose_folder(node, places, account)
        probe.check_free(node.port, "--port")
        if node.transport_port is not None:
            probe.check_free(node.transport_port, "--transport-port")
        if node.nodes > 1:
            with writing_to(folder, "--data" if node.folder else "OWPC_LTR_HOME"):
                mark_folder(folder)
        seats = seats_of(node, folder, _recorded_ports(places))
        with launched(node, seats, places, account, report) as record:
            await_health(record, node.patience, report)
    return status_of(record)


def stop(
    port: int | None = None, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """End what was started on a port, and no other process; without a port, the only one."""
    report = report or Silent()
    places = places or find_places(node_account())
    chosen = _only_port(places) if port is None else port
    with _port_lock(places, chosen, report):
        record = read_record(record_file(places.nodes, chosen))
        if record is None:
            report.say(f"no node was running on port {chosen}")
        else:
            if not end(record):
                report.say(f"the node on port {chosen} (pid {record.pid}) had already ended")
            record.forget(places.nodes)
    return NodeStatus(chosen, f"http://127.0.0.1:{chosen}", "stopped")


@contextmanager
def _port_lock(places: Places, port: int, report: Report) -> Iterator[None]:
    with (
        writing_to(places.state),
        locked(places.nodes / f"{port}.lock", f"another start or stop on port {port}", report),
    ):
        yield


def _running(places: Places, node: LocalNode, report: Report) -> Record | None:
    """The record of what already runs on this port, whole; what has ended is cleaned up."""
    record = read_record(record_file(places.nodes, node.port))
    if record is None:
        return None
    ended = [member.pid for member in record.members if live_process(member) is None]
    if ended:
        report.say(_ended(record, ended))
        end(record)
        record.forget(places.nodes)
        return None
    kind = "cluster" if record.others else "node"
    report.say(
        f"the {kind} on port {node.port} already runs (pid {record.pid}, heap {record.heap})"
    )
    if len(record.members) != node.nodes:
        report.say(
            f"it keeps its number of nodes ({len(record.members)}): `owpc-ltr engine stop --port "
            f"{node.port}` first to change it"
        )
    kept = (record.heap, record.engine, record.version)
    if kept != (node.heap, node.engine, node.release.version):
        engine = "version" if record.engine == node.engine else record.engine
        report.say(
            f"it keeps heap {record.heap} and {engine} {record.version}: "
            f"`owpc-ltr engine stop --port {node.port}` first to change them"
        )
    return record


def _choose_folder(node: LocalNode, places: Places, account: Account | None) -> Path:
    folder = (node.folder or _usual_folder(node, places)).expanduser().absolute()
    for other in read_records(places.nodes):
        if any(folder in _folders(member) and live_process(member) for member in other.members):
            raise UsageError(
                f"--data {folder} is in use by the node on port {other.port}: name another folder"
            )
    check_folder(folder)
    check_seats(node, folder)
    closed = closed_folder(folder / "data", account) if account else None
    if account and closed:
        raise UsageError(
            f"--data {folder} will not do: the node runs as '{account.name}', since {node.engine} "
            f"refuses root, and cannot enter {closed}; leave it out, or name a folder outside it"
        )
    return folder


def _usual_folder(node: LocalNode, places: Places) -> Path:
    """One a port, engine, version and number of nodes, which cannot read each other's indices.

    An engine upgrades what it finds, and an older one then cannot open it any more. The usual
    version has the folder without a version, whose indices a later usual one upgrades.
    """
    own = "" if node.engine == OPENSEARCH else f"-{node.engine}"
    own += "" if node.release.version == USUAL[node.engine] else f"-{node.release.version}"
    own += f"-{node.nodes}-nodes" if node.nodes > 1 else ""
    return places.nodes / f"{node.port}{own}"


def _ended(record: Record, ended: list[int]) -> str:
    if not record.others:
        return f"the node on port {record.port} (pid {record.pid}) had ended without a stop"
    pids = ", ".join(map(str, ended))
    return (
        f"{len(ended)} of the {len(record.members)} nodes of the cluster on port {record.port} had "
        f"ended without a stop (pid {pids}): what is left of it is ended"
    )


def _folders(member: Record) -> tuple[Path, Path]:
    """The folder of a node, and that of the cluster which it may be in."""
    return Path(member.folder), Path(member.folder).parent


def _recorded_ports(places: Places) -> set[int]:
    """The ports of all that was started and not stopped, whether it answers or not."""
    return {m.port for record in read_records(places.nodes) for m in record.members}


def _only_port(places: Places) -> int:
    ports = [record.port for record in read_records(places.nodes)]
    if len(ports) > 1:
        listed = ", ".join(str(port) for port in sorted(ports))
        raise UsageError(f"several nodes run (ports {listed}): say which with --port")
    return ports[0] if ports else DEFAULT_PORT
