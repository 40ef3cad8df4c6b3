"""A feature log that is interrupted resumes to the same bytes, or publishes nothing."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from tests.engine.log_runs import SIX_CHUNKS, assert_only, away_after, digest, run_folder
from tests.engine.log_runs import log_in_six as log
from tests.engine.memory_engine import MemoryEngine, log_slowly
from tests.faults.seeds import Seeds
from tests.faults.selection import Selection


@pytest.fixture
def half_done(out: Path) -> Path:
    """An output whose run was stopped by the engine after three of six chunks."""
    with pytest.raises(EngineUnavailable, match="kept"):
        log(out, MemoryEngine(fault=away_after(14)), LogOptions(pause=0, chunk=5, in_flight=1))
    assert 2 <= len(chunks_in(run_folder(out))) <= 4
    return out


def chunks_in(run: Path) -> list[Path]:
    return sorted(run.glob("chunk-*"))


@pytest.mark.parametrize("tail", [b"", b"\n", b"{", b"\0" * 200])
def test_a_chunk_torn_at_any_byte_costs_no_more_than_itself(
    half_done: Path, clean: str, tail: bytes, tmp_path: Path
) -> None:
    torn, *others = chunks_in(run_folder(half_done))
    content = torn.read_bytes()
    for keep in range(0, len(content), 89 if Selection.asked().thorough else 389):
        copy = tmp_path / f"{keep}"
        shutil.copytree(half_done.parent, copy)
        (copy / run_folder(half_done).name / torn.name).write_bytes(content[:keep] + tail)
        with pytest.warns(OwpcLtrWarning, match="are damaged: a kept chunk is logged again"):
            report = log(copy / half_done.name)
        assert report.resumed == 5 * len(others)
        assert digest(copy / half_done.name) == clean


def flip_bit(run: Path) -> None:
    path = chunks_in(run)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def leave_litter(run: Path) -> None:
    (run / ".job.json.abc").write_bytes(b"half")
    (run / ".chunk-1.abc").write_bytes(b"half")
    (run / "chunk-1.abc").write_bytes(b"half")
    (run / "dataset.parquet").write_bytes(b"half")


@pytest.mark.filterwarnings("ignore:.* logged again")
@pytest.mark.parametrize(
    "damage",
    [
        lambda run: chunks_in(run)[0].write_bytes(b""),
        flip_bit,
        lambda run: chunks_in(run)[0].unlink(),
        lambda run: list(map(Path.unlink, chunks_in(run))),
        lambda run: chunks_in(run)[1].rename(chunks_in(run)[0]),
        lambda run: chunks_in(run)[1].rename(run / "chunk-01"),
        leave_litter,
    ],
    ids=["empty chunk", "bit", "no chunk", "no chunks", "another's", "renamed", "litter"],
)
def test_whatever_a_crash_leaves_behind_the_run_goes_on_to_the_same_bytes(
    half_done: Path, clean: str, damage: Callable[[Path], object]
) -> None:
    damage(run_folder(half_done))
    log(half_done)
    assert digest(half_done) == clean
    assert_only(half_done)


def test_chunks_of_another_job_count_for_nothing(half_done: Path, clean: str) -> None:
    """Even under the description of this one."""
    other, run = half_done.with_name("other.parquet"), run_folder(half_done)
    with pytest.raises(EngineUnavailable, match="kept"):
        log(other, MemoryEngine(fault=away_after(14), version="3.9.0"), SIX_CHUNKS)
    for path in chunks_in(run):
        path.unlink()
    for path in chunks_in(run_folder(other)):
        shutil.copy(path, run)
    with pytest.warns(OwpcLtrWarning, match="kept chunks? (is|are) logged again"):
        assert log(half_done).resumed == 0
    assert digest(half_done) == clean


@pytest.mark.parametrize("description", [b"", b"{", b"[]", b"null", b'{"judgments": 1}', b"\xff"])
def test_an_unreadable_description_is_never_taken_for_this_job(
    half_done: Path, clean: str, description: bytes
) -> None:
    (run_folder(half_done) / "job.json").write_bytes(description)
    with pytest.raises(Refused, match="another job"):
        log(half_done)
    log(half_done, options=LogOptions(pause=0, chunk=5, restart=True))
    assert digest(half_done) == clean


def test_a_chunk_that_is_changed_while_the_run_is_under_way_is_noticed(out: Path) -> None:
    def meddle(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number == 18:
            flip_bit(run_folder(out))
        return answer

    with pytest.raises(Refused, match="changed from outside"):
        log(out, MemoryEngine(fault=meddle))
    assert not out.exists()


def test_other_work_in_the_folder_is_refused_and_stays(half_done: Path, clean: str) -> None:
    before = [path.read_bytes() for path in chunks_in(run_folder(half_done))]
    with pytest.raises(Refused, match=r"another job \(other chunk\): .*with `restart`"):
        log(half_done, options=LogOptions(pause=0, chunk=6))
    assert before == [path.read_bytes() for path in chunks_in(run_folder(half_done))]
    assert log(half_done).resumed > 0
    assert digest(half_done) == clean


def test_a_resumed_run_asks_for_no_finished_chunk_again(half_done: Path) -> None:
    resumed, whole = MemoryEngine(), MemoryEngine()
    report = log(half_done, resumed)
    log(half_done.with_name("whole.parquet"), whole)
    assert report.resumed > 0
    # A chunk of one query: a search, and a look at the engine, the index and the feature set;
    # only the search is repeated, to know that the values are still the same.
    assert resumed.calls == whole.calls - 3 * report.resumed // 5


def test_an_output_that_is_a_folder_is_refused_before_any_work(out: Path) -> None:
    out.mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        log(out)
    assert_only(out)


# ---------------------------------------------------------------- other processes


@pytest.fixture(scope="module")
def children() -> ForkServerContext:
    """Processes whose imports are done: a kill hits the work, not the start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.engine.memory_engine", "owpc_ltr.data.parquet"])
    return context


@pytest.mark.faults
def test_a_run_killed_at_any_time_goes_on_to_the_same_bytes(
    out: Path, clean: str, children: ForkServerContext, seeds: Seeds
) -> None:
    pause = 0.002
    whole = MemoryEngine()
    log(out, whole)
    out.unlink()
    for seed in seeds(sample=4, whole=100):
        rng = np.random.default_rng(seed)
        last, late = int(rng.integers(1, whole.calls + 1)), rng.uniform(0, 2 * pause)
        child = children.Process(target=log_slowly, args=(out, pause, last, late))
        child.start()
        child.join()
        if child.exitcode == -signal.SIGKILL:
            assert not out.exists() or digest(out) == clean
        else:
            assert child.exitcode == 0
            assert digest(out) == clean
            assert_only(out)
            out.unlink()
        child.close()
    log(out)
    assert digest(out) == clean
    assert_only(out)


def test_a_second_process_on_the_same_output_is_refused_in_one_line(
    out: Path, clean: str, children: ForkServerContext
) -> None:
    child = children.Process(target=log_slowly, args=(out, 0.1))
    child.start()
    lock = run_folder(out) / "lock"
    give_up = time.monotonic() + 20
    while not (lock.exists() and lock.read_bytes()):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    with pytest.raises(Refused, match=f"process {child.pid} on .* is writing"):
        log(out)
    child.kill()
    child.join()
    log(out)
    assert digest(out) == clean
    assert_only(out)


def test_two_outputs_in_one_folder_do_not_meet(out: Path, half_done: Path, clean: str) -> None:
    other = half_done.with_name("other.parquet")
    log(other)
    log(half_done)
    assert digest(other) == digest(half_done) == clean
