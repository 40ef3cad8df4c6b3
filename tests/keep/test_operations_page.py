"""What the page on operations shows for unattended runs: its plan is read, its script runs."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from owpc_ltr_keep.plan import read_plan
from owpc_ltr_keep.state import MOST_RESAMPLES, Attempt

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def block(language: str) -> str:
    """The only block of a language on the page."""
    (content,) = re.findall(rf"^```{language}[^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(content)


def test_the_plan_of_the_page_is_a_plan_that_sets_every_table(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(block("toml"))
    plan = read_plan(path)
    assert plan.shadow is not None
    assert plan.experiment is not None
    assert plan.notify.webhook == "OWPC_LTR_WEBHOOK"
    assert plan.train["folds"] == 5


def test_the_page_says_after_how_many_attempts_no_level_is_left() -> None:
    (most,) = re.findall(r"After (\d+) attempts\s+no level is left", PAGE)
    assert Attempt(int(most)).resamples <= MOST_RESAMPLES < Attempt(int(most) + 1).resamples


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (5, 0), (3, 3), (4, 4)])
def test_the_script_of_the_workflow_keeps_the_state_and_says_when_to_look(
    tmp_path: Path, code: int, expected: int
) -> None:
    (script,) = re.findall(r"^      - run: \|\n((?:          .*\n)+)", block("yaml"), re.MULTILINE)
    remote, folder, programs = (tmp_path / name for name in ("remote", "checkout", "bin"))
    programs.mkdir()
    stub = programs / "owpc-ltr"
    stub.write_text(
        f"#!/bin/sh\nmkdir -p keep\necho {code} >> keep/state.json\n"
        f"echo line >> keep/ledger.jsonl\necho page > history.html\nexit {code}\n"
    )
    stub.chmod(0o755)
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(tmp_path, "clone", "--quiet", str(remote), str(folder))
    git(folder, "checkout", "--quiet", "-B", "main")
    for who in ("name", "email"):
        git(folder, "config", f"user.{who}", "somebody@example.org")
    (folder / "plan.toml").write_text(block("toml"))
    git(folder, "add", "plan.toml")
    git(folder, "commit", "--quiet", "-m", "A plan")
    git(folder, "push", "--quiet", "--set-upstream", "origin", "main")
    path = f"{programs}:{os.environ['PATH']}"
    for run in (1, 2):
        done = subprocess.run(
            ["bash", "-e", "-c", textwrap.dedent(script)],
            cwd=folder, env=os.environ | {"PATH": path}, check=False, capture_output=True,
        )  # fmt: skip
        assert done.returncode == expected, done.stderr
        assert git(remote, "show", "main:keep/state.json").split() == [str(code)] * run
        assert git(remote, "show", "main:keep/ledger.jsonl").split() == ["line"] * run
    assert "history.html" not in git(remote, "ls-tree", "-r", "--name-only", "main")
