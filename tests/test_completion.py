"""Completion on the shell: what follows a word, in time, and with nothing said beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr import make_dataset, save_dataset, save_model
from owpc_ltr.cli.app import COMMANDS
from owpc_ltr.cli.generator import options_of
from owpc_ltr.cli.program import COMPLETION
from owpc_ltr.host.commands import plugin_commands
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.engine.deployed import put
from tests.engine.small_cluster import Small, linear, small_cluster

Complete = Callable[..., list[str]]
NOBODY = "http://127.0.0.1:9"


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
    assert complete("train", "data.parquet", "--baseline", "") == ["1", "2", "3"]
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


def test_without_a_cluster_nothing_is_offered_and_nothing_is_said(complete: Complete) -> None:
    begun = time.monotonic()
    assert complete("search", "red", "--url", NOBODY, "--index", "") == []
    assert complete("search", "red", "--url", "http", ":", "//127.0.0.1", ":", "9", "--model") == [
        "--model"
    ]
    assert time.monotonic() - begun < 10  # a second of requests; the rest are imports
    assert complete("search", "red", "--url", "ftp://nowhere", "--index", "") == []


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


def test_every_option_that_names_an_index_or_feature_set_completes_it() -> None:
    found = {
        (about.name, option.name): option.names
        for about in (*COMMANDS, *plugin_commands().commands)
        for option in (options_of(about.load())[0] if about.function else ())
        if option.name in {"index", "featureset"} and option.kind is str
    }
    assert len(found) >= 20
    assert all(names == option for (_, option), names in found.items())


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        put(made, linear())
        yield made


def test_names_are_those_that_the_cluster_has(small: Small, complete: Complete) -> None:
    place = ("--url", small.engine.settings.url, "--store-kind", "plugin-free")
    store = ("--store", small.name.removeprefix("m-"))
    assert small.index in complete("search", "red", *place, "--index", "")
    assert complete("profile", *place, *store, "--featureset", "") == ["small"]
    assert complete("featureset", "show", *place, *store, "sm") == ["small"]
    models = complete("search", "red", *place, *store, "--model", small.name)
    assert models == complete("verify", *place, *store, small.name)
    assert models
