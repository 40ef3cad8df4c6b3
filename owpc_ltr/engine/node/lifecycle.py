"""Starting and stopping local nodes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from owpc_ltr.engine.node import probe
from owpc_ltr.engine.node.account import Account, closed_folder, node_account
from owpc_ltr.engine.node.config import PORT, LocalNode
from owpc_ltr.engine.node.homes import provide_home
from owpc_ltr.engine.node.identity import created, live_process, process_to_end
from owpc_ltr.engine.node.inventory import NodeStatus, status_of
from owpc_ltr.engine.node.java import choose_java
from owpc_ltr.engine.node.launch import check_folder, command, decisive_line, launch, prepare_folder
from owpc_ltr.engine.node.lock import locked
from owpc_ltr.engine.node.places import Places, find_places, writing_to
from owpc_ltr.engine.node.record import (
    Record,
    read_record,
    read_records,
    record_file,
)
from owpc_ltr.engine.node.release import ELASTICSEARCH, OPENSEARCH
from owpc_ltr.engine.node.report import Report, Silent
from owpc_ltr.errors import EngineUnavailable, UsageError

GRACE = 20.0


def start(
    node: LocalNode, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """Start a node and wait until it is healthy; nothing to do where it already runs.

    What it needs is downloaded at the first start; later ones touch no network. Raises
    EngineUnavailable, saying what is in the way, and leaves no process behind then.
    """
    report = report or Silent()
    account = node_account()
    places = places or find_places(account)
    with _port_lock(places, node.port, report):
        record = _running(places, node, report)
        if record is not None:
            _await_health(record, node.patience, report)
            return status_of(record)
        folder = _choose_folder(node, places, account)
        probe.check_free(node.port, "--port")
        if node.transport_port is not None:
            probe.check_free(node.transport_port, "--transport-port")
        record = _launch(node, places, folder, account, report)
        try:
            record.write(places.nodes)
            _await_health(record, node.patience, report)
        except BaseException:
            _end(record)
            record.forget(places.nodes)
            raise
    return status_of(record)


def stop(
    port: int | None = None, report: Report | None = None, places: Places | None = None
) -> NodeStatus:
    """End the node on a port, and no other process; without a port, the only node there is."""
    report = report or Silent()
    places = places or find_places(node_account())
    chosen = _only_port(places) if port is None else port
    with _port_lock(places, chosen, report):
        record = read_record(record_file(places.nodes, chosen))
        if record is None:
            report.say(f"no node was running on port {chosen}")
        else:
            if not _end(record):
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
    """The record of the node that already runs on this port; one that has ended is cleaned up."""
    record = read_record(record_file(places.nodes, node.port))
    if record is None:
        return None
    if live_process(record) is None:
        report.say(f"the node on port {node.port} (pid {record.pid}) had ended without a stop")
        record.forget(places.nodes)
        return None
    report.say(f"the node on port {node.port} already runs (pid {record.pid}, heap {record.heap})")
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
        if Path(other.folder) == folder and live_process(other):
            raise UsageError(
                f"--data {folder} is in use by the node on port {other.port}: name another folder"
            )
    check_folder(folder)
    closed = closed_folder(folder / "data", account) if account else None
    if account and closed:
        raise UsageError(
            f"--data {folder} will not do: the node runs as '{account.name}', since {node.engine} "
            f"refuses root, and cannot enter {closed}; leave it out, or name a folder outside it"
        )
    return folder


def _usual_folder(node: LocalNode, places: Places) -> Path:
    """One a port and engine, which cannot read each other's indices."""
    own = "" if node.engine == OPENSEARCH else f"-{node.engine}"
    return places.nodes / f"{node.port}{own}"


def _launch(
    node: LocalNode, places: Places, folder: Path, account: Account | None, report: Report
) -> Record:
    """Fetch and assemble what is not there yet, then start the process."""
    with (
        writing_to(places.cache),
        locked(places.cache / "assembly.lock", "another assembly", report),
    ):
        java = choose_java(node.java, account, places.runtimes, report, release=node.release)
        home, manifest = provide_home(node, places, account, report)
    token = uuid.uuid4().hex
    with writing_to(folder, "--data" if node.folder else "OWPC_LTR_HOME"):
        prepare_folder(node, folder, account)
        # Elasticsearch looks for its modules where it starts.
        start_in = home if node.engine == ELASTICSEARCH else None
        pid = launch(command(node, java, home, folder, token), folder, account, start_in)
    return Record(
        port=node.port,
        pid=pid,
        created=created(pid),
        token=token,
        version=node.release.version,
        heap=node.heap,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        home=str(home),
        folder=str(folder),
        java=str(java.program),
        ltr_plugin=manifest.ltr_plugin,
        engine=node.engine,
    )


def _await_health(record: Record, patience: float, report: Report) -> None:
    """Wait for yellow. Raises EngineUnavailable when the node ends, or stays without it."""
    begin = time.monotonic()
    while (health := probe.health(record.port)) not in ("yellow", "green"):
        if live_process(record) is None:
            raise EngineUnavailable(
                f"the node on port {record.port} ended while it started: "
                f"{decisive_line(record.log)}; the whole log: {record.log}"
            )
        waited = time.monotonic() - begin
        if waited > patience:
            raise EngineUnavailable(
                f"the node on port {record.port} is {health or 'without an answer'} after "
                f"{waited:.0f} s: {decisive_line(record.log)}; the whole log: {record.log}"
            )
        report.advance("waiting for the node", waited, patience)
        time.sleep(0.1)


def _end(record: Record) -> bool:
    """End the node's process, politely and then not; False if it had ended already."""
    import psutil

    process = process_to_end(record)
    if process is None:
        return False
    try:
        process.terminate()
        try:
            process.wait(GRACE)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(GRACE)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied as error:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {record.pid}): it belongs to "
            f"'{process.username()}'; stop it as that user"
        ) from error
    return True


def _only_port(places: Places) -> int:
    ports = [record.port for record in read_records(places.nodes)]
    if len(ports) > 1:
        listed = ", ".join(str(port) for port in sorted(ports))
        raise UsageError(f"several nodes run (ports {listed}): say which with --port")
    return ports[0] if ports else PORT
