"""Functions that numba compiles on their first call, and their cache on disk."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from owpc_ltr.compiling import (
    WORK,
    Compiled,
    Intrinsic,
    Work,
    cache_folder,
    compiled,
    keep_privately,
    stamp_of,
)
from owpc_ltr.data.parquet import reading, writing
from owpc_ltr.data.parquet.reading import transpose_into
from owpc_ltr.data.parquet.writing import column_sums
from owpc_ltr.host.registry import load
from tests.commands import Run
from tests.fresh_process import printed_by

CALLEE = """
from owpc_ltr.compiling import compiled
from folder.numbers import STEP

@compiled
def more(value):
    return value + STEP * 1.0
"""
CALLER = """
from owpc_ltr.compiling import compiled
from folder.callee import more

@compiled
def most(value):
    return more(value)
"""
RUN = """
import json
from folder.caller import most
from owpc_ltr.compiling import WORK

value = most(1.0)
print(json.dumps([value, len(WORK.made), all(one.folder for one in WORK.made)]))
"""
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "numbers.py").write_text("STEP = 1\n")
    (folder / "callee.py").write_text(CALLEE)
    (folder / "caller.py").write_text(CALLER)
    return folder


def ran(package: Path, **environ: str) -> tuple[float, int, bool]:
    """What a process computes, how many functions it has to compile, and whether they are kept."""
    known = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    # Python takes its own .pyc for new as long as the second and the size of a file are the same.
    known["PYTHONDONTWRITEBYTECODE"] = "1"
    ended = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=package.parent,
        env={**known, "XDG_CACHE_HOME": str(package.parent / "cache"), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    value, made, kept = json.loads(ended.stdout)
    return value, made, kept


def test_what_was_compiled_is_compiled_again_only_where_its_code_changed(package: Path) -> None:
    assert ran(package) == (2.0, 1, True)
    assert ran(package) == (2.0, 0, True)
    cache = package.parent / "cache" / "owpc-ltr" / "compiled"
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(list(cache.rglob("*.nbc"))) == 1
    assert not list(package.rglob("*.nb?"))
    change_unseen(package / "callee.py", "STEP * 1.0", "STEP * 9.0")
    assert ran(package)[:2] == (10.0, 1)


@pytest.mark.thorough
def test_a_change_of_the_file_itself_is_noticed(package: Path) -> None:
    ran(package)
    change_unseen(package / "caller.py", "more(value)", "value * 10.")
    assert ran(package)[:2] == (10.0, 1)


def change_unseen(file: Path, old: str, new: str) -> None:
    """Within the resolution of the clock: the file keeps its size and its time."""
    before = file.stat()
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.thorough
def test_a_changed_constant_of_another_file_is_noticed(package: Path) -> None:
    ran(package)
    (package / "numbers.py").write_text("STEP = 4\n")
    assert ran(package) == (5.0, 1, True)


@pytest.mark.thorough
def test_a_change_in_another_file_that_nothing_depends_on_costs_nothing(package: Path) -> None:
    ran(package)
    (package / "callee.py").write_text(f"# moves every line\n{CALLEE}\ndef other():\n    ...\n")
    assert ran(package) == (2.0, 0, True)


@pytest.mark.thorough
def test_code_for_another_processor_is_not_used(package: Path) -> None:
    """So that a home that two machines share is safe."""
    ran(package)
    assert ran(package, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == (2.0, 1, True)


@pytest.mark.thorough
def test_a_folder_that_others_can_write_is_neither_read_nor_written(package: Path) -> None:
    cache = package.parent / "shared"
    assert ran(package, NUMBA_CACHE_DIR=str(cache)) == (2.0, 1, True)
    (damaged,) = cache.rglob("*.nbi")
    cache.chmod(0o777)
    poison(damaged)
    before = sorted(cache.rglob("*"))
    assert ran(package, NUMBA_CACHE_DIR=str(cache)) == (2.0, 1, False)
    assert sorted(cache.rglob("*")) == before
    cache.chmod(0o700)
    with pytest.raises(subprocess.CalledProcessError):
        ran(package, NUMBA_CACHE_DIR=str(cache))


def poison(index: Path) -> None:
    """An index that ends the process of whoever reads it."""

    class Ending:
        def __reduce__(self) -> tuple[object, ...]:
            return os._exit, (7,)

    index.write_bytes(pickle.dumps(Ending()))


@pytest.mark.thorough
def test_what_cannot_be_kept_is_compiled_in_memory(package: Path) -> None:
    assert ran(package, NUMBA_CACHE_DIR="/dev/null/numba") == (2.0, 1, False)


@pytest.mark.thorough
def test_a_damaged_file_costs_time_and_nothing_else(package: Path) -> None:
    ran(package)
    for kept in (package.parent / "cache").rglob("*.nb?"):
        kept.write_bytes(kept.read_bytes()[:20])
    assert ran(package) == (2.0, 1, True)
    assert ran(package) == (2.0, 0, True)


def test_a_disk_that_takes_nothing_ends_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import IndexDataCacheFile

    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", full)
    assert added(40, 2) == 42
    assert WORK.made[-1].folder == ""


@compiled
def added(one: int, other: int) -> int:
    return one + other


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_third_party_code_is_kept_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", config.CACHE_DIR)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    (tmp_path / "named").mkdir()
    (tmp_path / "named").chmod(mode)
    cache_folder.cache_clear()
    keep_privately()
    cache_folder.cache_clear()
    assert os.environ["NUMBA_CACHE_DIR"] == config.CACHE_DIR
    assert (str(tmp_path / "named") == config.CACHE_DIR) == (mode == 0o700)
    assert Path(config.CACHE_DIR).stat().st_mode & 0o777 == 0o700


def test_a_command_says_in_one_line_that_nothing_is_kept() -> None:
    code = (
        "import sys; import owpc_ltr.host.registry as api; from owpc_ltr.cli import main; "
        "from owpc_ltr.compiling import WORK; real = api.load; "
        "api.load = lambda *a: (WORK.begin(), WORK.end('a', ''), real(*a))[-1]; "
        "sys.argv = ['owpc-ltr', 'plugins', '--json']; main()"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stderr.count("\n") == 1
    assert "set NUMBA_CACHE_DIR" in told.stderr


def altered(text: str) -> Compiled:
    names: dict[str, object] = {"__name__": "altered"}
    exec(f"def f(x):\n    return {text}\n", names)  # noqa: S102 - a function of a test's own
    function = names["f"]
    assert callable(function)
    return compiled(function)


def test_the_stamp_is_of_code_constants_and_options() -> None:
    one = altered("x + 1")
    assert stamp_of(one.py_func, {}) == stamp_of(altered("x + 1").py_func, {})
    others = [stamp_of(altered(text).py_func, {}) for text in ("x + 2", "x - 1", "x in {1, 2}")]
    others.append(stamp_of(one.py_func, {"fastmath": True}))
    assert len({stamp_of(one.py_func, {}), *others}) == 5


@pytest.mark.thorough
def test_the_stamp_is_the_same_in_every_process() -> None:
    """Sets have another order in each, and options are sets."""
    code = (
        "from owpc_ltr.compiling import stamp_of; "
        "from owpc_ltr_optimizers.larank import _process as f; "
        "from owpc_ltr.data.letor.kernel import read_lines as g; "
        "print([stamp_of(one.py_func, {'fastmath': {'nsz', 'contract', 'reassoc'}}) "
        "for one in (f, g)])"
    )
    told = {printed_by(code, {**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2", "3")}
    assert len(told) == 1


def test_who_listens_is_told_once_that_something_is_compiled() -> None:
    watched, calls = Work(), []
    watched.tell = lambda: calls.append(len(watched.made))
    for name in ("one", "other"):
        watched.begin()
        watched.end(name, "folder")
    assert calls == [0]
    assert [one.name for one in watched.made] == ["one", "other"]


@pytest.mark.thorough
def test_a_warm_up_does_a_job_for_every_plugin_that_computes(run: Run) -> None:
    code, out, _ = run("plugins", "warm-up", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["failures"] == []
    computing = {"loss", "optimizer", "reranker"}
    assert {f"{p.kind} {p.name}" for p in load().all() if p.kind in computing} <= set(told["jobs"])
    # All of it is there now, but for what settings of a reranker ask for, and what tests call.
    reached = [sys.executable, "-m", "tests.reached"]
    again = subprocess.run(reached, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(again.stdout)
    assert told["made"] == []
    similarity = "owpc_ltr_rerankers.exchangeable.kernels."
    left = [name for name in told["left"] if not name.startswith(similarity)]
    assert left == []


@compiled
def half(value: float) -> float:
    """The half of a value."""
    return value / 2


@compiled(fastmath={"contract"})
def halves(values: Any) -> float:
    total = 0.0
    for value in values:
        total += half(value)
    return total


@Intrinsic
def bits_of(_typing: Any, _value: Any) -> Any:
    from llvmlite import ir
    from numba import types

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@compiled
def read_bits(value: float) -> int:
    read: int = bits_of(value)
    return read


def test_a_compiled_function_calls_others_by_name() -> None:
    assert halves(np.arange(5.0)) == 5.0
    assert half.__doc__ == "The half of a value."


def test_an_intrinsic_is_for_compiled_functions_alone() -> None:
    assert read_bits(1.5) == int(np.array(1.5).view(np.int64))
    with pytest.raises(TypeError, match="bits_of is for compiled functions"):
        bits_of(1.5)


def test_numba_is_imported_by_the_first_call_and_no_sooner() -> None:
    code = (
        "import sys; from owpc_ltr.kernels import linear, pairs; "
        "from owpc_ltr.data.letor import kernel; import owpc_ltr_losses.owpc; "
        "before = 'numba' in sys.modules; pairs.logistic.dispatcher; "
        "print(before, 'numba' in sys.modules)"
    )
    assert printed_by(code) == "False True\n"


def test_threads_that_begin_together_make_one_function() -> None:
    def written(value: float) -> float:
        return value + 1

    made = compiled(written)
    with ThreadPoolExecutor(8) as pool:
        found = {id(one) for one in pool.map(lambda _: made.dispatcher, range(8))}
    assert len(found) == 1


matrices = arrays.arrays(
    np.float32, st.tuples(st.integers(0, 70), st.integers(1, 5)), elements=st.floats(width=32)
)


@given(matrices)
def test_numpy_and_compiled_code_come_to_the_same_bits(matrix: Any) -> None:
    """Of the digest of a file, and of the matrix that is read from it."""
    turned = np.ascontiguousarray(matrix.T)
    results = []
    for cells in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writing, "SMALL", cells)
            patch.setattr(reading, "SMALL", cells)
            sums, infinite = column_sums(matrix.view(np.uint32))
            rows = np.empty_like(matrix)
            transpose_into(rows, turned)
        results.append((sums.tolist(), infinite, rows.tobytes()))
    assert results[0] == results[1]
    assert results[0][1] == bool(np.isinf(matrix).any())
    assert results[0][2] == matrix.tobytes()
