"""Starting the processes of a node or of a cluster, and waiting for their health."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node import probe
from owpc_ltr_node.account import Account
from owpc_ltr_node.config import LocalNode
from owpc_ltr_node.elasticsearch_process import elasticsearch_environment
from owpc_ltr_node.ending import end
from owpc_ltr_node.homes import provide_home
from owpc_ltr_node.identity import created, live_process
from owpc_ltr_node.java import Java, choose_java
from owpc_ltr_node.launch import advice, command, decisive_line, launch, prepare_folder
from owpc_ltr_node.lock import locked
from owpc_ltr_node.manifest import Manifest
from owpc_ltr_node.places import Places, writing_to
from owpc_ltr_node.record import Member, Record
from owpc_ltr_node.release import ELASTICSEARCH
from owpc_ltr_node.report import Report
from owpc_ltr_node.seats import Seat


@contextmanager
def launched(
    node: LocalNode,
    seats: Sequence[Seat],
    places: Places,
    account: Account | None,
    report: Report,
) -> Iterator[Record]:
    """The started processes, on record from the first on; all ended again where the body fails.

    What is not there yet is fetched and assembled before.
    """
    with (
        writing_to(places.cache),
        locked(places.cache / "assembly.lock", "another assembly", report),
    ):
        java = choose_java(node.java, account, places.runtimes, report, release=node.release)
        home, manifest = provide_home(node, places, account, report)
    record: Record | None = None
    token = uuid.uuid4().hex
    try:
        for seat in seats:
            pid = _launch(node, seat, seats, java, home, token, account)
            if record is None:
                record = _record(node, seat, pid, token, java, home, manifest)
            else:
                other = Member(seat.port, pid, created(pid), str(seat.folder))
                record = replace(record, others=(*record.others, other))
            record.write(places.nodes)
        assert record is not None  # noqa: S101 - there is one seat at least
        yield record
    except BaseException:
        if record is not None:
            end(record)
            record.forget(places.nodes)
        raise


def await_health(record: Record, patience: float, report: Report) -> None:
    """Wait for yellow, with every node in. Raises EngineUnavailable when one ends, or it lasts."""
    begin = time.monotonic()
    wanted = len(record.members)
    while True:
        health, nodes = probe.health(record.port)
        if health in ("yellow", "green") and nodes == wanted:
            return
        for number, member in enumerate(record.members, 1):
            if live_process(member) is None:
                line = decisive_line(member.log)
                raise EngineUnavailable(
                    f"{_named(record, number)} ended while it started: {line}{advice(line)}; the "
                    f"whole log: {member.log}"
                )
        waited = time.monotonic() - begin
        if waited > patience:
            there = f" with {nodes} of {wanted} nodes" if wanted > 1 and health else ""
            raise EngineUnavailable(
                f"the {_kind(record)} on port {record.port} is {health or 'without an answer'}"
                f"{there} after {waited:.0f} s: {decisive_line(record.log)}; the whole log: "
                f"{record.log}"
            )
        report.advance(f"waiting for the {_kind(record)}", waited, patience)
        time.sleep(0.1)


def _launch(
    node: LocalNode,
    seat: Seat,
    seats: Sequence[Seat],
    java: Java,
    home: Path,
    token: str,
    account: Account | None,
) -> int:
    own = seat.node(node)
    with writing_to(seat.folder, "--data" if node.folder else "OWPC_LTR_HOME"):
        prepare_folder(own, seat.folder, account, seats)
        # Elasticsearch looks for its modules where it starts.
        is_elastic = node.engine == ELASTICSEARCH
        start_in = home if is_elastic else None
        more = elasticsearch_environment(java, home, seat.folder) if is_elastic else None
        line = command(own, java, home, seat.folder, token)
        return launch(line, seat.folder, account, start_in, more)


def _record(
    node: LocalNode, seat: Seat, pid: int, token: str, java: Java, home: Path, manifest: Manifest
) -> Record:
    return Record(
        port=node.port,
        pid=pid,
        created=created(pid),
        token=token,
        version=node.release.version,
        heap=node.heap,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        home=str(home),
        folder=str(seat.folder),
        java=str(java.program),
        ltr_plugin=manifest.ltr_plugin,
        engine=node.engine,
    )


def _kind(record: Record) -> str:
    return "cluster" if record.others else "node"


def _named(record: Record, number: int) -> str:
    which = f"node {number} of the cluster" if record.others else "the node"
    return f"{which} on port {record.port}"
