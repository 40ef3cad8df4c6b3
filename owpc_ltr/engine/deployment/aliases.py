"""Pointers: a name that applications use, and the immutable model that it means today.

Models in an engine cannot be changed, and must not be deleted and made again under one name (a
search in between would fail). So each upload is kept as `name@hash`, and a pointer document
says which one `name` means, which ones it meant before, and which one is tried against it.
Beside the pointers lie the models' certificates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.engine.http.responses import hits_of, part_of, strange
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.names import check_name

INDEX = "owpc-ltr-pointers"
CHAMPION, CHALLENGER = "champion", "challenger"
ROLES = (CHAMPION, CHALLENGER)
_MOST = 10_000
_PROPERTIES = {
    "name": {"type": "keyword"},
    # Stored and never looked into: whole models are in there.
    "certificate": {"type": "object", "enabled": False},
}
_BODY = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
    "mappings": {"dynamic": False, "properties": _PROPERTIES},
}


@dataclass(frozen=True)
class Pointer:
    """What a name means now (`current`, the champion), and meant before (latest last).

    `challenger` is the model that is tried against it, if there is one.
    """

    name: str
    current: str
    previous: tuple[str, ...] = ()
    challenger: str | None = None

    @property
    def models(self) -> set[str]:
        """Every model that the pointer means, meant, or may come to mean."""
        return {self.current, *self.previous, *filter(None, [self.challenger])}

    def moved_to(self, model: str) -> Pointer:
        """The pointer to another model, with today's as the latest of the previous ones."""
        challenger = None if model == self.challenger else self.challenger
        if model == self.current:
            return replace(self, challenger=challenger)
        return Pointer(self.name, model, (*self.previous, self.current), challenger)

    def moved_back(self) -> Pointer:
        """The pointer one step back."""
        if not self.previous:
            raise Refused(f"'{self.name}' has no earlier model to go back to")
        return Pointer(self.name, self.previous[-1], self.previous[:-1], self.challenger)

    def challenged_by(self, model: str) -> Pointer:
        """The pointer with this model tried against today's."""
        if model == self.current:
            raise Refused(f"'{self.name}' means '{model}' already: a model cannot challenge itself")
        return replace(self, challenger=model)

    def promoted(self) -> Pointer:
        """The pointer to its challenger."""
        if self.challenger is None:
            raise Refused(
                f"'{self.name}' has no challenger to promote: upload one with --as challenger"
            )
        return self.moved_to(self.challenger)

    def model_of(self, role: str) -> str:
        """The model in a role. Raises UsageError or Refused where there is none."""
        if role not in ROLES:
            raise UsageError(f"no role is called '{role}': use {' or '.join(ROLES)}")
        model = self.current if role == CHAMPION else self.challenger
        if model is None:
            raise Refused(f"'{self.name}' has no challenger: upload one with --as challenger")
        return model


class Pointers:
    """The pointers of a cluster; a change is refused if somebody else was faster."""

    def __init__(self, engine: Engine) -> None:
        """Use the cluster behind `engine`."""
        self._engine = engine

    def find(self, name: str) -> Pointer | None:
        """The pointer of this name, if there is one."""
        found = self._read(name)
        return found[0] if found else None

    def resolve(self, name: str) -> str:
        """The model that a name means; a name without a pointer means itself.

        `NAME:challenger` means the name's challenger.
        """
        name, colon, role = name.partition(":")
        pointer = self.find(name)
        if pointer is None:
            if colon:
                raise self._unknown(name)
            return name
        return pointer.model_of(role if colon else CHAMPION)

    def move(self, name: str, model: str, role: str = CHAMPION) -> Pointer:
        """Let `name`, or its challenger, mean `model` from now on, in one step."""
        if role == CHALLENGER:
            return self._change(name, lambda pointer: pointer.challenged_by(model))
        found = self._read(name)
        pointer = found[0].moved_to(model) if found else Pointer(name, model)
        self._write(pointer, found[1] if found else None)
        return pointer

    def promote(self, name: str) -> Pointer:
        """Let `name` mean its challenger. Raises Refused if there is none."""
        return self._change(name, Pointer.promoted)

    def roll_back(self, name: str) -> Pointer:
        """Let `name` mean again what it meant before. Raises Refused if there is nothing."""
        return self._change(name, Pointer.moved_back)

    def all(self) -> list[Pointer]:
        """Every pointer, by name."""
        body = {"size": _MOST, "sort": ["name"], "query": {"exists": {"field": "name"}}}
        try:
            answer = self._engine.request("POST", f"/{INDEX}/_search", body=body)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return []
            raise
        hits = hits_of(answer, "its list of names")
        return [_pointer(part_of(hit, "_source", "its list of names")) for hit in hits]

    def meant(self) -> set[str]:
        """Every model that a name means, meant, or may come to mean."""
        return {model for pointer in self.all() for model in pointer.models}

    def prepare(self) -> None:
        """Make the index if it is not there yet, and bring an older one up to date."""
        try:
            self._engine.request("PUT", f"/{INDEX}", body=_BODY, idempotent=False)
        except EngineRefusal as refusal:
            if refusal.type != "resource_already_exists_exception":
                raise
            self._engine.request("PUT", f"/{INDEX}/_mapping", body={"properties": _PROPERTIES})

    def _change(self, name: str, change: Callable[[Pointer], Pointer]) -> Pointer:
        found = self._read(name)
        if found is None:
            raise self._unknown(name)
        pointer = change(found[0])
        self._write(pointer, found[1])
        return pointer

    def _unknown(self, name: str) -> BadInput:
        return BadInput(
            f"there is no model '{name}' in {self._engine.settings.url}: upload it first"
        )

    def _read(self, name: str) -> tuple[Pointer, dict[str, str]] | None:
        try:
            answer = self._engine.request("GET", f"/{INDEX}/_doc/{check_name('model', name)}")
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return None
            raise
        pointer = _pointer(part_of(answer, "_source", f"the name '{name}'"))
        if not answer.keys() >= {"_seq_no", "_primary_term"}:
            raise strange(f"the name '{name}'")
        version = {f"if{key}": str(answer[key]) for key in ("_seq_no", "_primary_term")}
        return pointer, version

    def _write(self, pointer: Pointer, version: dict[str, str] | None) -> None:
        self.prepare()
        content = {
            "name": pointer.name,
            "current": pointer.current,
            "previous": list(pointer.previous),
            **({"challenger": pointer.challenger} if pointer.challenger else {}),
        }
        params = {"refresh": "true", **(version or {"op_type": "create"})}
        try:
            self._engine.request(
                "PUT",
                f"/{INDEX}/_doc/{check_name('model', pointer.name)}",
                params=params,
                body=content,
                idempotent=False,
            )
        except (EngineRefusal, EngineUnavailable) as fault:
            # After a lost answer, the write may have happened: what counts is what is there.
            if self.find(pointer.name) == pointer:
                return
            if isinstance(fault, EngineRefusal) and fault.status == 409:
                raise Refused(
                    f"somebody else moved '{pointer.name}' at the same time: look at it with "
                    "owpc-ltr models list, and try again"
                ) from fault
            raise


def _pointer(content: dict[str, Any]) -> Pointer:
    name, current = content.get("name"), content.get("current")
    previous, challenger = content.get("previous", []), content.get("challenger")
    models = [current, *previous] if isinstance(previous, list) else [None]
    if challenger is not None:
        models.append(challenger)
    if not all(isinstance(each, str) for each in (name, *models)):
        raise BadInput(
            f"what the index {INDEX} says of {name!r} is damaged: take that document out, and "
            "upload again"
        )
    return Pointer(str(name), str(current), tuple(previous), challenger)
