"""The whole demo, small, on the real node."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.api.judgments import read_judgments
from owpc_ltr.data.parquet import read_dataset
from owpc_ltr.demo.corpus import index_body, read_corpus
from owpc_ltr.demo.files import write_files
from owpc_ltr.demo.main_job import go_on_with
from owpc_ltr.demo.narration import Silent
from owpc_ltr.demo.preparing import featureset_file
from owpc_ltr.demo.walk import INDEX, STEPS, DemoOptions, Walk
from owpc_ltr.engine.deployment.aliases import Aliases
from owpc_ltr.engine.http.client import connect
from owpc_ltr.engine.store.plugin_free import PluginFreeStore
from owpc_ltr.evaluation.evaluate import measure, model_data
from owpc_ltr.features.loading import load_featureset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel, load_model

pytestmark = pytest.mark.node


class Listening(Silent):
    """Keeps the steps and lines that it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.lines: list[str] = []

    def step(self, number: int, total: int, _title: str) -> None:
        self.steps.append((number, total))

    def line(self, text: str = "") -> None:
        self.lines.append(text)


def test_the_demo_goes_all_the_way_and_its_figures_can_be_had_again(
    node_url: str, tmp_path: Path
) -> None:
    heard = Listening()
    (tmp_path / "demo").mkdir()
    walk = Walk(DemoOptions(folder=tmp_path / "demo", queries=200), heard)
    engine = connect(node_url)
    walk.figures["seconds"]["node"] = 0.0
    go_on_with(walk, engine)

    figures = walk.figures
    assert heard.steps == [(number, STEPS) for number in range(2, STEPS + 1)]
    assert figures["pairs"] > 5_000
    assert figures["upload"]["parity"]["largest_difference"] <= 1e-5
    assert 0.3 < figures["pool_recall"] < 1.0
    assert set(figures["contest"]["rankers"]) == {
        "OWPC (linear)",
        "OWPC, fewer features",
        "trees of 20 pairs",
        "BM25, tuned",
        "LambdaMART",
        "BM25, untuned",
    }
    assert (
        Aliases(engine, PluginFreeStore(engine)).resolve("python-docs-owpc")
        == figures["upload"]["model"]
    )
    assert figures["upload_trees"]["parity"]["scored_by"] == "engine"
    assert figures["upload_trees"]["parity"]["largest_difference"] <= 1e-5
    assert any("it runs inside the engine" in line for line in heard.lines)
    assert figures["live_trees"]["n_queries"] == figures["live"]["n_queries"]
    assert json.loads((tmp_path / "demo" / f"{INDEX}-bm25.json").read_text())["multi_match"]

    cheaper = figures["cheaper"]
    assert cheaper["gain_kept"] >= 0.95
    fewer = load_model(tmp_path / "demo" / f"{INDEX}-owpc-fewer.json")
    assert isinstance(fewer, LinearModel)
    names = np.array(fewer.feature_names)
    assert names[fewer.weights != 0].tolist() == cheaper["kept"]
    assert set(cheaper["milliseconds"]) == {"none", "all", "fewer"}
    enough = [step for step in cheaper["path"] if step["worth"] >= 0.95]
    # Of equally cheap ones that with the fewest features.
    chosen = min(enough, key=lambda step: (step["milliseconds"], step["features"]))
    assert chosen["features"] == len(cheaper["kept"])

    # What `owpc-ltr evaluate` prints for the files that the demo leaves.
    model = load_model(tmp_path / "demo" / f"{INDEX}-owpc.json")
    held_out, side = model_data(model, read_dataset(tmp_path / "demo" / f"{INDEX}.parquet"))
    assert side == "test"
    (again,) = measure(model.score(held_out.features), held_out, [parse_metric("ndcg@10")])
    told = figures["contest"]["rankers"]["OWPC (linear)"]["ndcg@10"]
    assert again.mean == pytest.approx(told)
    assert figures["contest"]["queries"] == held_out.n_queries


def test_the_demos_files_are_those_that_it_walks_with(node_url: str, tmp_path: Path) -> None:
    engine = connect(node_url)
    heard = Listening()
    files = write_files(engine, tmp_path, 100, heard)
    lines, corpus = files.corpus.read_text().splitlines(), read_corpus()
    assert len(lines) == files.documents == len(corpus)
    assert [json.loads(line)["id"] for line in lines] == [one.id for one in corpus]
    assert json.loads(files.settings.read_text()) == index_body()
    assert load_featureset(files.featureset) == load_featureset(featureset_file())
    old, new = (read_judgments(path) for path in (files.judgments, files.new_judgments))
    assert (len(old.queries), len(new.queries)) == (files.queries, files.new_queries)
    asked = [{query.query_id for query in part.queries} for part in (old, new)]
    assert not asked[0] & asked[1]
    assert len(asked[1]) == (len(asked[0]) + len(asked[1])) // 5 > 0
    known = {json.loads(line)["id"] for line in lines}
    assert {one for query in old.queries for one in query.document_ids} <= known
    assert all(str(path) in "".join(heard.lines) for path in tmp_path.iterdir())
    # Nothing is left in the node: whoever walks the road makes the index.
    assert "python-docs-candidates" not in engine.request("GET", "/_all/_mapping")
