"""A scripted LTR plugin in front of a real node: what the recorded one would answer.

Everything but `_ltr` and searches with `sltr` goes through to the node. A feature's value is the
score of its query there, a model's score that of the emulator, which recorded scores are held
against. Its refusals are the recorded ones (069, 084, 091, 217, 233). Scripts as features it has
none.
"""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import OwpcLtrError
from owpc_ltr.engine.stores.feature_queries import compile_featureset, named
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.stored_model import read_model, serving_profile
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.memory_engine import find, whole

VERSION = "3.8.0"
_METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD")


class Refusal(Exception):
    """What the plugin says no with."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(str(reply.body))
        self.reply = reply


@dataclass
class ScriptedPlugin:
    """Stores by name (`""` the default one), each with sources by `featureset-NAME`, `model-NAME`.

    Without `runs` it is a node that has no plugin. `computed` counts the features that rescoring
    was asked to compute, search by search.
    """

    node: str
    runs: bool = True
    stores: dict[str, dict[str, Any]] = field(default_factory=dict)
    computed: list[int] = field(default_factory=list)

    def answer(self, asked: Asked) -> Reply:
        path = unquote(asked.path)
        try:
            if path == "/_cat/plugins" and self.runs:
                return Reply([*self.sent("GET", asked.target), {"component": "opensearch-ltr"}])
            if path.startswith("/.ltrstore"):
                return Reply({"_shards": {"total": 1, "successful": 1, "failed": 0}})
            if path.split("/")[1] == "_ltr" and self.runs:
                return self.store_api(asked, path.strip("/").split("/")[1:])
            if self.runs and (body := self.searched(path, asked)):
                return Reply(self.search(asked.target.replace("/template", "", 1), body))
        except Refusal as refusal:
            return refusal.reply
        return self.through(asked.method, asked.target, asked.raw, asked.headers)

    # The node behind

    def searched(self, path: str, asked: Asked) -> Any:
        """The body of a search by a model; a template is filled by the node's own mustache."""
        if path.endswith("/_search/template"):
            return self.sent("POST", "/_render/template", asked.body)["template_output"]
        return asked.body if path.endswith("/_search") and b'"sltr"' in asked.raw else None

    def through(self, method: str, target: str, raw: bytes, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(self.node).netloc, timeout=60)
        kept = {key: value for key, value in headers.items() if key == "content-type"}
        try:
            connection.request(method, target, raw or None, kept)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.getheader("content-type") or "application/json"
        return Reply(content, answer.status, content_type=kind)

    def sent(self, method: str, target: str, body: Any = None) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        reply = self.through(method, target, raw, {"content-type": "application/json"})
        if reply.status >= 400:
            raise Refusal(reply)
        return json.loads(reply.content)

    # Stores

    def store_api(self, asked: Asked, parts: list[str]) -> Reply:
        name = "" if not parts or parts[0].startswith("_") else parts.pop(0)
        if parts == ["_cachestats"]:
            return Reply({"all": {"models": {"ram": 0, "count": 0}}})
        if not parts:
            return self.whole_store(asked.method, name)
        if name not in self.stores:
            if asked.method == "GET":
                return _error(404, "index_not_found_exception", "no such index [.ltrstore]")
            why = "Store [.ltrstore] does not exist, please create it first."
            return _error(400, "illegal_argument_exception", why)
        return self.in_store(self.stores[name], asked, *parts)

    def in_store(self, store: dict[str, Any], asked: Asked, kind: str, *rest: str) -> Reply:
        what = kind.removeprefix("_")
        if not rest:
            return _page(store, what, asked.params)
        if rest[-1] == "_createmodel":
            return self.create_model(store, rest[0], asked.body["model"])
        return self.element(store, asked, what, rest[0])

    def whole_store(self, method: str, name: str) -> Reply:
        if method == "PUT":
            if name in self.stores:
                return _error(400, "resource_already_exists_exception", "already exists")
            self.stores[name] = {}
            return Reply({"acknowledged": True, "shards_acknowledged": True, "index": ".ltrstore"})
        if method == "DELETE":
            self.stores.pop(name, None)
            return Reply({"acknowledged": True})
        return Reply({"exists": name in self.stores}, 200 if name in self.stores else 404)

    def element(self, store: dict[str, Any], asked: Asked, what: str, name: str) -> Reply:
        key = f"{what}-{name}"
        if asked.method == "GET":
            exists = key in store
            place = {"_index": ".ltrstore", "_id": key, "found": exists}
            return Reply(
                place | {"_source": store[key]} if exists else place, 200 if exists else 404
            )
        if asked.method == "DELETE":
            exists = store.pop(key, None) is not None
            return _written(key, "deleted" if exists else "not_found", 200 if exists else 404)
        if asked.method == "PUT" and key in store:
            return _error(409, "version_conflict_engine_exception", f"[{key}]: version conflict")
        source = {"name": name, "type": what, what: {**asked.body[what], "name": name}}
        if what == "featureset" and "validation" in asked.body:
            tried = asked.body["validation"]
            known = parse_featureset({**asked.body[what], "name": name}, name)
            self.values(f"/{tried['index']}/_search", known, tried["params"], ["none"])
        result = "updated" if key in store else "created"
        store[key] = source
        return _written(key, result, 200 if result == "updated" else 201)

    def create_model(self, store: dict[str, Any], featureset: str, made: Any) -> Reply:
        if f"featureset-{featureset}" not in store:
            why = f"Stored featureset [{featureset}] does not exist"
            return _error(400, "illegal_argument_exception", why)
        key = f"model-{made['name']}"
        if key in store:
            why = "Element of type [model] are not updatable, please create a new one instead."
            return _error(405, "illegal_argument_exception", why)
        copied = copy.deepcopy(store[f"featureset-{featureset}"]["featureset"])
        content = {"name": made["name"], "feature_set": copied, "model": made["model"]}
        store[key] = {"name": made["name"], "type": "model", "model": content}
        return _written(key, "created", 201)

    # Searches

    def search(self, target: str, body: Any) -> Any:
        body = copy.deepcopy(body)
        specs = body.pop("ext", {}).get("ltr_log", {}).get("log_specs", [])
        steps = body.pop("rescore", [])
        logged = _take_filter(body.get("query"))
        window = max((step["window_size"] for step in steps), default=0)
        first, size = body.pop("from", 0), body.get("size", 10)
        answer = self.sent("POST", target, {**body, "size": max(first + size, window)})
        hits = answer["hits"]["hits"]
        place = f"{target.partition('?')[0]}"
        index = hits[0]["_index"] if hits else ""
        path = place if place != "/_search" else f"/{index}/_search"
        for step in steps:
            hits = self.rescored(path, hits, step)
        if specs:
            sltr = logged or find(steps[specs[0]["rescore_index"]], "sltr")
            self.log(path, hits if logged else hits[:window], sltr, specs[0]["name"])
        answer["hits"]["hits"] = hits[first : first + size]
        return answer

    def log(self, path: str, hits: list[Any], sltr: Any, name: str) -> None:
        featureset = self.featureset_of(sltr)
        rows = self.values(path, featureset, sltr["params"], [hit["_id"] for hit in hits])
        for hit in hits:
            entries = [
                {"name": each} | ({} if np.isnan(row) else {"value": row})
                for each, row in zip(
                    featureset.feature_names, rows[hit["_id"]].tolist(), strict=True
                )
            ]
            hit.setdefault("fields", {})["_ltrlog"] = [{name: entries}]

    def rescored(self, path: str, hits: list[Any], step: Any) -> list[Any]:
        """As the engine: the best of the window get the sum, all are sorted anew."""
        query, window = step["query"], step["window_size"]
        known = np.float32(query.get("query_weight", 1))
        weight = np.float32(query.get("rescore_query_weight", 1))
        added = self.scores(path, query["rescore_query"], [hit["_id"] for hit in hits[:window]])
        for place, hit in enumerate(hits):
            score = np.float32(hit["_score"]) * known
            if place < window and hit["_id"] in added:
                score += added[hit["_id"]] * weight
            hit["_score"] = float(score)
        return sorted(hits, key=lambda hit: -hit["_score"])

    def scores(self, path: str, query: Any, ids: list[str]) -> dict[str, np.float32]:
        if "script_score" in query and find(query, "sltr") is not None:
            held, inner = query["script_score"]["script"], query["script_score"]["query"]
            lift, floor = (np.float32(held["params"][key]) for key in ("lift", "floor"))
            inner_scores = self.scores(path, inner, ids)
            return {each: max(score + lift, floor) for each, score in inner_scores.items()}
        if "sltr" not in query:
            return {
                each: np.float32(scores["it"])
                for each, scores in self.named(path, [named(query, "it")], ids).items()
                if "it" in scores
            }
        sltr = query["sltr"]
        if "model" not in sltr:
            return dict.fromkeys(ids, np.float32(0))
        store = self.stores.get(sltr.get("store", ""), {})
        source = store.get(f"model-{sltr['model']}")
        if source is None:
            raise _unknown("model", sltr["model"])
        model = read_model(source, sltr["model"])
        active = sltr.get("active_features")
        rows = self.values(path, model.featureset, sltr["params"], ids, active)
        self.computed.append(len(active or model.featureset.features))
        matrix = np.array([rows[each] for each in ids], np.float32)
        if not ids:
            return {}
        scored = emulate(model, matrix, serving_profile("opensearch", VERSION))
        return dict(zip(ids, scored, strict=True))

    def featureset_of(self, sltr: Any) -> FeatureSet:
        store = self.stores.get(sltr.get("store", ""), {})
        if "model" in sltr:
            return read_model(store[f"model-{sltr['model']}"], "model").featureset
        source = store.get(f"featureset-{sltr['featureset']}")
        if source is None:
            raise _unknown("featureset", sltr["featureset"])
        return parse_featureset(source["featureset"], sltr["featureset"])

    def values(
        self, path: str, featureset: FeatureSet, params: Any, ids: list[str], active: Any = None
    ) -> dict[str, NDArray[np.float32]]:
        """Each document's features; NaN where a query does not match."""
        try:
            compiled = compile_featureset(featureset)
            wanted = [each for each in compiled.queries if active is None or each.name in active]
            queries = [named(each.query(params), each.name) for each in wanted]
        except OwpcLtrError as error:
            kind = "illegal_argument_exception" if isinstance(error, BadInput) else "script"
            raise Refusal(_error(400, kind, str(error))) from error
        rows = {}
        for each, scores in self.named(path, queries, ids).items():
            known = compiled.with_derived(scores) if compiled.derived else scores
            row = [known.get(name, np.nan) for name in featureset.feature_names]
            rows[each] = np.array(row, np.float32)
        return rows

    def named(self, path: str, queries: list[Any], ids: list[str]) -> dict[str, dict[str, float]]:
        if not ids:
            return {}
        body = {
            "size": len(ids),
            "_source": False,
            "track_total_hits": True,
            "query": {"constant_score": {"filter": {"bool": {
                "filter": [{"ids": {"values": ids}}], "should": queries}}}},
        }  # fmt: skip
        answer = self.sent("POST", f"{path}?include_named_queries_score=true", body)
        return {hit["_id"]: hit.get("matched_queries", {}) for hit in answer["hits"]["hits"]}


@contextmanager
def scripted_plugin(node: str) -> Iterator[tuple[str, ScriptedPlugin]]:
    """The address of a node with the scripted plugin, and the plugin."""
    plugin = ScriptedPlugin(node)
    with FakeEngine() as fake:
        for method in _METHODS:
            fake.on(method, "*", plugin.answer)
        yield fake.url, plugin


def _take_filter(query: Any) -> Any:
    """The `sltr` among the filters of a query, which is taken out: it filters nothing."""
    filters = find(query, "filter")
    if isinstance(filters, list):
        for clause in filters:
            if "sltr" in clause:
                filters.remove(clause)
                return clause["sltr"]
    return None


def _page(store: dict[str, Any], what: str, params: dict[str, str]) -> Reply:
    elements = [source for key, source in sorted(store.items()) if key.startswith(f"{what}-")]
    first, size = int(params.get("from", 0)), int(params.get("size", 20))
    hits = [{"_id": source["name"], "_source": source} for source in elements[first : first + size]]
    return Reply(whole(hits, len(elements)))


def _written(key: str, result: str, status: int) -> Reply:
    place = {"_index": ".ltrstore", "_id": key, "result": result, "_version": 1}
    return Reply({**place, "_seq_no": 1, "_primary_term": 1}, status)


def _error(status: int, kind: str, reason: str) -> Reply:
    cause = {"type": kind, "reason": reason}
    return Reply({"error": {"root_cause": [cause], **cause}, "status": status}, status)


def _unknown(what: str, name: str) -> Refusal:
    reason = f"failed to create query: ResourceNotFoundException[Unknown {what} [{name}]]"
    cause = {"type": "query_shard_exception", "reason": reason}
    whole = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
    error = {"root_cause": [cause], **whole, "failed_shards": [{"shard": 0, "reason": cause}]}
    return Refusal(Reply({"error": error, "status": 400}, 400))
