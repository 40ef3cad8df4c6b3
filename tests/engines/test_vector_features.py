"""Features of vectors by an engine's own vector search, exact and by a graph, as the page shows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from owpc_ltr_node.release import ELASTICSEARCH, Release

from owpc_ltr.engine.client.engine import Engine
from tests.engine.test_fuse_on_node import (
    BODY,
    DENSE,
    TOPICS,
    client_scores,
    documents,
    fused,
    legs_file,
    written_judgments,
)
from tests.engine.vector_workflow import (
    DIMENSIONS,
    Workflow,
    check_cosines,
    check_serving,
    check_values,
    featureset_of_page,
    vector_workflow,
)

pytestmark = pytest.mark.thorough
"""They start a node of their own."""
KNN = (
    '{"knn": {"field": "v", "query_vector": {{#toJson}}vector{{/toJson}}, '
    '"k": 5, "num_candidates": 50}}'
)


@pytest.fixture(scope="module")
def workflow(
    other_engine: Engine, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workflow]:
    if release.engine != ELASTICSEARCH or release.numbers < (8, 15):
        pytest.skip(f"{release} has no knn query with k, or none without a plugin")
    vector = {"type": "dense_vector", "dims": DIMENSIONS, "index": True, "similarity": "cosine"}
    fields = {
        "flat": {**vector, "index_options": {"type": "flat"}},
        "graph": {**vector, "index_options": {"type": "hnsw"}},
    }
    featureset = featureset_of_page("products-elasticsearch.json")
    folder: Path = tmp_path_factory.mktemp("vectors")
    with vector_workflow(other_engine, uuid.uuid4().hex[:8], featureset, fields, folder) as made:
        yield made


def test_every_value_is_its_querys_own_and_missing_where_that_does_not_return(
    workflow: Workflow,
) -> None:
    missing = check_values(workflow)
    assert missing["nearest"] > missing["cosine"] > 0
    # Elasticsearch scores a cosine as half of one more.
    check_cosines(workflow, 1, scale=0.5)


@pytest.mark.filterwarnings("ignore:the client scores")
def test_a_model_of_them_serves_as_it_was_trained(workflow: Workflow) -> None:
    check_serving(workflow)


@pytest.mark.filterwarnings("ignore:the client scores")
@pytest.mark.parametrize("shards", [1, 3])
def test_legs_are_fused_without_scripts(
    workflow: Workflow, other_engine: Engine, tmp_path: Path, shards: int
) -> None:
    """Scores are those of whole vectors, though by default the graph has rounded ones."""
    dense = {**DENSE, "template": KNN}
    vector = {"type": "dense_vector", "dims": len(TOPICS), "index": True, "similarity": "cosine"}
    name = f"fuse-elasticsearch{shards}"
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    legs = legs_file(tmp_path / f"{name}.json", BODY, dense)
    url = other_engine.settings.url
    with fused(url, name, shards, vector, legs, judged) as (cluster, _):
        client_scores(cluster, name, judged)
