"""Compiled code on disk: up to date with all that it is made of, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from owpc_ltr.compiling import Compiled, compiled, work
from owpc_ltr.compiling.stamp import stamp_of
from owpc_ltr.compiling.work import Listener, Made, Work
from owpc_ltr.host.registry import load
from tests.commands import commands_in

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
from owpc_ltr.compiling.work import WORK, Listener

made = []
with WORK.listening(Listener(made=made.append)):
    value = most(1.0)
print(json.dumps([value, sorted(one.name for one in made), WORK.kept]))
"""
ROOT = Path(__file__).resolve().parents[1]
BOTH = ["folder.callee.more", "folder.caller.most"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "numbers.py").write_text("STEP = 1\n")
    (folder / "callee.py").write_text(CALLEE)
    (folder / "caller.py").write_text(CALLER)
    return folder


def ran(package: Path, **environ: str) -> tuple[float, list[str], bool]:
    """What a process computes, what it has to compile, and whether that is kept."""
    known = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
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


def test_what_was_compiled_is_not_compiled_again(package: Path) -> None:
    assert ran(package) == (2.0, BOTH, True)
    assert ran(package) == (2.0, [], True)


def test_a_change_in_a_callee_of_another_file_is_noticed(package: Path) -> None:
    ran(package)
    (package / "callee.py").write_text(CALLEE.replace("STEP * 1.0", "STEP * 9.0"))
    assert ran(package) == (10.0, BOTH, True)


def test_a_changed_constant_of_another_file_is_noticed(package: Path) -> None:
    ran(package)
    (package / "numbers.py").write_text("STEP = 4\n")
    assert ran(package) == (5.0, BOTH, True)


def test_a_change_that_nothing_depends_on_costs_nothing(package: Path) -> None:
    ran(package)
    (package / "callee.py").write_text(f"# moves every line\n{CALLEE}\ndef other():\n    ...\n")
    assert ran(package) == (2.0, [], True)


def test_code_is_kept_elsewhere_where_its_own_folder_takes_none(package: Path) -> None:
    (package / "__pycache__").write_text("a file in the place of the folder")
    assert ran(package) == (2.0, BOTH, True)
    assert ran(package) == (2.0, [], True)
    assert list((package.parent / "cache" / "owpc-ltr").rglob("*.nbi"))


def test_code_of_an_installation_is_found_where_nothing_can_be_written(package: Path) -> None:
    ran(package)
    nowhere = {"XDG_CACHE_HOME": "/dev/null/cache"}
    assert ran(package, **nowhere) == (2.0, [], True)


def test_what_cannot_be_kept_is_compiled_in_memory(package: Path) -> None:
    assert ran(package, NUMBA_CACHE_DIR="/dev/null/numba") == (2.0, BOTH, False)


def test_a_command_says_in_one_line_that_nothing_is_kept() -> None:
    code = (
        "import sys; from owpc_ltr.cli import main; from owpc_ltr.compiling.work import WORK; "
        "WORK.begin('a'); WORK.end('a', ''); sys.argv = ['owpc-ltr', '--version']; main()"
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
    assert stamp_of(one.function, {}) == stamp_of(altered("x + 1").function, {})
    others = [stamp_of(altered(text).function, {}) for text in ("x + 2", "x - 1", "x in {1, 2}")]
    others.append(stamp_of(one.function, {"fastmath": True}))
    assert len({stamp_of(one.function, {}), *others}) == 5


def test_the_stamp_is_the_same_in_every_process() -> None:
    """Sets have another order in each, and options are sets."""
    code = (
        "from owpc_ltr.compiling.stamp import stamp_of; "
        "from owpc_ltr_optimizers.larank.dual import _process_new as f; "
        "from owpc_ltr.data.letor.kernel import read_lines as g; "
        "print([stamp_of(one.function, {'fastmath': {'nsz', 'contract', 'reassoc'}}) "
        "for one in (f, g)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1


def test_who_listens_is_told_once_that_compiling_takes_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "PATIENCE", 0.0)
    told = threading.Event()
    calls: list[int] = []
    made: list[Made] = []

    def slow() -> None:
        calls.append(1)
        told.set()

    watched = Work()
    with watched.listening(Listener(slow, made.append)):
        watched.begin("outer")
        watched.begin("inner")
        assert told.wait(60)
        watched.end("inner", "folder")
        watched.end("outer", "")
        watched.begin("next")
        watched.end("next", "folder")
    assert calls == [1]
    assert [one.name for one in made] == ["inner", "outer", "next"]
    assert not watched.kept
    assert watched.seconds == pytest.approx(made[1].seconds + made[2].seconds)


def test_what_an_error_ended_does_not_count_for_others() -> None:
    watched = Work()
    watched.begin("broken")
    watched.begin("whole")
    watched.end("whole", "folder")
    watched.begin("caller")
    watched.begin("broken callee")
    watched.end("caller", "folder")
    watched.end("never begun", "folder")
    assert watched.kept


def test_a_warm_up_does_a_job_for_every_plugin_that_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = commands_in(tmp_path, monkeypatch, capsys)("warm-up", "--json")
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
    similarity = "owpc_ltr_rerankers.exchangeable.feature_kernels."
    left = [name for name in told["left"] if not name.startswith(similarity)]
    assert left == ["owpc_ltr.kernels.linear._values_of_block"]
