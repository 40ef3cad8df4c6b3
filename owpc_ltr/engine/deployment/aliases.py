"""Aliases: a name that applications use, and the immutable model that it points to today.

Models in an engine cannot be changed, and must not be deleted and made again under one name (a
search in between would fail). So each upload is kept as `name@hash`, and an alias document
says which one `name` points to, which ones it pointed to before, and which one is tried against it.
Beside the aliases lie the models' certificates.
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
class Alias:
    """What a name points to now (`current`, the champion), and pointed to before (latest last).

    `challenger` is the model that is tried against it, if there is one.
    """

    name: str
    current: str
    previous: tuple[str, ...] = ()
    challenger: str | None = None

    @property
    def models(self) -> set[str]:
        """Every model that the alias points to, pointed to, or may come to point to."""
        return {self.current, *self.previous, *filter(None, [self.challenger])}

    def moved_to(self, model: str) -> Alias:
        """The alias to another model, with today's as the latest of the previous ones."""
        challenger = None if model == self.challenger else self.challenger
        if model == self.current:
            return replace(self, challenger=challenger)
        return Alias(self.name, model, (*self.previous, self.current), challenger)

    def moved_back(self) -> Alias:
        """The alias one step back."""
        if not self.previous:
            raise Refused(f"'{self.name}' has no earlier model to go back to")
        return Alias(self.name, self.previous[-1], self.previous[:-1], self.challenger)

    def challenged_by(self, model: str) -> Alias:
        """The alias with this model tried against today's."""
        if model == self.current:
            raise Refused(
                f"'{self.name}' points to '{model}' already: a model cannot challenge itself"
            )
        return replace(self, challenger=model)

    def promoted(self) -> Alias:
        """The alias to its challenger."""
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


class Aliases:
    """The aliases of a cluster; a change is refused if somebody else was faster."""

    def __init__(self, engine: Engine) -> None:
        """Use the cluster behind `engine`."""
        self._engine = engine

    def find(self, name: str) -> Alias | None:
        """The alias of this name, if there is one."""
        found = self._read(name)
        return found[0] if found else None

    def resolve(self, name: str) -> str:
        """The model that a name points to; a name without an alias is a model's own.

        `NAME:challenger` is the name's challenger.
        """
        name, colon, role = name.partition(":")
        alias = self.find(name)
        if alias is None:
            if colon:
                raise self._unknown(name)
            return name
        return alias.model_of(role if colon else CHAMPION)

    def move(self, name: str, model: str, role: str = CHAMPION) -> Alias:
        """Let `name`, or its challenger, point to `model` from now on, in one step."""
        if role == CHALLENGER:
            return self._change(name, lambda alias: alias.challenged_by(model))
        found = self._read(name)
        alias = found[0].moved_to(model) if found else Alias(name, model)
        self._write(alias, found[1] if found else None)
        return alias

    def promote(self, name: str) -> Alias:
        """Let `name` point to its challenger. Raises Refused if there is none."""
        return self._change(name, Alias.promoted)

    def roll_back(self, name: str) -> Alias:
        """Let `name` point again to the model before. Raises Refused if there is none."""
        return self._change(name, Alias.moved_back)

    def all(self) -> list[Alias]:
        """Every alias, by name."""
        body = {"size": _MOST, "sort": ["name"], "query": {"exists": {"field": "name"}}}
        try:
            answer = self._engine.request("POST", f"/{INDEX}/_search", body=body)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return []
            raise
        hits = hits_of(answer, "its list of names")
        return [_alias(part_of(hit, "_source", "its list of names")) for hit in hits]

    def pointed_to(self) -> set[str]:
        """Every model that an alias points to, pointed to, or may come to point to."""
        return {model for alias in self.all() for model in alias.models}

    def prepare(self) -> None:
        """Make the index if it is not there yet, and bring an older one up to date."""
        try:
            self._engine.request("PUT", f"/{INDEX}", body=_BODY, idempotent=False)
        except EngineRefusal as refusal:
            if refusal.type != "resource_already_exists_exception":
                raise
            self._engine.request("PUT", f"/{INDEX}/_mapping", body={"properties": _PROPERTIES})

    def _change(self, name: str, change: Callable[[Alias], Alias]) -> Alias:
        found = self._read(name)
        if found is None:
            raise self._unknown(name)
        alias = change(found[0])
        self._write(alias, found[1])
        return alias

    def _unknown(self, name: str) -> BadInput:
        return BadInput(
            f"there is no model '{name}' in {self._engine.settings.url}: upload it first"
        )

    def _read(self, name: str) -> tuple[Alias, dict[str, str]] | None:
        try:
            answer = self._engine.request("GET", f"/{INDEX}/_doc/{check_name('model', name)}")
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return None
            raise
        alias = _alias(part_of(answer, "_source", f"the name '{name}'"))
        if not answer.keys() >= {"_seq_no", "_primary_term"}:
            raise strange(f"the name '{name}'")
        version = {f"if{key}": str(answer[key]) for key in ("_seq_no", "_primary_term")}
        return alias, version

    def _write(self, alias: Alias, version: dict[str, str] | None) -> None:
        self.prepare()
        content = {
            "name": alias.name,
            "current": alias.current,
            "previous": list(alias.previous),
            **({"challenger": alias.challenger} if alias.challenger else {}),
        }
        params = {"refresh": "true", **(version or {"op_type": "create"})}
        try:
            self._engine.request(
                "PUT",
                f"/{INDEX}/_doc/{check_name('model', alias.name)}",
                params=params,
                body=content,
                idempotent=False,
            )
        except (EngineRefusal, EngineUnavailable) as fault:
            # After a lost answer, the write may have happened: what counts is what is there.
            if self.find(alias.name) == alias:
                return
            if isinstance(fault, EngineRefusal) and fault.status == 409:
                raise Refused(
                    f"somebody else moved '{alias.name}' at the same time: look at it with "
                    "owpc-ltr models list, and try again"
                ) from fault
            raise


def _alias(content: dict[str, Any]) -> Alias:
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
    return Alias(str(name), str(current), tuple(previous), challenger)
