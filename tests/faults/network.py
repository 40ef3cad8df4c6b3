"""The faults of a network and an engine, each with what a command must make of it.

An outcome is the exit codes that are right: `0` only ever with the result of a run in which nothing
went wrong, whatever else is allowed. `-` is where a fault has nothing to strike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.engine.fake_engine import Asked, Reply
from tests.engine.memory_engine import find
from tests.faults import answers as wrong
from tests.faults.proxy import FOR_EVER, Act, FaultProxy
from tests.faults.stage import Kind

Outcome = str
QUICK = {"OWPC_LTR_DEADLINE": "1.2"}
IMPATIENT = {"OWPC_LTR_TIMEOUT": "2", "OWPC_LTR_DEADLINE": "12"}
BRIEF = {"OWPC_LTR_TIMEOUT": "0.6", "OWPC_LTR_DEADLINE": "1.2"}


def anything(_asked: Asked) -> bool:
    return True


def is_search(asked: Asked) -> bool:
    return asked.path.endswith("/_search")


def is_search_by_ids(asked: Asked) -> bool:
    """Whether it asks for given documents, as logs and proofs do."""
    return is_search(asked) and find(asked.body, "ids") is not None


def is_end_of_snapshot(asked: Asked) -> bool:
    """Whether it closes a point in time, which else ends by itself."""
    return asked.method == "DELETE" and "point_in_time" in asked.path


def is_search_for_features(asked: Asked) -> bool:
    return is_search_by_ids(asked) and find(asked.body, "_name") is not None


def is_rescored(asked: Asked) -> bool:
    """Whether it asks for a model's scores of given documents."""
    return is_search_by_ids(asked) and find(asked.body, "rescore") is not None


def is_bulk(asked: Asked) -> bool:
    return asked.path.endswith("/_bulk")


def is_write(asked: Asked) -> bool:
    return asked.method in {"PUT", "DELETE"} or asked.path.rpartition("/")[2] in {
        "_bulk",
        "_aliases",
        "_refresh",
        "_forcemerge",
    }


def is_model_put(asked: Asked) -> bool:
    return asked.method == "PUT" and "/model-" in asked.path


@dataclass(frozen=True)
class Fault:
    """What goes wrong, with which requests, and what is promised of each kind of stage."""

    name: str
    act: Act | Callable[[FaultProxy], Act]
    reads: Outcome
    logs: Outcome
    writes: Outcome
    on: Callable[[Asked], bool] = anything
    times: int = 1
    onwards: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    """The stages that it is for; all where none is named."""
    of_proxy: bool = False
    """Whether `act` is made for a proxy."""
    seeds: int = 1

    def expected(self, kind: Kind) -> Outcome:
        """The exit codes that are right for a kind of stage."""
        return {Kind.READS: self.reads, Kind.LOGS: self.logs, Kind.WRITES: self.writes}[kind]

    def acting_through(self, proxy: FaultProxy) -> Act:
        """What goes wrong, at this proxy."""
        act: Any = self.act
        made: Act = act(proxy) if self.of_proxy else act
        return made


BREAKER = wrong.refusal(500, "runtime_exception", "the LTR memory circuit is broken")
CLAUSES = wrong.refusal(400, "too_many_nested_clauses", "Query contains too many nested clauses")
GONE = wrong.refusal(404, "index_not_found_exception", "no such index [it]")


def _too_large(_asked: Asked, _forward: Any) -> Reply:
    return Reply(b"", 413, content_type="text/plain")


def _nowhere(_asked: Asked, _forward: Any) -> Reply:
    return Reply(b"<h1>404</h1>", 404, content_type="text/html")


def _no_number(asked: Asked, forward: Any) -> Reply:
    """A value as large as JSON can write it."""
    marked = wrong.edited(wrong.value_of_a_feature(987654321.125))(asked, forward)
    return Reply(marked.content.replace(b"987654321.125", b"1e400"), marked.status)


def _name_taken(asked: Asked, forward: Any) -> Reply:
    """Somebody else was faster, with another model of this name."""
    other = json.loads(asked.raw)
    definition = find(other, "definition")
    definition.update({name: weight + 1 for name, weight in definition.items()})
    forward(replace(asked, raw=json.dumps(other).encode()))
    return forward(asked)  # type: ignore[no-any-return]


def _same_stored(asked: Asked, forward: Any) -> Reply:
    """Somebody else was faster, with the same model."""
    forward(asked)
    return forward(asked)  # type: ignore[no-any-return]


def _rewritten(*values: Any) -> dict[str, Any]:
    return {f"value {value!r}"[:24]: wrong.value_of_a_feature(value) for value in values}


_ALTERED = {
    "hit lost": wrong.lose_hit,
    "hit of another document": wrong.foreign_hit,
    "hit without id": wrong.nameless_hit,
    "hits of another shape": wrong.hits_of_another_shape,
}
_VALUES = {
    "feature renamed": wrong.renamed_feature,
    "feature extra": wrong.extra_feature,
    **_rewritten("NaN", None, "1.5", [1.0], 10**400),
}
_PARTIAL = {
    "timed_out": wrong.timed_out,
    "shard failed": wrong.shard_failed,
    "shard unheard": wrong.shard_unheard,
}
_SHAPES: dict[str, Any] = {
    "null": b"null",
    "an empty list": b"[]",
    "an empty object": b"{}",
    "a text": b'"ok"',
    "a number": b"7",
    "not acknowledged": b'{"acknowledged": false}',
}
_TRANSIENT = ("0", "0", "0|4")
_AWAY = ("4", "4", "0|4")
_STRANGE = ("0|4|5", "0|4|5", "0|4|5")

FAULTS = [
    # ------------------------------------------------ busy, broken, gone
    Fault("503 twice, Retry-After 1", wrong.refusal(503, retry_after="1"), *_TRANSIENT, times=2),
    Fault("503 for ever", wrong.refusal(503), *_AWAY, times=FOR_EVER, onwards=True, environ=QUICK),
    Fault("429 once, Retry-After 1", wrong.refusal(429, retry_after="1"), "0", "0", "0"),
    Fault("429 for ever", wrong.refusal(429), *_AWAY, times=FOR_EVER, onwards=True, environ=QUICK),
    Fault("breaker of the LTR plugin", BREAKER, "0", "0", "0"),
    Fault("reset before it is done", wrong.reset_before, *_TRANSIENT, seeds=3),
    Fault("answer lost", wrong.reset_after, *_TRANSIENT, seeds=3),
    Fault("resets for ever", wrong.reset_before, *_AWAY, times=FOR_EVER, onwards=True,
          environ=QUICK),
    Fault("answers lost for ever", wrong.reset_after, *_AWAY, times=FOR_EVER, onwards=True,
          environ=QUICK),
    Fault("port closed from now on", wrong.refused_from_now_on, *_AWAY, times=FOR_EVER,
          onwards=True, environ=QUICK, of_proxy=True),
    Fault("silence before it is done", wrong.hang_before, *_TRANSIENT, environ=IMPATIENT),
    Fault("silence after it is done", wrong.hang_after, *_TRANSIENT, environ=IMPATIENT),
    Fault("silence for ever", wrong.hang_before, *_AWAY, times=FOR_EVER, onwards=True,
          environ=BRIEF),
    Fault("body byte by byte", wrong.dripping, *_AWAY, times=FOR_EVER, onwards=True,
          environ=BRIEF),
    Fault("headers byte by byte", wrong.dripping_headers, *_AWAY, times=FOR_EVER, onwards=True,
          environ=BRIEF),
    *(
        Fault(f"body cut at {part} of 16", wrong.cut_at(part), *_TRANSIENT)
        for part in range(1, 16)
    ),
    *(
        Fault(f"body of no length cut at {part} of 16", wrong.cut_at(part, announced=False),
              *_TRANSIENT)
        for part in (1, 5, 8, 11, 15)
    ),
    # ------------------------------------------------ not the engine
    # A snapshot that cannot be closed ends by itself.
    Fault("401", wrong.refusal(401), *_AWAY, on=lambda asked: not is_end_of_snapshot(asked)),
    # Who may not open a point in time watches the index instead.
    Fault("403", wrong.refusal(403, "security_exception", "no permissions"), "4", "0|4", "0|4"),
    Fault("301 to another host", lambda proxy: wrong.redirected(301, proxy.elsewhere), *_AWAY,
          of_proxy=True),
    Fault("307 to another host", lambda proxy: wrong.redirected(307, proxy.elsewhere), *_AWAY,
          of_proxy=True),
    Fault("200 html", wrong.instead(b"<h1>Welcome</h1>", "text/html"), *_AWAY),
    Fault("404 html", _nowhere, "0|3|4|5", "0|3|4|5", "0|3|4|5"),
    Fault("404 no such index", GONE, "3|5", "0|3|5", "-", on=is_search,
          only=("log-features", "verify", "search", "compare-live", "profile", "judge pool")),
    Fault("200 empty", wrong.instead(b""), *_TRANSIENT),
    Fault("200 no JSON", wrong.instead(b'{"took": 3, '), *_TRANSIENT),
    Fault("200 of another charset", wrong.instead('{"took": 3}'.encode("utf-16")), *_TRANSIENT),
    Fault("200 nested a million times", wrong.deep, *_TRANSIENT),
    Fault("200 NaN in JSON", wrong.instead(b'{"took": NaN}'), *_TRANSIENT),
    Fault("gzip bomb", wrong.bomb, "5", "0|5", "0|4|5"),
    *(
        Fault(f"200 {name}", wrong.instead(body), *_STRANGE)
        for name, body in _SHAPES.items()
    ),
    # ------------------------------------------------ half an answer
    *(
        Fault(name, wrong.edited(edit), "0|5", "0|5", "0|5", on=is_search)
        for name, edit in _PARTIAL.items()
    ),
    *(
        Fault(f"{name} for ever", wrong.edited(edit), "5", "5", "0|4|5", on=is_search,
              times=FOR_EVER)
        for name, edit in _PARTIAL.items()
    ),
    *(
        Fault(name, wrong.edited(edit), "0|4|5", "0", "0|4|5", on=is_search_by_ids,
              only=("log-features", "upload", "verify"))
        for name, edit in {**_ALTERED, "hit twice": wrong.double_hit}.items()
    ),
    *(
        Fault(f"{name} for ever", wrong.edited(edit), "4|5", "5", "4|5", on=is_search_by_ids,
              times=FOR_EVER, only=("log-features", "upload", "verify"))
        for name, edit in _ALTERED.items()
    ),
    Fault("hit of another index", wrong.edited(wrong.foreign_index), "-", "0", "-",
          on=is_search_by_ids, only=("log-features",)),
    *(
        Fault(name, wrong.edited(edit), "0|4|5", "0|5", "0|4|5", on=is_search_for_features,
              only=("log-features", "upload", "verify"))
        for name, edit in _VALUES.items()
    ),
    *(
        Fault(f"{name} for ever", wrong.edited(edit), "4|5", "5", "4|5", times=FOR_EVER,
              on=is_search_for_features, only=("log-features", "upload", "verify"))
        for name, edit in _VALUES.items()
    ),
    Fault("value 1e400", _no_number, "0|4|5", "0|5", "0|4|5", on=is_search_for_features,
          only=("log-features", "upload", "verify")),
    Fault("scores a thousandth off", wrong.edited(wrong.other_scores), "5", "-", "5",
          on=is_rescored, times=FOR_EVER, only=("upload", "verify")),
    # ------------------------------------------------ too much
    Fault("413 above two documents", wrong.too_large_for(2, _too_large), "5", "0", "0|5",
          on=lambda asked: is_search_by_ids(asked) or is_bulk(asked), times=FOR_EVER,
          only=("log-features", "upload", "verify", "index", "index --append")),
    Fault("too many clauses above two documents", wrong.too_large_for(2, CLAUSES), "5", "0", "5",
          on=is_search_by_ids, times=FOR_EVER, only=("log-features", "upload", "verify")),
    # ------------------------------------------------ writes
    Fault("429 for some documents of a bulk", wrong.busy_items, "-", "-", "0", on=is_bulk),
    Fault("bulk answer lacks a document", wrong.lost_items, "-", "-", "0|5", on=is_bulk),
    Fault("bulk answer without items", wrong.no_items, "-", "-", "0|4|5", on=is_bulk),
    *(
        Fault(f"write answered: {name}", wrong.instead(body), "-", "-", "0|4|5", on=is_write)
        for name, body in _SHAPES.items()
    ),
    Fault("name taken by another model", _name_taken, "-", "-", "5", on=is_model_put,
          only=("upload",)),
    Fault("name taken by the same model", _same_stored, "-", "-", "0", on=is_model_put,
          only=("upload",)),
]  # fmt: skip
