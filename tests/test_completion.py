"""Completion on the shell: what follows a word, with nothing said beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr import make_dataset, save_dataset, save_model
from owpc_ltr.cli.program import COMPLETION
from owpc_ltr.models.linear import LinearModel
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


@pytest.fixture
def files(tmp_path: Path, run: Run) -> None:
    """A dataset of three features and a model of two of them."""
    features = np.random.default_rng(0).normal(size=(40, 3))
    data = make_dataset(features, np.arange(40) % 3, [f"q{n // 10}" for n in range(40)])
    save_dataset(data, tmp_path / "data.parquet")
    save_model(LinearModel(("title", "votes"), np.ones(2)), tmp_path / "model.json")


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert complete("tr") == ["train", "train-reranker"]
    assert "judge" in complete("")
    assert complete("models", "roll") == ["rollback"]
    assert complete("compare", "--unjud") == ["--unjudged"]
    assert complete("compare", "--unjudged", "") == ["zero", "skip", "condensed"]


@pytest.mark.usefixtures("files")
def test_features_are_those_of_the_files_on_the_line(complete: Complete) -> None:
    assert complete("train-reranker", "data.parquet", "--base", "feature:") == [
        "feature:1",
        "feature:2",
        "feature:3",
    ]
    assert complete("compare", "model.json", "fea") == ["feature:title", "feature:votes"]
    both = complete("evaluate", "model.json", "--data", "data.parquet", "--baseline", "f")
    assert set(both) == {f"feature:{name}" for name in ("1", "2", "3", "title", "votes")}
    assert complete("explain", "feature:title") == []


@pytest.mark.usefixtures("files")
def test_bash_gets_what_follows_the_colon_at_which_it_cuts_words(complete: Complete) -> None:
    assert complete("compare", "model.json", "feature", ":") == ["title", "votes"]
    assert complete("compare", "model.json", "feature", ":", "v") == ["votes"]
    # A shell that does not cut there is told the whole word.
    assert complete("compare", "model.json", "feature:v") == ["feature:votes"]


def test_an_address_that_bash_cuts_at_its_colons_is_one_word(complete: Complete) -> None:
    words = ("search", "red", "--url", "http", ":", "//127.0.0.1", ":", "9", "--model")
    assert complete(*words) == ["--model"]


def test_a_damaged_file_on_the_line_is_no_error(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_text("PAR1")
    (tmp_path / "model.json").write_text("{")
    assert complete("compare", "model.json", "--data", "data.parquet", "feature:") == []


def test_the_script_for_a_shell_is_printed_and_that_is_no_fault(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    code, out, err = run("--show-completion")
    assert (code, err) == (0, "")
    assert COMPLETION in out
