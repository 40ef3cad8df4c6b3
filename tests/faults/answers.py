"""What goes wrong with requests and answers: one function each, as plans of the proxy take it."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from tests.engine.fake_engine import Asked, Reply
from tests.engine.memory_engine import find
from tests.faults.proxy import Act, FaultProxy, Forward

HANG = 2.5
"""Seconds that a hanging request lasts: longer than the time limit of the cells that hang."""


def refusal(status: int, type_: str = "", reason: str = "", **headers: str) -> Act:
    """An error in the engine's own form, in place of doing what was asked."""
    error = {"type": type_ or "some_exception", "reason": reason or "no reason"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _asked, _forward: Reply({"error": error, "status": status}, status, named)


def instead(body: Any, content_type: str = "application/json", **headers: str) -> Act:
    """Something else than the engine's answer, with status 200."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _asked, _forward: Reply(body, 200, named, content_type=content_type)


def redirected(status: int, address: str) -> Act:
    """The way to another host."""
    return lambda asked, _forward: Reply(
        b"", status, {"location": f"{address}{asked.target}"}, content_type="text/plain"
    )


def reset_before(_asked: Asked, _forward: Forward) -> Reply:
    """A broken connection before the node has seen the request."""
    return Reply(reset=True)


def reset_after(asked: Asked, forward: Forward) -> Reply:
    """A broken connection after the node has done what was asked."""
    return replace(forward(asked), reset=True)


def hang_before(_asked: Asked, _forward: Forward) -> Reply:
    """Silence, and the node has not seen the request."""
    time.sleep(HANG)
    return Reply(reset=True)


def hang_after(asked: Asked, forward: Forward) -> Reply:
    """Silence, and the node has done what was asked."""
    answer = forward(asked)
    time.sleep(HANG)
    return replace(answer, reset=True)


def cut_at(sixteenths: int, *, announced: bool = True) -> Act:
    """A body that ends early."""
    return lambda asked, forward: replace(forward(asked), cut=sixteenths / 16, announced=announced)


def dripping(asked: Asked, forward: Forward) -> Reply:
    """A body that comes byte by byte."""
    return replace(forward(asked), drip=0.05)


def dripping_headers(asked: Asked, forward: Forward) -> Reply:
    """Headers that come byte by byte."""
    return replace(forward(asked), drip_headers=0.05)


def refused_from_now_on(proxy: FaultProxy) -> Act:
    """The port is closed, and this connection too."""

    def act(_asked: Asked, _forward: Forward) -> Reply:
        proxy.stop_listening()
        return Reply(reset=True)

    return act


@cache
def gzip_bomb() -> bytes:
    """300 MB of blanks in 300 kB."""
    return gzip.compress(b" " * 300_000_000, 9)


def bomb(_asked: Asked, _forward: Forward) -> Reply:
    """A small answer that unpacks to a large one."""
    return Reply(gzip_bomb(), 200, {"content-encoding": "gzip"})


def deep(_asked: Asked, _forward: Forward) -> Reply:
    """JSON that is nested a million times."""
    return Reply(b"[" * 1_000_000, 200)


# ---------------------------------------------------------------- answers of searches, altered


def edited(edit: Callable[[Any], None]) -> Act:
    """The node's answer with an edit made in its JSON; errors stay as they are."""

    def act(asked: Asked, forward: Forward) -> Reply:
        answer = forward(asked)
        if answer.status >= 300:
            return answer
        content = json.loads(answer.content)
        edit(content)
        return replace(answer, body=json.dumps(content).encode())

    return act


def timed_out(answer: Any) -> None:
    answer["timed_out"] = True


def shard_failed(answer: Any) -> None:
    answer["_shards"].update(failed=1, successful=answer["_shards"]["successful"] - 1)


def shard_unheard(answer: Any) -> None:
    """A shard less than there are, and none that failed."""
    answer["_shards"]["successful"] -= 1


def lose_hit(answer: Any) -> None:
    del answer["hits"]["hits"][0]
    answer["hits"]["total"]["value"] -= 1


def double_hit(answer: Any) -> None:
    answer["hits"]["hits"].append(answer["hits"]["hits"][0])
    answer["hits"]["total"]["value"] += 1


def foreign_hit(answer: Any) -> None:
    answer["hits"]["hits"][0]["_id"] = "nobody-asked-for-this"


def foreign_index(answer: Any) -> None:
    answer["hits"]["hits"][0]["_index"] = "another-index"


def nameless_hit(answer: Any) -> None:
    del answer["hits"]["hits"][0]["_id"]


def hits_of_another_shape(answer: Any) -> None:
    answer["hits"]["hits"] = {"0": "d1"}


def value_of_a_feature(value: Any) -> Callable[[Any], None]:
    """A value in place of the first hit's first that is there."""

    def edit(answer: Any) -> None:
        scores = next(_scores(answer))
        scores[min(scores)] = value

    return edit


def renamed_feature(answer: Any) -> None:
    scores = next(_scores(answer))
    scores["renamed"] = scores.pop(min(scores))


def extra_feature(answer: Any) -> None:
    next(_scores(answer))["extra"] = 1.0


def other_scores(answer: Any) -> None:
    """Scores a thousandth higher than they are."""
    for hit in answer["hits"]["hits"]:
        if isinstance(hit.get("_score"), int | float):
            hit["_score"] = hit["_score"] * 1.001 + 0.01


def _scores(answer: Any) -> Iterator[dict[str, Any]]:
    return (hit["matched_queries"] for hit in answer["hits"]["hits"] if hit.get("matched_queries"))


# ---------------------------------------------------------------- requests of bulk, and large ones


def busy_items(asked: Asked, forward: Forward) -> Reply:
    """Every third document of a bulk request is answered 429, and not taken."""
    lines = asked.raw.splitlines(keepends=True)
    pairs = [lines[i : i + 2] for i in range(0, len(lines), 2)]
    refused = set(range(0, len(pairs), 3))
    taken = [pair for number, pair in enumerate(pairs) if number not in refused]
    items: list[Any] = []
    if taken:
        raw = b"".join(line for pair in taken for line in pair)
        items = json.loads(forward(replace(asked, raw=raw)).content)["items"]
    error = {"type": "rejected_execution_exception", "reason": "the queue is full"}
    for number in sorted(refused):
        ((operation, about),) = json.loads(pairs[number][0]).items()
        item = {**about, "status": 429, "error": error}
        items.insert(number, {operation: item})
    return Reply({"took": 1, "errors": True, "items": items})


def lost_items(asked: Asked, forward: Forward) -> Reply:
    """The answer to a bulk request lacks its last item, and says that there were no errors."""
    answer = json.loads(forward(asked).content)
    return Reply({**answer, "errors": False, "items": answer["items"][:-1]})


def no_items(asked: Asked, forward: Forward) -> Reply:
    """The answer to a bulk request has no items."""
    forward(asked)
    return Reply({"took": 1, "errors": False})


def too_large_for(most: int, act: Act) -> Act:
    """What goes wrong with requests for more than so many documents; smaller ones pass."""

    def checked(asked: Asked, forward: Forward) -> Reply:
        return act(asked, forward) if _documents(asked) > most else forward(asked)

    return checked


def _documents(asked: Asked) -> int:
    if isinstance(asked.body, list):
        return len(asked.body) // 2
    ids = find(asked.body, "ids")
    return len(ids["values"]) if ids else 0
