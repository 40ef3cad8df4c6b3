"""Workflows on a real node: weighted clicks, known items, and the pages' code."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from owpc_ltr import Cluster, connect
from owpc_ltr.data.judgments import machines_among
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.judged_data import UNUSED, judgment_warnings
from owpc_ltr.features.query_analysis import text_scores
from tests.benchmark_scripts import benchmark_script
from tests.commands import Run, commands_in
from tests.engine.ubi_indices import drop
from tests.pages import NEEDS_NODE, PAGES, SAMPLES, blocks_of, run_page, samples_of
from tests.session_node import SessionNode
from tests.simulated_users import simulate

INDEX = "clicked-workflow"
WORLD = simulate.example_world(40, 12)
PLACE = ("--store", "clickedworkflow", "--store-kind", "plugin-free")


def _fill(engine: Engine) -> None:
    """What attracts users stands in a field, with some noise; another field is noise alone."""
    rng = np.random.default_rng(4)
    drop(engine, INDEX)
    engine.request("PUT", f"/{INDEX}", body={"settings": {"number_of_replicas": 0}})
    lines: list[object] = []
    for name, drawn in zip(WORLD.documents, WORLD.attraction.tolist(), strict=True):
        query = name.partition("-")[0].removeprefix("q")
        source = {"title": f"query {query}", "worth": 1 + drawn + rng.normal(0, 0.15),
                  "noise": 1 + rng.uniform()}  # fmt: skip
        lines += [{"index": {"_id": name}}, source]
    path = f"/{INDEX}/_bulk"
    assert not engine.request("POST", path, ndjson=lines, params={"refresh": "true"})["errors"]


def _featureset(path: Path) -> None:
    def by(field: str) -> dict[str, object]:
        factor = {"field_value_factor": {"field": field}, "boost_mode": "replace"}
        return {"name": field, "params": [], "template": {"function_score": factor}}

    words = {
        "name": "title",
        "params": ["keywords"],
        "template": {"match": {"title": "{{keywords}}"}},
    }
    features = [words, by("worth"), by("noise")]
    path.write_text(json.dumps({"featureset": {"name": "clicked", "features": features}}))


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    connected = Engine(ConnectionSettings(node_url))
    _fill(connected)
    yield connected
    for index in (INDEX, "owpc-ltr-store-clickedworkflow"):
        drop(connected, index)


def test_weighted_clicks_go_the_whole_workflow(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run: Run = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", engine.settings.url)

    def done(*words: str) -> tuple[str, str]:
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    pq.write_table(simulate.clicks(WORLD, sessions=3000), "events.parquet")
    done("judge", "clicks", "events.parquet", "--min-people", "1", "--out", "clicks.tsv")
    with Path("clicks.tsv").open(newline="") as file:
        judged = {
            (row["query"], row["doc_id"]): (float(row["grade"]), float(row["weight"]))
            for row in csv.DictReader(file, delimiter="\t")
        }
    _featureset(Path("features.json"))
    done("featureset", "push", "features.json", "--index", INDEX, "--param", "keywords=x", *PLACE)
    done("log-features", "--judgments", "clicks.tsv", "--featureset", "clicked", "--index", INDEX,
         "--out", "data.parquet", *PLACE)  # fmt: skip
    data = load_dataset(Path("data.parquet"))
    assert machines_among(data) == {"clicks": 1.0}
    assert data.document_weights is not None
    assert data.doc_ids is not None
    queries = np.repeat(
        [json.loads(p)["keywords"] for p in (data.query_params or pa.array([])).to_pylist()],
        np.diff(data.offsets),
    ).tolist()
    weighed = zip(queries, data.doc_ids.to_pylist(), strict=True)
    wanted = [judged[pair] for pair in weighed]
    assert np.array_equal(data.labels, [grade for grade, _ in wanted])
    assert np.allclose(data.document_weights, [weight for _, weight in wanted], rtol=1e-6)
    for loss in ("owpc", "pairwise", "lambdarank"):
        optimizer = ("--optimizer", "gradient") if loss == "lambdarank" else ()
        _, err = done("train", "data.parquet", "--loss", loss, "--grid", "C=1", "--out",
                      f"{loss}.json", *optimizer)  # fmt: skip
        assert UNUSED in err
        out, err = done("evaluate", f"{loss}.json", "--data", "data.parquet", "--json")
        assert UNUSED in out + err
        # What attracts is found, and told from noise.
        _, worth, noise = json.loads(Path(f"{loss}.json").read_text())["weights"]
        assert worth > 3 * abs(noise)
    for refusing in ("adarank", "coordinate-ascent"):
        code, _, err = run("train", "data.parquet", "--optimizer", refusing, "--out", "no.json")
        assert (code, "the data has document weights: leave them out" in err) == (5, True)
        assert not Path("no.json").exists()


INDEX_KNOWN, NAME = "known-items-test", "known-items-test-model"


story = benchmark_script("known_items")


@dataclass(frozen=True)
class Catalogue:
    cluster: Cluster
    world: Any


@pytest.fixture(scope="module")
def catalogue(node_url: str) -> Iterator[Catalogue]:
    if not story.available():
        pytest.skip("this machine has no Debian package lists")
    cluster = connect(node_url, store_kind="plugin-free", store="known-items-test")
    packages = story.packages(2000)
    story.index_packages(cluster, INDEX_KNOWN, packages)
    cluster.store.prepare()
    cluster.store.put_featureset(story.featureset(), replace=True)
    known = story.known_items(packages, 200)
    names = {"match": {"name": "{{keywords}}"}}
    lists = [story.first_documents(cluster, INDEX_KNOWN, known, q) for q in (story.QUERY, names)]
    yield Catalogue(cluster, story.PackageWorld(packages, known, *lists))
    cluster.engine.request("DELETE", f"/{INDEX_KNOWN}")
    cluster.engine.request("DELETE", "/owpc-ltr-store-known-items-test")


def judged(catalogue: Catalogue, scheme: str) -> Any:
    return catalogue.world.judged(story.schemes(catalogue.world)[scheme])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:training gave")
def test_known_items_are_warned_of_and_what_they_teach_does_not_get_in(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    cluster = catalogue.cluster
    items = judged(catalogue, "item, random negatives")
    data = story.log(cluster, INDEX_KNOWN, items, tmp_path)
    warnings = judgment_warnings(data, text_scores(story.featureset()))
    findings = [warning.line for warning in warnings]
    assert any("no match in any text feature" in finding for finding in findings)
    assert any("has 1 relevant and 10 irrelevant documents" in finding for finding in findings)
    model, warned = story.trained(data)
    assert any("judge pool" in warning for warning in warned)
    asked = cluster.check_judgments(data, index=INDEX_KNOWN, query_template=story.QUERY)
    assert any("of the relevant documents are among the first 100" in finding for finding in asked)
    assert any(
        "of the first ten documents of the query alone are judged" in finding for finding in asked
    )
    comparison = cluster.compare_live(
        {"new": model, "query": "query"}, judgments=items, metrics="ndcg@10", index=INDEX_KNOWN,
        query_template=story.QUERY,
    )  # fmt: skip
    assert comparison.evidence().verdict["outcome"] == "cannot tell"
    with pytest.raises(Refused, match="the verdict of the evidence is 'cannot tell"):
        cluster.upload(
            model, name=NAME, index=INDEX_KNOWN, require=comparison,
            query_template=story.QUERY,
        )  # fmt: skip
    assert Aliases(cluster.engine, cluster.store).find(NAME) is None
    assert cluster.store.list_models() == []


@pytest.mark.thorough
def test_a_model_of_pooled_documents_is_better_live(catalogue: Catalogue, tmp_path: Path) -> None:
    cluster = catalogue.cluster
    pooled = judged(catalogue, "pool, graded")
    data = story.log(cluster, INDEX_KNOWN, pooled, tmp_path)
    assert judgment_warnings(data, text_scores(story.featureset())) == []
    model, _warned = story.trained(data)
    comparison = story.live(cluster, INDEX_KNOWN, model, pooled)
    (pair,) = comparison.pairs
    assert pair.metric == "ndcg@10"
    assert pair.comparison.mean_difference > 0
    assert pair.left_out is not None
    assert pair.left_out.mean_difference > 0
    assert comparison.rankers[1].unjudged == {"ndcg@10": 0.0}


ON_NODE = [page for page in PAGES if NEEDS_NODE & set(samples_of(page))]


@pytest.fixture
def empty_node(session_node: SessionNode) -> Iterator[str]:
    """The session's own node, for pages use plain names: never one that somebody named.

    What a page, or the demo, has made is taken away, for the next one makes it again.
    """
    _empty(session_node.status.url)
    yield session_node.status.url
    _empty(session_node.status.url)


def _empty(url: str) -> None:
    engine = Engine(ConnectionSettings(url))
    indices = ("movies", "python-docs", "articles", "products")
    for name in (*indices, "owpc-ltr-store", "owpc-ltr-aliases"):
        with contextlib.suppress(EngineRefusal):
            # A name that was made anew is an alias, and it is its index that is taken away.
            for index in engine.request("GET", f"/{name}"):
                engine.request("DELETE", f"/{index}")
    engine.close()


@pytest.fixture
def run(empty_node: str, monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    monkeypatch.setenv("OWPC_LTR_URL", empty_node)
    return run


# What stands in for a page's data is small: its columns are copies of each other by chance.
@pytest.mark.modules
@pytest.mark.parametrize(
    "page",
    [
        # The first page that is read, of every commit.
        page if page.stem == "README" else pytest.param(page, marks=pytest.mark.thorough)
        for page in ON_NODE
    ],
    ids=lambda page: page.stem,
)
def test_the_code_of_a_page_runs_on_a_node(page: Path, tmp_path: Path, run: Run) -> None:
    for sample in samples_of(page):
        SAMPLES[sample](tmp_path)
    expected = sum(block.runs for block in blocks_of(page))
    assert run_page(page, tmp_path, run) == expected
