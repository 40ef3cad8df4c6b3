"""An engine of one small index that answers searches, with and without features, as a real one."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.engine.stores.plugin_free import INDEX as STORE
from owpc_ltr.models.linear import LinearModel
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.memory_engine import find, whole
from tests.engine.small_cluster import FEATURESET

INDEX = "movies"
NAMES = FEATURESET.feature_names
MODEL = LinearModel(NAMES, np.array([1.0, -0.5, 2.0]), record={"featureset_hash": FEATURESET.hash})
SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


def features_of(number: int) -> dict[str, float]:
    """The features of a document; a third of the titles are missing."""
    values = dict(zip(NAMES, _row(number), strict=True))
    return values if number % 3 else {name: values[name] for name in NAMES[1:]}


@functools.cache
def _row(number: int) -> list[float]:
    row: list[float] = np.random.default_rng(number).uniform(0, 6, 3).astype(np.float32).tolist()
    return row


def model_scores(numbers: list[int]) -> list[float]:
    """What the model makes of these documents."""
    rows = [[features_of(n).get(name, math.nan) for name in NAMES] for n in numbers]
    return list(map(float, MODEL.score(np.array(rows, np.float32))))


@dataclass
class SearchedEngine:
    """`documents` documents match every query; `d0` has the highest score."""

    documents: int = 250
    distribution: str = "opensearch"
    plugin: bool = False
    """Whether it runs the LTR plugin, whose store then has the feature set."""
    asked: list[Asked] = field(default_factory=list)

    def scripts(self, fake: FakeEngine) -> None:
        """Have a fake engine answer so."""
        for method in ("GET", "POST"):
            fake.on(method, "*", self.answer)

    def answer(self, asked: Asked) -> Reply:
        """What an engine says to it."""
        if asked.path == f"/{INDEX}/_search":
            self.asked.append(asked)
            return Reply(self.search(asked.body, asked.params))
        about = {"number": "9.2.0"}  # Elasticsearch does not name itself
        if self.distribution == "opensearch":
            about = {"number": "3.8.0", "distribution": self.distribution}
        listed = [{"_id": f"featureset-{FEATURESET.name}", "sort": [FEATURESET.name]}]
        stored = {"name": FEATURESET.name, "type": "featureset", **FEATURESET.to_body()}
        known: dict[str, Any] = {
            "/": {"version": about, "cluster_name": "c", "cluster_uuid": "u"},
            "/_cat/plugins": [{"component": "opensearch-ltr"}] if self.plugin else [],
            "/_ltr/_featureset": whole([{**listed[0], "_source": {"name": FEATURESET.name}}], 1),
            f"/_ltr/_featureset/{FEATURESET.name}": {"_source": stored},
            f"/{STORE}/_search": whole(listed, 1),
            f"/{STORE}/_doc/featureset-{FEATURESET.name}": {"_source": stored},
        }
        if asked.path in known:
            return Reply(known[asked.path])
        if asked.method == "GET":
            return Reply({"found": False}, 404)
        error = {"type": "index_not_found_exception", "reason": f"no such index [{asked.path[1:]}]"}
        return Reply({"error": {"root_cause": [error], **error}, "status": 404}, 404)

    def search(self, body: Mapping[str, Any], params: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a search."""
        ids = find(body.get("query"), "ids")
        logs = "ltr_log" in body.get("ext", {})
        scored = logs or params.get("include_named_queries_score") == "true"
        if ids is not None:
            numbers = [int(doc_id[1:]) for doc_id in ids["values"]]
        else:
            first = body.get("from", 0)
            numbers = list(range(self.documents))[first : first + body.get("size", 10)]
        window = body["rescore"][0]["window_size"] if "rescore" in body else 0
        hits = [self._hit(n, body, scored and (ids is not None or n < window)) for n in numbers]
        most = body.get("track_total_hits", 10_000)
        total = {"value": self.documents, "relation": "eq"}
        if type(most) is int and most < self.documents:
            total = {"value": most, "relation": "gte"}
        answer: dict[str, Any] = {
            "took": 3,
            "timed_out": False,
            "_shards": SHARDS,
            "hits": {
                **({} if most is False else {"total": total}),
                "max_score": hits[0]["_score"] if hits else None,
                "hits": hits,
            },
        }
        if "aggs" in body:
            answer["aggregations"] = {"sizes": {"value": self.documents / 2}}
        return answer

    def _hit(self, number: int, body: Mapping[str, Any], scored: bool) -> dict[str, Any]:
        score = float(np.float32(self.documents - number))
        hit: dict[str, Any] = {"_index": INDEX, "_id": f"d{number}", "_score": score}
        if body.get("_source") is not False:
            hit["_source"] = {"title": f"title {number}"}
        names = [*find_names(body.get("query"))] if "rescore" not in body else []
        values = features_of(number)
        if scored and self.plugin:
            entries = [
                {"name": name, **({"value": values[name]} if name in values else {})}
                for name in NAMES
            ]
            hit["fields"] = {"_ltrlog": [{"main": entries}]}
        elif scored:
            hit["matched_queries"] = values
        elif names:
            hit["matched_queries"] = names
        if "fields" in body:
            hit.setdefault("fields", {})["year"] = [1900 + number]
        if "highlight" in body:
            hit["highlight"] = {"title": [f"<em>title</em> {number}"]}
        return hit


def find_names(tree: Any) -> list[str]:
    """The names of clauses."""
    if isinstance(tree, dict):
        own = [tree["_name"]] if isinstance(tree.get("_name"), str) else []
        return own + [name for part in tree.values() for name in find_names(part)]
    return [name for part in tree for name in find_names(part)] if isinstance(tree, list) else []
