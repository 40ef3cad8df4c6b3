"""Whichever call or file operation fails, a run ends whole or publishes nothing."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.errors import DiskFault, EngineUnavailable, OwpcLtrError
from tests.engine.memory_engine import MemoryEngine
from tests.engine.memory_engine import log as log_in_memory
from tests.faults.disk import failing_disk, full_after

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


@pytest.mark.parametrize("lasting", [False, True])
def test_whichever_file_operation_fails_the_run_ends_whole_or_publishes_nothing(
    tmp_path: Path, clean: str, lasting: bool
) -> None:
    first = tmp_path / "count" / "out.parquet"
    first.parent.mkdir()
    with failing_disk(first.parent, 0) as disk:
        log(first, options=TWO_CHUNKS)
    operations = disk.seen
    assert operations > 35
    failures: list[str] = []
    for n in range(1, operations + 1):
        out = tmp_path / f"{n}" / "out.parquet"
        out.parent.mkdir()
        try:
            with failing_disk(out.parent, n, lasting=lasting):
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
    out: Path, clean: str, lasting: bool
) -> None:
    stayed = 0
    for n in range(1, 40):
        out.write_bytes(b"earlier")
        try:
            with failing_disk(out.parent, n, lasting=lasting):
                log(out)
        except DiskFault:
            stayed += out.read_bytes() == b"earlier"
        assert out.read_bytes() == b"earlier" or digest(out) == clean
    assert stayed > 10


@pytest.mark.parametrize("limit", [0, 1, 50, 300, 600, 1000, 2000, 3000, 4000])
def test_a_full_disk_ends_the_run_and_leaves_it_resumable(
    out: Path, clean: str, limit: int
) -> None:
    try:
        with full_after(limit):
            log(out)
    except DiskFault:
        assert not out.exists()
    log(out)
    assert digest(out) == clean
    assert_only(out)
