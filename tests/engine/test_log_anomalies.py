"""Whichever call or file operation fails, a run ends whole or publishes nothing."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.feature_log import LogOptions, LogReport
from owpc_ltr.errors import DiskFault, EngineUnavailable, OwpcLtrError
from tests.engine.memory_engine import MemoryEngine
from tests.engine.memory_engine import log as log_in_memory

OPTIONS = LogOptions(pause=0, chunk=5, in_flight=2)
"""Six chunks of one query each."""
TWO_CHUNKS = LogOptions(pause=0, chunk=15, in_flight=2)


def log(out: Path, engine: MemoryEngine | None = None, options: LogOptions = OPTIONS) -> LogReport:
    return log_in_memory(engine or MemoryEngine(), out, options=options)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_folder(out: Path) -> Path:
    return out.with_name(out.name + ".run")


def assert_only(out: Path) -> None:
    assert [path.name for path in out.parent.iterdir()] == [out.name]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of an undisturbed run."""
    path = tmp_path_factory.mktemp("clean") / "clean.parquet"
    log(path)
    return digest(path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder / "movies.parquet"


def unavailable(_answer: Any) -> Any:
    raise EngineUnavailable("the engine does not answer")


def interrupt(_answer: Any) -> Any:
    raise KeyboardInterrupt


def crash(_answer: Any) -> Any:
    raise MemoryError


def time_out(answer: Any) -> Any:
    return {**answer, "timed_out": True}


def empty(answer: Any) -> Any:
    return None if "hits" in answer else answer


def hollow(_answer: Any) -> Any:
    return {}


CALL_FAULTS = [unavailable, interrupt, crash, time_out, empty, hollow]


@pytest.mark.parametrize("fault", CALL_FAULTS)
@pytest.mark.parametrize("lasting", [False, True])
def test_whichever_call_fails_the_run_ends_whole_or_publishes_nothing(
    tmp_path: Path, clean: str, fault: Callable[[Any], Any], lasting: bool
) -> None:
    counter = MemoryEngine()
    log(tmp_path / "count.parquet", counter)
    assert counter.calls > 15
    for n in range(1, counter.calls + 1):
        out = tmp_path / f"{n}" / "out.parquet"
        out.parent.mkdir()

        def spoil(number: int, _path: str, _body: Any, answer: Any, n: int = n) -> Any:
            return fault(answer) if number == n or (lasting and number > n) else answer

        try:
            log(out, MemoryEngine(fault=spoil))
        except (OwpcLtrError, KeyboardInterrupt, MemoryError):
            assert not out.exists()
            log(out)
        assert digest(out) == clean
        assert_only(out)


@dataclass
class FileFaults:
    """Counts file operations below a folder, and makes one of them, or all from then on, fail."""

    folder: str = "/nowhere"
    fail_at: int = 0
    lasting: bool = False
    seen: int = 0

    def __call__(self, what: str, arguments: tuple[Any, ...]) -> None:
        if self.folder != "/nowhere" and self._concerns(what, arguments):
            self.seen += 1
            if self.seen == self.fail_at or (self.lasting and self.seen > self.fail_at > 0):
                raise OSError(28, "No space left on device", f"{what} {arguments[0]}")

    def _concerns(self, what: str, arguments: tuple[Any, ...]) -> bool:
        if what in {"os.fsync", "os.write", "os.truncate", "fcntl.flock"}:
            return True
        watched = what in {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
        return watched and str(arguments[0]).startswith(self.folder)


@pytest.fixture(scope="module")
def file_faults() -> FileFaults:
    """An audit hook cannot be taken out again; outside of its tests it watches nowhere."""
    faults = FileFaults()
    sys.addaudithook(faults)
    return faults


@contextmanager
def failing(faults: FileFaults, out: Path, number: int, *, lasting: bool) -> Iterator[None]:
    faults.folder, faults.fail_at, faults.lasting, faults.seen = (
        str(out.parent),
        number,
        lasting,
        0,
    )
    try:
        yield
    finally:
        faults.folder = "/nowhere"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, file_faults: FileFaults) -> FileFaults:
    """The faults, also at fsync and write, which no audit event tells of."""
    for name in ("fsync", "write"):
        true = getattr(os, name)

        def watched(*arguments: Any, name: str = name, true: Any = true) -> Any:
            file_faults(f"os.{name}", arguments)
            return true(*arguments)

        monkeypatch.setattr(os, name, watched)
    return file_faults


@pytest.mark.parametrize("lasting", [False, True])
def test_whichever_file_operation_fails_the_run_ends_whole_or_publishes_nothing(
    tmp_path: Path, clean: str, synced: FileFaults, lasting: bool
) -> None:
    first = tmp_path / "count" / "out.parquet"
    first.parent.mkdir()
    with failing(synced, first, 0, lasting=False):
        log(first, options=TWO_CHUNKS)
    operations = synced.seen
    assert operations > 35
    failures: list[str] = []
    for n in range(1, operations + 1):
        out = tmp_path / f"{n}" / "out.parquet"
        out.parent.mkdir()
        try:
            with failing(synced, out, n, lasting=lasting):
                log(out, options=TWO_CHUNKS)
        except DiskFault as fault:
            failures.append(str(fault))
            # Once it is in its place, whole, only making that durable can fail.
            assert not out.exists() or digest(out) == clean
            assert {path.name for path in out.parent.iterdir()} <= {out.name, out.name + ".run"}
            log(out, options=TWO_CHUNKS)
        assert digest(out) == clean
        if run_folder(out).exists():  # taking it away was what failed
            log(out, options=TWO_CHUNKS)
            assert digest(out) == clean
        assert_only(out)
        shutil.rmtree(out.parent)
    assert len(failures) > operations / 2
    assert all("No space left" in line and "\n" not in line for line in failures)
    assert DiskFault.exit_code == 4


@pytest.mark.parametrize("lasting", [False, True])
def test_a_failing_disk_leaves_the_earlier_output_or_the_whole_new_one(
    out: Path, clean: str, synced: FileFaults, lasting: bool
) -> None:
    stayed = 0
    for n in range(1, 40):
        out.write_bytes(b"earlier")
        try:
            with failing(synced, out, n, lasting=lasting):
                log(out)
        except DiskFault:
            stayed += out.read_bytes() == b"earlier"
        assert out.read_bytes() == b"earlier" or digest(out) == clean
    assert stayed > 10


@pytest.mark.parametrize("limit", [0, 1, 50, 300, 600, 1000, 2000, 3000, 4000])
def test_a_full_disk_ends_the_run_and_leaves_it_resumable(
    out: Path, clean: str, limit: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        log(out)
    except DiskFault:
        assert not out.exists()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log(out)
    assert digest(out) == clean
    assert_only(out)
