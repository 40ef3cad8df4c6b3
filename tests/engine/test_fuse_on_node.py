"""Hybrid search on real nodes: candidates, scores of every leg, and the model live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import (
    BadInput,
    Cluster,
    OwpcLtrError,
    Refused,
    UsageError,
    connect,
    fuse,
    read_dataset,
    read_judgments,
)
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.legs import find_candidates, read_legs, shards_of
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.fusion.evaluation import Fusion
from tests.session_node import running_node

TOPICS = ("red", "green", "blue", "grey", "gold")
OTHERS = ("old", "new", "big", "small", "round", "flat", "thin", "wide")
TITLE = {"name": "title", "params": ["keywords"], "template": {"match": {"title": "{{keywords}}"}}}
BODY = {"name": "body", "params": ["keywords"], "template": {"match": {"body": "{{keywords}}"}}}
DENSE = {
    "name": "dense",
    "params": ["vector"],
    "template": '{"knn": {"v": {"vector": {{#toJson}}vector{{/toJson}}, "k": 5}}}',
}
WORDS = {"type": "text"}
TIES = 0.05
"""What two documents of one score can change of a query."""
VECTOR = {
    "type": "knn_vector",
    "dimension": len(TOPICS),
    "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
}


def documents(n: int = 120) -> list[dict[str, Any]]:
    """A topic each, of which title and body have some words, and a noisy vector; 5 have none."""
    rng = np.random.default_rng(3)
    made = []
    for number in range(n):
        topic = number % len(TOPICS)
        words = rng.choice(OTHERS, 4).tolist()
        vector = rng.normal(0, 0.6, len(TOPICS)) + np.eye(len(TOPICS))[topic]
        document: dict[str, Any] = {
            "title": " ".join([*([TOPICS[topic]] if rng.random() < 0.5 else []), words[0]]),
            "body": " ".join([*([TOPICS[topic]] * int(rng.integers(0, 3))), *words]),
            "v": vector.round(4).tolist(),
            "topic": topic,
        }
        if number < 5:
            del document["v"]
        made.append(document)
    return made


def written_judgments(path: Path, made: list[dict[str, Any]]) -> Path:
    """Queries of a topic and another word: a document of the topic is relevant, in a half."""
    rng = np.random.default_rng(4)
    lines = []
    for number in range(40):
        topic = number % len(TOPICS)
        words = f"{TOPICS[topic]} {OTHERS[number % len(OTHERS)]}"
        vector = (np.eye(len(TOPICS))[topic] + rng.normal(0, 0.2, len(TOPICS))).round(4).tolist()
        for place, document in enumerate(made):
            line = {"query_id": f"q{number}", "query": words, "doc_id": str(place)}
            line |= {"vector": vector} if place == 0 else {}
            lines.append(
                {**line, "grade": int(document["topic"] == topic and document["title"][0] in "rgb")}
            )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@contextmanager
def indexed(
    url: str, name: str, shards: int, vector: dict[str, Any] | None = None
) -> Iterator[Cluster]:
    cluster = connect(url, store=name)
    properties = {"title": WORDS, "body": WORDS, **({"v": vector} if vector else {})}
    settings = {
        "number_of_shards": shards,
        "number_of_replicas": 0,
        **({"knn": True} if vector == VECTOR else {}),
    }
    body = {
        "settings": {"index": settings},
        "mappings": {"dynamic": False, "properties": properties},
    }
    cluster.engine.request("DELETE", f"/{name}", params={"ignore_unavailable": "true"})
    cluster.engine.request("PUT", f"/{name}", body=body)
    rows = [(str(number), document) for number, document in enumerate(documents())]
    index_documents(cluster.engine, name, rows, lambda *_: None)
    try:
        yield cluster
    finally:
        with suppress(OwpcLtrError):
            cluster.models.delete(f"{name}-model", yes=True)
        for featureset in cluster.store.list_featuresets():
            cluster.store.delete_featureset(featureset)
        cluster.engine.request("DELETE", f"/{name}")


def legs_file(path: Path, *features: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"featureset": {"name": path.stem, "features": list(features)}}))
    return path


def live_equals_local(cluster: Cluster, index: str, fusion: Fusion, judged: Path, at: Path) -> None:
    """The uploaded model, searched with the template, has the figure of the logged scores."""
    cluster.upload(fusion.model, index=index, name=f"{index}-model", featureset=fusion.legs.name)
    live = cluster.compare_live(
        [f"{index}-model"], index=index, judgments=judged, query_template=at, metrics="ndcg@10",
        split="all",
    )  # fmt: skip
    assert f"their first {fusion.legs.request_window} documents" in " ".join(live.notes)
    # Equal scores stand in the engine's order there, and count their expected value here.
    with_model = live.rankers[0].measured[0]
    assert with_model.per_query == pytest.approx(fusion.on_all_queries, abs=TIES)
    assert with_model.mean == pytest.approx(fusion.on_all_queries.mean(), abs=1e-3)


def test_two_legs_of_words_without_vectors(node_url: str, tmp_path: Path) -> None:
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    legs = legs_file(tmp_path / "fuse-words.json", TITLE, BODY)
    template, model = tmp_path / "query.json", tmp_path / "model.json"
    with indexed(node_url, "fuse-words", 1) as cluster:
        asked: dict[str, Any] = {"judgments": judged, "index": "fuse-words", "resamples": 500}
        fusion = fuse(cluster, legs, window=30, query_template_out=template, **asked)
        names = [ranker.name for ranker in fusion.comparison.rankers]
        assert names[:2] == ["title", "body"]
        assert len(names) == 6
        assert 0 < fusion.recall.legs["title"] <= fusion.recall.union <= fusion.recall.request <= 1
        assert str(fusion).startswith(fusion.headline[:30])
        assert json.loads(json.dumps(fusion.as_dict()))["baseline"] == fusion.best_leg
        live_equals_local(cluster, "fuse-words", fusion, judged, template)
        body = cluster.request("red old", model="fuse-words-model", query_template=template)
        assert {step["window_size"] for step in body["rescore"]} == {60}
        if not fusion.is_better:
            with pytest.raises(Refused, match=r"model.json is not written: .*force=") as caught:
                fuse(cluster, legs, window=30, out=model, report=tmp_path / "no.html", **asked)
            assert (tmp_path / "no.html").exists()
            assert isinstance(caught.value.result, Fusion)
            assert not model.exists()
        page = tmp_path / "page.html"
        fuse(cluster, legs, window=30, out=model, report=page, force=True, **asked)
        assert model.exists()
        assert fusion.headline.partition(": ")[0].capitalize() in page.read_text()


def test_what_cannot_be_fused_is_told_in_a_line(node_url: str, tmp_path: Path) -> None:
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    silent = {**BODY, "name": "silent", "template": {"match": {"body": "x{{keywords}}x"}}}
    with indexed(node_url, "fuse-faults", 1) as cluster:
        for features, message in (
            ((TITLE, silent), "leg 'silent' returns nothing for any of the 40 queries"),
            ((TITLE, DENSE), "leg 'dense': the field 'v' of 'fuse-faults' is not there: .* k-NN"),
        ):
            legs = legs_file(tmp_path / "fuse-faults.json", *features)
            with pytest.raises(BadInput, match=message):
                fuse(cluster, legs, judgments=judged, index="fuse-faults")
        # Nothing is left behind that would be in the way of a legs file put right.
        assert cluster.store.list_featuresets() == []


@pytest.fixture(scope="module")
def scriptless_url() -> Iterator[str]:
    """A node with k-NN that allows no scripts."""
    pytest.importorskip("owpc_ltr_node")
    from owpc_ltr_node.release import usual_release
    from owpc_ltr_node.settings import settings as node_settings

    def settings(*given: Any) -> str:
        return f"{node_settings(*given)}script.allowed_types: none\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("owpc_ltr_node.settings.settings", settings)
        with running_node(usual_release(with_vectors=True)) as node:
            yield node.status.url


def cosines(vector: list[float]) -> dict[str, float]:
    """What both engines make of the cosine, by document."""
    asked = np.array(vector)
    return {
        str(number): float(1 + asked @ own / np.linalg.norm(asked) / np.linalg.norm(own)) / 2
        for number, own in (
            (n, np.array(document["v"]))
            for n, document in enumerate(documents())
            if "v" in document
        )
    }


@contextmanager
def fused(
    url: str, name: str, shards: int, vector: dict[str, Any], legs: Path, judged: Path
) -> Iterator[tuple[Cluster, Fusion]]:
    """Two legs fused on a node: every candidate has its exact score, in every shard."""
    template = judged.with_name("query.json")
    with indexed(url, name, shards, vector) as cluster:
        fusion = fuse(
            cluster, legs, judgments=judged, index=name, window=20, resamples=500,
            query_template_out=template, data_out=judged.with_name("logged.parquet"),
        )  # fmt: skip
        notes = " ".join(fusion.notes)
        assert ("3 shards: windows and k are of each shard" in notes) == (shards == 3)
        read = read_legs(legs, cluster.engine, name, 20)
        assert shards_of(cluster.engine, name) == shards
        queries = read_judgments(judged).queries
        brought = find_candidates(cluster.engine, name, read, queries, shards, 2, lambda *_: None)
        at = fusion.data.offsets.tolist()
        ids = fusion.data.doc_ids
        assert ids is not None
        for number, query in enumerate(queries[:10]):
            # What is rescored has all that the legs bring; where the client does so, over several
            # shards, the best of all in place of those of each.
            candidates = brought[number]
            assert set(candidates.by_leg[1]) <= set(candidates.by_request)
            assert set(candidates.by_leg[0]) <= set(candidates.by_request) or read.shards == 3
            rows = slice(at[number], at[number + 1])
            logged = dict(zip(ids.to_pylist()[rows], fusion.data.features[rows, 1], strict=True))
            assert set(logged) == set(candidates.documents)
            own = cosines(query.params["vector"])
            for document, score in logged.items():
                expected = own.get(document, np.nan)
                assert score == pytest.approx(expected, abs=1e-6, nan_ok=True)
        without = int(np.isnan(fusion.data.features[:, 1]).sum())
        assert without > 0
        assert f"leg 'dense' has no score for {without:,} of" in notes
        live_equals_local(cluster, name, fusion, judged, template)
        yield cluster, fusion


def client_scores(cluster: Cluster, index: str, judged: Path) -> None:
    """What a model does that no engine runs, because only the client knows the documents' ids."""
    asked: dict[str, Any] = {
        "model": f"{index}-model",
        "query_template": judged.with_name("query.json"),
    }
    vector = read_judgments(judged).queries[0].params["vector"]
    both = cluster.search("red old", params={"vector": vector}, **asked)
    assert (both.scored_by, both.reason, len(both.after)) == ("client", "", 10)
    with pytest.raises(Refused, match="'dense' needs the ids of the documents that it scores"):
        cluster.request("red old", params={"vector": vector}, **asked)
    with pytest.raises(Refused, match=r"dimension"):
        cluster.search("red old", params={"vector": vector[:2]}, **asked)
    with pytest.raises(BadInput, match=r"no value for '{{vector}}': give it as a"):
        cluster.search("red old", **asked)
    assert cluster.verify(asked["model"]).drift == ()


@pytest.mark.thorough
@pytest.mark.parametrize("shards", [1, 3])
def test_words_and_vectors(vectors_url: str, tmp_path: Path, shards: int) -> None:
    name = f"fuse-vectors{shards}"
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    legs = legs_file(tmp_path / f"{name}.json", BODY, DENSE)
    with fused(vectors_url, name, shards, VECTOR, legs, judged) as (cluster, fusion):
        assert "script_score" in fusion.legs.legs[1].feature.template
        vector = read_judgments(judged).queries[0].params["vector"]
        body = cluster.request(
            "red old", model=f"{name}-model", query_template=tmp_path / "query.json",
            params={"vector": vector},
        )  # fmt: skip
        assert {step["window_size"] for step in body["rescore"]} == {40}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the client scores")
@pytest.mark.parametrize("shards", [1, 3])
def test_words_and_vectors_without_scripts(
    vectors_url: str, scriptless_url: str, tmp_path: Path, shards: int
) -> None:
    """The client scores, by what `knn` has for given ids: what scripts have where they may run."""
    name = f"fuse-scriptless{shards}"
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    legs = legs_file(tmp_path / f"{name}.json", BODY, DENSE)
    with fused(scriptless_url, name, shards, VECTOR, legs, judged) as (cluster, fusion):
        client_scores(cluster, name, judged)
        by_ids = fusion.legs.legs[1].feature
        suggested, logged = tmp_path / "set.json", tmp_path / "next.parquet"
        cluster.featuresets.suggest(index=name, legs=legs, out=suggested)
        vector = read_judgments(judged).queries[0].params["vector"]
        cluster.featuresets.push(suggested, index=name, name="next", params={"vector": vector})
        cluster.log_features(
            judgments=judged, index=name, featureset="next", out=logged, candidates=legs, window=20
        )
        data = read_dataset(logged)
        assert data.feature_names[:2] == ("body", "dense")
        assert data.n_documents == fusion.data.n_documents
    with indexed(vectors_url, name, shards, VECTOR) as cluster:
        script = read_legs(legs, cluster.engine, name, 20).legs[1].feature
        assert "script_score" in script.template
        both = FeatureSet("both", (script, replace(by_ids, name="by_ids")))
        cluster.featuresets.push(both, index=name, params={"vector": vector})
        out = tmp_path / "both.parquet"
        cluster.log_features(judgments=judged, index=name, featureset="both", out=out)
        scores = read_dataset(out).features
        assert np.isnan(scores).any()
        np.testing.assert_allclose(scores[:, 1], scores[:, 0], rtol=0, atol=1e-6)


def test_the_legs_are_features_of_a_ranker_of_their_candidates(
    node_url: str, tmp_path: Path
) -> None:
    """After fusion: the legs beside other features, and all that the legs bring, judged or not."""
    judged = written_judgments(tmp_path / "judged.jsonl", documents())
    words = [
        {**feature, "template": {"match": {feature["name"]: {"query": "{{keywords}}", "boost": 2}}}}
        for feature in (TITLE, BODY)
    ]
    legs = legs_file(tmp_path / "fuse-legs.json", *words)
    suggested, logged = tmp_path / "set.json", tmp_path / "logged.parquet"
    with indexed(node_url, "fuse-next", 1) as cluster:
        made = cluster.featuresets.suggest(index="fuse-next", legs=legs, out=suggested)
        names = [feature.name for feature in made.features]
        assert names[:2] == ["title", "body"]
        assert len(set(names)) == len(names) > 4
        cluster.featuresets.push(suggested, index="fuse-next", name="next")
        asked: dict[str, Any] = {"index": "fuse-next", "featureset": "next", "out": logged}
        cluster.log_features(judgments=judged, candidates=legs, window=30, **asked)
        data = read_dataset(logged)
        read = read_legs(legs, cluster.engine, "fuse-next", 30)
        queries = read_judgments(judged).queries
        candidates = find_candidates(
            cluster.engine, "fuse-next", read, queries, 1, 2, lambda *_: None
        )
        assert data.doc_ids is not None
        assert data.doc_ids.to_pylist() == [
            name for query in candidates for name in query.documents
        ]
        assert 0 < data.labels.sum() < len(data.labels) < sum(len(q.doc_ids) for q in queries)
        assert data.feature_names[:2] == ("title", "body")
        with pytest.raises(UsageError, match="`window` is of legs: name these with `candidates`"):
            cluster.log_features(judgments=judged, window=30, **asked)
