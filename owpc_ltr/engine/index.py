"""`index`: the documents of a file into an index, every one accounted for; all of them or none.

The file is read once before anything is made. A new index that cannot be completed is removed
again, and one that a killed run has left is made again. An index that is there is replaced in one
step, when the new one is complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.documents import Document, DocumentFile, is_table
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    bulk_items,
    check_refreshed,
    one_line,
)
from owpc_ltr.engine.client.retry import Retrying, TransientError
from owpc_ltr.engine.staging_index import (
    check_may_swap,
    existing_index,
    index_swap,
    indices_behind,
    mark_of,
    merge_segments,
    refresh,
    replaceable,
    staging_index,
)
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError, give_warning
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.host.commands import NO_STORE
from owpc_ltr.names import check_index
from owpc_ltr.signatures import Argument, Help, Progress, Reads, job, silent
from owpc_ltr.text import spelled

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

BULK_DOCUMENTS = 500
"""Documents of one bulk request."""
BUSY_SECONDS = 120.0
"""Seconds for which documents that the engine is too busy for are sent again."""
_RESERVED = (".", "ubi_", "owpc-ltr-")
"""How names of indices begin that the cluster, plugins and owpc-ltr keep."""
_IDS = 500
_SET_BY_ENGINE = {"uuid", "creation_date", "provided_name", "version", "history", "resize"}


@dataclass(frozen=True)
class IndexReport:
    """How many documents were sent, and how many the index holds afterwards.

    `replaced` are those that took the place of one with the same id. `ids_are_lines` says that no
    field was named for the ids, which are then line numbers.
    """

    index: str
    sent: int
    documents: int
    replaced: int = 0
    ids_are_lines: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        new = self.sent - self.replaced
        counts = f" ({new} new, {self.replaced} replaced)" if self.replaced else ""
        ids = spelled("; ids are line numbers (`id_field` names a field for them)")
        return (
            f"indexed {self.sent} documents{counts}; '{self.index}' holds {self.documents}"
            f"{ids if self.ids_are_lines else ''}"
        )


@job(changes_cluster=True)
def index(
    cluster: Annotated[Cluster, NO_STORE],
    documents: Annotated[
        Path | str,
        Reads("One JSON document per line, or CSV or TSV with a header; also .gz, .xz or .zst."),
    ],
    *,
    index: Annotated[str, Help("The index to create."), Argument.NAME],
    id_field: Annotated[
        str | None,
        Help("The field that holds the document's id; default: the line number.", metavar="FIELD"),
        Argument.NAME,
    ] = None,
    settings: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads(
            "Settings and mappings of the index, its mapping alone, or what the engine answers "
            "to GET /INDEX (JSON).",
            cli=Path,
        ),
    ] = None,
    append: Annotated[bool, Help("Add to an existing index.")] = False,
    recreate: Annotated[
        bool, Help("Replace the index of this name once the new one is complete.")
    ] = False,
    progress: Progress = silent,
) -> IndexReport:
    """Index documents, every one accounted for.

    The file has one JSON object per line, or is CSV or TSV, whose values are sent as text: the
    mapping in `settings` makes numbers and dates of them. At the end the engine must count as many
    documents as the file has.

    The whole file is checked before an index is created, and an incomplete index is removed. With
    `recreate` the name becomes an alias of the new index in one step, and takes over the old
    index's other aliases. With `append` documents replace those of the same id, which are counted
    separately.

    Raises BadInput for a line that is not a document, or for two of one id, and Refused for an
    index that exists.
    """
    if append and recreate:
        raise UsageError("`append` keeps the index, and `recreate` deletes it: choose one")
    body = read_json_object(Path(settings)) if isinstance(settings, Path | str) else settings
    report = load_index(
        cluster.engine,
        index,
        DocumentFile(Path(documents), id_field),
        body,
        existing="append" if append else "recreate" if recreate else "refuse",
        progress=progress,
    )
    if is_table(Path(documents)) and body is None and not append:
        how = "`settings` with a mapping makes numbers and dates of them"
        give_warning(f"the values of {documents} are indexed as text: {how}")
    return replace(report, ids_are_lines=id_field is None)


def load_index(
    engine: Engine,
    index: str,
    documents: DocumentFile,
    settings: Mapping[str, Any] | None = None,
    *,
    existing: str = "refuse",
    progress: Progress,
) -> IndexReport:
    """Index the documents of a file; `existing` says what to do with an index that is there.

    Raises BadInput for the file, and Refused for what the engine does not take: then an index
    that was there is as it was, unless documents were to be appended to it.
    """
    name, body = check_index(index), _checked(settings)
    # What is wrong with the first document is told before the engine is asked for anything.
    next(iter(documents), None)
    indices = indices_behind(engine, name)
    reserved = [named for named in (name, *indices) if named.startswith(_RESERVED)]
    if reserved:
        raise UsageError(
            f"'{reserved[0]}' is a name for what the cluster, a plugin or owpc-ltr keeps: index "
            "documents under another one"
        )
    whole = any(mark_of(aliases) is None for aliases in indices.values())
    if existing == "append" and whole:
        documents.check(progress)
        # Looked for before, since a bulk that is sent again meets its own documents.
        replaced = _already_there(engine, name, documents)
        return replace(index_documents(engine, name, documents, progress), replaced=replaced)
    if existing == "refuse" and whole:
        raise existing_index(name)
    if indices:
        check_may_swap(engine, replaceable(name, indices))
    documents.check(progress)
    return load_new_index(engine, name, documents, body, progress, merge=existing != "append")


def load_new_index(
    engine: Engine,
    name: str,
    documents: Iterable[Document],
    settings: dict[str, Any],
    progress: Progress,
    *,
    merge: bool = True,
) -> IndexReport:
    """A complete index of these documents, in the place of one that is there; or none."""
    if indices_behind(engine, name):
        opened = index_swap(engine, name, settings, progress)
    else:
        opened = staging_index(engine, name, settings)
    with opened as new:
        report = index_documents(engine, new.index, documents, progress, mark=new.mark)
        if merge:
            progress("merging segments", None)
            merge_segments(engine, new.index)
    return replace(report, index=name)


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
    sent, iterator = 0, iter(documents)
    while chunk := list(itertools.islice(iterator, BULK_DOCUMENTS)):
        _send(engine, name, mark, chunk)
        sent += len(chunk)
        progress(f"indexed {sent} documents", None)
    refresh(engine, name)
    counted = AnswerPart(engine.request("GET", f"/{name}/_count"), f"the count of '{name}'")
    check_refreshed(counted.value, f"the count of '{name}'")
    count = counted["count"].count
    if count < sent:
        raise Refused(
            f"the index '{name}' holds {count} documents after {sent} were sent: two of them share "
            "an id, or documents were deleted meanwhile"
        )
    return IndexReport(name, sent, count)


def _checked(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    body = _index_body(dict(settings or {}))
    if not isinstance(body.get("aliases", {}), dict):
        raise BadInput("the 'aliases' of the index's settings are no object: write them as {…}")
    return body


def _index_body(settings: dict[str, Any]) -> dict[str, Any]:
    """What creates an index, of a mapping alone, or of what the engine says of an index.

    >>> _index_body({"properties": {}})
    {'mappings': {'properties': {}}}
    >>> _index_body({"movies": {"aliases": {"m": {}}, "mappings": {}, "settings": {}}})
    {'mappings': {}, 'settings': {}}
    """
    if "properties" in settings:
        return {"mappings": settings}
    only = next(iter(settings.values())) if len(settings) == 1 else None
    if not isinstance(only, dict) or "mappings" not in only or "mappings" in settings:
        return settings
    # Aliases are the other index's. The engine sets these of each index by itself.
    body = {key: only[key] for key in ("mappings", "settings") if key in only}
    of_index = body["settings"].get("index") if isinstance(body.get("settings"), dict) else None
    if isinstance(of_index, dict):
        free = {key: value for key, value in of_index.items() if key not in _SET_BY_ENGINE}
        body["settings"] = {**body["settings"], "index": free}
    return body


def _already_there(engine: Engine, name: str, documents: DocumentFile) -> int:
    """How many of the documents will take the place of one with the same id.

    Line numbers are ids only of the file that an index was first filled from: with them, documents
    that are there just so are those of a run that was stopped, and goes on now; others are Refused.
    """
    refresh(engine, name)
    by_line = documents.id_field is None
    rows, present = iter(documents), 0
    while part := dict(itertools.islice(rows, _IDS)):
        body = {"query": {"ids": {"values": [*part]}}, "size": len(part), "_source": by_line}
        hits = search_index(engine, name, body, f"documents of '{name}'").hits
        present += len(hits)
        for hit in hits if by_line else ():
            if hit.get("_source") != part.get(hit["_id"]):
                raise Refused(
                    f"'{name}' has a document '{hit['_id']}', which the document on line "
                    f"{hit['_id']} of {documents.path} would overwrite: name the field of the ids "
                    "(`id_field`)"
                )
    return present


def _send(engine: Engine, index: str, mark: str | None, chunk: list[Document]) -> None:
    left = chunk
    # Else an index that was taken away would be made again by what is written to it.
    params = {} if mark is None else {"require_alias": "true"}

    def attempt(_seconds: float) -> None:
        nonlocal left
        lines = [line for id_, document in left for line in ({"index": {"_id": id_}}, document)]
        answer = engine.request("POST", f"/{mark or index}/_bulk", params=params, ndjson=lines)
        items = bulk_items(answer, "documents sent", [id_ for id_, _ in left])
        left = _rejected(left, items, mark)
        if left:
            raise TransientError("the engine is too busy", not_executed=True)

    try:
        Retrying().run(attempt, BUSY_SECONDS, idempotent=True)
    except TransientError as busy:
        raise EngineUnavailable(
            f"the engine stays too busy to take {len(left)} documents: try again later"
        ) from busy
    except EngineRefusal as refusal:
        if refusal.status != 413 or len(left) == 1:
            raise
        half = len(left) // 2
        for part in (left[:half], left[half:]):
            _send(engine, index, mark, part)


def _rejected(
    chunk: list[Document], items: list[dict[str, Any]], mark: str | None
) -> list[Document]:
    """The documents that the engine was too busy for. Raises Refused for one that it refuses."""
    for document, item in zip(chunk, items, strict=True):
        if item["status"] >= 300 and item["status"] != 429:
            error = item.get("error")
            error = error if isinstance(error, dict) else {}
            if mark is not None and error.get("type") == "index_not_found_exception":
                raise Refused(
                    f"another run has begun to load the same index, and taken it from this one, "
                    f"before document '{document[0]}' went in: wait for it"
                )
            reason = one_line(str(error.get("reason", "no reason given")))
            raise Refused(f"the engine does not take document '{document[0]}': {reason}")
    return [document for document, item in zip(chunk, items, strict=True) if item["status"] == 429]
