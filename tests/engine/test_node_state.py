"""Records, locks and processes: a node is never mistaken for another process."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.node import default_url, status, stop
from owpc_ltr.engine.node.lock import locked
from owpc_ltr.engine.node.record import Record, created, live_process, read_record, read_records
from owpc_ltr.engine.node.report import Silent
from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError

TOKEN = "0123456789abcdef"
RECORD = Record(
    port=9200,
    pid=os.getpid(),
    created=0.0,
    token=TOKEN,
    version="3.8.0",
    heap="512m",
    started="2026-01-01T00:00:00.000+00:00",
    home="/homes/opensearch-3.8.0",
    folder="/nodes/9200",
    java="/java",
    ltr_plugin=None,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An OWPC_LTR_HOME of the test's own; the folders above it are open enough for its account."""
    monkeypatch.setattr("owpc_ltr.engine.node.places.closed_folder", lambda *_: None)
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any node."""
    line = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(line) as process:
        yield process
        process.kill()


@pytest.fixture
def pretender() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a node's token in its command line: what a node looks like from outside."""
    line = [sys.executable, "-c", "import time; time.sleep(60)", f"-Dowpc_ltr.node={TOKEN}"]
    with subprocess.Popen(line) as process:
        yield process
        process.kill()


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    assert read_record(tmp_path / "9200.json") == RECORD
    RECORD.forget(tmp_path)
    assert read_record(tmp_path / "9200.json") is None


def test_records_are_listed_the_latest_start_first(tmp_path: Path) -> None:
    later = dataclasses.replace(RECORD, port=9201, started="2026-01-02T00:00:00.000+00:00")
    RECORD.write(tmp_path)
    later.write(tmp_path)
    assert read_records(tmp_path) == [later, RECORD]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": 9200'])
def test_a_torn_record_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "9200.json").write_text(text)
    with pytest.raises(BadInput, match="is not the record of a node"):
        read_record(tmp_path / "9200.json")


def test_a_node_is_known_by_its_token(pretender: subprocess.Popen[bytes]) -> None:
    process = live_process(dataclasses.replace(RECORD, pid=pretender.pid))
    assert process is not None
    assert process.pid == pretender.pid


def test_a_recycled_pid_is_not_the_node(sleeper: subprocess.Popen[bytes]) -> None:
    liar = dataclasses.replace(RECORD, pid=sleeper.pid, created=created(sleeper.pid))
    assert live_process(liar) is None


def test_a_process_that_has_ended_is_not_the_node(pretender: subprocess.Popen[bytes]) -> None:
    record = dataclasses.replace(RECORD, pid=pretender.pid)
    pretender.kill()
    # Left unreaped, so a zombie: it has the pid, and does nothing any more.
    os.waitid(os.P_PID, pretender.pid, os.WEXITED | os.WNOWAIT)
    assert live_process(record) is None


def test_stop_leaves_a_process_alone_that_only_has_the_pid(
    home: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    nodes = home / "state" / "nodes"
    dataclasses.replace(RECORD, pid=sleeper.pid).write(nodes)
    assert stop(9200).state == "stopped"
    assert sleeper.poll() is None
    assert read_records(nodes) == []


def test_stop_ends_the_process_of_the_record(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    record = dataclasses.replace(RECORD, pid=pretender.pid)
    record.write(home / "state" / "nodes")
    stop()
    assert live_process(record) is None
    assert status(9200).state == "stopped"


def test_a_node_that_ended_by_itself_is_told_from_one_that_was_stopped(home: Path) -> None:
    RECORD.write(home / "state" / "nodes")
    assert status(9200).state == "died"
    assert status(9201).state == "stopped"


def test_stop_asks_which_of_several(home: Path) -> None:
    for port in (9200, 9201):
        dataclasses.replace(RECORD, port=port).write(home / "state" / "nodes")
    with pytest.raises(UsageError, match="ports 9200, 9201"):
        stop()


def test_the_default_url_is_the_latest_node_that_runs(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    assert default_url() == "http://127.0.0.1:9200"
    nodes = home / "state" / "nodes"
    dataclasses.replace(RECORD, port=9201, pid=pretender.pid).write(nodes)
    dataclasses.replace(RECORD, port=9202, started="2027").write(nodes)
    assert default_url() == "http://127.0.0.1:9201"
    (nodes / "9203.json").write_text("torn")
    assert default_url() == "http://127.0.0.1:9200"


def test_the_second_holder_of_a_lock_waits_and_says_so(tmp_path: Path) -> None:
    lines: list[str] = []

    class Listener(Silent):
        def say(self, line: str) -> None:
            lines.append(line)
            release.set()

    release = threading.Event()
    entered = threading.Event()

    def hold() -> None:
        with locked(tmp_path / "lock", "a start", Silent()):
            entered.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    with locked(tmp_path / "lock", "a start", Listener()):
        holder.join()
    assert lines == [f"a start is under way in process {os.getpid()}; waiting for it"]


def test_a_lock_that_stays_held_ends_the_patience(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", "a start", Silent()),
        pytest.raises(EngineUnavailable, match="still under way"),
        locked(tmp_path / "lock", "a start", Silent(), patience=0.2),
    ):
        pass
