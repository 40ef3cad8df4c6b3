"""A group of options is what its options are, spelt out one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from owpc_ltr.cli.groups import grouped

Number = Annotated[int, typer.Option("--number", "-n", min=1, help="How many.")]
Name = Annotated[str, typer.Option(help="What it is called.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be repeated.")]
WORDS: list[list[str]] = [
    ["--help"],
    [],
    ["x"],
    ["x", "--name", "a"],
    ["x", "--name", "a", "-n", "3", "--tag", "p", "--tag", "q", "--loud"],
    ["x", "--name", "a", "-n", "0"],
    ["x", "--name", "a", "--amount", "2"],
]


@dataclass(frozen=True)
class Amount:
    amount: Number = 2
    tags: Tags = None


@dataclass(frozen=True)
class Named:
    name: Name
    how_much: Amount


def answer(command: Callable[..., None], words: list[str]) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(command)
    result = CliRunner().invoke(app, words, prog_name="it")
    return result.exit_code, result.output


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_group_is_its_options_spelt_out(words: list[str]) -> None:
    def spelt_out(
        file: str, *, name: Name, amount: Number = 2, tags: Tags = None, loud: bool = False
    ) -> None:
        """Do it."""
        print(file, name, amount, tags, loud)

    @grouped
    def in_groups(file: str, *, named: Named, loud: bool = False) -> None:
        """Do it."""
        more = named.how_much
        print(file, named.name, more.amount, more.tags, loud)

    assert answer(in_groups, words) == answer(spelt_out, words)


def test_the_wanted_words_were_not_all_refused() -> None:
    @grouped
    def command(file: str, *, named: Named) -> None:
        print(named)

    wanted = "Named(name='a', how_much=Amount(amount=3, tags=['p']))\n"
    assert answer(command, ["x", "--name", "a", "-n", "3", "--tag", "p"]) == (0, wanted)


def test_two_groups_with_one_name_are_refused_at_once() -> None:
    def command(*, one: Amount, amount: Number = 1) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'amount'"):
        grouped(command)


def test_every_command_gives_each_option_once() -> None:
    """Two options of one spelling would shadow each other in silence."""
    from owpc_ltr.cli.app import app

    def commands(command: Any) -> list[Any]:
        return [
            command,
            *(one for c in getattr(command, "commands", {}).values() for one in commands(c)),
        ]

    for command in commands(typer.main.get_command(app)):
        spellings = [text for option in command.params for text in option.opts]
        assert len(spellings) == len(set(spellings)), command.name
