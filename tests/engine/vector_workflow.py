"""A workflow on features of vectors on a real node: logged, trained, uploaded, rolled back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr import Cluster, RankingDataset, read_dataset, read_judgments, train
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores.feature_queries import compile_featureset
from owpc_ltr.features.feature_set import FeatureSet, load_featureset
from owpc_ltr.models.linear import LinearModel
from tests.faults.selection import Selection
from tests.pages import ROOT, blocks_of, products_and_judgments

DIMENSIONS = 4
QUERY = {"multi_match": {"query": "{{keywords}}", "fields": ["title", "text"]}}


@dataclass(frozen=True)
class Workflow:
    """A filled index, a store of its own, judgments in a file, and a feature set that is pushed."""

    cluster: Cluster
    index: str
    featureset: FeatureSet
    judgments: Path
    folder: Path

    def logged(self) -> RankingDataset:
        """The dataset of all judgments."""
        out = self.folder / "logged.parquet"
        if not out.exists():
            self.cluster.log_features(
                judgments=self.judgments, out=out, featureset=self.featureset.name, index=self.index
            )
        return read_dataset(out)


def featureset_of_page(file: str) -> FeatureSet:
    """A feature set that docs/hybrid.md shows."""
    page = ROOT / "docs" / "hybrid.md"
    (source,) = (block.source for block in blocks_of(page) if block.title == file)
    return load_featureset(str(source))


@contextmanager
def vector_workflow(
    engine: Engine, own: str, featureset: FeatureSet, mappings: dict[str, Any], folder: Path
) -> Iterator[Workflow]:
    """Products in an index on three shards; with `flat` and `graph`, their vectors whole."""
    products, judged = products_and_judgments()
    index, place = f"products-{own}", folder / "judgments.jsonl"
    place.write_text("".join(f"{json.dumps(line)}\n" for line in judged))
    fields = {"title": {"type": "text"}, "text": {"type": "text"}, **mappings}
    settings = {"number_of_shards": 3, "number_of_replicas": 0}
    body = {"settings": settings, "mappings": {"properties": fields}}
    engine.request("PUT", f"/{index}", body=body)
    lines: list[Any] = []
    for product in products:
        vector = [product[f"v{i}"] for i in range(DIMENSIONS)] if "v0" in product else None
        whole = {name: vector for name in ("flat", "graph") if name in mappings and vector}
        lines += [{"index": {"_id": product["id"]}}, {**product, **whole}]
    answer = engine.request("POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"})
    assert not answer["errors"]
    cluster = Cluster(engine, "plugin-free", own)
    try:
        params = {"vector": [1.0, 0.5, 0.25, 0.125]}
        pushed = cluster.featuresets.push(featureset, index=index, params=params)
        yield Workflow(cluster, index, pushed, place, folder)
    finally:
        for name in (index, f"owpc-ltr-store-{own}"):
            engine.request("DELETE", f"/{name}")


def own_scores(workflow: Workflow, column: int, params: dict[str, Any]) -> dict[str, float]:
    """What a feature's query by itself gives to which documents, over the whole index."""
    query = compile_featureset(workflow.featureset).queries[column].query(params)
    body = {"query": query, "size": 1000, "_source": False, "track_total_hits": True}
    answer = workflow.cluster.engine.request("POST", f"/{workflow.index}/_search", body=body)
    return {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}


def check_values(workflow: Workflow) -> dict[str, int]:
    """Each value is its query's own score, and missing for what that query does not return.

    How many values are missing, by feature. Of the queries every fourth one is asked, and each one
    in thorough tests.
    """
    data, every = workflow.logged(), 1 if Selection.asked().thorough else 4
    assert data.query_params is not None
    assert data.doc_ids is not None
    missing = dict.fromkeys(data.feature_names, 0)
    asked = list(enumerate(map(json.loads, data.query_params.to_pylist())))[::every]
    for number, params in asked:
        first, last = data.offsets[number], data.offsets[number + 1]
        ids = data.doc_ids[first:last].to_pylist()
        for column, name in enumerate(data.feature_names):
            own = own_scores(workflow, column, params)
            values = data.features[first:last, column]
            expected = [np.float32(own.get(document, np.nan)) for document in ids]
            np.testing.assert_array_equal(values, np.array(expected, np.float32), str(name))
            missing[name] += int(np.isnan(values).sum())
    return missing


def check_cosines(workflow: Workflow, column: int, scale: float) -> None:
    """The exact feature is 1 plus the cosine, times `scale`, as NumPy has it."""
    data, (products, _) = workflow.logged(), products_and_judgments()
    where = {
        product["id"]: [product[f"v{i}"] for i in range(DIMENSIONS)]
        for product in products
        if "v0" in product
    }
    assert data.query_params is not None
    assert data.doc_ids is not None
    for number, params in enumerate(map(json.loads, data.query_params.to_pylist())):
        asked = np.array(params["vector"])
        for row in range(data.offsets[number], data.offsets[number + 1]):
            vector = where.get(data.doc_ids[row].as_py())
            value = data.features[row, column]
            assert np.isnan(value) == (vector is None)
            if vector is not None:
                norms = np.linalg.norm(asked) * np.linalg.norm(vector)
                assert abs(value - scale * (1 + asked @ vector / norms)) < 1e-5


def check_serving(workflow: Workflow) -> None:
    """Trained, uploaded, verified, searched as scored here, better live, and taken back."""
    data, name = workflow.logged(), f"m-{workflow.index}"
    model = train(
        data,
        loss="pairwise",
        optimizer="larank",
        settings={"C": 1.0},
        validation_share=0,
        test_share=0,
    )
    assert isinstance(model, LinearModel)
    weights = dict(zip(model.feature_names, model.weights, strict=True))
    assert weights["cosine"] > 0
    uploads: dict[str, Any] = {"index": workflow.index, "featureset": workflow.featureset.name}
    first = workflow.cluster.upload(model, name=name, **uploads)
    assert first.parity.largest_difference <= 1e-5
    assert (first.parity.swapped, first.parity.absent) == (0, 0)
    verification = workflow.cluster.verify(name, index=workflow.index)
    assert verification.drift == ()
    _check_search(workflow, model, name)
    live = workflow.cluster.compare_live(
        [name], judgments=workflow.judgments, query_template=QUERY, split="all", metrics="ndcg@10",
        index=workflow.index,
    )  # fmt: skip
    assert live.pairs[0].comparison.low > 0
    other = LinearModel(model.feature_names, -model.weights, record=model.record)
    second = workflow.cluster.upload(other, name=name, unproven="a test", **uploads)
    assert second.model != first.model
    assert workflow.cluster.models.rollback(name).alias.model_of("champion") == first.model
    _check_search(workflow, model, name)
    workflow.cluster.models.delete(name, yes=True)


def _check_search(workflow: Workflow, model: LinearModel, name: str) -> None:
    """The list of a search is that of the model over the values of its features."""
    for query in read_judgments(workflow.judgments).queries[:4]:
        vector = np.array(query.params["vector"])
        both = workflow.cluster.search(
            query.params["query"], model=name, index=workflow.index, query_template=QUERY,
            params={"vector": vector}, size=20, window=150,
        )  # fmt: skip
        columns = [own_scores(workflow, c, query.params) for c in range(len(model.feature_names))]
        rows = [[own.get(hit.document_id, np.nan) for own in columns] for hit in both.after]
        scores = model.score(np.array(rows, np.float32))
        np.testing.assert_allclose([hit.score for hit in both.after], scores, rtol=1e-5, atol=1e-5)
        assert len(both.after) == 20
