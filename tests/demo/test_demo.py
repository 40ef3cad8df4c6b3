"""The whole demo, small, on the real node."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from owpc_ltr_clicks.encoding import normalised
from owpc_ltr_clicks.judge_clicks import judge_clicks
from owpc_ltr_clicks.relabelling import relabel_log
from owpc_ltr_demo.corpus import index_body, read_corpus
from owpc_ltr_demo.demo import learn_from_clicks, learn_from_judgments, log_corpus
from owpc_ltr_demo.preparation import featureset_file, write_files
from owpc_ltr_demo.session import (
    CLICKS_STEPS,
    INDEX,
    STEPS,
    DemoOptions,
    DemoSession,
    LoggedFeatures,
)

from owpc_ltr import read_dataset, read_judgments
from owpc_ltr.engine.client.engine import open_engine
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.evaluation.query_choice import model_data
from owpc_ltr.features.feature_set import load_featureset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from tests.engine.scripted_plugin import ScriptedPlugin

pytestmark = pytest.mark.thorough


class Listening(DemoSession):
    """Keeps the steps and lines that it is told."""

    def __post_init__(self) -> None:
        self.announced: list[tuple[int, int]] = []
        self.lines: list[str] = []

    def announce(self, number: int, _title: str) -> None:
        self.announced.append((number, self.steps))

    def line(self, text: str = "") -> None:
        self.lines.append(text)

    def table(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def begun(
    node_url: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Listening, LoggedFeatures]:
    """The steps that both workflows begin with, gone once."""
    session = Listening(DemoOptions(folder=tmp_path_factory.mktemp("demo"), queries=200))
    session.figures["seconds"]["node"] = 0.0
    return session, log_corpus(session, open_engine(node_url))


def gone_on(begun: Listening, steps: int) -> Listening:
    """A walk that goes on from there."""
    session = Listening(begun.options, steps, deepcopy(begun.figures))
    session.announced += [(number, steps) for number, _ in begun.announced]
    return session


def test_the_demo_goes_all_the_way_and_its_figures_can_be_had_again(
    begun: tuple[Listening, LoggedFeatures], node_url: str
) -> None:
    session = gone_on(begun[0], STEPS)
    folder, engine = session.options.folder, open_engine(node_url)
    learn_from_judgments(session, begun[1])

    figures = session.figures
    assert session.announced == [(number, STEPS) for number in range(2, STEPS + 1)]
    assert figures["pairs"] > 5_000
    assert figures["upload"]["parity"]["largest_difference"] <= 1e-5
    assert 0.3 < figures["pool_recall"] < 1.0
    assert {one["name"] for one in figures["comparison"]["rankers"]} == {
        "OWPC (linear)",
        "OWPC, fewer features",
        "pairwise-interaction trees",
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
    assert any("it runs inside the engine" in line for line in session.lines)
    assert figures["live_trees"]["n_queries"] == figures["live"]["n_queries"]
    assert json.loads((folder / f"{INDEX}-bm25.json").read_text())["multi_match"]

    fewer_features = figures["fewer"]
    assert fewer_features["gain_kept"] >= 0.95
    fewer = load_scoring_model(folder / f"{INDEX}-owpc-fewer.json")
    assert isinstance(fewer, LinearModel)
    names = np.array(fewer.feature_names)
    assert names[fewer.weights != 0].tolist() == fewer_features["kept"]
    assert set(fewer_features["milliseconds"]) == {"none", "all", "fewer"}
    enough = [step for step in fewer_features["path"] if step["worth"] >= 0.95]
    # Of equally cheap ones that with the fewest features.
    chosen = min(enough, key=lambda step: (step["milliseconds"], step["features"]))
    assert chosen["features"] == len(fewer_features["kept"])

    # What `owpc-ltr evaluate` prints for the files that the demo leaves.
    model = load_scoring_model(folder / f"{INDEX}-owpc.json")
    held_out, side, _ = model_data(model, read_dataset(folder / f"{INDEX}.parquet"))
    assert side == "test"
    (again,) = measure(model.score(held_out.features), held_out, [parse_metric("ndcg@10")])
    linear = figures["comparison"]["rankers"][0]
    (told,) = (one["mean"] for one in linear["metrics"] if one["metric"] == "ndcg@10")
    assert again.mean == pytest.approx(told)
    assert figures["comparison"]["n_queries"] == held_out.n_queries


def test_the_demo_goes_all_the_way_on_a_node_with_the_plugin(
    plugin_node: tuple[str, ScriptedPlugin], tmp_path: Path
) -> None:
    """Official images bundle it."""
    url, plugin = plugin_node
    begun = Listening(DemoOptions(folder=tmp_path, queries=60))
    begun.figures["seconds"]["node"] = 0.0
    logged = log_corpus(begun, open_engine(url))
    session = gone_on(begun, STEPS)
    learn_from_judgments(session, logged)
    figures = session.figures
    assert len(figures["seconds"]) == STEPS + 1
    models = {name.removeprefix("model-") for name in plugin.stores[""] if name[:6] == "model-"}
    assert models == {figures["upload"]["model"], figures["upload_trees"]["model"]}
    for key in ("upload", "upload_trees"):
        assert figures[key]["parity"]["scored_by"] == "engine"
        assert figures[key]["parity"]["largest_difference"] <= 1e-5
    assert figures["live_trees"]["n_queries"] == figures["live"]["n_queries"] > 0
    clicks = gone_on(begun, CLICKS_STEPS)
    learn_from_clicks(clicks, logged)
    assert f"model-{clicks.figures['upload']['model']}" in plugin.stores[""]


def test_the_demo_goes_from_clicks_to_a_ranker_in_the_engine(
    begun: tuple[Listening, LoggedFeatures], node_url: str
) -> None:
    session = gone_on(begun[0], CLICKS_STEPS)
    folder, engine = session.options.folder, open_engine(node_url)
    learn_from_clicks(session, begun[1])

    figures = session.figures
    assert session.announced == [(number, CLICKS_STEPS) for number in range(2, CLICKS_STEPS + 1)]
    users, told = figures["users"], figures["clicks"]
    read = told["events"]
    assert read["read"] == users["events"] == read["used"] + sum(read["unusable"].values())
    assert np.abs(np.subtract(told["pbm_examination"], told["true_examination"])).max() < 0.12
    assert np.abs(np.subtract(told["true_examination"], 1.0)).max() > 0.5

    # The events that the demo leaves give the judgments that it leaves, which it was trained on.
    again = judge_clicks(folder / f"{INDEX}-events.parquet")
    judged = pq.read_table(folder / f"{INDEX}-clicks.parquet")
    assert again.table.equals(judged)
    sides = read_dataset(folder / f"{INDEX}.parquet").split()
    trained = figures["trained"]["OWPC, from clicks"]
    regraded = relabel_log(sides.training, judged)
    assert trained["documents"] == regraded.data.n_documents
    assert trained["weights_sum"] == pytest.approx(float(regraded.data.weights.sum()))
    assert trained["weights_sum"] < trained["documents"]
    assert sides.test.query_params is not None
    held_out = sides.test.query_params.to_pylist()
    assert not set(judged["query"].to_pylist()) & {
        normalised(json.loads(text)["keywords"]) for text in held_out
    }
    assert figures["trained"]["OWPC, true grades"]["documents"] == sides.training.n_documents

    compared = figures["compare"]
    assert compared["n_queries"] == sides.test.n_queries
    assert compared["split"] == "test"
    assert {pair["b"] for pair in compared["pairs"]} == {"OWPC, from clicks"}
    means = {one["name"]: one["metrics"][0]["mean"] for one in compared["rankers"]}
    assert set(means) == {
        "OWPC, from clicks",
        "OWPC, from raw clicks",
        "OWPC, true grades",
        "BM25, tuned",
        "the application's query",
    }
    assert figures["upload"]["parity"]["largest_difference"] <= 1e-5
    current = Aliases(engine, PluginFreeStore(engine)).resolve("python-docs-clicks")
    assert current == figures["upload"]["model"]


def test_the_demos_files_are_those_that_it_walks_with(node_url: str, tmp_path: Path) -> None:
    engine = open_engine(node_url)
    session = Listening(DemoOptions(folder=tmp_path, queries=100))
    file, counts = session.file, write_files(session, engine)
    lines, corpus = file(".jsonl").read_text().splitlines(), read_corpus()
    assert len(lines) == counts["documents"] == len(corpus)
    assert [json.loads(line)["id"] for line in lines] == [one.id for one in corpus]
    assert json.loads(file("-index.json").read_text()) == index_body()
    assert load_featureset(file("-features.json")) == load_featureset(featureset_file())
    old, new = (read_judgments(file(f"-judgments{end}.tsv")) for end in ("", "-new"))
    assert (len(old.queries), len(new.queries)) == (counts["queries"], counts["new_queries"])
    asked = [{query.query_id for query in part.queries} for part in (old, new)]
    assert not asked[0] & asked[1]
    assert len(asked[1]) == (len(asked[0]) + len(asked[1])) // 5 > 0
    known = {json.loads(line)["id"] for line in lines}
    assert {one for query in old.queries for one in query.doc_ids} <= known
    assert all(str(path) in "".join(session.lines) for path in tmp_path.iterdir())
    # Nothing is left in the node: the workflow makes the index itself.
    assert "python-docs-candidates" not in engine.request("GET", "/_all/_mapping")
