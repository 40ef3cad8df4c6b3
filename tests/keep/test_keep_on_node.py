"""`owpc-ltr keep` on a real engine: from judgments to a promoted model, drift, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_keep.plan import KeepData, Workflow

from owpc_ltr import connect
from owpc_ltr.engine.deployment.alias import CHALLENGER, Aliases
from owpc_ltr.engine.deployment.deployment_record import INDEX as ALIASES
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from tests.commands import Run
from tests.engine.deployed import put
from tests.engine.small_cluster import WORDS, Small, linear, shared_cluster
from tests.engine.ubi_indices import PLUGIN, drop, filled, ubi_documents
from tests.experiment.users import log_of_users
from tests.keep.keep_world import plan_in
from tests.simulated_users import simulate

small = shared_cluster(documents=40)


def judge(small: Small, path: Path) -> None:
    """Every document for every query: most of the large ones are good."""
    rng = np.random.default_rng(1)
    everything = {"size": 100, "query": {"match_all": {}}}
    answer = small.engine.request("POST", f"/{small.index}/_search", body=everything)
    sizes = {hit["_id"]: hit["_source"]["size"] for hit in answer["hits"]["hits"]}
    queries = [" ".join(words) for n in (2, 3) for words in combinations(WORDS, n)]
    path.write_text(
        "query,doc_id,grade\n"
        + "".join(f"{query},{doc},{int(size + rng.normal(0, 3) > 7)}\n"
                  for query in queries for doc, size in sizes.items())
    )  # fmt: skip


PLAN = """
alias = "{name}"
index = "{index}"
featureset = "small"
folder = "keep"
query_template = "query.json"

[data]
judgments = "judgments.csv"
accept = ["unit-change", "duplicate-column"]

[train]
optimizer = "larank"
settings = {{C = 1.0}}
folds = 3

[watch]
min_judged = 0.9
max_ms = 10000
"""


def test_a_plan_promotes_a_better_model_and_then_has_nothing_to_do(
    small: Small, node_url: str, tmp_path: Path, run: Run
) -> None:
    bad = put(small, linear((0.3, 0.3, -1.0))).alias.current
    judge(small, tmp_path / "judgments.csv")
    (tmp_path / "query.json").write_text(json.dumps({"query": {"match": {"body": "{{keywords}}"}}}))
    (tmp_path / "plan.toml").write_text(PLAN.format(name=small.name, index=small.index))
    where = ("--url", node_url, "--store-kind", "plugin-free", "--store", str(small.store.name))
    code, out, err = run("keep", "plan.toml", *where, "--report", "history.html")
    assert code == 0, out + err
    aliases = Aliases(small.engine, small.store)
    good = aliases.resolve(small.name)
    assert good != bad
    assert f"done: promoted; '{small.name}' is set to {good}" in out.replace("\n  ", " ")
    assert f"is set to {good}" in (tmp_path / "history.html").read_text()
    evidence = DeploymentRecords(small.engine, small.store).get(good).gate
    assert evidence is not None
    assert evidence["keep"]["attempt"] == 1
    assert evidence["verdict"]["outcome"] == "better"
    code, out, err = run("keep", "plan.toml", *where, "--json")
    assert (code, json.loads(out)["done"], json.loads(out)["steps"]) == (0, "nothing", []), err


@pytest.mark.filterwarnings("ignore::owpc_ltr.OwpcLtrWarning")
def test_clicks_in_the_cluster_are_judgments_that_change_only_with_them(
    small: Small, node_url: str, tmp_path: Path
) -> None:
    events = simulate.clicks(simulate.example_world(15, 12), sessions=700)
    queries, clicks = map(list, ubi_documents(events))
    plan = replace(plan_in(tmp_path), index=small.index, data=KeepData(ubi=True))
    cluster = connect(node_url, store_kind="plugin-free", store=small.store.name)
    workflow = Workflow(plan, cluster)
    try:
        filled(small.engine, "ubi_queries", queries, PLUGIN[0])
        filled(small.engine, "ubi_events", clicks, PLUGIN[1])
        first = workflow.inputs(None)
        assert (tmp_path / "clicks.parquet").exists()
        assert workflow.inputs(None) == first
        filled(small.engine, "ubi_events", clicks[: len(clicks) // 2], PLUGIN[1])
        assert workflow.inputs(None) != first
    finally:
        drop(small.engine, "ubi_queries")
        drop(small.engine, "ubi_events")


def test_an_experiment_is_read_out_of_the_cluster_and_its_winner_promoted(
    small: Small, node_url: str, tmp_path: Path
) -> None:
    name = f"{small.name}-tried"
    put(small, linear((0.3, 0.3, -2.0)), name=name)
    model = put(small, linear((0.3, 0.3, 2.0)), name=name, role=CHALLENGER).model
    plan = replace(plan_in(tmp_path, tried=True), alias=name, index=small.index)
    workflow = Workflow(plan, connect(node_url, store_kind="plugin-free", store=small.store.name))
    experiment = workflow.start(model, shadow=False)
    log = log_of_users(experiment, tmp_path / "log.jsonl", np.random.default_rng(1), clients=400)
    # What is later than now is not read.
    lines = [
        {**json.loads(line), "timestamp": experiment.started}
        for line in log.read_text().splitlines()
    ]
    try:
        for index, mapping, clicks in zip(
            ("ubi_queries", "ubi_events"), PLUGIN, (False, True), strict=True
        ):
            wanted = [line for line in lines if ("action_name" in line) is clicks]
            filled(small.engine, index, wanted, mapping)
        result = workflow.status().result
        assert result is not None
        assert (result.n_clients, result.verdict.outcome) == (400, "better")
        assert workflow.stop(promote=True)
        assert Aliases(small.engine, small.store).resolve(name) == model
    finally:
        record = f"/{ALIASES}/_doc/experiment%2F{name}"
        small.engine.request("DELETE", record, params={"refresh": "true"})
        drop(small.engine, "ubi_queries")
        drop(small.engine, "ubi_events")
