"""Commands on a cluster take plugins from files: rerankers in search, metrics in upload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from owpc_ltr.training.train_reranker import train_reranker
from tests.commands import Run, commands_in
from tests.engine.deployed import logged_dataset
from tests.engine.small_cluster import FEATURESET, Small, linear, small_cluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RERANKER = EXAMPLES / "owpc-ltr-list-range" / "list_range.py"
METRIC = EXAMPLES / "owpc-ltr-success" / "success.py"


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


@pytest.fixture
def run(
    small: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    command = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    return lambda *words: command(*words, "--store", small.name.removeprefix("m-"))


def test_a_search_is_reordered_by_a_reranker_that_is_a_file(run: Run, small: Small) -> None:
    base = LinearModel(FEATURESET.feature_names, linear().weights)
    reordering = train_reranker(
        logged_dataset(small),
        base=base,
        reranker="list-range",
        settings={"penalty": 0.1},
        plugins=[RERANKER],
        validation_share=0,
        test_share=0,
    )
    save_model(reordering, Path("reordering.json"))
    asked = ("search", "alpha gamma", "--index", small.index, "--reranker", "reordering.json")
    code, _, err = run(*asked)
    assert code == 2
    assert "no reranker is named 'list-range'" in err
    code, out, err = run(*asked, "--plugin", str(RERANKER), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["reordered"]


def test_a_gain_is_measured_by_a_metric_that_is_a_file(run: Run, small: Small) -> None:
    assert not any(found.name == "success" for found in load().all("metric"))
    save_dataset(logged_dataset(small), Path("data.parquet"))
    save_model(linear((0.0, 1.0, -1.0)), Path("poor.json"))
    save_model(linear((2.0, 0.0, 0.2)), Path("good.json"))
    at = ("--index", small.index, "--featureset", "small", "--name", small.name)
    assert run("upload", "poor.json", *at)[0] == 0
    gain = ("--require-gain", "success@1,relevant-above=2", "--data", "data.parquet",
            "--accept-unproven", "documents at random")  # fmt: skip
    code, _, err = run("upload", "good.json", *at, *gain)
    assert code == 2
    assert "success" in err
    code, out, err = run("upload", "good.json", *at, *gain, "--plugin", str(METRIC))
    assert code == 0, err
    assert "gain in success@1,relevant-above=2 over " in out
