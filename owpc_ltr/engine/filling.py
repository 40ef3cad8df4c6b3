"""Filling an index from a file: whole, or not at all.

The file is looked through before anything is made. A new index that cannot be completed is taken
away again. One that is made anew is filled beside the old, under a name of its own, and takes its
place (as a clone, which shares the files) only when it is complete.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.engine.indexing import (
    IndexReport,
    create_index,
    index_documents,
    merge_segments,
)
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError, give_warnings
from owpc_ltr.files.document_file import DocumentFile
from owpc_ltr.names import check_index

Progress = Callable[[str, float | None], None]

_OWN = ("owpc-ltr-", ".ltrstore")
_IDS = 10_000
_CLONE_SECONDS = 600.0


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
    name = check_index(index)
    # What is wrong with the first document is told before the engine is asked for anything.
    next(iter(documents), None)
    there = _indices_behind(engine, name)
    _refuse_own(name, there)
    if there and existing == "refuse":
        create_index(engine, name, None)  # which says what can be done
    if there and existing == "recreate" and there != [name]:
        raise Refused(
            f"'{name}' is an alias of {', '.join(there)}, which is not made anew: name the index "
            "itself"
        )
    documents.check(progress)
    if not there:
        return _make(engine, name, documents, settings, progress, merge=existing != "append")
    if existing == "append":
        if documents.id_field is None:
            _refuse_overwriting(engine, name, documents)
        return index_documents(engine, name, documents, progress)
    return _replace(engine, name, documents, dict(settings or {}), progress)


def _indices_behind(engine: Engine, name: str) -> list[str]:
    """The index of this name, or those behind the alias; none where there is neither."""
    try:
        found = engine.request("GET", f"/{name}/_alias")
    except EngineRefusal as refusal:
        if refusal.status == 404:
            return []
        raise
    return sorted(found)


def _refuse_own(name: str, there: list[str]) -> None:
    own = [each for each in (name, *there) if each.startswith(_OWN)]
    if own:
        raise UsageError(
            f"'{own[0]}' is a name for what owpc-ltr itself keeps in the cluster: index documents "
            "under another one"
        )


def _refuse_overwriting(engine: Engine, name: str, documents: DocumentFile) -> None:
    """Line numbers are ids only of the file that an index was first filled from."""
    engine.request("POST", f"/{name}/_refresh")
    ids = (identifier for identifier, _ in documents)
    while part := list(itertools.islice(ids, _IDS)):
        body = {"query": {"ids": {"values": part}}, "size": 1, "_source": False}
        hits = engine.request("POST", f"/{name}/_search", body=body)["hits"]["hits"]
        if hits:
            raise Refused(
                f"'{name}' has a document '{hits[0]['_id']}', which that of the line of this "
                f"number in {documents.path} would overwrite: say with --id-field where the ids "
                "stand"
            )


def _make(
    engine: Engine,
    name: str,
    documents: DocumentFile,
    settings: Mapping[str, Any] | None,
    progress: Progress,
    *,
    merge: bool,
) -> IndexReport:
    """A new index, complete, or none."""
    with _whole_or_gone(engine, name, dict(settings or {}) or None):
        report = index_documents(engine, name, documents, progress)
        if merge:
            progress("merging segments", None)
            merge_segments(engine, name)
    return report


@contextmanager
def _whole_or_gone(engine: Engine, name: str, settings: dict[str, Any] | None) -> Iterator[None]:
    """A new index, which is taken away again whatever stops the work, a signal included."""
    create_index(engine, name, settings)
    try:
        yield
    except BaseException:
        _take_away(engine, name)
        raise


def _replace(
    engine: Engine,
    name: str,
    documents: DocumentFile,
    settings: dict[str, Any],
    progress: Progress,
) -> IndexReport:
    """Fill an index beside the old one, and let it take its place."""
    # Templates for names that begin with the index's hold for this one too.
    beside = f"{name}-owpc-ltr-new-{uuid.uuid4().hex[:8]}"
    # An alias on both would show every document twice meanwhile.
    aliases = settings.pop("aliases", {})
    with _whole_or_gone(engine, beside, settings or None):
        report = index_documents(engine, beside, documents, progress)
        progress("merging segments", None)
        merge_segments(engine, beside)
        # A clone is made of an index that nobody writes to.
        engine.request("PUT", f"/{beside}/_settings", body={"index.blocks.write": True})
        body = {"settings": _settings_of_clone(engine, beside), "aliases": aliases}
    progress(f"putting it in the place of '{name}'", None)
    _swap(engine, beside, name, body)
    return replace(report, index=name)


def _settings_of_clone(engine: Engine, index: str) -> dict[str, Any]:
    """The settings that a clone does not take over, and writing allowed again."""
    found = engine.request("GET", f"/{index}/_settings")[index]["settings"]["index"]
    kept = {
        f"index.{key}": found[key]
        for key in ("number_of_replicas", "auto_expand_replicas")
        if key in found
    }
    return {"index.blocks.write": None, **kept}


def _swap(engine: Engine, beside: str, name: str, body: dict[str, Any]) -> None:
    """The complete index in the place of the old; whatever happens, one of them stays."""
    try:
        engine.request("DELETE", f"/{name}")
    except EngineRefusal:
        _take_away(engine, beside)
        raise
    try:
        _clone(engine, beside, name, body)
    except BaseException as error:
        told = (
            f"all documents are in the index '{beside}', which could not be cloned to '{name}': "
            f"send PUT /{beside}/_clone/{name} and delete '{beside}'"
        )
        if isinstance(error, EngineUnavailable | Refused):
            kind = EngineUnavailable if isinstance(error, EngineUnavailable) else Refused
            raise kind(f"{told} ({error})") from error
        give_warnings([told])
        raise
    engine.request("DELETE", f"/{beside}")


def _clone(engine: Engine, source: str, target: str, body: dict[str, Any]) -> None:
    path = f"/{source}/_clone/{target}"
    engine.request("PUT", path, body=body, idempotent=False, deadline=_CLONE_SECONDS)
    health = {"wait_for_status": "yellow", "timeout": "120s"}
    engine.request("GET", f"/_cluster/health/{target}", params=health, deadline=_CLONE_SECONDS)


def _take_away(engine: Engine, name: str) -> None:
    try:
        engine.request("DELETE", f"/{name}")
    except (EngineUnavailable, Refused) as error:
        give_warnings([f"the index '{name}' is not used, and stays behind: {error}"])
