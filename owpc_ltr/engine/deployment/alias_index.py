"""The index of the aliases and of the deployment records of their models."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    NoSuchIndex,
    SearchAnswer,
    check_acknowledged,
    part_of,
)
from owpc_ltr.errors import BadInput, Refused

INDEX = "owpc-ltr-pointers"
_MOST = 10_000
Version = dict[str, str]
_PROPERTIES = {
    "name": {"type": "keyword"},
    "pinned": {"type": "keyword"},
    # A deployment record: stored, not indexed, since it holds a whole model.
    "certificate": {"type": "object", "enabled": False},
}
_BODY = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
    "mappings": {"dynamic": False, "properties": _PROPERTIES},
}


def prepare(engine: Engine) -> None:
    """Create the index, or update an older one."""
    try:
        answer = engine.request("PUT", f"/{INDEX}", body=_BODY)
        check_acknowledged(answer, f"the index {INDEX}")
    except EngineRefusal as refusal:
        if refusal.type != "resource_already_exists_exception":
            raise
        answer = engine.request("PUT", f"/{INDEX}/_mapping", body={"properties": _PROPERTIES})
        check_acknowledged(answer, f"the mapping of {INDEX}")


def pinned(engine: Engine) -> dict[str, str]:
    """The models that a document beside the aliases pins, and what that document is.

    Such a document has the models as `pinned`, and `pinned_by`. None of them is deleted meanwhile.
    """
    pins: dict[str, str] = {}
    for content in documents_with(engine, "pinned"):
        models = content["pinned"]
        if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
            raise BadInput(f"a document in the index {INDEX} is damaged: 'pinned' is {models!r}")
        pins |= dict.fromkeys(models, str(content.get("pinned_by")))
    return pins


def check_unpinned(engine: Engine, models: Collection[str]) -> None:
    """Raise Refused where one of these models is pinned."""
    pins = pinned(engine)
    for model in models:
        if model in pins:
            raise Refused(f"{pins[model]} uses '{model}': a model in use is not removed")


def read_versioned(engine: Engine, path: str, what: str) -> tuple[AnswerPart, Version] | None:
    """A document of the index, and the parameters of a write that replaces just this version."""
    try:
        answer = engine.request("GET", path)
    except EngineRefusal as refusal:
        if refusal.status == 404:
            return None
        raise
    found = AnswerPart(answer, what)
    version = {f"if{key}": str(found[key].count) for key in ("_seq_no", "_primary_term")}
    return found["_source"], version


def documents_with(engine: Engine, field: str) -> list[dict[str, Any]]:
    """Every document of the index that has this field."""
    # Not sorted by the field: an index of an earlier version has no mapping for it.
    body = {"size": _MOST, "query": {"exists": {"field": field}}}
    try:
        answer = engine.request("POST", f"/{INDEX}/_search", body=body)
    except NoSuchIndex:
        # Another 404 may come from a proxy, and does not say that no document is there.
        return []
    what = "its list of names"
    hits = SearchAnswer.read(answer, body, what).hits
    return [part_of(hit, "_source", what) for hit in hits]
