"""An experiment on a real engine: from two uploads to the alias that is switched, and back.

Simulated users search through the service, in a process of its own, and click what they want.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.deployment.alias import CHALLENGER, Aliases
from owpc_ltr.engine.experiments import Experiments
from owpc_ltr.engine.search.request import SearchRequest
from tests.commands import Run
from tests.engine.deployed import put
from tests.engine.small_cluster import WORDS, Small, linear, small_cluster
from tests.serve.service import Service, service

_CLIENTS = 150


@pytest.fixture(scope="module")
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url, documents=120) as made:
        yield made
        made.engine.request(
            "DELETE", "/owpc-ltr-aliases/_doc/experiment%2Ftitles-on-node",
            params={"refresh": "true"},
        )  # fmt: skip


def request_of(words: str, client: str) -> dict[str, Any]:
    """What the application sends, before, during and after the experiment."""
    return {
        "query": {"match": {"body": words}},
        "size": 10,
        "aggs": {"sizes": {"stats": {"field": "size"}}},
        "ext": {
            "owpc_ltr": {"experiment": "titles-on-node", "params": {"keywords": words}},
            "ubi": {"client_id": client, "user_query": words},
        },
    }


def click(made: Service, index: str, number: int, sizes: dict[str, float]) -> list[dict[str, Any]]:
    """One user, who looks at rank k with chance 1/k, and clicks on large documents, or any."""
    rng = np.random.default_rng(number)
    words, client = " ".join(rng.choice(WORDS, 2, replace=False)), f"u{number}"
    reply = made.ask("POST", f"/{index}/_search", request_of(words, client))
    assert reply.status == 200, reply.content
    answer, headers = reply.json(), reply.headers
    assert headers["x-ltr-status"] == "interleaved", headers
    assert answer["aggregations"]["sizes"]["count"] == answer["hits"]["total"]["value"]
    return [
        {
            "action_name": "click", "query_id": headers["x-ltr-query-id"], "client_id": client,
            "timestamp": datetime.now(UTC).isoformat(),
            "event_attributes": {
                "object": {"object_id": hit["_id"]}, **hit["fields"]["_owpc_ltr"][0],
            },
        }
        for rank, hit in enumerate(answer["hits"]["hits"], 1)
        if rng.random() < 1 / rank and (sizes[hit["_id"]] > 5 or rng.random() < 0.2)
    ]  # fmt: skip


def test_users_decide_which_model_the_alias_is_set_to(
    small: Small, node_url: str, tmp_path: Path, run: Run
) -> None:
    # Users want large documents: B puts these first, A last.
    words = {"keywords": "{{keywords}}", "query": "{{keywords}}"}
    search = SearchRequest(small.index, {"match": {"body": "{{keywords}}"}}, words)
    a = put(small, linear((0.3, 0.3, -1.0)), search=search).alias.current
    b = put(small, linear((0.3, 0.3, 1.0)), role=CHALLENGER, search=search).model
    of_a = by_template(small)
    where = small.place
    name = "titles-on-node"
    rankers = ("--a", small.name, "--b", f"{small.name}:challenger")
    code, out, err = run("experiment", "start", name, *rankers, *where)
    assert (code, out.splitlines()[1]) == (0, f"A: {a} (of '{small.name}')"), err
    sizes = {name: source["size"] for name, source in small.sources().items()}
    shown, clicks = tmp_path / "shown.jsonl", tmp_path / "clicks.jsonl"
    options = (small.name, *where[2:], "--impressions", str(shown), "--deadline", "20")
    with service(tmp_path, node_url, *options) as made:
        with ThreadPoolExecutor(8) as threads:
            many = threads.map(lambda n: click(made, small.index, n, sizes), range(_CLIENTS))
            events = [event for visit in many for event in visit]
        clicks.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        log = ("--events", str(shown), "--events", str(clicks))
        code, out, err = run("experiment", "status", name, *log, *where)
        assert (code, out.partition("\n")[0].partition(" ")[0]) == (0, "better"), out + err
        assert max(map(len, out.splitlines())) <= 80
        code, out, _ = run("experiment", "status", name, *log, *where, "--json")
        status = json.loads(out)
        assert status["result"]["n_clients"] == _CLIENTS
        assert (status["unusable"], status["failed"], status["bots"]) == ({}, 0, 0)
        out = run.output("experiment", "stop", name, *log, "--promote-if", "better", *where)
        assert f"search template '{small.name}' serves it: its calls stay as they are" in out
        aliases = Aliases(small.engine, small.store)
        assert aliases.resolve(small.name) == b
        assert Experiments(small.engine).get(name).state == "stopped"
        assert name in run("models", "show", b, *where)[1]
        assert order(made, small, b)
        of_b = by_template(small)
        assert of_b[0] != of_a[0]
        assert run("models", "rollback", small.name, *where)[0] == 0
        assert aliases.resolve(small.name) == a
        assert order(made, small, a)
        assert by_template(small) == of_a


def by_template(small: Small) -> list[tuple[str, float]]:
    """The ids and scores of the request that an application sends for ever."""
    request = {"id": small.name, "params": {"keywords": "alpha beta", "size": 10}}
    answer = small.engine.request("POST", f"/{small.index}/_search/template", body=request)
    return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]


def order(made: Service, small: Small, model: str) -> bool:
    """Whether the application's request, unchanged, is soon ranked by this model."""
    import time

    until = time.monotonic() + 20
    while time.monotonic() < until:
        reply = made.ask("POST", f"/{small.index}/_search", request_of("alpha beta", "u1"))
        assert reply.status == 200
        if reply.headers.get("x-ltr-model") == model:
            return reply.headers["x-ltr-status"] == "ranked"
        time.sleep(0.1)
    return False
