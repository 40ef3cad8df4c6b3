"""Records, locks and processes: a node is never mistaken for another process."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from owpc_ltr_node.engine import default_url, node_status, start_node, stop_node
from owpc_ltr_node.folders import Places, Report, locked
from owpc_ltr_node.process import Record, created, live_process, read_record, read_records
from owpc_ltr_node.settings import LocalNode

from owpc_ltr import OwpcLtrError
from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from tests.session_node import free_port

TOKEN = "0123456789abcdef" * 2
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
    java=sys.executable,
    ltr_plugin=None,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An OWPC_LTR_HOME of the test's own; the folders above it are open enough for its account."""
    monkeypatch.setattr("owpc_ltr_node.folders.closed_folder", lambda *_: None)
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


def of(process: subprocess.Popen[bytes]) -> Record:
    """The record that the start of a process would have left."""
    return dataclasses.replace(RECORD, pid=process.pid, created=created(process.pid))


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
    process = live_process(of(pretender))
    assert process is not None
    assert process.pid == pretender.pid


def test_a_recycled_pid_is_not_the_node(sleeper: subprocess.Popen[bytes]) -> None:
    liar = dataclasses.replace(RECORD, pid=sleeper.pid, created=created(sleeper.pid))
    assert live_process(liar) is None


def test_a_process_that_has_ended_is_not_the_node(pretender: subprocess.Popen[bytes]) -> None:
    record = of(pretender)
    pretender.kill()
    # Left unreaped, so a zombie: it has the pid, and does nothing any more.
    os.waitid(os.P_PID, pretender.pid, os.WEXITED | os.WNOWAIT)
    assert live_process(record) is None


def test_stop_leaves_a_process_alone_that_only_has_the_pid(
    home: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    nodes = home / "state" / "nodes"
    dataclasses.replace(RECORD, pid=sleeper.pid).write(nodes)
    assert stop_node(9200).state == "stopped"
    assert sleeper.poll() is None
    assert read_records(nodes) == []


def test_stop_ends_the_process_of_the_record(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    record = of(pretender)
    record.write(home / "state" / "nodes")
    stop_node()
    assert live_process(record) is None
    assert node_status(9200).state == "stopped"


DAMAGED: dict[str, dict[str, Any]] = {
    "no token": {"token": ""},
    "a token that is part of any command line": {"token": "python"},
    "a token of one character": {"token": "-"},
    "half a token": {"token": TOKEN[:16]},
    "a token that is no text": {"token": None},
    "the token of another node": {"token": "f" * 32},
    "the first process": {"pid": 1},
    "this process": {"pid": os.getpid()},
    "the process that started this one": {"pid": os.getppid()},
    "every process": {"pid": -1},
    "our group": {"pid": 0},
    "a pid that is true": {"pid": True},
    "a pid that is text": {"pid": "1"},
    "a pid beyond all": {"pid": 2**70},
    "another start": {"created": 1.0},
    "a start without a number": {"created": float("nan")},
    "a start that is text": {"created": "now"},
    "another program": {"java": "/usr/bin/env"},
    "no program": {"java": ""},
    "a program that is no text": {"java": []},
    "another port": {"port": 9201},
    "a port that is none": {"port": "9200"},
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_no_damaged_record_lets_a_process_be_signalled(
    damage: str, home: Path, pretender: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[object] = []
    monkeypatch.setattr("psutil.Process.send_signal", lambda *asked: signalled.append(asked))
    monkeypatch.setattr("psutil.Process.terminate", lambda *asked: signalled.append(asked))
    monkeypatch.setattr("psutil.Process.kill", lambda *asked: signalled.append(asked))
    values = dataclasses.asdict(of(pretender)) | DAMAGED[damage]
    file = home / "state" / "nodes" / "9200.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(values))
    with suppress(OwpcLtrError):
        stop_node(9200)
    assert signalled == []
    assert pretender.poll() is None


@pytest.mark.parametrize("change", [{"created": 1.0}, {"java": "/usr/bin/env"}])
def test_a_record_that_is_wrong_about_its_node_is_kept_and_told(
    change: dict[str, Any], home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    dataclasses.replace(of(pretender), **change).write(home / "state" / "nodes")
    with pytest.raises(EngineUnavailable, match="cannot end the node on port 9200"):
        stop_node(9200)
    assert node_status(9200).state == "died"
    assert len(read_records(home / "state" / "nodes")) == 1


def test_a_node_of_a_foreign_user_is_not_ended(
    home: Path, pretender: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr_node.process._own_accounts", lambda: {4_000_000})
    of(pretender).write(home / "state" / "nodes")
    with pytest.raises(EngineUnavailable, match="stop it as that user"):
        stop_node(9200)
    assert pretender.poll() is None


def test_a_node_that_ended_by_itself_is_told_from_one_that_was_stopped(home: Path) -> None:
    RECORD.write(home / "state" / "nodes")
    assert node_status(9200).state == "died"
    assert node_status(9201).state == "stopped"


def test_stop_asks_which_of_several(home: Path) -> None:
    for port in (9200, 9201):
        dataclasses.replace(RECORD, port=port).write(home / "state" / "nodes")
    with pytest.raises(UsageError, match="ports 9200, 9201"):
        stop_node()


def test_the_default_url_is_the_latest_node_that_runs(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    assert default_url() == "http://127.0.0.1:9200"
    nodes = home / "state" / "nodes"
    dataclasses.replace(of(pretender), port=9201).write(nodes)
    dataclasses.replace(RECORD, port=9202, started="2027").write(nodes)
    assert default_url() == "http://127.0.0.1:9201"
    (nodes / "9203.json").write_text("torn")
    assert default_url() == "http://127.0.0.1:9200"


def test_the_second_holder_of_a_lock_waits_and_says_so(tmp_path: Path) -> None:
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        release.set()

    release = threading.Event()
    entered = threading.Event()

    def hold() -> None:
        with locked(tmp_path / "lock", "a start", Report()):
            entered.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    with locked(tmp_path / "lock", "a start", Report(say)):
        holder.join()
    (line,) = lines
    assert line.startswith(f"a start is under way in process {os.getpid()} on ")
    assert line.endswith("; waiting for it")


def test_a_lock_that_stays_held_ends_the_patience(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", "a start", Report()),
        pytest.raises(EngineUnavailable, match="still under way"),
        locked(tmp_path / "lock", "a start", Report(), patience=0.2),
    ):
        pass


def test_a_node_that_ends_while_it_starts_leaves_no_record_and_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[str] = []

    def command(*given: Any) -> list[str]:
        marks.append(f"-Dowpc_ltr.node={given[-1]}")
        return [sys.executable, "-c", "print('Caused by: the disk went')", marks[-1]]

    module = "owpc_ltr_node.process."
    java = SimpleNamespace(program=Path(sys.executable))
    manifest = SimpleNamespace(ltr_plugin=None, vectors=False)
    monkeypatch.setattr("owpc_ltr_node.engine.node_user", lambda: None)
    monkeypatch.setattr(module + "choose_java", lambda *_, **__: java)
    monkeypatch.setattr(module + "provide_home", lambda *_: (home, manifest))
    monkeypatch.setattr(module + "command", command)
    port = free_port()
    with pytest.raises(EngineUnavailable) as caught:
        start_node(LocalNode(port=port), places=Places(home / "cache", home / "state"))
    message = str(caught.value)
    assert message.startswith(f"the node on port {port} ended while it started: Caused by")
    assert "\n" not in message
    assert len(marks) == 1
    assert read_records(home / "state" / "nodes") == []
