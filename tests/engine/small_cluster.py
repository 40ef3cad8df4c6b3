"""A small index on a real node, a feature set for it, and models with probes: what deploys need."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from owpc_ltr import Cluster
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores import Store
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel

OTHERS = {"fingerprint": "another", "queries": {"train": {"ids": ""}}}
"""Where a model was trained that has seen none of the queries here."""
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
FEATURESET = FeatureSet(
    "small",
    (
        Feature("title", ("keywords",), {"match": {"title": "{{keywords}}"}}),
        Feature("body", ("keywords",), {"match": {"body": "{{keywords}}"}}),
        Feature(
            "size",
            (),
            {"function_score": {"field_value_factor": {"field": "size"}, "boost_mode": "replace"}},
        ),
    ),
)


@dataclass(frozen=True)
class Small:
    """An index, a store of its own, and a name for models that nobody else uses."""

    engine: Engine
    store: Store
    index: str
    name: str
    documents: int

    @property
    def cluster(self) -> Cluster:
        """The cluster, with this store."""
        return Cluster(self.engine, self.store.kind, self.store.name)

    @property
    def store_name(self) -> str:
        """What commands are given as --store."""
        return str(self.store.name)

    @property
    def place(self) -> tuple[str, ...]:
        """The options of commands for this cluster and store."""
        url, kind = self.engine.settings.url, self.store.kind
        return ("--url", url, "--store-kind", kind, "--store", self.store_name)

    def sources(self) -> dict[str, dict[str, Any]]:
        """All documents of the index, by id."""
        body = {"size": self.documents, "query": {"match_all": {}}}
        answer = self.engine.request("POST", f"/{self.index}/_search", body=body)
        return {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}

    def titles(self) -> dict[str, set[str]]:
        """The words of each document's title."""
        return {name: set(source["title"].split()) for name, source in self.sources().items()}

    def store_through(self, engine: Engine) -> Store:
        """The same store, reached through another engine."""
        return STORES[self.store.kind](engine, self.store.name)


STORES: dict[str, type[PluginFreeStore | LtrPluginStore]] = {
    store.kind: store for store in (PluginFreeStore, LtrPluginStore)
}


@contextlib.contextmanager
def small_cluster(
    url: str,
    documents: int = 60,
    shards: int = 1,
    kind: str = "plugin-free",
    index: str | None = None,
) -> Iterator[Small]:
    """The index filled, the feature set pushed; all of it is taken away afterwards.

    An `index` that is given is filled already, and stays.
    """
    engine = Engine(ConnectionSettings(url))
    own = uuid.uuid4().hex[:8]
    store = STORES[kind](engine, own)
    if index is None:
        fill(engine, f"small-{own}", documents, shards)
    store.prepare()
    store.put_featureset(FEATURESET)
    try:
        yield Small(engine, store, index or f"small-{own}", f"m-{own}", documents)
    finally:
        kept = f"/owpc-ltr-store-{own}" if kind == "plugin-free" else f"/_ltr/{own}"
        for path in (kept, *([f"/small-{own}"] if index is None else [])):
            with contextlib.suppress(EngineRefusal):
                engine.request("DELETE", path)
        _delete(engine, "owpc-ltr-aliases", {"prefix": {"name": f"m-{own}"}})
        engine.close()


@contextlib.contextmanager
def read_only(small: Small) -> Iterator[Small]:
    """The index refuses all changes: tests share it, for making one takes half a second."""
    path, block = f"/{small.index}/_settings", "index.blocks.read_only"
    small.engine.request("PUT", path, body={block: True})
    try:
        yield small
    finally:
        small.engine.request("PUT", path, body={block: None})


@contextlib.contextmanager
def emptied_store(shared: Small) -> Iterator[Small]:
    """The store of a shared cluster with the feature set alone, and a name nobody has used."""
    engine = Engine(shared.engine.settings)
    name = f"m-{uuid.uuid4().hex[:8]}"
    small = replace(shared, engine=engine, store=shared.store_through(engine), name=name)
    small.store.put_featureset(FEATURESET)
    try:
        yield small
    finally:
        _delete(engine, f"owpc-ltr-store-{shared.store.name}", {"match_all": {}})
        _delete(engine, "owpc-ltr-aliases", {"prefix": {"name": name}})
        engine.close()


def _delete(engine: Engine, index: str, query: dict[str, Any]) -> None:
    """Delete the documents that a query finds; not every engine here can do so at once."""
    with contextlib.suppress(EngineRefusal):
        engine.request("POST", f"/{index}/_refresh")
        body = {"query": query, "size": 10_000, "_source": False}
        hits = engine.request("POST", f"/{index}/_search", body=body)["hits"]["hits"]
        lines = [{"delete": {"_id": hit["_id"]}} for hit in hits]
        if lines:
            engine.request("POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"})


def shared_cluster(**how: Any) -> Any:
    """A fixture: one such index for all tests of a module."""

    @pytest.fixture(scope="module")
    def small(node_url: str) -> Iterator[Small]:
        with small_cluster(node_url, **how) as made:
            yield made

    return small


def fill(engine: Engine, index: str, documents: int, shards: int = 1, seed: int = 7) -> None:
    """An index of short texts and sizes."""
    rng = np.random.default_rng(seed)
    text = {"type": "text"}
    engine.request(
        "PUT",
        f"/{index}",
        body={
            "settings": {"number_of_shards": shards, "number_of_replicas": 0},
            "mappings": {"properties": {"title": text, "body": text, "size": {"type": "float"}}},
        },
    )
    lines: list[Any] = []
    for number in range(documents):
        lines += [
            {"index": {"_id": f"d{number}"}},
            {
                "title": " ".join(rng.choice(WORDS, 3)),
                "body": " ".join(rng.choice(WORDS, int(rng.integers(4, 20)))),
                "size": float(rng.uniform(0.5, 9)),
            },
        ]
    answer = engine.request("POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"})
    assert not answer["errors"]


def probes(documents: int = 60, queries: int = 4) -> list[dict[str, Any]]:
    """Judged documents as a trained model remembers them."""
    return [
        {
            "query_id": f"q{number}",
            "params": {"keywords": f"{WORDS[number]} {WORDS[number + 2]}"},
            "document_ids": [f"d{(7 * number + step) % documents}" for step in range(12)],
        }
        for number in range(queries)
    ]


def linear(weights: tuple[float, ...] = (1.0, 0.5, -0.2), **record: Any) -> LinearModel:
    """A linear model of the small feature set."""
    known = {"probes": probes(), "featureset_hash": FEATURESET.hash, "source": OTHERS, **record}
    return LinearModel(FEATURESET.feature_names, np.array(weights), record=known)


def judged_titles(small: Small, queries: int, seed: int, *, both: bool = False) -> Judgments:
    """What has words of the query in its title is relevant; with `both`, what has the two.

    Every document of the index is judged. The judge errs in one of ten documents: grades that are
    a feature's values decide nothing.
    """
    rng, titles, made = np.random.default_rng(seed), small.titles(), []
    for number in range(queries):
        words = [WORDS[number % 8], WORDS[(number % 8 + number // 8 + 1) % 8]]
        grades = np.array([len(title & set(words)) for title in titles.values()], np.float32)
        top, grades = (1, (grades == 2).astype(np.float32)) if both else (2, grades)
        wrong = rng.random(len(titles)) < 0.1
        grades = np.where(wrong, top - grades, grades)
        # The third word is in no document: without it, two orders of words are one request.
        text = " ".join([*words, "".join(words)])
        params = {"keywords": text, "query": text}
        judges = ["ann"] * len(titles)
        made.append(JudgedQuery(f"q{number}", params, list(titles), grades, judged_by=judges))
    return Judgments(made)


@dataclass
class Through:
    """An engine that requests go through: a test does something with some of them."""

    engine: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@dataclass
class Unreliable(Through):
    """An engine whose n-th request fails (counted from 1), before or after it was carried out."""

    fail_at: int
    fault: Callable[[], BaseException]
    lost_answer: bool = False
    calls: int = 0
    again: bool = True
    """Whether every request after it fails too, as when the process was killed."""
    asked: list[str] = field(default_factory=list)

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.calls += 1
        self.asked.append(f"{method} {path}")
        if self.calls == self.fail_at:
            if self.lost_answer:
                self.engine.request(method, path, **given)
            raise self.fault()
        if self.again and self.calls > self.fail_at:
            raise self.fault()
        return self.engine.request(method, path, **given)
