"""Records, locks and processes: a node is never mistaken for another process."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import psutil
import pytest
from owpc_ltr_node.engine import default_url, log_file, node_status, start_node, stop_node
from owpc_ltr_node.process import Record, end_process, launch, read_record, read_records
from owpc_ltr_node.release import ELASTICSEARCH, Places, locked_file
from owpc_ltr_node.settings import LocalNode

from owpc_ltr import OwpcLtrError
from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from owpc_ltr.signatures import silent
from tests.session_node import free_port

MARK = "-Dowpc_ltr.node=" + "0123456789abcdef" * 2
RECORD = Record(
    port=9200,
    pid=os.getpid(),
    mark=MARK,
    engine="opensearch",
    version="3.8.0",
    vectors=False,
    heap="512m",
    started="2026-01-01T00:00:00.000+00:00",
    home="/homes/opensearch-3.8.0",
    folder="/nodes/9200",
    java=sys.executable,
)


def written(record: Record, nodes: Path) -> None:
    nodes.mkdir(parents=True, exist_ok=True)
    (nodes / f"{record.port}.json").write_text(json.dumps(dataclasses.asdict(record)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An OWPC_LTR_HOME of the test's own."""
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path))
    return tmp_path


def sleeping(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    line = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        # Before it runs, the kernel may have no command line of it.
        cast("IO[bytes]", process.stdout).readline()
        yield process
        process.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any node."""
    yield from sleeping()


@pytest.fixture
def pretender() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a node's token in its command line: what a node looks like from outside."""
    yield from sleeping(MARK)


def of(process: subprocess.Popen[bytes]) -> Record:
    """The record that the start of a process would have left."""
    return dataclasses.replace(RECORD, pid=process.pid)


def test_records_come_back_as_they_were_written_the_latest_start_first(tmp_path: Path) -> None:
    later = dataclasses.replace(RECORD, port=9201, started="2026-01-02T00:00:00.000+00:00")
    written(RECORD, tmp_path)
    written(later, tmp_path)
    assert read_records(tmp_path) == [later, RECORD]
    assert read_record(tmp_path / "9200.json") == RECORD
    (tmp_path / "9200.json").unlink()
    assert read_record(tmp_path / "9200.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": 9200'])
def test_a_torn_record_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "9200.json").write_text(text)
    with pytest.raises(BadInput, match="is not the record of a node"):
        read_record(tmp_path / "9200.json")


def test_a_node_is_known_by_its_token_while_it_runs(
    sleeper: subprocess.Popen[bytes], pretender: subprocess.Popen[bytes]
) -> None:
    assert of(sleeper).process() is None
    record = of(pretender)
    process = record.process()
    assert process is not None
    assert process.pid == pretender.pid
    pretender.kill()
    # Left unreaped, so a zombie: it has the pid, and does nothing any more.
    os.waitid(os.P_PID, pretender.pid, os.WEXITED | os.WNOWAIT)
    assert record.process() is None


def test_stop_leaves_a_process_alone_that_only_has_the_pid(
    home: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    nodes = home / "state" / "nodes"
    written(dataclasses.replace(RECORD, pid=sleeper.pid), nodes)
    assert stop_node(9200).state == "stopped"
    assert sleeper.poll() is None
    assert read_records(nodes) == []


def test_stop_ends_the_process_of_the_record(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    record = of(pretender)
    written(record, home / "state" / "nodes")
    stop_node()
    assert record.process() is None
    assert node_status(9200).state == "stopped"


DAMAGED: dict[str, dict[str, Any]] = {
    "no mark": {"mark": ""},
    "a mark that is part of any command line": {"mark": "python"},
    "half a mark": {"mark": MARK[:-16]},
    "a mark that is not text": {"mark": None},
    "the mark of another node": {"mark": "-Dowpc_ltr.node=" + "f" * 32},
    "the first process": {"pid": 1},
    "this process": {"pid": os.getpid()},
    "the process that started this one": {"pid": os.getppid()},
    "every process": {"pid": -1},
    "our group": {"pid": 0},
    "a pid that is true": {"pid": True},
    "a pid that is text": {"pid": "1"},
    "a pid beyond all": {"pid": 2**70},
    "another port": {"port": 9201},
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


def test_a_node_that_ended_by_itself_is_told_from_one_that_was_stopped(home: Path) -> None:
    written(RECORD, home / "state" / "nodes")
    assert node_status(9200).state == "died"
    assert node_status(9201).state == "stopped"


def test_stop_asks_which_of_several(home: Path) -> None:
    for port in (9200, 9201):
        written(dataclasses.replace(RECORD, port=port), home / "state" / "nodes")
    with pytest.raises(UsageError, match="ports 9200, 9201"):
        stop_node()


def test_the_default_url_is_the_latest_node_that_runs(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    assert default_url() == "http://127.0.0.1:9200"
    nodes = home / "state" / "nodes"
    written(dataclasses.replace(of(pretender), port=9201), nodes)
    written(dataclasses.replace(RECORD, port=9202, started="2027"), nodes)
    assert default_url() == "http://127.0.0.1:9201"
    (nodes / "9203.json").write_text("torn")
    assert default_url() == "http://127.0.0.1:9200"


def test_a_node_that_ends_while_it_starts_leaves_no_record_and_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[str] = []

    def command(*given: Any) -> list[str]:
        marks.append(given[-1])
        return [sys.executable, "-c", "print('Caused by: the disk went')", marks[-1]]

    module = "owpc_ltr_node.process."
    monkeypatch.setattr(module + "choose_java", lambda *_, **__: Path(sys.executable))
    monkeypatch.setattr(module + "provide_home", lambda *_: home)
    monkeypatch.setattr(module + "command", command)
    port = free_port()
    with pytest.raises(EngineUnavailable) as caught:
        start_node(LocalNode(port=port), places=Places(home / "cache", home / "state" / "nodes"))
    message = str(caught.value)
    assert message.startswith(f"the node on port {port} ended while it started: Caused by")
    assert "\n" not in message
    assert len(marks) == 1
    assert read_records(home / "state" / "nodes") == []


def test_a_process_whose_command_line_comes_late_has_not_ended(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was just made has an empty command line, and runs."""
    cmdline, asked = psutil.Process.cmdline, list[int]()

    def late(process: psutil.Process) -> list[str]:
        asked.append(process.pid)
        return cmdline(process) if len(asked) > 5 else []

    def command(*given: Any) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(60)", given[-1]]

    module = "owpc_ltr_node.process."
    monkeypatch.setattr(module + "choose_java", lambda *_, **__: Path(sys.executable))
    monkeypatch.setattr(module + "provide_home", lambda *_: home)
    monkeypatch.setattr(module + "command", command)
    monkeypatch.setattr(psutil.Process, "cmdline", late)
    places, port = Places(home / "cache", home / "state" / "nodes"), free_port()
    record = launch(LocalNode(port=port), places.nodes / str(port), places, silent)
    try:
        assert record.process() is not None
    finally:
        assert end_process(record)


RUNNING_AND_ASKED = [
    ("3.9.0", False, LocalNode(version="3.8.0")),
    ("2.19.1", False, LocalNode(with_vectors=True)),
    ("3.8.0", False, LocalNode(with_vectors=True)),
    ("2.19.6", True, LocalNode(version="2.19.6")),
    ("3.8.0", False, LocalNode(engine=ELASTICSEARCH)),
]


@pytest.mark.parametrize(("version", "vectors", "asked"), RUNNING_AND_ASKED)
def test_another_node_than_the_one_that_runs_is_refused(
    version: str,
    vectors: bool,
    asked: LocalNode,
    home: Path,
    pretender: subprocess.Popen[bytes],
) -> None:
    record = dataclasses.replace(of(pretender), version=version, vectors=vectors)
    written(record, home / "state" / "nodes")
    message = f"is {record.release}, and not {asked.release}: `engine_stop\\(port=9200\\)` first"
    with pytest.raises(UsageError, match=message):
        start_node(asked)
    assert record.process() is not None


@pytest.mark.parametrize("asked", [LocalNode(heap="256m"), LocalNode(version="3.9.0")])
def test_a_node_that_runs_is_kept(
    asked: LocalNode,
    home: Path,
    pretender: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("owpc_ltr_node.process.health", lambda _: "green")
    record = dataclasses.replace(of(pretender), version="3.9.0")
    written(record, home / "state" / "nodes")
    assert start_node(asked).pid == pretender.pid
    first, *others = capsys.readouterr().err.splitlines()
    assert first == f"the node on port 9200 already runs (pid {pretender.pid}, heap 512m)"
    assert len(others) == (asked.version is None)
    assert all("keeps heap 512m and opensearch 3.9.0" in line for line in others)


def test_elasticsearch_is_not_started_as_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr_node.engine.os.geteuid", lambda: 0)
    with pytest.raises(UsageError, match=r"elasticsearch does not run as root: .* another user"):
        start_node(LocalNode(port=free_port(), engine=ELASTICSEARCH))


def test_the_data_of_a_node_that_runs_are_not_given_to_another(
    home: Path, pretender: subprocess.Popen[bytes]
) -> None:
    record = dataclasses.replace(of(pretender), folder=str(home / "data"))
    written(record, home / "state" / "nodes")
    with pytest.raises(UsageError, match="is in use by the node on port 9200"):
        start_node(LocalNode(port=free_port(), folder=home / "data"))


def test_the_log_is_the_latest_of_a_port(home: Path) -> None:
    with pytest.raises(EngineUnavailable, match="no node on port 9200 has left a log"):
        log_file(9200)
    nodes = home / "state" / "nodes"
    for number, name in enumerate(("9200", "9200-2.19.6", "92001")):
        log = nodes / name / "logs" / "node.log"
        log.parent.mkdir(parents=True)
        log.touch()
        os.utime(log, (number, number))
    assert log_file(9200) == nodes / "9200-2.19.6" / "logs" / "node.log"


def test_a_lock_that_is_held_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        locked_file(tmp_path / "lock", "a start"),
        pytest.raises(
            EngineUnavailable, match=f"a start is still under way in process {os.getpid()}"
        ),
        locked_file(tmp_path / "lock", "a start", patience=0.2),
    ):
        pass
    assert "waiting for it" in capsys.readouterr().err
    with locked_file(tmp_path / "lock", "a start"):
        pass
