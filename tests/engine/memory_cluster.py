"""A cluster in memory: indices, aliases and documents, as far as writes and proofs need them.

`request` is as the client has it. What it does is held against a real node by
`test_stores.py`, so that thousands of faulty runs on it tell of real ones.
"""

from __future__ import annotations

import copy
import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np

from owpc_ltr.engine.client.engine import Identity
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex
from owpc_ltr.features.mustache import compiled, json_escape
from tests.engine.memory_engine import find

SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


@dataclass
class Index:
    """An index: `documents` by id, each with its source, sequence number and version."""

    body: dict[str, Any]
    aliases: dict[str, dict[str, Any]]
    uuid: str = field(default_factory=lambda: uuid.uuid4().hex)
    documents: dict[str, tuple[Any, int, int]] = field(default_factory=dict)
    seq: int = 0


class MemoryCluster:
    """Answers as an engine does; `indices` and `scripts` are all that there is."""

    def __init__(self) -> None:
        self.indices: dict[str, Index] = {}
        self.scripts: dict[str, Any] = {}
        self.settings = SimpleNamespace(url="memory:", given=False)

    def identity(self) -> Identity:
        return Identity("opensearch", "3.8.0", "memory", "uuid", ())

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        ndjson: Iterable[Any] | None = None,
        idempotent: bool = True,
        deadline: float | None = None,
    ) -> Any:
        given = list(ndjson) if ndjson is not None else body
        known = {name: str(value) for name, value in (params or {}).items()}
        answer = self._answer(method, path, known, copy.deepcopy(given))
        return json.loads(json.dumps(answer))

    def _answer(self, method: str, path: str, params: dict[str, str], body: Any) -> Any:
        of_the_cluster: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", "/"): lambda: {
                "cluster_name": "memory",
                "cluster_uuid": "0",
                "version": {"number": "3.8.0", "distribution": "opensearch"},
            },
            ("GET", "/_cat/indices"): lambda: [{"index": index} for index in self.indices],
            ("POST", "/_aliases"): lambda: self._change_aliases(body["actions"]),
        }
        if (method, path) in of_the_cluster:
            return of_the_cluster[method, path]()
        first, *rest = path.strip("/").split("/")
        name = unquote(first)
        if name == "_scripts":
            return self._script(method, unquote(rest[0]), body)
        if rest == ["_search", "template"]:
            body = self._filled(body["id"], body["params"])
        key = f"{method} {rest[0] if rest else ''}".strip()
        acts: dict[str, Callable[[], Any]] = {
            "PUT": lambda: self._create(name, body or {}),
            "DELETE": lambda: self._delete(name),
            "GET": lambda: {n: self._about(n) for n in self._behind(name)},
            "GET _alias": lambda: self._aliases(name),
            "PUT _mapping": lambda: self._put_mapping(name, body),
            "GET _mapping": lambda: {
                n: {"mappings": self._about(n)["mappings"]} for n in self._behind(name)
            },
            "POST _bulk": lambda: self._bulk(name, params, body),
            "POST _refresh": lambda: {"_shards": SHARDS} if self._behind(name) else None,
            "POST _forcemerge": lambda: {"_shards": SHARDS} if self._behind(name) else None,
            "GET _count": lambda: {"count": len(self._one(name).documents), "_shards": SHARDS},
            "POST _search": lambda: self._search(name, body),
        }
        if key in acts:
            return acts[key]()
        what, identifier = rest[0], unquote(rest[1])
        if method == "GET":
            return self._get(name, identifier)
        if method == "DELETE":
            return self._remove(name, identifier, params)
        operation = "create" if what == "_create" else params.get("op_type", "index")
        return self._write(self._target(name), identifier, body, operation, params)

    # Indices and aliases

    def _behind(self, name: str) -> list[str]:
        if name.endswith("*"):
            return [index for index in self.indices if index.startswith(name[:-1])]
        names = [n for n, index in self.indices.items() if name == n or name in index.aliases]
        if not names:
            raise NoSuchIndex("it", 404, "index_not_found_exception", f"no such index [{name}]")
        return names

    def _one(self, name: str) -> Index:
        (index_name,) = self._behind(name)
        return self.indices[index_name]

    def _target(self, name: str) -> Index:
        """Where documents go; an index that is not there is made."""
        try:
            return self._one(name)
        except NoSuchIndex:
            self._create(name, {})
            return self.indices[name]

    def _create(self, name: str, body: dict[str, Any]) -> Any:
        if name in self.indices:
            raise EngineRefusal("it", 400, "resource_already_exists_exception", "exists")
        if any(name in index.aliases for index in self.indices.values()):
            raise EngineRefusal("it", 400, "invalid_index_name_exception", "exists as an alias")
        if "index.nosuch_setting" in body.get("settings", {}):
            raise EngineRefusal("it", 400, "settings_exception", "unknown setting")
        aliases = {alias: dict(its) for alias, its in body.get("aliases", {}).items()}
        self.indices[name] = Index(body, aliases)
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _delete(self, name: str) -> Any:
        if name not in self.indices:
            if any(name in index.aliases for index in self.indices.values()):
                raise EngineRefusal("it", 400, "illegal_argument_exception", "matches an alias")
            raise NoSuchIndex("it", 404, "index_not_found_exception", f"no such index [{name}]")
        del self.indices[name]
        return {"acknowledged": True}

    def _about(self, name: str) -> Any:
        index = self.indices[name]
        return {
            "aliases": index.aliases,
            "mappings": index.body.get("mappings", {}),
            "settings": {"index": {"uuid": index.uuid}},
        }

    def _aliases(self, name: str) -> Any:
        return {
            index_name: {"aliases": self.indices[index_name].aliases}
            for index_name in self._behind(name)
        }

    def _put_mapping(self, name: str, body: Any) -> Any:
        mappings = self._one(name).body.setdefault("mappings", {})
        mappings.setdefault("properties", {}).update(body["properties"])
        return {"acknowledged": True}

    def _change_aliases(self, actions: list[dict[str, dict[str, Any]]]) -> Any:
        """All of them or none."""
        changed = copy.copy(self.indices)
        parts = [(verb, given) for action in actions for verb, given in action.items()]
        for verb, given in parts:
            if given["index"] not in self.indices:
                self._delete(given["index"])  # which raises what an engine says
            if verb == "remove_index":
                del changed[given["index"]]
        for verb, given in parts:
            if verb != "remove_index":
                _change_alias(changed, verb, given)
        self.indices = changed
        return {"acknowledged": True}

    # Scripts

    def _script(self, method: str, script: str, body: Any) -> Any:
        if method == "PUT":
            self.scripts[script] = body["script"]
            return {"acknowledged": True}
        if script not in self.scripts:
            raise EngineRefusal("it", 404, "resource_not_found_exception", f"no script [{script}]")
        if method == "GET":
            return {"_id": script, "found": True, "script": self.scripts[script]}
        del self.scripts[script]
        return {"acknowledged": True}

    def _filled(self, script: str, params: dict[str, Any]) -> Any:
        """The body of a search that a template is with these parameters."""
        if script not in self.scripts:
            raise EngineRefusal("it", 404, "resource_not_found_exception", f"no script [{script}]")
        return json.loads(compiled(self.scripts[script]["source"], json_escape)(params))

    # Documents

    def _bulk(self, name: str, params: dict[str, str], lines: list[Any]) -> Any:
        items = []
        for action, source in _pairs(lines):
            identifier = action["index"]["_id"]
            if params.get("require_alias") == "true" and not any(
                name in index.aliases for index in self.indices.values()
            ):
                error = {"type": "index_not_found_exception", "reason": "is not an alias"}
                items.append({"index": {"_id": identifier, "status": 404, "error": error}})
                continue
            done = self._write(self._target(name), identifier, source, "index", {})
            items.append({"index": {**done, "status": 201 if done["_version"] == 1 else 200}})
        return {"took": 1, "errors": any("error" in i["index"] for i in items), "items": items}

    def _write(
        self, index: Index, identifier: str, source: Any, operation: str, params: dict[str, str]
    ) -> Any:
        before = index.documents.get(identifier)
        self._check_version(before, params)
        if operation == "create" and before is not None:
            raise EngineRefusal("it", 409, "version_conflict_engine_exception", "exists")
        version = 1 if before is None else before[2] + 1
        index.documents[identifier] = (source, index.seq, version)
        index.seq += 1
        result = "created" if before is None else "updated"
        return {"_id": identifier, "_version": version, "result": result, "_shards": SHARDS}

    def _remove(self, name: str, identifier: str, params: dict[str, str]) -> Any:
        index = self._one(name)
        before = index.documents.get(identifier)
        self._check_version(before, params)
        if before is None:
            raise EngineRefusal("it", 404, "not_found", "it is not there")
        del index.documents[identifier]
        index.seq += 1
        return {"_id": identifier, "_version": before[2] + 1, "result": "deleted"}

    def _check_version(self, before: tuple[Any, int, int] | None, params: dict[str, str]) -> None:
        wanted = params.get("if_seq_no")
        if wanted is not None and (before is None or str(before[1]) != wanted):
            raise EngineRefusal("it", 409, "version_conflict_engine_exception", "another version")

    def _get(self, name: str, identifier: str) -> Any:
        document = self._one(name).documents.get(identifier)
        if document is None:
            raise EngineRefusal("it", 404, "not_found", "it is not there")
        source, seq, version = document
        return {
            "_id": identifier,
            "_version": version,
            "_seq_no": seq,
            "_primary_term": 1,
            "found": True,
            "_source": source,
        }

    def _search(self, name: str, body: dict[str, Any]) -> Any:
        index = self._one(name)
        wanted, term, exists = (find(body.get("query"), key) for key in ("ids", "term", "exists"))
        hits = []
        for identifier, (source, _, _) in index.documents.items():
            if wanted is not None and identifier not in wanted["values"]:
                continue
            if exists is not None and not source.get(exists["field"]):
                continue
            if wanted is None and term is not None and source.get("type") != term.get("type"):
                continue
            hits.append(self._hit(name, identifier, source, body))
        if "sort" in body:
            hits.sort(key=lambda hit: hit["sort"])
            after = body.get("search_after")
            hits = [hit for hit in hits if after is None or hit["sort"] > after]
        return {
            "took": 1,
            "timed_out": False,
            "_shards": SHARDS,
            "hits": {
                "total": {"value": len(hits), "relation": "eq"},
                "hits": hits[: body.get("size", 10)],
            },
        }

    def _hit(self, name: str, identifier: str, source: Any, body: dict[str, Any]) -> Any:
        hit: dict[str, Any] = {"_index": name, "_id": identifier, "_score": 1.0}
        if body.get("_source") is not False:
            hit["_source"] = source
        if "sort" in body:
            hit["sort"] = [source.get(field) for field in body["sort"]]
        for clause in find(body.get("query"), "should") or []:
            (inner,), name_ = clause["bool"]["must"], clause["bool"]["_name"]
            hit.setdefault("matched_queries", {})[name_] = score_of(inner, identifier)
        if "rescore" in body:
            score = np.float32(0)
            for step in (each["query"] for each in body["rescore"]):
                part = np.float32(score_of(step["rescore_query"], identifier))
                score = np.float32(score * step["query_weight"]) + part * np.float32(
                    step["rescore_query_weight"]
                )
            hit["_score"] = float(score)
        return hit


def _change_alias(indices: dict[str, Index], verb: str, given: dict[str, Any]) -> None:
    index = indices[given["index"]] = copy.copy(indices[given["index"]])
    index.aliases = dict(index.aliases)
    alias = given["alias"]
    if verb == "add":
        if alias in indices:
            raise EngineRefusal("it", 400, "invalid_alias_name_exception", "is an index")
        properties = {k: v for k, v in given.items() if k not in {"index", "alias"}}
        index.aliases[alias] = properties
    elif alias in index.aliases:
        del index.aliases[alias]
    else:
        raise EngineRefusal("it", 404, "aliases_not_found_exception", f"[{alias}] missing")


def score_of(query: Any, document: str) -> float:
    """A score that is a function of what is asked of which document, and nothing else."""
    if query == {"match_all": {}}:
        return 1.0
    if query.keys() == {"bool"} and query["bool"].keys() == {"should"}:
        parts = [clause["function_score"] for clause in query["bool"]["should"]]
        return sum(float(p["weight"]) * score_of(p["query"], document) for p in parts)
    text = re.sub(r"\s+", " ", json.dumps(query, sort_keys=True))
    return float(np.float32(zlib.crc32(f"{text}\0{document}".encode()) / 2**29))


def _pairs(lines: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(lines[::2], lines[1::2], strict=True)
