"""Functions that numba compiles on their first call, and their cache on disk."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from owpc_ltr import compiling
from owpc_ltr.compiling import before_compiling, compiled, keep_privately, private_cache
from owpc_ltr.data import parquet
from owpc_ltr.data.parquet import column_sums, transpose_into
from owpc_ltr.kernels.kernel import call_kernel
from tests.fresh_process import printed_by

CALLEE = """
from owpc_ltr.compiling import compiled
from folder.steps import STEP

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
from owpc_ltr.compiling import private_cache

value = most(1.0)
made = sum(most.outer.stats.cache_misses.values())
print(json.dumps([value, made, not private_cache()[1]]))
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "steps.py").write_text("STEP = 1\n")
    (folder / "callee.py").write_text(CALLEE)
    (folder / "caller.py").write_text(CALLER)
    return folder


def ran(package: Path, before: str = "", **environ: str) -> tuple[float, int, bool]:
    """What a process computes, how many functions it has to compile, and whether they are kept."""
    value, made, kept = json.loads(process(package, before, **environ).stdout)
    return value, made, kept


def process(package: Path, before: str, **environ: str) -> subprocess.CompletedProcess[str]:
    # Dask, in a test before, has told its processes to be quiet.
    others = {"NUMBA_CACHE_DIR", "PYTHONWARNINGS"}
    known = {name: value for name, value in os.environ.items() if name not in others}
    # Python takes its own .pyc for new as long as the second and the size of a file are the same.
    known["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [sys.executable, "-c", before + RUN],
        cwd=package.parent,
        env={**known, "XDG_CACHE_HOME": str(package.parent / "cache"), **environ},
        capture_output=True,
        text=True,
        check=True,
    )


def kept_files(package: Path) -> list[Path]:
    return list((package.parent / "cache").rglob("*.nbc"))


def test_what_was_compiled_is_compiled_again_only_where_its_code_changed(package: Path) -> None:
    assert ran(package) == (2.0, 1, True)
    assert ran(package) == (2.0, 0, True)
    cache = package.parent / "cache" / "owpc-ltr" / "compiled"
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(kept_files(package)) == 1
    assert not list(package.rglob("*.nb?"))
    change_unseen(package / "callee.py", "STEP * 1.0", "STEP * 9.0")
    assert ran(package) == (10.0, 1, True)
    # What no source is of any more is gone.
    assert len(kept_files(package)) == 1


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
    (package / "steps.py").write_text("STEP = 4\n")
    assert ran(package) == (5.0, 1, True)


@pytest.mark.thorough
def test_files_beside_a_plugin_file_count_as_its_package(package: Path) -> None:
    for file in package.glob("[!_]*.py"):
        file.write_text(file.read_text().replace("folder.", ""))
    program = RUN.replace("folder.", "")
    results = [json.loads(printed_by(program, beside(package)))]
    change_unseen(package / "callee.py", "STEP * 1.0", "STEP * 9.0")
    results += [json.loads(printed_by(program, beside(package))) for _ in "12"]
    assert results == [[2.0, 1, True], [10.0, 1, True], [10.0, 0, True]]


def beside(package: Path) -> dict[str, str]:
    cache = str(package.parent / "cache")
    environ = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": cache}
    return {**environ, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.thorough
def test_a_changed_function_of_ours_changes_what_calls_it(package: Path) -> None:
    """In a copy: a loss of a plugin, whose file stays as it is, calls the function."""
    shutil.copytree(ROOT / "owpc_ltr", package.parent / "owpc_ltr")
    calls = CALLER.replace("folder.callee import more", "owpc_ltr.kernels.pairs import logistic")
    (package / "caller.py").write_text(calls.replace("more(value)", "logistic(value)"))
    first = ran(package)
    assert first[1:] == (1, True)
    assert first == (*ran(package)[:1], 1, True)
    file = package.parent / "owpc_ltr" / "kernels" / "pairs.py"
    file.write_text(file.read_text() + "\n\n@compiled\ndef logistic(_):\n    return 7.0\n")
    assert ran(package) == (7.0, 1, True)


@pytest.mark.thorough
def test_what_changes_while_a_process_runs_is_not_kept(package: Path) -> None:
    """The process has the old code, and the file, of which the cache is named, the new one."""
    old = (
        "import folder.caller, pathlib\n"
        "file = pathlib.Path('folder/callee.py')\n"
        "file.write_text(file.read_text().replace('STEP * 1.0', 'STEP * 9.0'))\n"
    )
    assert ran(package, old)[:2] == (2.0, 1)
    assert kept_files(package) == []
    assert ran(package) == (10.0, 1, True)


def test_compiled_code_names_what_the_cache_is_named_by() -> None:
    """Nothing in files of ours that have no compiled code, which do not count."""
    counted = {name_of(file) for file in compiling._our_kernels()}
    names = {(name_of(file), name) for file in kernel_files() for name in named_in(file)}
    ours = {module for _, module in names if module.startswith("owpc_ltr.")}
    assert len(ours) >= 2
    assert ours <= counted
    others = [pair for pair in names if pair[1] not in ours]
    assert [pair for pair in others if pair[0].split(".")[0] != pair[1].split(".")[0]] == []


def kernel_files() -> list[Path]:
    files = [file for folder in ("owpc_ltr", "plugins") for file in (ROOT / folder).rglob("*.py")]
    return [file for file in files if re.search(r"^@(compiled|kernel)\b", file.read_text(), re.M)]


def name_of(file: Path) -> str:
    place = file.relative_to(ROOT)
    return ".".join(place.with_suffix("").parts).removeprefix("plugins.")


def named_in(file: Path) -> Iterator[str]:
    """The modules of ours that compiled functions of a file name something of."""
    body = ast.parse(file.read_text()).body
    origins = {
        alias.asname or alias.name: statement.module
        for statement in body
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("owpc_ltr")
        for alias in statement.names
    }
    for statement in body:
        marks = " ".join(map(ast.unparse, getattr(statement, "decorator_list", ())))
        if isinstance(statement, ast.FunctionDef) and re.match(r"(compiled|kernel)\b", marks):
            for inner in (node for part in statement.body for node in ast.walk(part)):
                if isinstance(inner, ast.Name) and inner.id in origins:
                    yield str(origins[inner.id])


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
def test_what_cannot_be_kept_is_compiled_all_the_same_and_told(package: Path) -> None:
    ended = process(package, "", NUMBA_CACHE_DIR="/dev/null/numba")
    assert json.loads(ended.stdout) == [2.0, 1, False]
    assert (
        "compiled code is not kept, and will be compiled again, for '/dev/null/numba' cannot be "
        "made (not a directory): set NUMBA_CACHE_DIR to a folder that only you can write"
    ) in ended.stderr
    assert not list(package.parent.rglob("*.nb?"))


def test_code_is_kept_nowhere_else_where_the_folder_cannot_be_written_any_more(
    package: Path,
) -> None:
    lost = "from owpc_ltr.compiling import private_cache\nplace = private_cache()[0]\n"
    lost += "place.rmdir()\nplace.write_text('')\n"
    assert ran(package, lost, HOME=str(package.parent))[0] == 2.0
    assert not list(package.parent.rglob("*.nb?"))


@pytest.mark.thorough
def test_a_damaged_file_costs_time_and_nothing_else(package: Path) -> None:
    ran(package)
    for kept in (package.parent / "cache").rglob("*.nb?"):
        kept.write_bytes(kept.read_bytes()[:20])
    assert ran(package) == (2.0, 1, True)
    assert ran(package) == (2.0, 0, True)


@pytest.mark.thorough
def test_a_disk_that_takes_nothing_ends_no_job(package: Path) -> None:
    full = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    assert ran(package, full)[0] == 2.0
    assert kept_files(package) == []
    assert ran(package) == (2.0, 1, True)


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_third_party_code_is_kept_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", config.CACHE_DIR)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    (tmp_path / "named").mkdir()
    (tmp_path / "named").chmod(mode)
    private_cache.cache_clear()
    keep_privately()
    private_cache.cache_clear()
    assert os.environ["NUMBA_CACHE_DIR"] == config.CACHE_DIR
    assert (str(tmp_path / "named") == config.CACHE_DIR) == (mode == 0o700)
    assert Path(config.CACHE_DIR).stat().st_mode & 0o777 == 0o700


@pytest.mark.thorough
def test_a_command_says_in_one_line_that_nothing_is_kept(package: Path) -> None:
    code = (
        "import sys; import owpc_ltr.host.registry as api; from owpc_ltr.cli import main; "
        "from folder.caller import most; real = api.load; "
        "api.load = lambda *a: (most(1.0), real(*a))[-1]; "
        "sys.argv = ['owpc-ltr', 'plugins', '--json']; main()"
    )
    environ = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": "/dev/null/a"}
    environ.pop("PYTHONWARNINGS", None)
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert completed.stderr.count("\n") == 1
    assert "set NUMBA_CACHE_DIR" in completed.stderr


def test_who_listens_is_told_once_that_something_is_compiled() -> None:
    calls: list[str] = []
    before_compiling[:] = [lambda: calls.append("compiling")]
    assert (typed("x + 1")(1), typed("x + 2")(1)) == (2, 3)
    assert calls == ["compiling"]


def typed(text: str) -> Any:
    """A function without a file, as one that is typed into a shell."""
    names: dict[str, object] = {"__name__": "typed"}
    exec(f"def f(x):\n    return {text}\n", names)  # noqa: S102 - a function of a test's own
    function = names["f"]
    assert callable(function)
    return compiled(function)


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


def test_a_compiled_function_calls_others_by_name() -> None:
    assert halves(np.arange(5.0)) == 5.0
    assert half.__doc__ == "The half of a value."


def test_a_loss_is_called_by_its_address_from_compiled_functions_alone() -> None:
    labels, numbers = np.zeros(1, np.float32), np.zeros(1)
    with pytest.raises(TypeError, match="call_kernel is for compiled functions"):
        call_kernel(1, numbers, labels, labels, numbers, numbers, numbers)


def test_numba_is_imported_by_the_first_call_and_no_sooner() -> None:
    code = (
        "import sys; from owpc_ltr.kernels import kernel, pairs; "
        "from owpc_ltr.data.letor import kernel; import owpc_ltr_losses.owpc; "
        "before = 'numba' in sys.modules; pairs.logistic.outer; "
        "print(before, 'numba' in sys.modules)"
    )
    assert printed_by(code) == "False True\n"


def test_threads_that_begin_together_get_one_result() -> None:
    function = typed("x + 1")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(function, [1] * 8)) == [2] * 8


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
            patch.setattr(parquet, "SMALL", cells)
            patch.setattr(parquet, "SMALL", cells)
            sums, infinite = column_sums(matrix.view(np.uint32))
            rows = np.empty_like(matrix)
            transpose_into(rows, turned)
        results.append((sums.tolist(), infinite, rows.tobytes()))
    assert results[0] == results[1]
    assert results[0][1] == bool(np.isinf(matrix).any())
    assert results[0][2] == matrix.tobytes()
