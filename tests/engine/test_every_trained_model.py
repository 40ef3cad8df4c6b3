"""Every kind of model that `train` writes: uploaded to a node, whose searches give its scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.models.model_file import load_scoring_model
from tests.commands import Run, commands_in
from tests.engine.small_cluster import WORDS, Small, small_cluster

pytestmark = pytest.mark.node
FEW = ("--optimizer", "boosting", "--set", "optimizer.trees=12", "--set", "optimizer.depth=3")
KINDS = {
    "linear": (),
    "as-it-is": ("--normalise", "none"),
    "gradient": ("--loss", "listnet", "--optimizer", "gradient"),
    "adarank": ("--optimizer", "adarank"),
    "coordinate": ("--optimizer", "coordinate-ascent"),
    "rankboost": ("--optimizer", "rankboost"),
    "piecewise": ("--piecewise-linear",),
    "network": ("--loss", "listnet", "--optimizer", "gradient", "--set", "optimizer.model=network"),
    "pairs": ("--optimizer", "boosting", "--set", "optimizer.interactions=2"),
    "deep": FEW,
    "no-missing": (*FEW, "--missing", "zero"),
    "cheap": ("--feature-cost", "costs.json", "--feature-price", "0.01"),
    "cheap-trees": (*FEW, "--feature-cost", "costs.json", "--feature-price", "0.01"),
    "cheap-curves": (
        "--piecewise-linear",
        "--feature-cost",
        "costs.json",
        "--feature-price",
        "0.01",
    ),
}
CLIENT = {"network", "mixed"}
"""Those that no engine without the plugin can run; what trees do depends on their size."""


@pytest.fixture(scope="module")
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url, documents=120) as made:
        yield made


@pytest.fixture(scope="module")
def folder(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that was logged on the node, and what features cost: the best one is dear."""
    found = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(3)
    lines = ["query_id,keywords,document_id,grade"]
    for number in range(40):
        keywords = " ".join(rng.choice(WORDS, 2, replace=False))
        for document in rng.choice(120, 15, replace=False):
            found_document = small.engine.request("GET", f"/{small.index}/_doc/d{document}")
            text, size = found_document["_source"]["title"], found_document["_source"]["size"]
            worth = sum(word in text for word in keywords.split()) + 0.2 * size + rng.normal(0, 0.3)
            lines.append(f"q{number},{keywords},d{document},{int(np.clip(worth, 0, 3))}")
    (found / "judgments.csv").write_text("\n".join(lines) + "\n")
    (found / "costs.json").write_text(json.dumps({"title": 0.1, "body": 9.0, "size": 0.1}))
    cluster = ltr.connect(
        small.engine.settings.url, store=small.name.removeprefix("m-"), store_kind="plugin-free"
    )
    cluster.log_features(
        judgments=found / "judgments.csv", out=found / "data.parquet", featureset="small",
        index=small.index,
    )  # fmt: skip
    return found


@pytest.fixture
def run(
    small: Small, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    made = commands_in(folder, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    return made


def done(run: Run, *words: str) -> str:
    code, out, err = run(*words)
    assert code == 0, err
    return out


def served(run: Run, small: Small, name: str, *ranking: str) -> dict[str, object]:
    """A search for judged documents: its scores are those of the local model, and its order."""
    place = ("--store", small.name.removeprefix("m-"), "--store-kind", "plugin-free")
    data = load_dataset(Path("data.parquet"))
    assert data.query_params is not None
    assert data.document_ids is not None
    keywords = json.loads(data.query_params[0].as_py())["keywords"]
    query = {"bool": {"must": {"match_all": {}}, "filter": {"ids": {"values": [
        one.as_py() for one in data.document_ids[: int(data.offsets[1])]]}}}}  # fmt: skip
    Path("query.json").write_text(json.dumps(query))
    out = done(run, "search", keywords, "--index", small.index, "--query-template", "query.json",
               "--size", "15", "--json", *ranking, *place)  # fmt: skip
    found: dict[str, object] = json.loads(out)
    hits = found["after"]
    assert isinstance(hits, list)
    rows = {one.as_py(): n for n, one in enumerate(data.document_ids[: int(data.offsets[1])])}
    model = load_scoring_model(Path(f"{name}.json"))
    local = model.score(data.features[: int(data.offsets[1])])
    remote = np.array([hit["score"] for hit in hits])
    wanted = local[[rows[hit["document_id"]] for hit in hits]]
    assert len(hits) == len(rows) == 15
    assert np.all(np.abs(remote - wanted) <= 1e-5 * np.maximum(1, np.abs(wanted)))
    assert np.all(np.diff(wanted) <= 1e-5)
    assert len(np.unique(np.round(local, 6))) > 3
    return found


def uploaded(run: Run, small: Small, name: str) -> dict[str, object]:
    place = ("--store", small.name.removeprefix("m-"), "--store-kind", "plugin-free")
    told = json.loads(done(
        run, "upload", f"{name}.json", "--name", f"{small.name}-{name}", "--index", small.index,
        "--budget", "10s", "--json", *place,
    ))  # fmt: skip
    assert told["parity"]["largest_difference"] <= 1e-5
    model: dict[str, object] = served(run, small, name, "--model", f"{small.name}-{name}")
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_model_scores_in_the_cluster_as_it_does_here(
    kind: str, run: Run, small: Small
) -> None:
    done(run, "train", "data.parquet", "--out", f"{kind}.json", *KINDS[kind])
    found = uploaded(run, small, kind)
    if kind not in {"deep", "no-missing", "cheap-trees"}:
        assert found["scored_by"] == ("client" if kind in CLIENT else "engine")
    if kind.startswith("cheap"):
        assert "body" not in load_scoring_model(Path(f"{kind}.json")).record["feature_cost"]["kept"]


@pytest.mark.parametrize("kind", ["average", "mixed"])
def test_an_average_scores_in_the_cluster_as_it_does_here(
    kind: str, run: Run, small: Small
) -> None:
    other = ("--piecewise-linear",) if kind == "mixed" else ("--optimizer", "gradient")
    done(run, "train", "data.parquet", "--out", "one.json")
    done(run, "train", "data.parquet", "--out", "other.json", *other)
    done(run, "average", "one.json", "other.json", "--out", f"{kind}.json")
    found = uploaded(run, small, kind)
    assert found["scored_by"] == ("client" if kind in CLIENT else "engine")


def test_a_reranker_reorders_a_search_and_is_not_uploaded(run: Run, small: Small) -> None:
    done(run, "train", "data.parquet", "--out", "base.json")
    done(run, "train-reranker", "data.parquet", "--reranker", "exchangeable", "--base", "base.json",
         "--out", "reranker.json")  # fmt: skip
    code, _, err = run("upload", "reranker.json", "--index", small.index,
                       "--store", small.name.removeprefix("m-"))  # fmt: skip
    assert code in {3, 5}
    assert "--reranker" in err
    place = ("--store", small.name.removeprefix("m-"), "--store-kind", "plugin-free")
    found = json.loads(done(run, "search", "alpha beta", "--index", small.index, "--reranker",
                            "reranker.json", "--json", *place))  # fmt: skip
    assert found["reordered"]
