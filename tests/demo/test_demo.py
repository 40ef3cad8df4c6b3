"""The whole demo, small, on the real node."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from owpc_ltr_demo.corpus import index_body, read_corpus
from owpc_ltr_demo.demo import learn_from_judgments
from owpc_ltr_demo.preparation import featureset_file, log_corpus, write_files
from owpc_ltr_demo.session import (
    INDEX,
    MODEL,
    PROJECT,
    STEPS,
    TREES_MODEL,
    DemoOptions,
    DemoSession,
)

from owpc_ltr import read_dataset, read_judgments
from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.evaluation.judged_data import model_data
from owpc_ltr.evaluation.measurement import values_of
from owpc_ltr.features.feature_set import load_featureset
from owpc_ltr.host.project import PROJECT_FILE, read_project
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.model_file import load_scoring_model
from tests.engine.scripted_plugin import ScriptedPlugin

pytestmark = pytest.mark.thorough


class Listening(DemoSession):
    """Keeps the steps and lines that it is told."""

    def __init__(self, options: DemoOptions) -> None:
        super().__init__(options)
        self.announced: list[int] = []
        self.lines: list[str] = []

    def announce(self, number: int, _title: str) -> None:
        self.announced.append(number)

    def line(self, text: str = "") -> None:
        self.lines.append(text)

    def table(self, *_: object) -> None:
        pass


@pytest.fixture
def engine(node_url: str) -> Iterator[Engine]:
    """The node; the aliases of the demo, which are of one kind of store, are deleted afterwards."""
    engine = open_engine(node_url)
    yield engine
    aliases = Aliases(engine, PluginFreeStore(engine))
    for name in (MODEL, TREES_MODEL):
        if aliases.find(name):
            aliases.delete(name)


def test_the_demo_goes_all_the_way_and_its_figures_can_be_had_again(
    engine: Engine, tmp_path: Path
) -> None:
    session = Listening(DemoOptions(folder=tmp_path, queries=200))
    session.figures["seconds"]["node"] = 0.0
    folder = session.options.folder
    learn_from_judgments(session, log_corpus(session, engine))

    figures = session.figures
    assert session.announced == list(range(2, STEPS + 1))
    assert figures["pairs"] > 5_000
    uploads, live = figures["upload"], figures["live"]
    assert uploads[MODEL]["parity"]["largest_difference"] <= 1e-5
    assert 0.3 < figures["pool_recall"] < 1.0
    assert {ranker["name"] for ranker in figures["comparison"]["rankers"]} == {
        "OWPC (linear)",
        "pairwise-interaction trees",
        "BM25, tuned",
        "LambdaMART",
    }
    assert (
        Aliases(engine, PluginFreeStore(engine)).resolve("python-docs-owpc")
        == uploads[MODEL]["model"]
    )
    assert uploads[TREES_MODEL]["parity"]["scored_by"] == "engine"
    assert uploads[TREES_MODEL]["parity"]["largest_difference"] <= 1e-5
    assert any("it runs inside the engine" in line for line in session.lines)
    assert live[TREES_MODEL]["n_queries"] == live[MODEL]["n_queries"]
    assert json.dumps(figures)
    assert json.loads((folder / f"{INDEX}-bm25.json").read_text())["query"]["multi_match"]

    # What `owpc-ltr evaluate` prints for the files that the demo leaves.
    model = load_scoring_model(folder / f"{INDEX}-owpc.json")
    held_out, side, _ = model_data(model, read_dataset(folder / f"{INDEX}.parquet"))
    assert side == "test"
    (again,) = values_of(model.score(held_out.features), held_out, [parse_metric("ndcg@10")])
    linear = figures["comparison"]["rankers"][0]
    (mean,) = (metric["mean"] for metric in linear["metrics"] if metric["metric"] == "ndcg@10")
    assert again.mean() == pytest.approx(mean)
    assert figures["comparison"]["n_queries"] == held_out.n_queries


def test_the_demo_goes_all_the_way_on_a_node_with_the_plugin(
    plugin_node: tuple[str, ScriptedPlugin], tmp_path: Path
) -> None:
    """Official images bundle it."""
    url, plugin = plugin_node
    session = Listening(DemoOptions(folder=tmp_path, queries=60))
    session.figures["seconds"]["node"] = 0.0
    learn_from_judgments(session, log_corpus(session, open_engine(url)))
    figures = session.figures
    assert len(figures["seconds"]) == STEPS
    models = {name.removeprefix("model-") for name in plugin.stores[""] if name[:6] == "model-"}
    assert models == {figures["upload"][alias]["model"] for alias in (MODEL, TREES_MODEL)}
    for alias in (MODEL, TREES_MODEL):
        parity = figures["upload"][alias]["parity"]
        assert parity["scored_by"] == "engine"
        assert parity["largest_difference"] <= 1e-5
        assert figures["live"][alias]["n_queries"] > 0


def test_the_demos_files_are_those_that_it_walks_with(node_url: str, tmp_path: Path) -> None:
    engine = open_engine(node_url)
    session = Listening(DemoOptions(folder=tmp_path, queries=100))
    file, counts = session.file, write_files(session, engine)
    lines, corpus = file(".jsonl").read_text().splitlines(), read_corpus()
    assert len(lines) == counts["documents"] == len(corpus)
    assert [json.loads(line)["id"] for line in lines] == [document.id for document in corpus]
    assert json.loads(file("-index.json").read_text()) == index_body()
    assert load_featureset(file("-features.json")) == load_featureset(featureset_file())
    old, new = (read_judgments(file(f"-judgments{end}.tsv")) for end in ("", "-new"))
    assert (len(old.queries), len(new.queries)) == (counts["queries"], counts["new_queries"])
    asked = [{query.query_id for query in part.queries} for part in (old, new)]
    assert not asked[0] & asked[1]
    assert len(asked[1]) == (len(asked[0]) + len(asked[1])) // 5 > 0
    known = {json.loads(line)["id"] for line in lines}
    assert {doc_id for query in old.queries for doc_id in query.doc_ids} <= known
    assert all(str(path) in "".join(session.lines) for path in tmp_path.iterdir())
    project = read_project(tmp_path / PROJECT_FILE)
    assert project == {"url": engine.settings.url, **PROJECT}
    assert all((tmp_path / project[key]).is_file() for key in ("judgments", "query_template"))
    page = Path(__file__).parents[2] / "docs" / "start-opensearch.md"
    shown = page.read_text().partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(shown).items() >= PROJECT.items()
    # Nothing is left in the node: the workflow makes the index itself.
    assert "python-docs-candidates" not in engine.request("GET", "/_all/_mapping")
