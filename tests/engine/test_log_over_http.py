"""Feature logging as a command: what it prints, what it refuses, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from owpc_ltr.data.judgment_tables import write_judgments
from tests.commands import Run
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.log_runs import digest
from tests.engine.memory_engine import MemoryEngine, is_log_search, small_judgments

Fault = Callable[[Reply], Reply]


@dataclass
class Cluster:
    """A MemoryEngine behind HTTP; a fault meets every log search from the third on."""

    url: str = ""
    memory: MemoryEngine = field(default_factory=MemoryEngine)
    fault: Fault | None = None
    searches: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        try:
            reply = Reply(self.memory.answer(asked.method, asked.path, asked.params, asked.body))
        except KeyError:
            return Reply({"found": False}, 404)
        if not is_log_search(asked.body):
            return reply
        with self._lock:
            self.searches += 1
            searches = self.searches
        return reply if searches < 3 or self.fault is None else self.fault(reply)


@pytest.fixture
def cluster(fake: FakeEngine) -> Cluster:
    cluster = Cluster(fake.url)
    fake.on("GET", "*", cluster)
    fake.on("POST", "*", cluster)
    fake.on("DELETE", "*", cluster)
    return cluster


@pytest.fixture
def judgments(tmp_path: Path) -> Path:
    path = tmp_path / "judgments.tsv"
    write_judgments(small_judgments(), path)
    return path


# ---------------------------------------------------------------- as a command


def command(cluster: Cluster, judgments: Path, out: Path, *more: str) -> list[str]:
    line = [sys.executable, "-m", "owpc_ltr", "log-features", "--index", "movies"]
    line += ["--featureset", "movies", "--judgments", str(judgments), "--out", str(out)]
    return [*line, "--url", cluster.url, "--store-kind", "plugin-free", *more]


@pytest.fixture
def here(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands in this process, which give up soon."""
    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path))
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "1")
    return run


def environment(folder: Path) -> dict[str, str]:
    """No configuration file or credentials of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if "OWPC_LTR" not in name}
    return {**kept, "OWPC_LTR_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


def test_the_command_tells_people_and_machines_what_became_of_every_judgment(
    cluster: Cluster, judgments: Path, out: Path, here: Run
) -> None:
    code, printed, messages = here(*command(cluster, judgments, out)[3:])
    assert (code, messages) == (0, "")
    assert f"{out}: 30 documents of 6 queries, 4 features" in printed
    assert "30 judged = 30 logged + 0 absent + 0 rejected" in printed
    again = out.with_name("again.parquet")
    summary = json.loads(here.output(*command(cluster, judgments, again, "--json")[3:]))
    assert summary["judged"] == summary["logged"] == 30
    assert summary["dataset"] == str(again)
    assert summary["judgments"]["sha256"] == digest(judgments)
    assert summary["pairs_per_second"] > 0


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--batch", "501"], 2, "--batch must be from 1 to 500"),
        (["--index", "no*"], 2, "cannot name an index"),
        (["--featureset", "other"], 3, "other"),
        (["--judgments", "/nowhere.tsv"], 3, "nowhere.tsv"),
        (["--url", "http://127.0.0.1:1"], 4, "127.0.0.1:1"),
        (["--in-flight", "0"], 2, "in-flight"),
        (["--duplicates", "all"], 2, "all"),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(
    *,
    cluster: Cluster,
    judgments: Path,
    out: Path,
    here: Run,
    more: list[str],
    code: int,
    message: str,
) -> None:
    cluster.memory.documents = set()
    ended, printed, messages = here(*command(cluster, judgments, out, *more)[3:])
    assert (ended, printed) == (code, "")
    assert message in messages
    assert messages.count("\n") == 1
    assert list(out.parent.iterdir()) == []


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_command_ends_at_once_and_goes_on_to_the_same_bytes(
    *,
    cluster: Cluster,
    judgments: Path,
    out: Path,
    here: Run,
    tmp_path: Path,
    sent: signal.Signals,
    code: int,
) -> None:
    undisturbed = tmp_path / "undisturbed.parquet"
    here.output(*command(cluster, judgments, undisturbed)[3:])
    released = threading.Event()

    def hang(reply: Reply) -> Reply:
        released.wait(300)
        return reply

    cluster.searches, cluster.fault = 0, hang
    child = subprocess.Popen(
        command(cluster, judgments, out),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    while cluster.searches < 3 and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(sent)
    # Each search hangs for minutes: a run that waited for one would not end in time.
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == code
    assert stdout == ""
    assert "run the same command again to resume" in stderr
    assert stderr.count("\n") == 1
    assert not out.exists()
    released.set()
    cluster.fault = None
    here.output(*command(cluster, judgments, out)[3:])
    assert digest(out) == digest(undisturbed)
