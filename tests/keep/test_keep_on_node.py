"""`owpc-ltr keep` on a real engine: from judgments to a promoted model, whatever it replaces."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_keep.workflow import Workflow

from owpc_ltr import connect
from owpc_ltr.engine.deployment.alias import CHALLENGER, Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_upload import UploadRequest, upload_model
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.versioned_documents import INDEX as ALIASES
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.host.project import PROJECT_FILE
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.commands import Run
from tests.engine.deployed import put
from tests.engine.small_cluster import FEATURESET, WORDS, Small, linear, shared_cluster
from tests.engine.ubi_indices import PLUGIN, drop, filled
from tests.experiment.users import log_of_users
from tests.keep.keep_world import plan_in

small = shared_cluster(documents=40)


def judge(small: Small, path: Path) -> None:
    """Every document for every query: most of the large ones are good."""
    rng = np.random.default_rng(1)
    sizes = {name: source["size"] for name, source in small.sources().items()}
    queries = [" ".join(words) for n in (2, 3) for words in combinations(WORDS, n)]
    path.write_text(
        "query,sku,grade\n"
        + "".join(f"{query},{doc},{int(size + rng.normal(0, 3) > 7)}\n"
                  for query in queries for doc, size in sizes.items())
    )  # fmt: skip


PLAN = """
alias = "{name}"
index = "{index}"
featureset = "small"
query_template = "query.json"
judgments = "judgments.csv"
judged_by = "people"
columns = {{doc_id = "sku"}}

[keep.train]
optimizer = "larank"
settings = {{C = 1.0}}
folds = 3

[keep.watch]
min_judged = 0.9
max_ms = 10000
"""
TEMPLATE = {"query": {"match": {"body": "{{keywords}}"}}}
FEWER = FeatureSet("fewer", FEATURESET.features[2:])


def champion(small: Small, kind: str) -> str:
    """A model that puts small documents first: linear, boosted trees, or of other features."""
    if kind == "of fewer features":
        small.store.put_featureset(FEWER)
        record = {**linear().record, "featureset_hash": FEWER.hash}
        of_fewer = LinearModel(FEWER.feature_names, np.array([-1.0]), record=record)
        request = UploadRequest(
            of_fewer,
            FEWER,
            index=small.index,
            name=small.name,
            search=search_in(small),
            template=TEMPLATE,
        )
        return upload_model(small.engine, small.store, request).model
    other: Model = linear((0.3, 0.3, -1.0)) if kind == "linear" else boosted()
    return put(small, other, search=search_in(small), template=TEMPLATE).model


def search_in(small: Small) -> SearchRequest:
    return SearchRequest(small.index, TEMPLATE["query"], {"keywords": "alpha"})


def boosted() -> TreeModel:
    """A forest of one split: documents of a size below 5 come first."""
    leaf = -1
    forest = Forest(
        roots=np.array([0], np.int32),
        feature=np.array([2, leaf, leaf], np.int32),
        threshold=np.array([5, 0, 0], np.float32),
        left=np.array([1, 0, 0], np.int32),
        default_left=np.ones(3, np.bool_),
        value=np.array([0.0, 1.0, -1.0]),
    )
    return TreeModel(FEATURESET.feature_names, forest, record=linear().record)


@pytest.mark.parametrize(
    "kind",
    [
        "linear",
        pytest.param("boosted trees", marks=pytest.mark.thorough),
        pytest.param("of fewer features", marks=pytest.mark.thorough),
    ],
)
def test_a_plan_promotes_a_better_model_and_then_has_nothing_to_do(
    small: Small, node_url: str, tmp_path: Path, run: Run, kind: str
) -> None:
    """Three champions of other features ended with 3 every night."""
    name = f"{small.name}-{len(kind)}"
    bad = champion(replace(small, name=name), kind)
    judge(small, tmp_path / "judgments.csv")
    (tmp_path / "query.json").write_text(json.dumps(TEMPLATE))
    (tmp_path / PROJECT_FILE).write_text(PLAN.format(name=name, index=small.index))
    where = ("--url", node_url, "--store-kind", "plugin-free", "--store", str(small.store.name))
    code, out, err = run("keep", *where, "--report", "history.html")
    assert code == 0, out + err
    good = Aliases(small.engine, small.store).resolve(name)
    assert good != bad
    assert f"done: promoted; '{name}' is set to {good}" in out.replace("\n  ", " ")
    assert f"is set to {good}" in (tmp_path / "history.html").read_text()
    assert "compare: better: ndcg@10 +0." in out
    assert f"over {bad}, p = 0.000" in out.replace("\n  ", " ")
    switch = DeploymentRecords(small.engine, small.store).get(good).switch
    assert switch is not None
    assert (switch["over"], switch["evidence"]["verdict"]["outcome"]) == (bad, "better")
    code, out, err = run("keep", *where, "--json")
    assert (code, json.loads(out)["done"], json.loads(out)["steps"]) == (0, "nothing", []), err


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
