"""Known items beside random documents mislead, and pooled documents do not: on a real catalogue."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.cluster import Cluster, connect
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.live_gate import NotBetter
from owpc_ltr.evaluation.judgment_checks import judgment_findings
from owpc_ltr.features.score_kinds import text_scores
from owpc_ltr.metrics import parse_metric

pytestmark = pytest.mark.node
INDEX, NAME = "known-items-test", "known-items-test-model"


def _benchmark() -> Any:
    """The script that prints these figures for all packages of a machine."""
    path = Path(__file__).parents[2] / "benchmarks" / "known_items.py"
    spec = importlib.util.spec_from_file_location("known_items_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


story = _benchmark()


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
    story.index_packages(cluster, INDEX, packages)
    cluster.store.prepare()
    cluster.store.put_featureset(story.featureset(), replace=True)
    known = story.known_items(packages, 200)
    names = {"match": {"name": "{{keywords}}"}}
    lists = [story.first_documents(cluster, INDEX, known, q) for q in (story.QUERY, names)]
    yield Catalogue(cluster, story.World(packages, known, *lists))
    cluster.engine.request("DELETE", f"/{INDEX}")
    cluster.engine.request("DELETE", "/owpc-ltr-store-known-items-test")


def judged(catalogue: Catalogue, scheme: str) -> Any:
    return catalogue.world.judged(story.schemes(catalogue.world)[scheme])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:in training")
def test_known_items_are_warned_of_and_what_they_teach_does_not_get_in(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    cluster = catalogue.cluster
    items = judged(catalogue, "item, random negatives")
    data = story.log(cluster, INDEX, items, tmp_path)
    findings = judgment_findings(data, text_scores(story.featureset()))
    assert any("no match in any text feature" in one for one in findings)
    assert any("has 1 relevant and 10 irrelevant documents" in one for one in findings)
    model, warned = story.trained(data)
    assert any("judge pool" in one for one in warned)
    asked = cluster.check_judgments(data, index=INDEX, query_template=story.QUERY)
    assert any("of the relevant documents are among the first 100" in one for one in asked)
    assert any("of the first ten documents of the query alone are judged" in one for one in asked)
    with pytest.raises(NotBetter) as refusal:
        cluster.upload(
            model,
            name=NAME,
            index=INDEX,
            require_gain="ndcg@10",
            judgments=items,
            query_template=story.QUERY,
        )
    assert refusal.value.result.gate.verdict.outcome == "cannot tell"
    assert Aliases(cluster.engine, cluster.store).find(NAME) is None
    assert cluster.store.list_models() == []


def test_a_model_of_pooled_documents_is_better_live(catalogue: Catalogue, tmp_path: Path) -> None:
    cluster = catalogue.cluster
    pooled = judged(catalogue, "pool, graded")
    data = story.log(cluster, INDEX, pooled, tmp_path)
    assert judgment_findings(data, text_scores(story.featureset())) == []
    model, _warned = story.trained(data)
    found = story.live(cluster, INDEX, model, pooled)
    one = found.measured[0]
    assert str(one.metric) == str(parse_metric("ndcg@10"))
    assert one.comparison.mean_difference > 0
    assert one.condensed.mean_difference > 0
    assert found.judged[0] == 1.0
