"""Documents (JSON) into an index, every one of them accounted for."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.files.json_lines import Document
from owpc_ltr.names import check_index

_DOCUMENTS = 500
_ATTEMPTS = 8
_MERGE_SECONDS = 600.0


@dataclass(frozen=True)
class IndexReport:
    """How many documents were sent, and how many the index holds afterwards."""

    index: str
    sent: int
    documents: int


def create_index(
    engine: Engine, index: str, settings: dict[str, Any] | None, *, existing: str = "refuse"
) -> None:
    """Make an index with these settings and mappings.

    `existing` says what to do with one that is there: `refuse`, `append` to it, or `recreate` it.
    """
    name = check_index(index)
    if index_exists(engine, name):
        if existing == "refuse":
            raise Refused(
                f"the index '{name}' exists: add to it with --append, or start it anew with "
                "--recreate"
            )
        if existing == "append":
            return
        engine.request("DELETE", f"/{name}")
    engine.request("PUT", f"/{name}", body=settings or {}, idempotent=False)


def index_exists(engine: Engine, index: str) -> bool:
    """Whether there is an index, or an alias, of this name."""
    try:
        engine.request("GET", f"/{check_index(index)}", params={"filter_path": "*.aliases"})
    except EngineRefusal as refusal:
        if refusal.status == 404:
            return False
        raise
    return True


def index_documents(
    engine: Engine,
    index: str,
    documents: Iterable[Document],
    progress: Callable[[str, float | None], None],
) -> IndexReport:
    """Send (id, document) pairs in bulk; a busy engine gets only what it refused again.

    Raises Refused naming the first document that the engine will not take.
    """
    name = check_index(index)
    sent = 0
    for chunk in _chunks(documents):
        _send(engine, name, chunk)
        sent += len(chunk)
        progress(f"indexed {sent} documents", None)
    engine.request("POST", f"/{name}/_refresh")
    count = engine.request("GET", f"/{name}/_count")["count"]
    if count < sent:
        raise Refused(
            f"the index '{name}' holds {count} documents after {sent} were sent: two of them share "
            "an id, or documents were deleted meanwhile"
        )
    return IndexReport(name, sent, int(count))


def merge_segments(engine: Engine, index: str) -> None:
    """Merge a finished index into one segment: searches of many queries gain most by it."""
    engine.request(
        "POST",
        f"/{check_index(index)}/_forcemerge",
        params={"max_num_segments": 1},
        deadline=_MERGE_SECONDS,
    )


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    iterator = iter(documents)
    while chunk := list(itertools.islice(iterator, _DOCUMENTS)):
        yield chunk


def _send(engine: Engine, index: str, chunk: list[Document]) -> None:
    for attempt in range(_ATTEMPTS):
        lines = [
            line
            for identifier, document in chunk
            for line in ({"index": {"_id": identifier}}, document)
        ]
        try:
            answer = engine.request("POST", f"/{index}/_bulk", ndjson=lines)
        except EngineRefusal as refusal:
            if refusal.status != 413 or len(chunk) == 1:
                raise
            half = len(chunk) // 2
            _send(engine, index, chunk[:half])
            _send(engine, index, chunk[half:])
            return
        chunk = _busy(chunk, [item["index"] for item in answer["items"]])
        if not chunk:
            return
        time.sleep(random.uniform(0.1, 0.2 * 2**attempt))  # noqa: S311 - jitter, not a secret
    raise EngineUnavailable(
        f"the engine stays too busy to take {len(chunk)} documents: try again later"
    )


def _busy(chunk: list[Document], items: list[dict[str, Any]]) -> list[Document]:
    """The documents that the engine was too busy for. Raises Refused for one that it refuses."""
    if len(items) != len(chunk):
        raise Refused(f"the engine answered for {len(items)} of {len(chunk)} documents")
    for document, item in zip(chunk, items, strict=True):
        if item["status"] >= 300 and item["status"] != 429:
            reason = item.get("error", {}).get("reason", "no reason given")
            raise Refused(f"the engine does not take document '{document[0]}': {reason}")
    return [document for document, item in zip(chunk, items, strict=True) if item["status"] == 429]
