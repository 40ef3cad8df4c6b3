"""Several nodes as one: where they stand, that all are on record, and that none is left behind."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from owpc_ltr_node.identity import created
from owpc_ltr_node.launch import settings
from owpc_ltr_node.local_node import LocalNode, default_url, log_file, start, status, stop
from owpc_ltr_node.places import Places
from owpc_ltr_node.record import Member, Record, read_record, read_records
from owpc_ltr_node.seats import Seat, check_seats, seats_of

from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from tests.engine.conftest import free_port

TOKEN = "0123456789abcdef" * 2
MARK = f"-Dowpc_ltr.node={TOKEN}"
SLEEP = "import time; time.sleep(60)"


def record_of(processes: list[Any], folder: Path) -> Record:
    """The record that the start of these processes as one cluster would have left."""
    first, *others = (
        Member(9200 + n, process.pid, created(process.pid), str(folder / f"node-{n + 1}"))
        for n, process in enumerate(processes)
    )
    return Record(
        **vars(first), token=TOKEN, version="3.8.0", heap="512m", started="2026", home="/homes/h",
        java=sys.executable, ltr_plugin=None, others=tuple(others),
    )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("owpc_ltr_node.places.closed_folder", lambda *_: None)
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pretenders() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three processes with one token in their command lines."""
    with ExitStack() as stack:
        line = [sys.executable, "-c", SLEEP, MARK]
        started = [stack.enter_context(subprocess.Popen(line)) for _ in range(3)]
        yield started
        for process in started:
            process.kill()


@pytest.mark.parametrize("nodes", [0, -1, 10])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes: int) -> None:
    with pytest.raises(UsageError, match=f"--nodes {nodes} is not between 1 and 9"):
        LocalNode(nodes=nodes)


def test_nodes_that_are_too_many_for_the_memory_or_the_ports_are_refused() -> None:
    half = psutil.virtual_memory().total // 2**20 * 2 // 3
    with pytest.raises(UsageError, match=r"--nodes 2 of --heap \d+m are more than this machine's"):
        LocalNode(nodes=2, heap=f"{half}m")
    with pytest.raises(UsageError, match="would end at 65537"):
        LocalNode(nodes=3, port=65535)


def test_no_two_seats_share_a_port_or_a_folder_and_none_takes_one_that_is_taken(
    tmp_path: Path,
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        node = LocalNode(port=port, transport_port=taken, nodes=3)
        seats = seats_of(node, tmp_path, {port + 1})
    ports = [each for seat in seats for each in (seat.port, seat.transport_port)]
    assert seats[0].port == port
    assert len({*ports, taken, port + 1}) == 8
    assert [seat.folder.name for seat in seats] == ["node-1", "node-2", "node-3"]


def test_one_node_is_asked_for_as_it_always_was(tmp_path: Path) -> None:
    assert seats_of(LocalNode(), tmp_path) == [Seat(1, 9200, None, tmp_path)]
    assert "discovery.type: single-node" in settings(LocalNode(), tmp_path)


@pytest.mark.parametrize(
    ("engine", "first"), [("opensearch", "cluster_manager"), ("elasticsearch", "master")]
)
def test_the_nodes_of_a_cluster_are_told_of_each_other(
    engine: str, first: str, tmp_path: Path
) -> None:
    node = LocalNode(engine=engine, nodes=3, port=free_port())
    seats = seats_of(node, tmp_path)
    texts = [settings(seat.node(node), seat.folder, seats) for seat in seats]
    names = ", ".join(f'"owpc-ltr-{node.port}-{number}"' for number in (1, 2, 3))
    hosts = ", ".join(f'"127.0.0.1:{seat.transport_port}"' for seat in seats)
    for number, (seat, text) in enumerate(zip(seats, texts, strict=True), 1):
        lines = dict(line.split(": ", 1) for line in text.splitlines())
        assert lines["cluster.name"] == f"owpc-ltr-{node.port}"
        assert lines["node.name"] == f"owpc-ltr-{node.port}-{number}"
        assert lines["http.port"] == str(seat.port)
        assert lines["transport.port"] == str(seat.transport_port)
        assert lines["network.host"] == "127.0.0.1"
        assert lines["discovery.seed_hosts"] == f"[{hosts}]"
        assert lines[f"cluster.initial_{first}_nodes"] == f"[{names}]"
        assert "discovery.type" not in lines


@pytest.mark.parametrize(("there", "asked"), [(["data"], 3), (["node-1", "node-2"], 3),
                                              (["node-1", "node-2", "node-3"], 1)])  # fmt: skip
def test_a_folder_of_another_number_of_nodes_is_refused(
    there: list[str], asked: int, tmp_path: Path
) -> None:
    for name in there:
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="cannot go on with it: name another folder"):
        check_seats(LocalNode(nodes=asked), tmp_path)
    check_seats(LocalNode(nodes=len(there)), tmp_path)


def test_the_record_of_a_cluster_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = record_of([SimpleNamespace(pid=2**30 + n) for n in range(3)], tmp_path)
    record.write(tmp_path)
    assert read_record(tmp_path / "9200.json") == record
    assert [member.port for member in record.members] == [9200, 9201, 9202]
    assert record.members[2].log == tmp_path / "node-3" / "logs" / "node.log"


def test_the_record_of_one_node_does_not_speak_of_others(tmp_path: Path) -> None:
    record_of([SimpleNamespace(pid=2**30)], tmp_path).write(tmp_path)
    assert "others" not in json.loads((tmp_path / "9200.json").read_text())


@pytest.mark.parametrize(
    "others", [None, 1, "x", [1], [{}], [{"port": 9201, "pid": 1, "created": 0, "folder": "/f"}],
               [{"port": 9201, "pid": 7, "created": "", "folder": "/f"}]],
)  # fmt: skip
def test_a_record_that_is_damaged_in_its_others_is_bad_input(others: Any, tmp_path: Path) -> None:
    record = record_of([SimpleNamespace(pid=2**30)], tmp_path)
    values = dataclasses.asdict(record) | {"others": others}
    (tmp_path / "9200.json").write_text(json.dumps(values))
    with pytest.raises(BadInput, match="is not the record of a node"):
        read_record(tmp_path / "9200.json")


def test_stop_ends_every_node_of_a_cluster_and_no_stranger(
    home: Path, pretenders: list[subprocess.Popen[bytes]]
) -> None:
    record = record_of(pretenders[:2], home)
    recycled = Member(9202, pretenders[2].pid, 1.0, "/f")
    stranger = dataclasses.replace(record, others=(*record.others, recycled))
    stranger.write(home / "state" / "nodes")
    with pytest.raises(EngineUnavailable, match="its process started at another time"):
        stop()
    assert [process.poll() for process in pretenders] == [None] * 3
    record.write(home / "state" / "nodes")
    stop()
    assert pretenders[2].poll() is None
    assert all(process.wait(10) is not None for process in pretenders[:2])
    assert read_records(home / "state" / "nodes") == []


def test_a_cluster_whose_first_node_crashed_is_broken_and_answered_for_by_another(
    home: Path, pretenders: list[subprocess.Popen[bytes]]
) -> None:
    record = record_of(pretenders, home)
    record.write(home / "state" / "nodes")
    for member in record.members:
        member.log.parent.mkdir(parents=True)
        member.log.write_text(member.folder)
    assert (status(9200).state, status(9200).alive) == ("running", 3)
    pretenders[0].kill()
    pretenders[0].wait()
    told = status(9200)
    assert (told.state, told.nodes, told.alive) == ("broken", 3, 2)
    assert not told.running
    assert told.url == default_url() == "http://127.0.0.1:9201"
    assert told.log == str(record.log)
    assert log_file(9200, 3) == record.members[2].log
    with pytest.raises(EngineUnavailable, match="no node 4 of a cluster on port 9200"):
        log_file(9200, 4)
    stop()
    assert all(process.wait(10) is not None for process in pretenders)
    assert status(9200).state == "stopped"


def test_a_cluster_that_starts_by_half_is_ended_whole_and_named_in_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def command(node: LocalNode, *given: Any) -> list[str]:
        dies = "print('Caused by: the disk went')" if len(started) == 2 else SLEEP
        started.append([sys.executable, "-c", dies, f"-Dowpc_ltr.node={given[-1]}"])
        return started[-1]

    module = "owpc_ltr_node.starting."
    monkeypatch.setattr("owpc_ltr_node.lifecycle.node_account", lambda: None)
    monkeypatch.setattr(module + "choose_java", lambda *_, **__: SimpleNamespace(
        program=Path(sys.executable)))  # fmt: skip
    monkeypatch.setattr(
        module + "provide_home", lambda *_: (home, SimpleNamespace(ltr_plugin=None))
    )
    monkeypatch.setattr(module + "command", command)
    port = free_port()
    with pytest.raises(EngineUnavailable) as caught:
        start(LocalNode(port=port, nodes=3), places=Places(home / "cache", home / "state"))
    told = str(caught.value)
    assert told.startswith(
        f"node 3 of the cluster on port {port} ended while it started: Caused by"
    )
    assert "\n" not in told
    marks = {line[-1] for line in started}
    assert len(started) == 3
    assert len(marks) == 1
    alive = [p for p in psutil.process_iter(["cmdline"]) if marks & {*(p.info["cmdline"] or ())}]
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert read_records(home / "state" / "nodes") == []
