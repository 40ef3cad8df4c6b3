"""A standard output that is full, and an input that goes: one line tells of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.commands import Run, commands_in


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    rows = "".join(
        f"{label} qid:{q} 1:{label + q} # d{label}\n" for q in range(5) for label in (0, 1)
    )
    (tmp_path / "data.txt").write_text(rows)
    save_model(LinearModel(("1",), np.array([1.0])), tmp_path / "m.json")
    return commands_in(tmp_path, monkeypatch, capsys)


FULL = Path("/dev/full")


@pytest.mark.faults(sample=2)
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        ("plugins",),
        ("plugins", "--json"),
        ("--help",),
        ("average", "m.json", "m.json", "--out", "a.json"),
        ("average", "m.json", "m.json", "--out", "-"),
        ("evaluate", "m.json", "--data", "data.txt", "--split", "all", "--run", "-"),
    ],
)
def test_a_full_standard_output_is_one_line_and_exit_4(
    tmp_path: Path, run: Run, words: tuple[str, ...]
) -> None:
    program = "from owpc_ltr.cli import main; main()"
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    lines = [line for line in ended.stderr.splitlines() if line.startswith("owpc-ltr:")]
    assert (ended.returncode, len(lines)) == (4, 1), ended.stderr
    assert "standard output could not be written: no space left on device" in lines[0]
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_an_input_that_goes_while_it_is_read_is_one_line(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: Callable[..., Any] = Path.stat

    def gone(path: Path, **options: Any) -> Any:
        contents = checked(path, **options)
        if path.name == "m.json":
            path.unlink()
        return contents

    monkeypatch.setattr(Path, "stat", gone)
    code, out, error = run("average", "m.json", "m.json", "--out", "out.json")
    assert (code, out) == (3, "")
    assert "cannot read the model m.json: No such file or directory" in error
