"""The cluster in memory does what a real node does, answer by answer."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.engine.memory_cluster import MemoryCluster

Step = tuple[str, str, dict[str, Any]]
KEPT = ("acknowledged", "result", "_id", "_version", "count", "errors", "found", "_source")


def steps(a: str, b: str) -> list[Step]:
    """Requests of every kind that writes send, those that are refused among them."""
    add = {"add": {"index": b, "alias": a}}
    unmark = {"remove": {"index": b, "alias": f"{b}-m", "must_exist": True}}
    lines = [{"index": {"_id": "1"}}, {"n": 1}, {"index": {"_id": "2"}}, {"n": 2}]
    document = f"/{a}/_doc/x%2Fy"
    return [
        ("GET", f"/{a}/_alias", {}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{b}", {"body": {"aliases": {f"{b}-m": {}}}}),
        ("PUT", f"/{a}-no", {"body": {"settings": {"index.nosuch_setting": 1}}}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{a}/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{b}/_refresh", {}),
        ("GET", f"/{b}/_count", {}),
        ("POST", "/_aliases", {"body": {"actions": [add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [{"remove_index": {"index": a}}, add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [{"remove_index": {"index": a}}, add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [unmark]}}),
        ("GET", f"/{a}/_alias", {}),
        ("GET", f"/{a[:-2]}%2A/_alias", {}),
        ("DELETE", f"/{a}", {}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{a}/_create/c", {"body": {"n": 1}}),
        ("PUT", f"/{a}/_create/c", {"body": {"n": 2}}),
        ("PUT", document, {"body": {"n": 3}, "params": {"op_type": "create"}}),
        ("PUT", document, {"body": {"n": 4}, "params": {"op_type": "create"}}),
        ("GET", document, {}),
        ("PUT", document, {"body": {"n": 5}, "params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("PUT", document, {"body": {"n": 6}, "params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("DELETE", document, {"params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("DELETE", document, {}),
        ("DELETE", document, {}),
        ("GET", document, {}),
        ("DELETE", f"/{b}", {}),
        ("DELETE", f"/{b}", {}),
        ("GET", f"/{a}/_doc/c", {}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
    ]


def outcome(engine: Any, step: Step) -> Any:
    method, path, given = step
    try:
        answer = engine.request(method, path, **given)
    except EngineRefusal as refusal:
        return refusal.status, refusal.type.replace("invalid_alias_name", "alias_name")
    if path.endswith("_alias"):
        return answer
    items = [
        {key: item["index"].get(key) for key in ("_id", "status", "result")}
        for item in answer.get("items", [])
    ]
    return {key: answer[key] for key in KEPT if key in answer}, items


def test_the_cluster_in_memory_answers_as_a_real_node_does(node_url: str) -> None:
    own = f"memory-{uuid.uuid4().hex[:8]}"
    a, b = f"{own}-a", f"{own}-b"
    real, memory = Engine(ConnectionSettings(node_url)), MemoryCluster()
    try:
        for number, step in enumerate(steps(a, b)):
            assert outcome(memory, step) == outcome(real, step), (number, step)
    finally:
        for name in (a, b):
            with contextlib.suppress(EngineRefusal):
                real.request("DELETE", f"/{name}")
        real.close()
