"""Documents that owpc-ltr keeps in a cluster, each replaced only as it was read.

A write whose answer is lost may have happened, or still be on its way. So the document is read
back, and what was there before is written once more, which supersedes a write that arrives late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json import loads
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import Engine, answer_if_found, to_json
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    NoSuchIndex,
    NotAllowed,
    SearchAnswer,
    check_acknowledged,
    check_written,
    part_of,
)
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.names import check_name

INDEX = "owpc-ltr-aliases"
"""The index of aliases, and of the deployment records, experiments and attempts beside them."""
_MOST = 10_000
_PROPERTIES = {
    "name": {"type": "keyword"},
    "pinned": {"type": "keyword"},
    # Stored, not indexed, since it holds a whole model.
    "deployment_record": {"type": "object", "enabled": False},
}
_BODY = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
    "mappings": {"dynamic": False, "properties": _PROPERTIES},
}
_LISTED = "its list of names"
_SEEN = {"refresh": "true"}
"""What is written is found by the next search."""


@dataclass(frozen=True)
class VersionedDocument:
    """A document as it was read."""

    answer: AnswerPart

    @property
    def content(self) -> dict[str, Any]:
        """What was written."""
        return self.answer["_source"].object

    @property
    def version(self) -> dict[str, str]:
        """The parameters of a write that replaces just this version."""
        return {f"if{key}": str(self.answer[key].count) for key in ("_seq_no", "_primary_term")}


class Changed(Refused):
    """Another process has changed the document meanwhile."""


class Unsettled(EngineUnavailable):
    """Whether a document, or what follows it, was changed is not known."""


@dataclass(frozen=True)
class VersionedDocuments:
    """The documents of one kind in an index.

    `kind` is what messages call one, `prefix` how its id begins: names have no slash, so that no
    two kinds share an id. `named` is what the name is of, `look` what a user can do to see one,
    with `{}` for its name.
    """

    engine: Engine
    kind: str
    prefix: str = ""
    named: str = "model"
    look: str = "look at it"
    index: str = INDEX
    body: Mapping[str, Any] | None = None

    def what(self, name: str) -> str:
        """A document as messages call it."""
        return f"{self.kind} '{name}'"

    def prepare(self) -> bool:
        """Make the index, unless it is there; whether it was made."""
        try:
            answer = self.engine.request("PUT", f"/{self.index}", body=self.body or _BODY)
            check_acknowledged(answer, f"the index {self.index}")
        except EngineRefusal as refusal:
            if refusal.type != "resource_already_exists_exception":
                raise
            return False
        return True

    def read(self, name: str, **params: str) -> VersionedDocument | None:
        """The document of this name, if there is one."""
        path, what = self.path(name), self.what(name)
        answer = answer_if_found(self.engine, "GET", path, what, params=params)
        return None if answer is None else VersionedDocument(answer)

    def replace(
        self, name: str, content: Mapping[str, Any], before: VersionedDocument | None
    ) -> None:
        """Write a document in the place of the one that was read `before`, and of nothing else.

        Raises Changed where another write came first, Unsettled where it is not known whether this
        one did or will happen, and what went wrong where it did not.
        """
        self.prepare()
        try:
            self.create(name, content, before)
        except (EngineRefusal, EngineUnavailable) as fault:
            if isinstance(fault, NotAllowed) or getattr(fault, "status", 409) != 409:
                raise
            self._settle(name, content, before, fault)
        except BaseException:
            if before:
                with suppress(OwpcLtrError):
                    self.create(name, before.content, before)
            raise

    def create(
        self, name: str, content: Mapping[str, Any], before: VersionedDocument | None = None
    ) -> None:
        """Write a document once. Raises EngineRefusal 409 where there is one, or another one."""
        params = {**_SEEN, **(before.version if before else {"op_type": "create"})}
        self._put(name, content, params, idempotent=False)

    def put(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a document over any of its name."""
        self.prepare()
        self._put(name, content, _SEEN)

    def delete(self, name: str, before: VersionedDocument | None = None) -> bool:
        """Delete a document (as it was read `before`); whether there was one."""
        what, params = self.what(name), {**_SEEN, **(before.version if before else {})}
        try:
            answer = answer_if_found(
                self.engine,
                "DELETE",
                self.path(name),
                what,
                params=params,
                idempotent=before is None,
            )
            if answer is None:
                return False
            check_written(answer.value, what, self.id_of(name), "deleted")
        except (EngineRefusal, EngineUnavailable) as fault:
            if self._read_after(name, fault) is not None:
                raise self._meaning(name, fault) from fault
        return True

    def with_field(self, field: str) -> list[dict[str, Any]]:
        """Every document of the index that has this field, whatever its kind."""
        body = {"size": _MOST, "query": {"exists": {"field": field}}}
        return [part_of(hit, "_source", _LISTED) for hit in self._search(body)]

    def present(self, names: Collection[str]) -> set[str]:
        """Those of these names that have a document."""
        ids = {self.id_of(name): name for name in names}
        if not ids:
            return set()
        body = {"size": len(ids), "_source": False, "query": {"ids": {"values": [*ids]}}}
        return {ids[hit["_id"]] for hit in self._search(body) if hit["_id"] in ids}

    def id_of(self, name: str) -> str:
        """The id of a document."""
        return f"{self.prefix}{check_name(self.named, name)}"

    def path(self, name: str) -> str:
        """Where a document is."""
        return f"/{self.index}/_doc/{quote(self.id_of(name), safe='@')}"

    def _search(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        try:
            answer = self.engine.request("POST", f"/{self.index}/_search", body=body)
        except NoSuchIndex:
            # Another 404 may come from a proxy, and does not say that no document is there.
            return ()
        return SearchAnswer.read(answer, body, _LISTED).hits

    def _put(
        self,
        name: str,
        content: Mapping[str, Any],
        params: Mapping[str, str],
        *,
        idempotent: bool = True,
    ) -> None:
        answer = self.engine.request(
            "PUT", self.path(name), params=params, body=content, idempotent=idempotent
        )
        check_written(answer, self.what(name), self.id_of(name), "created", "updated")

    def _settle(
        self,
        name: str,
        content: Mapping[str, Any],
        before: VersionedDocument | None,
        fault: OwpcLtrError,
    ) -> None:
        """Return where the write happened all the same; else raise, when it cannot happen later."""
        written, stored = loads(to_json(content)), self._read_after(name, fault)
        look = self.look.format(name)
        if stored == before and isinstance(fault, EngineUnavailable):
            # A write may still be on its way: writing what was there once more supersedes it;
            # where nothing was there, repeating the same write does.
            try:
                self.create(name, before.content if before else content, before)
                stored = stored or self._read_after(name, fault)
            except (EngineRefusal, EngineUnavailable) as second:
                stored = self._read_after(name, second)
                is_written = stored is not None and stored.content == written
                if isinstance(second, EngineUnavailable) and not is_written:
                    raise Unsettled(
                        f"{fault}; {self.what(name)} may still be changed: {look} before you try "
                        "again"
                    ) from second
        if stored is None or stored.content != written:
            raise self._meaning(name, fault) from fault

    def _read_after(self, name: str, fault: OwpcLtrError) -> VersionedDocument | None:
        try:
            return self.read(name)
        except EngineUnavailable as second:
            look = self.look.format(name)
            raise Unsettled(
                f"{fault}; whether {self.what(name)} was changed could not be read either: "
                f"{look} before you try again"
            ) from second

    def _meaning(self, name: str, fault: OwpcLtrError) -> OwpcLtrError:
        if not isinstance(fault, EngineRefusal) or fault.status != 409:
            return fault
        return self.changed(name)

    def changed(self, name: str) -> Changed:
        """The refusal of a change to a document that is another by now."""
        return Changed(
            f"another process changed {self.what(name)} at the same time: "
            f"{self.look.format(name)}, and try again"
        )
