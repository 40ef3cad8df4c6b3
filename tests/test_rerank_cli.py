"""Rerankers from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.letor import write_letor
from owpc_ltr.models.model_file import save_model
from tests.commands import Run, commands_in
from tests.list_samples import crowded, weights


def uneven(data: RankingDataset) -> RankingDataset:
    """The queries without the last document of every second one."""
    kept = np.ones(data.n_documents, dtype=bool)
    kept[data.offsets[1::2] - 1] = False
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))[kept]
    ids = np.array(data.query_ids.to_pylist())[rows]
    return make_dataset(
        data.features[kept], data.labels[kept], ids, feature_names=data.feature_names
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs commands where there are data and a base model."""
    # Lists of other lengths: of one shape they would be warned of.
    write_letor(uneven(crowded(60)), tmp_path / "data.txt")
    save_model(weights(1, 0, 0), tmp_path / "base.json")
    return commands_in(tmp_path, monkeypatch, capsys)


def unexpected(err: str) -> list[str]:
    """Warnings but the one that labels disagree with any ranker of single documents: so they do."""
    return [line for line in err.splitlines() if "the labels have the reverse" not in line]


def test_the_command_line_learns_measures_and_compares(run: Run) -> None:
    learn = ("train-reranker", "data.txt", "--reranker", "exchangeable", "--loss", "pairwise")
    settings = ("--set", "reranker.kernels=rbf", "--set", "loss.inner=logistic")
    code, out, err = run(*learn, *settings, "--base", "base.json", "--out", "r.json")
    assert (code, unexpected(err)) == (0, [])
    assert "the base" in out
    assert "chosen: " in out
    measure = ("evaluate", "r.json", "data.txt", "--baseline", "base.json", "--json")
    code, out, _ = run(*measure, "--metric", "ndcg@10")
    assert code == 0
    answer = json.loads(out)
    assert answer["split"] == "test"
    assert answer["comparisons"][0]["mean_difference"] > 0.2
    code, out, _ = run(*learn, *settings, "--base", "feature:1", "--out", "f.json", "--json",
                       "--grid", "penalty=1,0.1")  # fmt: skip
    assert code == 0
    assert [row.get("reranker.penalty") for row in json.loads(out)["table"]] == [None, "1", "0.1"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "--base"),
        (("--base", "base.json", "--optimizer", "larank"), 2, "--optimizer"),
        (("--reranker", "exchangeable", "--base", "no.json"), 3, "no.json"),
        (("--reranker", "nobody", "--base", "base.json"), 2, "no reranker is named 'nobody'"),
        (("--reranker", "exchangeable", "--base", "base.json", "--set",
          "reranker.kernels=same:site"), 3, "--documents FILE"),
    ],
)  # fmt: skip
def test_what_the_command_line_cannot_do_is_one_line(
    words: tuple[str, ...],
    code: int,
    message: str,
    run: Run,
    tmp_path: Path,
) -> None:
    ended, out, err = run(
        "train-reranker", "data.txt", "--loss", "pairwise", "--out", "o.json", *words
    )
    assert (ended, out) == (code, "")
    assert message in err
    assert len(unexpected(err)) == 1
    assert not (tmp_path / "o.json").exists()
