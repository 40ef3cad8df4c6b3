"""Filling an index from a file: whole, or not at all.

The file is looked through before anything is made. A new index that cannot be completed is taken
away again, and one that a killed run has left is known by its mark, and made anew. One that is
there is replaced in one step, when the new one is complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import hits_of
from owpc_ltr.engine.half_filled import (
    Aliases,
    check_may_move,
    half_filled,
    indices_behind,
    mark_of,
)
from owpc_ltr.engine.indexing import (
    IndexReport,
    Progress,
    index_documents,
    merge_segments,
    refresh,
    refuse_existing,
)
from owpc_ltr.engine.replacing import replace_index, replaceable
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.json_lines import Document, DocumentFile
from owpc_ltr.names import check_index

_OWN = ("owpc-ltr-", ".ltrstore")
_IDS = 500


def fill_index(
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
    there = indices_behind(engine, name)
    _refuse_own(name, there)
    whole = [found for found, aliases in there.items() if mark_of(aliases) is None]
    if existing == "append" and whole:
        documents.check(progress)
        return _append(engine, name, documents, progress)
    refuse_existing(name, there=existing == "refuse" and bool(whole))
    if there:
        check_may_move(engine, replaceable(name, there))
    documents.check(progress)
    return fill_whole(engine, name, documents, body, progress, merge=existing != "append")


def fill_whole(
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
        return replace_index(engine, name, documents, settings, progress, merge=merge)
    with half_filled(engine, name, settings) as index:
        report = index_documents(engine, name, documents, progress, mark=index.mark)
        if merge:
            progress("merging segments", None)
            merge_segments(engine, name)
        index.finish()
    return report


def _checked(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    body = dict(settings or {})
    if not isinstance(body.get("aliases", {}), dict):
        raise BadInput("the 'aliases' of the index's settings are no object: write them as {…}")
    return body


def _refuse_own(name: str, there: dict[str, Aliases]) -> None:
    own = [each for each in (name, *there) if each.startswith(_OWN)]
    if own:
        raise UsageError(
            f"'{own[0]}' is a name for what owpc-ltr itself keeps in the cluster: index documents "
            "under another one"
        )


def _append(engine: Engine, name: str, documents: DocumentFile, progress: Progress) -> IndexReport:
    # Looked for before, since a bulk that is sent again meets its own documents.
    there = _already_there(engine, name, documents)
    return replace(index_documents(engine, name, documents, progress), replaced=there)


def _already_there(engine: Engine, name: str, documents: DocumentFile) -> int:
    """How many of the documents will take the place of one with the same id.

    Line numbers are ids only of the file that an index was first filled from: with them, documents
    that are there just so are those of a run that was stopped, and goes on now; others are Refused.
    """
    refresh(engine, name)
    by_line = documents.id_field is None
    rows = iter(documents)
    there = 0
    while part := dict(itertools.islice(rows, _IDS)):
        body = {"query": {"ids": {"values": [*part]}}, "size": len(part), "_source": by_line}
        answer = engine.request("POST", f"/{name}/_search", body=body)
        hits = hits_of(answer, f"documents of '{name}'", "_id")
        there += len(hits)
        for hit in hits if by_line else ():
            if hit.get("_source") != part.get(hit["_id"]):
                raise Refused(
                    f"'{name}' has a document '{hit['_id']}', which that of the line of this "
                    f"number in {documents.path} would overwrite: say with --id-field where the "
                    "ids stand"
                )
    return there
