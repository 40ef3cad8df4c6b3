"""What the page on operations shows for unattended runs: its plan is read, its script runs."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from owpc_ltr_keep.plan import (
    KeepExperiment,
    KeepGate,
    KeepNotify,
    KeepPlan,
    KeepShadow,
    KeepWatch,
    read_plan,
)

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def blocks(language: str) -> list[str]:
    """The blocks of a language on the page."""
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_plans_of_the_page_are_plans_and_one_sets_every_key(tmp_path: Path) -> None:
    path = tmp_path / "owpc-ltr.toml"
    first, whole = blocks("toml")
    path.write_text(first)
    assert read_plan(path).ubi
    path.write_text(whole)
    plan = read_plan(path)
    assert plan.experiment is not None
    assert plan.train["folds"] == 5
    left_out = {"ubi", "name", "negligible"}
    content = tomllib.loads(whole)
    own = content["keep"]
    plan_keys = {key.name for key in fields(KeepPlan)} - left_out
    assert {*content, *own} - {"keep"} >= plan_keys - {"url"}
    for kind, table in [
        (KeepGate, own["gate"]),
        (KeepShadow, own["shadow"]),
        (KeepExperiment, own["experiment"]),
        (KeepWatch, own["watch"]),
        (KeepNotify, own["notify"]),
    ]:
        assert {key.name for key in fields(kind)} - left_out == set(table), kind


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (5, 0), (3, 3), (4, 4)])
def test_the_script_of_the_workflow_keeps_the_state_and_says_when_to_look(
    tmp_path: Path, code: int, expected: int
) -> None:
    (script,) = re.findall(
        r"^      - run: \|\n((?:          .*\n)+)", blocks("yaml")[0], re.MULTILINE
    )
    remote, folder, programs = (tmp_path / name for name in ("remote", "checkout", "bin"))
    programs.mkdir()
    stub = programs / "owpc-ltr"
    stub.write_text(
        f"#!/bin/sh\nmkdir -p keep\necho {code} >> keep/state.json\n"
        f"echo page > history.html\nexit {code}\n"
    )
    stub.chmod(0o755)
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(tmp_path, "clone", "--quiet", str(remote), str(folder))
    git(folder, "checkout", "--quiet", "-B", "main")
    for who in ("name", "email"):
        git(folder, "config", f"user.{who}", "somebody@example.org")
    (folder / "owpc-ltr.toml").write_text(blocks("toml")[1])
    git(folder, "add", "owpc-ltr.toml")
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
    assert "history.html" not in git(remote, "ls-tree", "-r", "--name-only", "main")
