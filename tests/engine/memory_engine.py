"""An engine in memory: a few documents, feature values that are a function of what is asked.

It answers what feature logging sends, with or without the LTR plugin, and lets a test alter or
replace any answer. Nothing here is random: equal questions have equal answers.
"""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from owpc_ltr.data.external_features import ExternalTable
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.feature_set import Feature, FeatureSet

NAMES = ("title", "body", "year", "popularity")


def small_featureset(names: tuple[str, ...] = NAMES) -> FeatureSet:
    return FeatureSet(
        "movies", tuple(Feature(name, ("query",), {"match": {name: "{{query}}"}}) for name in names)
    )


def small_judgments(queries: int = 6, documents: int = 5, pool: int = 12) -> Judgments:
    """Queries whose documents are cut from d0 … d{pool-1}, in an order of their own."""
    return Judgments(
        [
            JudgedQuery(
                f"q{q}",
                {"query": f"words of {q}", "year": str(2000 + q)},
                [f"d{(q * 5 + 7 * d) % pool}" for d in range(documents)],
                np.array([(q + d) % 3 for d in range(documents)], np.float32),
            )
            for q in range(queries)
        ]
    )


def value_of(feature: str, query: str, document: str, revision: int = 0) -> float | None:
    """A feature's value; one in four does not match, one in four is zero."""
    number = zlib.crc32(f"{feature}\0{query}\0{document}".encode(), revision)
    return None if number % 4 == 0 else 0.0 if number % 4 == 1 else number / 2**28


@dataclass
class MemoryEngine:
    """`request` as the client has it; `fault` sees each call's number and answer, and may change
    the answer, or raise."""

    documents: set[str] = field(default_factory=lambda: {f"d{d}" for d in range(12)})
    featureset: FeatureSet = field(default_factory=small_featureset)
    index: str = "movies"
    uuid: str = "uuid-1"
    version: str = "3.8.0"
    mappings: dict[str, Any] = field(default_factory=lambda: {"properties": {}})
    fault: Callable[[int, str, Any, Any], Any] | None = None
    revision: int = 0
    """How often all documents were written anew: each time all values are others."""
    merges: int = 0
    """How often scores moved though no document did."""
    snapshots: dict[str, tuple[set[str], int]] = field(default_factory=dict)
    """The points in time that are open."""
    opened: int = 0
    calls: int = 0
    largest: int = 0
    settings: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(url="memory:"))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        deadline: float | None = None,
    ) -> Any:
        with self._lock:
            self.calls += 1
            number = self.calls
        answer = self.answer(method, path, params or {}, copy.deepcopy(body))
        return answer if self.fault is None else self.fault(number, path, body, answer)

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        """The true answer, in the engine's own JSON."""
        if method == "GET":
            return copy.deepcopy(self._about(path))
        if path.endswith("/point_in_time"):
            return self._pin(method, path, params, body)
        documents, revision = self._moment(path, body)
        assert method == "POST"
        assert params["allow_partial_search_results"] == "false"
        if find(body, "ids") is None:
            return self._last_written(documents, revision, body)
        assert body["track_total_hits"] is True
        asked = find(body, "ids")["values"]
        assert body["size"] >= len(asked)
        self.largest = max(self.largest, len(asked))
        hits = [self._hit(d, revision, body) for d in dict.fromkeys(asked) if d in documents]
        return whole(hits, len(hits))

    def _pin(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        if method == "DELETE":
            for name in body["pit_id"]:
                self.snapshots.pop(name, None)
            return {"pits": []}
        assert (method, path) == ("POST", f"/{self.index}/_search/point_in_time")
        assert params["allow_partial_pit_creation"] == "false"
        self.opened += 1
        self.snapshots[f"pit-{self.opened}"] = (set(self.documents), self.revision)
        return {"pit_id": f"pit-{self.opened}"}

    def _moment(self, path: str, body: Any) -> tuple[set[str], int]:
        """The documents that a search sees: those of its point in time."""
        assert path == "/_search", path
        try:
            return self.snapshots[body["pit"]["id"]]
        except KeyError:
            kind = "search_context_missing_exception"
            raise EngineRefusal("POST /_search", 404, kind, "No search context found") from None

    def _last_written(self, documents: set[str], revision: int, body: Any) -> Any:
        hit = {"_index": self.index, "_id": "d0", "_seq_no": 11 + revision, "_primary_term": 1}
        listed = [hit] if body["size"] and documents else []
        return whole(listed, len(documents))

    def _about(self, path: str) -> Any:
        settings = {"index": {"uuid": self.uuid, "number_of_shards": "1"}}
        stored = {"_source": {"name": "movies", "type": "featureset", **self.featureset.to_body()}}
        return {
            "/": {
                "version": {"number": self.version, "distribution": "opensearch"},
                "cluster_name": "c",
                "cluster_uuid": "u",
            },
            f"/{self.index}": {
                self.index: {"aliases": {}, "mappings": self.mappings, "settings": settings}
            },
            "/owpc-ltr-store/_doc/featureset-movies": stored,
            "/_ltr/_featureset/movies": stored,
        }[path]

    def _hit(self, document: str, revision: int, body: Any) -> dict[str, Any]:
        hit: dict[str, Any] = {"_index": self.index, "_id": document, "_score": 1.0}
        sltr, clauses = find(body, "sltr"), find(body, "should")
        if sltr is not None:
            words = sltr["params"]["query"]
            hit["fields"] = {"_ltrlog": [{"main": self._logged(words, document, revision)}]}
        for clause in clauses or []:
            name = find(clause, "_name")
            value = value_of(name, find(clause, name), document, revision + self.merges)
            if value is not None:
                hit.setdefault("matched_queries", {})[name] = value
        return hit

    def _logged(self, words: str, document: str, revision: int) -> list[dict[str, Any]]:
        state = revision + self.merges
        values = {n: value_of(n, words, document, state) for n in self.featureset.feature_names}
        return [
            {"name": name} if value is None else {"name": name, "value": value}
            for name, value in values.items()
        ]


def whole(hits: list[Any], total: int) -> dict[str, Any]:
    """A whole answer to a search."""
    return {
        "took": 1,
        "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": total, "relation": "eq"}, "hits": hits},
    }


def is_log_search(body: Any) -> bool:
    """Whether a search asks for features, and not only which documents are there."""
    return find(body, "should") is not None or find(body, "sltr") is not None


def find(tree: Any, key: str) -> Any:
    """The value of the first such key, at any depth."""
    if isinstance(tree, dict):
        if key in tree:
            return tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            value = find(part, key)
            if value is not None:
                return value
    return None


def log(
    engine: MemoryEngine,
    out: Path,
    *,
    judgments: Judgments | None = None,
    kind: str = "plugin-free",
    options: LogOptions,
    buckets: int | None = None,
    joined: Sequence[ExternalTable] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> LogReport:
    """The log of an engine in memory through a real store."""
    client = cast("Engine", engine)
    store = LtrPluginStore(client) if kind == "ltr-plugin" else PluginFreeStore(client)
    return run_log(
        engine,
        store,
        engine.featureset,
        judgments or small_judgments(),
        engine.index,
        out,
        options=options,
        buckets=buckets,
        joined=joined,
        progress=progress,
    )


def log_slowly(out: Path, pause: float, last: int | None = None, late: float = 0.0) -> None:
    """A log of the small judgments whose every call takes a while, for child processes.

    With `last` the process is killed, like by a power cut, `late` seconds after the call of
    this number.
    """

    def slow(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number == last:
            threading.Timer(late, os.kill, (os.getpid(), signal.SIGKILL)).start()
        time.sleep(pause)
        return answer

    log(MemoryEngine(fault=slow), out, options=LogOptions(pause=0, chunk=5, in_flight=2))
