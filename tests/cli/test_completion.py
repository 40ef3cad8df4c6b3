"""Completion on the shell: what follows a word, with nothing said beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from owpc_ltr.cli.program import COMPLETION
from owpc_ltr.host.commands import PluginCommands
from tests.commands import Run

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What bash is told for these words, the last of which is being typed."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv(COMPLETION, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["owpc-ltr", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        code, out, err = run()
        assert (code, err) == (0, "")
        return out.split()

    return complete


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert complete("tr") == ["train", "train-reranker"]
    assert "judge" in complete("")
    assert complete("models", "roll") == ["rollback"]
    assert complete("compare", "--unjud") == ["--unjudged"]
    assert complete("compare", "--unjudged", "") == ["zero", "skip", "condensed"]


def test_an_address_that_bash_cuts_at_its_colons_is_one_word(complete: Complete) -> None:
    words = ("search", "red", "--url", "http", ":", "//127.0.0.1", ":", "9", "--model")
    assert complete(*words) == ["--model"]


def test_nothing_is_printed_where_the_user_types(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn() -> PluginCommands:
        return PluginCommands((), ("a plugin failed to load",))

    monkeypatch.setattr("owpc_ltr.cli.app.plugin_commands", warn)
    assert "train" in complete("")


def test_the_script_for_a_shell_is_printed_and_that_is_no_fault(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    code, out, err = run("--show-completion")
    assert (code, err) == (0, "")
    assert COMPLETION in out
