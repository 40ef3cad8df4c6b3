"""A sample of the faults runs with all tests, the whole when asked, and one cell again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.selection import Selection

FRAME = ("seeds", "selection", "outcomes")
ROOT = Path(__file__).resolve().parents[2]
CELLS = [f"index:reset:{number}" for number in range(100)]
TESTS = """
import pytest

def test_of_no_fault(): ...

@pytest.mark.faults(sample=2)
@pytest.mark.parametrize("cell", ["log:reset:%d" % n for n in range(9)])
def test_cells(cell): assert cell != "log:reset:7"

@pytest.mark.faults
def test_rounds(seeds):
    rounds = list(seeds(sample=3, whole=20))
    print("rounds:", rounds)

@pytest.mark.faults(sample=0)
def test_that_loops_to_its_fault(seeds):
    for seed in seeds(sample=3, whole=20):
        assert seed != 13
"""


def test_the_sample_is_always_the_same_and_part_of_the_whole() -> None:
    sample = Selection().chosen(CELLS, 5)
    assert len(sample) == 5
    assert sample == Selection().chosen(CELLS[::-1], 5)
    assert Selection(whole=True).chosen(CELLS, 5) == set(CELLS)
    assert sample <= Selection().chosen(CELLS, 6)


def test_one_cell_alone_is_chosen_whatever_the_sample() -> None:
    assert Selection(cell="index:reset:42").chosen(CELLS, 0) == {"index:reset:42"}
    assert Selection(cell="index:reset:42#7").chosen(CELLS, 0) == {"index:reset:42"}
    assert Selection(cell="index:reset").chosen(CELLS, 5) == set()


def test_seeds_are_many_in_the_whole_and_one_in_a_replay() -> None:
    assert list(Selection().seeds(sample=3, whole=9)) == [0, 1, 2]
    assert list(Selection(whole=True).seeds(sample=3, whole=9)) == list(range(9))
    assert list(Selection(cell="test_a#8").seeds(sample=3, whole=9)) == [8]


def test_a_misspelt_wish_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="'yes'"):
        Selection.asked({"OWPC_LTR_FAULTS": "yes"})


def run_tests(folder: Path, **environ: str) -> str:
    """What pytest prints of the tests above."""
    (folder / "tests" / "faults").mkdir(parents=True, exist_ok=True)
    (folder / "tests" / "engine").mkdir(exist_ok=True)
    frame = [f"faults/{name}.py" for name in FRAME]
    for name in ("conftest.py", "session_node.py", "engine/lacking.py", *frame):
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests" / "test_small.py").write_text(TESTS)
    kept = {name: value for name, value in os.environ.items() if "OWPC_LTR_FAULTS" not in name}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "tests"]
    done = subprocess.run(
        command, cwd=folder, env=kept | environ, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_run_takes_the_sample_and_prints_lines_that_run_failures_again(tmp_path: Path) -> None:
    sample = run_tests(tmp_path)
    assert "4 passed, 8 deselected" in sample
    assert "rounds: [0, 1, 2]" in sample
    whole = run_tests(tmp_path, OWPC_LTR_FAULTS="all")
    assert "2 failed, 10 passed" in whole
    commands = [line for line in whole.splitlines() if line.startswith("OWPC_LTR_FAULTS_CELL=")]
    assert commands == [
        "OWPC_LTR_FAULTS_CELL='log:reset:7' make test-faults",
        "OWPC_LTR_FAULTS_CELL='test_that_loops_to_its_fault#13' make test-faults",
    ]
    again = run_tests(tmp_path, OWPC_LTR_FAULTS_CELL="test_that_loops_to_its_fault#13")
    assert "1 failed, 1 passed, 10 deselected" in again
    assert commands[1] in again
