"""What `--help` shows: whole lines, in the order of the road."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from owpc_ltr.cli.app import app

GROUP = typer.main.get_command(app)


def groups(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        yield words
        for name, child in command.commands.items():
            yield from groups(child, (*words, name))


def listed(words: tuple[str, ...]) -> list[tuple[str, str]]:
    env = {"COLUMNS": "80"}
    told = CliRunner().invoke(app, [*words, "--help"], prog_name="owpc-ltr", env=env).stdout
    return re.findall(
        r"^  (\S+) +(\S.*)$", told.partition("Show this message and exit.\n")[2], re.MULTILINE
    )


@pytest.mark.parametrize("words", list(groups(GROUP)), ids=" ".join)
def test_the_summary_of_every_command_fits_its_line(words: tuple[str, ...]) -> None:
    rows = listed(words)
    assert rows
    for name, summary in rows:
        assert not summary.endswith("..."), name
        assert len(name) + len(summary) <= 76


def test_commands_stand_in_the_order_of_the_road() -> None:
    names = [name for name, _ in listed(())]
    road = ["engine", "index", "featureset", "log-features", "train", "evaluate", "upload",
            "search"]  # fmt: skip
    assert [name for name in names if name in road] == road
    assert set(names) == set(GROUP.list_commands(typer.Context(GROUP)))  # type: ignore[attr-defined]


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout
