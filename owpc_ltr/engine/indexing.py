"""Documents (JSON) into an index, every one of them accounted for."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal, one_line
from owpc_ltr.engine.client.responses import Part, bulk_items, check_acknowledged, check_refreshed
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.files.json_lines import Document
from owpc_ltr.names import check_index

Progress = Callable[[str, float | None], None]

_DOCUMENTS = 500
_ATTEMPTS = 8
_MERGE_SECONDS = 600.0


@dataclass(frozen=True)
class IndexReport:
    """How many documents were sent, and how many the index holds afterwards.

    `replaced` are those that took the place of one with the same id.
    """

    index: str
    sent: int
    documents: int
    replaced: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        new = self.sent - self.replaced
        told = f" ({new} new, {self.replaced} replaced)" if self.replaced else ""
        return f"indexed {self.sent} documents{told}; '{self.index}' holds {self.documents}"


def create_index(engine: Engine, index: str, settings: dict[str, Any] | None) -> None:
    """Make an index with these settings and mappings. Raises Refused where there is one."""
    name = check_index(index)
    refuse_existing(name, there=index_exists(engine, name))
    answer = engine.request("PUT", f"/{name}", body=settings or {}, idempotent=False)
    check_acknowledged(answer, f"the new index '{name}'")


def drop_index(engine: Engine, index: str) -> None:
    """Take an index away; harmless where there is none."""
    try:
        answer = engine.request("DELETE", f"/{check_index(index)}")
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        return
    check_acknowledged(answer, f"the removal of '{index}'")


def refuse_existing(index: str, *, there: bool) -> None:
    """Raise Refused for an index that is there, with what can be done."""
    if there:
        raise Refused(
            f"the index '{index}' exists: add to it with --append, or start it anew with --recreate"
        )


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
    progress: Progress,
    *,
    mark: str | None = None,
) -> IndexReport:
    """Send (id, document) pairs in bulk; a busy engine gets only what it refused again.

    With a `mark`, they go in by this alias of the index, and only while it is there.
    Raises Refused naming the first document that the engine will not take.
    """
    name = check_index(index)
    sent = 0
    for chunk in _chunks(documents):
        _send(engine, name, mark, chunk)
        sent += len(chunk)
        progress(f"indexed {sent} documents", None)
    refresh(engine, name)
    counted = Part(engine.request("GET", f"/{name}/_count"), f"the count of '{name}'")
    check_refreshed(counted.value, f"the count of '{name}'")
    count = counted["count"].count
    if count < sent:
        raise Refused(
            f"the index '{name}' holds {count} documents after {sent} were sent: two of them share "
            "an id, or documents were deleted meanwhile"
        )
    return IndexReport(name, sent, count)


def refresh(engine: Engine, index: str) -> None:
    """Let searches see what was written."""
    answer = engine.request("POST", f"/{check_index(index)}/_refresh")
    check_refreshed(answer, f"the refresh of '{index}'")


def merge_segments(engine: Engine, index: str) -> None:
    """Merge a finished index into one segment: searches of many queries gain most by it."""
    answer = engine.request(
        "POST",
        f"/{check_index(index)}/_forcemerge",
        params={"max_num_segments": 1},
        deadline=_MERGE_SECONDS,
    )
    check_refreshed(answer, f"the merge of '{index}'")


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    iterator = iter(documents)
    while chunk := list(itertools.islice(iterator, _DOCUMENTS)):
        yield chunk


def _send(engine: Engine, index: str, mark: str | None, chunk: list[Document]) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            items = _bulk(engine, index, mark, chunk)
        except EngineRefusal as refusal:
            if refusal.status != 413 or len(chunk) == 1:
                raise
            half = len(chunk) // 2
            for part in (chunk[:half], chunk[half:]):
                _send(engine, index, mark, part)
            return
        chunk = _busy(chunk, items, mark)
        if not chunk:
            return
        time.sleep(random.uniform(0.1, 0.2 * 2**attempt))  # noqa: S311 - jitter, not a secret
    raise EngineUnavailable(
        f"the engine stays too busy to take {len(chunk)} documents: try again later"
    )


def _bulk(
    engine: Engine, index: str, mark: str | None, chunk: list[Document]
) -> list[dict[str, Any]]:
    lines = [
        line
        for identifier, document in chunk
        for line in ({"index": {"_id": identifier}}, document)
    ]
    # Else an index that was taken away would be made again by what is written to it.
    params = {} if mark is None else {"require_alias": "true"}
    answer = engine.request("POST", f"/{mark or index}/_bulk", params=params, ndjson=lines)
    return bulk_items(answer, "documents sent", [identifier for identifier, _ in chunk])


def _busy(chunk: list[Document], items: list[dict[str, Any]], mark: str | None) -> list[Document]:
    """The documents that the engine was too busy for. Raises Refused for one that it refuses."""
    for document, item in zip(chunk, items, strict=True):
        if item["status"] >= 300 and item["status"] != 429:
            error = item.get("error")
            error = error if isinstance(error, dict) else {}
            if mark is not None and error.get("type") == "index_not_found_exception":
                raise Refused(
                    f"another run has begun to fill the same index, and taken it from this one, "
                    f"before document '{document[0]}' went in: wait for it"
                )
            reason = one_line(str(error.get("reason", "no reason given")))
            raise Refused(f"the engine does not take document '{document[0]}': {reason}")
    return [document for document, item in zip(chunk, items, strict=True) if item["status"] == 429]
