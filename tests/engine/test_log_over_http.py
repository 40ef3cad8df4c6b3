"""Feature logging over a real connection that breaks, and as a command that is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrError
from owpc_ltr.data.judgments import write_judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from tests.commands import Run
from tests.engine.fake_engine import Asked, Clock, FakeEngine, Reply, make_engine
from tests.engine.log_runs import digest
from tests.engine.memory_engine import MemoryEngine, is_log_search, small_judgments

OPTIONS = LogOptions(pause=0, chunk=10)
Fault = Callable[[Reply], Reply]


@dataclass
class Cluster:
    """A MemoryEngine behind HTTP; `faults` meet the log searches from the third on, in turn."""

    url: str = ""
    memory: MemoryEngine = field(default_factory=MemoryEngine)
    faults: list[Fault] = field(default_factory=list)
    for_ever: bool = False
    pause: float = 0.0
    searches: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        time.sleep(self.pause)
        try:
            reply = Reply(self.memory.answer(asked.method, asked.path, asked.params, asked.body))
        except KeyError:
            return Reply({"found": False}, 404)
        if not is_log_search(asked.body):
            return reply
        with self._lock:
            self.searches += 1
            if self.searches < 3 or not self.faults:
                return reply
            fault = self.faults[0] if self.for_ever else self.faults.pop(0)
        return fault(reply)


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


def log(
    cluster: Cluster, out: Path, clock: Clock | None = None, in_flight: int = 2, **limits: float
) -> LogReport:
    """Log; pauses between attempts pass by `clock`, which says at once that they are over."""
    limits = {"deadline": 20.0, "timeout": 5.0, **limits}
    engine = (
        Engine(ConnectionSettings(cluster.url, **limits))  # type: ignore[arg-type]
        if clock is None
        else make_engine(cluster.url, clock, **limits)
    )
    store = PluginFreeStore(engine)
    try:
        featureset = store.get_featureset("movies")
        options = replace(OPTIONS, in_flight=in_flight)
        return run_log(engine, store, featureset, small_judgments(), "movies", out, options=options)
    finally:
        engine.close()


def status(code: int, body: Any = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(body if body is not None else {}, code, named)


def cut(share: float, *, announced: bool = True) -> Fault:
    return lambda reply: Reply(reply.body, cut=share, announced=announced)


def text(body: bytes, content_type: str = "application/json") -> Fault:
    return lambda _: Reply(body, content_type=content_type)


PASSING: dict[str, list[Fault]] = {
    "503 twice": [status(503), status(503)],
    "503, asked to wait": [status(503, Retry_After="1")],
    "429 twice": [status(429), status(429)],
    "502": [status(502)],
    "504": [status(504)],
    "reset": [lambda _: Reply(reset=True)],
    "not JSON": [text(b"{]")],
    "nothing": [text(b"")],
    "NaN as a bare word": [text(b'{"timed_out": NaN}')],
    **{f"cut at {n}/16": [cut(n / 16)] for n in range(16)},
    **{f"cut unnoticed at {n}/16": [cut(n / 16, announced=False)] for n in range(0, 16, 3)},
}


@pytest.mark.parametrize("faults", PASSING.values(), ids=PASSING.keys())
def test_a_fault_that_passes_leaves_no_trace_in_the_bytes(
    cluster: Cluster, out: Path, clean: str, faults: list[Fault]
) -> None:
    cluster.faults = list(faults)
    clock = Clock()
    log(cluster, out, clock)
    assert not cluster.faults
    assert clock.pauses
    assert digest(out) == clean


LASTING: dict[str, tuple[Fault, int, str]] = {
    "503": (status(503), 4, "busy or not there"),
    "429": (status(429), 4, "busy or not there"),
    "reset": (lambda _: Reply(reset=True), 4, "broke"),
    "cut": (cut(0.5), 4, "cut off"),
    "a byte a second": (lambda reply: Reply(reply.body, drip=1.0), 4, "in 1.. s"),
    "headers without end": (lambda reply: Reply(reply.body, drip_headers=1.0), 4, "in 1.. s"),
    "another address": (status(307, location="http://127.0.0.1:1/"), 4, "not followed"),
    "a web page": (text(b"<html>", "text/html"), 4, "in place of JSON"),
    "who are you": (status(401), 4, "401"),
    "not allowed": (status(403), 4, "403"),
    "no index": (status(404, {"error": {"type": "index_not_found_exception"}}), 5, "404"),
    "half the JSON": (text(b'{"timed_out": false'), 4, "not whole JSON"),
    "deep JSON": (text(b"[" * 100_000), 4, "not whole JSON"),
    "a number": (text(b"7"), 5, "not an engine's answer"),
}


@pytest.mark.parametrize(("fault", "code", "message"), LASTING.values(), ids=LASTING.keys())
def test_a_fault_that_lasts_ends_the_run_in_time_with_nothing_published(
    cluster: Cluster, out: Path, fault: Fault, code: int, message: str
) -> None:
    cluster.faults, cluster.for_ever = [fault], True
    if "in 1" in message:
        # What comes too slowly takes its time: whole, these answers would take many minutes.
        clock, limits = None, {"deadline": 1.5, "timeout": 1.0}
    else:
        # No answer is late here, however busy the machine: pauses alone use the deadline up.
        clock, limits = Clock(), {"deadline": 120.0, "timeout": 60.0}
    with pytest.raises(OwpcLtrError, match=message) as caught:
        # One request at a time: a second would see the pauses of the first as time of its own.
        log(cluster, out, clock, in_flight=1, **limits)
    assert clock is None or sum(clock.pauses) <= limits["deadline"] + 1e-6
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)
    assert not out.exists()
    cluster.faults, cluster.for_ever = [], False
    log(cluster, out)


@pytest.mark.parametrize("code", [403, 404, 405])
def test_an_engine_that_opens_no_point_in_time_is_logged_to_the_same_bytes(
    cluster: Cluster, fake: FakeEngine, out: Path, clean: str, code: int
) -> None:
    fake.on("POST", "/movies/_search/point_in_time", Reply({"error": "no"}, code))
    log(cluster, out)
    assert digest(out) == clean
    assert len(fake.asked("POST", "/movies/_search")) > 0


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


def run_in_process(line: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=300, env=environment(folder)
    )


def environment(folder: Path) -> dict[str, str]:
    """No configuration file or credentials of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if "OWPC_LTR" not in name}
    return {**kept, "OWPC_LTR_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


def test_the_command_tells_in_words_what_became_of_every_judgment(
    cluster: Cluster, judgments: Path, out: Path
) -> None:
    done = run_in_process(command(cluster, judgments, out), out.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"{out}: 30 documents of 6 queries, 4 features" in done.stdout
    assert "30 judged = 30 logged + 0 absent + 0 rejected" in done.stdout


def test_the_command_prints_one_json_object(
    cluster: Cluster, judgments: Path, out: Path, here: Run
) -> None:
    _, printed, _ = here(*command(cluster, judgments, out, "--json")[3:])
    summary = json.loads(printed)
    assert summary["judged"] == summary["logged"] == 30
    assert summary["dataset"] == str(out)
    assert summary["judgments"]["sha256"] == digest(judgments)
    assert summary["pairs_per_second"] > 0


def test_a_feature_without_a_single_value_is_warned_of(
    cluster: Cluster, judgments: Path, out: Path, here: Run
) -> None:
    def no_title(reply: Reply) -> Reply:
        for hit in reply.body["hits"]["hits"]:
            hit.get("matched_queries", {}).pop("title", None)
        return reply

    cluster.faults, cluster.for_ever, cluster.searches = [no_title], True, 3
    code, _, told = here(*command(cluster, judgments, out)[3:])
    assert code == 0
    assert "warning: no document has a value for title" in told


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
    ended, printed, told = here(*command(cluster, judgments, out, *more)[3:])
    assert (ended, printed) == (code, "")
    assert message in told
    assert told.count("\n") == 1
    assert list(out.parent.iterdir()) == []


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_command_ends_at_once_and_goes_on_to_the_same_bytes(
    cluster: Cluster, judgments: Path, out: Path, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    undisturbed = tmp_path / "undisturbed.parquet"
    run_in_process(command(cluster, judgments, undisturbed), tmp_path)
    released = threading.Event()

    def hang(reply: Reply) -> Reply:
        released.wait(300)
        return reply

    cluster.searches, cluster.faults, cluster.for_ever = 0, [hang], True
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
    cluster.faults = []
    assert run_in_process(command(cluster, judgments, out), tmp_path).returncode == 0
    assert digest(out) == digest(undisturbed)


@pytest.mark.thorough
def test_a_killed_command_goes_on_to_the_same_bytes(
    cluster: Cluster, judgments: Path, out: Path, rng: np.random.Generator
) -> None:
    log_file = out.parent / "undisturbed.parquet"
    assert run_in_process(command(cluster, judgments, log_file), out.parent).returncode == 0
    cluster.pause = 0.03
    line = command(cluster, judgments, out, "--in-flight", "1")
    for _ in range(4):
        cluster.searches = 0
        child = subprocess.Popen(line, env=environment(out.parent), stdout=subprocess.DEVNULL)
        wanted = int(rng.integers(1, 6))
        while cluster.searches < wanted and child.poll() is None:
            time.sleep(0.005)
        child.kill()
        child.wait()
    assert run_in_process(line, out.parent).returncode == 0
    assert digest(out) == digest(log_file)
