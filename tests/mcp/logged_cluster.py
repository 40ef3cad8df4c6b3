"""The cluster in memory, as far as feature logging needs it, too: with points in time."""

from __future__ import annotations

from typing import Any

from tests.engine.memory_cluster import SHARDS, MemoryCluster


class LoggedCluster(MemoryCluster):
    """Tells of an index which write was its last; nothing is written while features are logged."""

    def _answer(self, method: str, path: str, params: dict[str, str], body: Any) -> Any:
        if path.endswith("/point_in_time"):
            return {"pits": []} if method == "DELETE" else {"pit_id": path.split("/")[1]}
        if path == "/_search":
            return self._search(body["pit"]["id"], body)
        return super()._answer(method, path, params, body)

    def _search(self, name: str, body: dict[str, Any]) -> Any:
        counts = body.get("size") == 0
        if not counts and "seq_no_primary_term" not in body:
            return super()._search(name, body)
        documents = self._one(name).documents
        last = max(documents, key=lambda key: documents[key][1], default=None)
        hits = []
        if last is not None and not counts:
            _source, number, _version = documents[last]
            hits = [{"_index": name, "_id": last, "_seq_no": number, "_primary_term": 1}]
        total = {"value": len(documents), "relation": "eq"}
        hits_of_page = {"total": total, "hits": hits}
        return {"took": 1, "timed_out": False, "_shards": SHARDS, "hits": hits_of_page}
