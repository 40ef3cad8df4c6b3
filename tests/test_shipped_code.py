"""Code that comes with the package: used where it fits, and compiled anew where it does not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from owpc_ltr.compiling.baseline import BASELINES, baseline_for, baselines_of
from owpc_ltr.compiling.places import as_imported

BASELINE = baseline_for(platform.machine())
pytestmark = pytest.mark.skipif(not BASELINE, reason="no wheels are compiled for this machine")

CALLEE = """
from owpc_ltr.compiling import compiled

@compiled
def share(value, parts):
    if parts < 0:
        raise ValueError("fewer parts than none")
    return value / parts * 1.0
"""
CALLER = """
from owpc_ltr.compiling import compiled, intrinsic
from folder.callee import share

@intrinsic
def halved(_typing, _value):
    from llvmlite import ir
    from numba import types

    def codegen(_context, builder, _signature, arguments):
        return builder.fmul(arguments[0], ir.Constant(ir.DoubleType(), 0.5))

    return types.float64(types.float64), codegen

@compiled(fastmath={"reassoc", "contract"})
def total(values):
    total = 0.0
    for value in values:
        total += halved(share(value, 3))
    return total
"""
BY_ADDRESS = """
import ctypes
from owpc_ltr.compiling import compiled_address
from folder.callee import share

def sixth(value):
    return share(value, 6)

def call(value):
    from numba import types
    made = compiled_address(sixth, types.float64(types.float64))
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(made.address)(value)
"""
RUN = """
import json, sys
exec(sys.argv[1])
import numpy as np
from folder.by_address import call
from folder.caller import total
from owpc_ltr.compiling.work import WORK, Listener

made = []
with WORK.listening(Listener(made=made.append)):
    values = [float(total(np.arange(101.0))).hex(), float(call(2.0)).hex()]
print(json.dumps([values, sorted(one.name for one in made), WORK.shipped, WORK.kept]))
"""
ALL = ["folder.by_address.sixth", "folder.callee.share", "folder.callee.share"]
ALL += ["folder.caller.total"]


class Ran(NamedTuple):
    """What a process computed, compiled and found, whether it is kept, and what it said."""

    values: list[str]
    made: list[str]
    shipped: int
    kept: bool
    said: str


def ran(folder: Path, before: str = "", **environ: str) -> Ran:
    names = ("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
    known = {name: value for name, value in os.environ.items() if name not in names}
    ended = subprocess.run(
        [sys.executable, "-c", RUN, before],
        cwd=folder,
        env={**known, "XDG_CACHE_HOME": str(folder / "cache"), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    values, made, shipped, kept = json.loads(ended.stdout)
    return Ran(values, made, shipped, kept, ended.stderr)


def write_package(folder: Path) -> None:
    inside = folder / "folder"
    inside.mkdir(parents=True)
    for name, text in (("callee", CALLEE), ("caller", CALLER), ("by_address", BY_ADDRESS)):
        inside.joinpath(f"{name}.py").write_text(text)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was compiled for a wheel, in a folder that nobody has afterwards."""
    code, sources = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("sources")
    write_package(sources)
    made = ran(
        sources,
        "from owpc_ltr.compiling.places import leave_out_folders; leave_out_folders()",
        OWPC_LTR_SHIP_TO=str(code),
        NUMBA_CPU_NAME=BASELINE,
        NUMBA_CPU_FEATURES="",
    )
    assert (made.made, made.shipped, made.kept) == (ALL, 0, True)
    assert not any(str(sources).encode() in one.read_bytes() for one in code.iterdir())
    assert not any(sys.prefix.encode() in one.read_bytes() for one in code.iterdir())
    shutil.rmtree(sources)
    return code


@pytest.fixture
def installed(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package somewhere else, with the shipped code as a wheel brings it."""
    write_package(tmp_path)
    shutil.copytree(built, tmp_path / "code")
    monkeypatch.setenv("OWPC_LTR_SHIPPED", str(tmp_path / "code"))
    return tmp_path


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What code that is compiled here comes to."""
    folder = tmp_path_factory.mktemp("here")
    write_package(folder)
    here = ran(folder, OWPC_LTR_SHIPPED="")
    assert (here.made, here.shipped) == (ALL, 0)
    return here.values


def test_shipped_code_is_used_elsewhere_and_nothing_is_compiled(
    installed: Path, values: list[str]
) -> None:
    """By a name, by an address, with an instruction of our own; sums to the documented digits."""
    found = ran(installed)
    assert (found.made, found.shipped, found.said) == ([], 2, "")
    assert [float.fromhex(one) for one in found.values] == pytest.approx(
        [float.fromhex(one) for one in values], rel=1e-12
    )
    assert not (installed / "cache").exists()
    assert not list(installed.rglob("*.nbi"))


def test_who_wants_no_shipped_code_has_it_compiled_here(installed: Path, values: list[str]) -> None:
    found = ran(installed, OWPC_LTR_SHIPPED="")
    assert (found.values, found.made, found.shipped) == (values, ALL, 0)


def test_shipped_code_whose_callee_has_changed_in_another_file_is_not_used(
    installed: Path, values: list[str]
) -> None:
    callee = installed / "folder" / "callee.py"
    callee.write_text(CALLEE.replace("parts * 1.0", "parts * 4.0"))
    found = ran(installed)
    assert (found.made, found.shipped, found.said) == (ALL, 0, "")
    assert [float.fromhex(one) for one in found.values] == pytest.approx(
        [4 * float.fromhex(one) for one in values], rel=1e-12
    )


def test_shipped_code_with_an_intrinsic_that_has_changed_is_not_used(
    installed: Path, values: list[str]
) -> None:
    caller = installed / "folder" / "caller.py"
    caller.write_text(CALLER.replace("ir.DoubleType(), 0.5", "ir.DoubleType(), 1.0"))
    found = ran(installed)
    assert (found.made, found.shipped) == (["folder.caller.total"], 2)
    assert float.fromhex(found.values[0]) == pytest.approx(2 * float.fromhex(values[0]), rel=1e-12)


def test_shipped_code_of_another_numba_is_not_used(installed: Path, values: list[str]) -> None:
    found = ran(installed, "import numba; numba.__version__ = '0.0.0'")
    assert (found.values, found.made, found.shipped, found.said) == (values, ALL, 0, "")


def test_each_thing_that_code_depends_on_gives_its_file_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import llvmlite
    import numba

    from owpc_ltr.compiling.shipped import _Files

    def name(of: str = "module.f", stamp: str = "1", key: str = "", baseline: str = "a") -> Path:
        return _Files(tmp_path, of, stamp)._path(key, baseline)

    names = [name(), name("module.g"), name(stamp="2"), name(key="int64"), name(baseline="b")]
    for module, attribute in ((llvmlite, "__version__"), (numba, "__version__")):
        with monkeypatch.context() as patch:
            patch.setattr(module, attribute, "0.0.0")
            names.append(name())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "implementation", SimpleNamespace(cache_tag="cpython-30"))
        names.append(name())
    assert len(set(names)) == len(names) == 8
    assert name() == names[0]


@pytest.mark.skipif(BASELINE == "generic", reason="every processor of this kind runs it")
def test_a_host_without_an_instruction_of_the_baseline_compiles_for_itself(
    installed: Path, values: list[str]
) -> None:
    features = ",".join(f"+{name}" for name in _needed(BASELINE) - {"avx2"})
    found = ran(installed, NUMBA_CPU_FEATURES=f"{features},-avx2")
    assert (found.made, found.shipped, found.said) == (ALL, 0, "")
    assert [float.fromhex(one) for one in found.values] == pytest.approx(
        [float.fromhex(one) for one in values], rel=1e-12
    )


def test_damaged_shipped_code_is_not_run(installed: Path, values: list[str]) -> None:
    """Cut short, empty, or another byte in the midst of what the processor would run."""
    for number, path in enumerate(sorted((installed / "code").iterdir())):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes((bytes(content), bytes(content[:-1]), b"")[number % 3])
    found = ran(installed)
    assert (found.values, found.made, found.shipped, found.said) == (values, ALL, 0, "")


def test_code_that_holds_for_one_process_is_never_shipped(tmp_path: Path) -> None:
    """A function as an argument is told from others by its address."""
    from numba import njit, types

    from owpc_ltr.compiling.shipped import ShippedShelf

    def called(value: float) -> float:
        return value

    class Codegen:
        def magic_tuple(self) -> tuple[str, str, str]:
            return "x86_64-unknown-linux-gnu", "x86-64-v3", ""

    shelf = ShippedShelf(called, tmp_path, "stamp")
    plain = shelf._index_key((types.float64,), Codegen())
    assert plain[1] == ["x86-64-v3"]
    key = shelf._index_key((types.Dispatcher(njit(called)),), Codegen())
    assert key[1] == []
    with pytest.raises(OSError, match="one process"):
        shelf._cache_file.save(key, "code")
    assert list(tmp_path.iterdir()) == []


def _needed(baseline: str) -> frozenset[str]:
    return next(known[baseline] for known in BASELINES.values() if baseline in known)


def test_a_baseline_fits_a_host_that_has_all_of_its_instructions() -> None:
    x86, arm = "x86_64-unknown-linux-gnu", "arm64-apple-darwin24.0"
    needed = _needed("x86-64-v3")
    all_of_it = ",".join(f"+{name}" for name in needed)
    assert baselines_of(x86, "znver4", f"{all_of_it},+sse4a,-xop") == ["x86-64-v3"]
    for missing in needed:
        less = ",".join(f"{'-' if name == missing else '+'}{name}" for name in needed)
        assert baselines_of(x86, "znver4", less) == []
    assert baselines_of(x86, "generic", "") == []
    assert baselines_of(x86, "x86-64-v3", "") == ["x86-64-v3"]
    assert baselines_of(arm, "apple-m1", "") == ["generic"]
    assert baselines_of("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon,+sve") == ["generic"]
    assert baselines_of("riscv64-unknown-linux-gnu", "generic", "+v") == []


def test_machines_are_known_by_the_names_that_systems_give_them() -> None:
    assert {baseline_for(name) for name in ("x86_64", "AMD64")} == {"x86-64-v3"}
    assert {baseline_for(name) for name in ("aarch64", "arm64", "ARM64")} == {"generic"}
    assert {baseline_for(name) for name in ("i686", "ppc64le", "")} == {""}


@pytest.mark.skipif(BASELINE != "x86-64-v3", reason="LLVM names the features of its host alone")
def test_llvm_knows_every_instruction_set_that_the_baseline_names() -> None:
    """One that it names otherwise would keep shipped code from every host."""
    from llvmlite.binding import get_host_cpu_features

    assert _needed("x86-64-v3") <= get_host_cpu_features().keys()


def test_places_are_told_from_where_imports_begin() -> None:
    assert as_imported(str(Path(json.__file__))) == "json/__init__.py"
    assert as_imported("<ipython-input-1>") == "<ipython-input-1>"
