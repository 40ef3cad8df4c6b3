"""The index that holds a plugin-free store's feature sets and models: `StoreIndex`."""

from __future__ import annotations

from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal, NoSuchIndex
from owpc_ltr.engine.client.responses import (
    Part,
    check_acknowledged,
    check_written,
    hits_of,
    part_of,
    strange,
)
from owpc_ltr.engine.store.documents import Absent
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.names import check_name, check_store

INDEX = "owpc-ltr-store"
_PAGE = 1000
_BODY = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": True}},
    "mappings": {
        "_meta": {"owner": "owpc-ltr", "format": 1},
        "dynamic": "strict",
        "properties": {
            "name": {"type": "keyword"},
            "type": {"type": "keyword"},
            "featureset": {"type": "object", "enabled": False},
            "model": {"type": "object", "enabled": False},
        },
    },
}


class StoreIndex:
    """Documents by what they are (`featureset`, `model`) and by name, written one at a time."""

    def __init__(self, engine: Engine, name: str | None) -> None:
        self._engine = engine
        self._index = INDEX if name is None else f"{INDEX}-{check_store(name)}"
        self._place = f"{engine.settings.url}/{self._index}"

    def prepare(self) -> None:
        """Make the index if it is not there yet. Refused where the name is somebody else's."""
        try:
            answer = self._engine.request("PUT", f"/{self._index}", body=_BODY)
            check_acknowledged(answer, f"the index {self._index}")
        except EngineRefusal as refusal:
            if refusal.type != "resource_already_exists_exception":
                raise
            found = self._engine.request("GET", f"/{self._index}/_mapping")
            if not _is_ours(found):
                raise Refused(
                    f"the index {self._index} is not a store of owpc-ltr: use another --store"
                ) from refusal

    def create(self, what: str, name: str, content: dict[str, Any]) -> None:
        """Write a document; EngineRefusal 409 where there is one of that name."""
        answer = self._engine.request(
            "PUT",
            f"/{self._index}/_create/{what}-{name}",
            params={"refresh": "true"},
            body={"name": name, "type": what, what: content},
        )
        check_written(answer, f"the {_words(what)} '{name}'", f"{what}-{name}", "created")

    def replace(self, what: str, name: str, content: dict[str, Any]) -> None:
        """Write over what is there now, unless somebody else does so at the same time."""
        path, words = f"/{self._index}/_doc/{what}-{name}", f"the {_words(what)} '{name}'"
        params: dict[str, Any] = {"refresh": "true"}
        try:
            now = Part(self._engine.request("GET", path), words)
            params |= {f"if{key}": now[key].count for key in ("_seq_no", "_primary_term")}
        except EngineRefusal as refusal:
            if refusal.status != 404:
                raise
            params["op_type"] = "create"
        body = {"name": name, "type": what, what: content}
        try:
            answer = self._engine.request("PUT", path, params=params, body=body)
            check_written(answer, words, f"{what}-{name}", "created", "updated")
        except (EngineRefusal, EngineUnavailable) as fault:
            # Also what a retry sees after its first answer was lost.
            refused = isinstance(fault, EngineRefusal) and fault.status != 409
            if refused or self.get(what, name) != body:
                raise

    def get(self, what: str, name: str) -> Any:
        """A document, as it was written; BadInput if there is none."""
        words = _words(what)
        path = f"/{self._index}/_doc/{what}-{check_name(words, name)}"
        try:
            answer = self._engine.request("GET", path)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                raise Absent(words, name, self._place) from refusal
            raise
        return part_of(answer, "_source", f"the {words} '{name}'")

    def delete(self, what: str, name: str) -> None:
        """Take out a document; BadInput if there is none."""
        words = _words(what)
        try:
            answer = self._engine.request(
                "DELETE",
                f"/{self._index}/_doc/{what}-{check_name(words, name)}",
                params={"refresh": "true"},
            )
        except EngineRefusal as refusal:
            if refusal.status == 404:
                raise Absent(words, name, self._place) from refusal
            raise
        check_written(answer, f"the {words} '{name}'", f"{what}-{name}", "deleted")

    def names(self, what: str) -> list[str]:
        """Of all documents of this kind, sorted."""
        names: list[str] = []
        after: list[Any] = []
        while True:
            body = {
                "size": _PAGE,
                "_source": False,
                "query": {"term": {"type": what}},
                "sort": ["name"],
                **({"search_after": after} if after else {}),
            }
            try:
                answer = self._engine.request("POST", f"/{self._index}/_search", body=body)
            except NoSuchIndex:
                # Any other 404 is somebody's in between, and does not say that there is nothing.
                return []
            listed = f"its list of {_words(what)}s"
            hits = hits_of(answer, listed, "sort")
            if not all(isinstance(hit["sort"], list) and hit["sort"] for hit in hits):
                raise strange(listed)
            names += [str(hit["sort"][0]) for hit in hits]
            if len(hits) < _PAGE:
                return names
            after = hits[-1]["sort"]


def _is_ours(mapping: Any) -> bool:
    """Whether the mapping of one index says that it is a store of ours."""
    (index,) = mapping.values() if isinstance(mapping, dict) and len(mapping) == 1 else (None,)
    for key in ("mappings", "_meta"):
        index = index.get(key) if isinstance(index, dict) else None
    return isinstance(index, dict) and index.get("owner") == "owpc-ltr"


def _words(what: str) -> str:
    return "feature set" if what == "featureset" else what
