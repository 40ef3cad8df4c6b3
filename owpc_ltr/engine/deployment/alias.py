"""Aliases: the names that applications use, and the immutable model that each one is set to.

Models in an engine cannot be changed, and must not be deleted and created again under one name (a
search in between would fail). So each upload is stored as `name-hash`, named by its content, and an
alias document says which model `name` is set to, which ones it was set to before, and which one is
its challenger. The same index holds the models' deployment records.

An alias belongs to a store. The id of its document is the name in the default store, so that
applications find it, and KIND/STORE/NAME in another one.

The grounds for the switch of an alias: evidence, or a recorded reason to do without. One function,
`check_switch`, is called on every path to a switch, with the alias as it is stored at that moment.
An alias that has a model is switched only to a configuration that evidence found better than the
one that users have, or for a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.deployment.search_template import SearchTemplates
from owpc_ltr.engine.evidence import (
    BY_USERS,
    Evidence,
    SearchConfiguration,
    content_digest,
    evidence_of,
    now,
)
from owpc_ltr.engine.search.request import query_digest
from owpc_ltr.engine.staging_index import index_uuids
from owpc_ltr.engine.stores import Store, file_advice, place_of
from owpc_ltr.engine.versioned_documents import (
    INDEX,
    Unsettled,
    VersionedDocument,
    VersionedDocuments,
)
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError, give_warnings
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.host.settings import check_settings
from owpc_ltr.names import (
    check_alias,
    check_name,
    did_you_mean,
    is_model_of,
    only_one,
    split_immutable,
)
from owpc_ltr.text import ShortRepr

MAX_AGE = timedelta(days=30)
"""How old evidence may be: users and the index change."""


@dataclass(frozen=True)
class SwitchGrounds:
    """Why an alias may be switched: evidence, or the reason to do without. Neither is the default.

    `typed_options` go with the command that makes the right evidence.
    """

    evidence: Evidence | None = None
    unproven: str | None = None
    typed_options: str = field(default="", compare=False)

    @classmethod
    def of(
        cls, require: object = None, unproven: str | None = None, typed_options: str = ""
    ) -> SwitchGrounds:
        """The grounds, with the evidence read. Raises UsageError for both, and an empty reason."""
        if unproven is not None and not unproven.strip():
            raise UsageError("`unproven` is empty: give the reason, which is recorded")
        if unproven is not None and require is not None:
            raise UsageError(
                "`require` and `unproven` do not go together: a "
                "switch has evidence, or a reason to do without"
            )
        return cls(None if require is None else evidence_of(require), unproven, typed_options)

    def as_dict(self, over: str | None) -> dict[str, Any] | None:
        """What a deployment record has of the switch; None where nothing was replaced."""
        if self.evidence is not None:
            return {"over": over, "evidence": self.evidence.as_dict()}
        return None if over is None else {"over": over, "unproven": self.unproven}


def configuration(
    name: str, index: str, model: str, search: Mapping[str, Any] | None, window: int | None = None
) -> SearchConfiguration:
    """That of a model of this digest; `search` is what a deployment record has of the search."""
    search = search or {}
    template = search.get("template")
    query = None if template is None else query_digest(template)
    return SearchConfiguration(name, index, query, model, search.get("window", window))


def deployed(record: DeploymentRecord) -> SearchConfiguration:
    """The configuration of an uploaded model, by its whole deployment record."""
    digest = content_digest(record.content, record.record)
    return configuration(record.model, record.index, digest, record.search)


def check_switch(
    records: DeploymentRecords,
    alias: Alias | None,
    new: SearchConfiguration,
    grounds: SwitchGrounds,
    *,
    name: str,
    file: Path | None = None,
) -> dict[str, Any] | None:
    """Refuse to switch an alias to a configuration that nothing shows to be better.

    `alias` is as it is stored at this moment, None where NAME has no model yet; `file` is the new
    model's, where it is not stored yet. Returns what the deployment record of the new model has of
    it. Raises Refused, with what is wrong and the command that makes the right evidence.
    """
    evidence = grounds.evidence
    if evidence is not None:
        new = replace(new, uuids=index_uuids(records.engine, new.index))
    if alias is None:
        if evidence is not None:
            alone = replace(evidence.old, model=None, index=new.index)
            _check(evidence, new, alone, name, _command(file, new, alone, "query", grounds))
        return grounds.as_dict(None)
    champion = None
    with suppress(BadInput):
        champion = records.find(alias.current)
    old = _unknown(alias.current, new) if champion is None else deployed(champion)
    changes = _changes(old, new)
    if not changes:
        return None if champion is None else champion.switch
    command = _command(file, new, old, name, grounds)
    if evidence is not None:
        _check(evidence, new, old, name, command, last_rollback=alias.last_rollback)
    elif grounds.unproven is None:
        known = ""
        if old.query is None:
            known = " upload that again with `query_template`, then"
        raise Refused(
            f"users of '{name}' have '{alias.current}', and would get another "
            f"{', '.join(changes)}: to replace it, show that it is better:{known} {command} and "
            "then `require='better.json'`; or say why without: `unproven='REASON'`"
        )
    return grounds.as_dict(alias.current)


def check_challenger(records: DeploymentRecords, alias: Alias, new: SearchConfiguration) -> None:
    """Refuse a challenger that changes what a rollback would bring back."""
    before = records.find(new.name) if new.name in alias.previous else None
    if before is not None and (changes := _changes(deployed(before), new)):
        raise Refused(
            f"'{new.name}' is an earlier model of '{alias.name}', and a rollback would bring it "
            f"back with another {', '.join(changes)} than users had: leave these as they were, or "
            f"upload it as champion with `require`"
        )


def _unknown(champion: str, new: SearchConfiguration) -> SearchConfiguration:
    """What users have by a model whose deployment record is lost; its upload makes it again."""
    model = new.model if champion == new.name else "unknown"
    return SearchConfiguration(champion, new.index, None, model)


def _changes(old: SearchConfiguration, new: SearchConfiguration) -> list[str]:
    """In what users would get something else. The first template of a model is no change."""
    if old.query is None:
        old = replace(old, query=new.query, window=new.window)
    return old.differences(new)


def _check(
    evidence: Evidence,
    new: SearchConfiguration,
    old: SearchConfiguration,
    name: str,
    command: str,
    *,
    last_rollback: str | None = None,
) -> None:
    faults = [*_faults(evidence, new, old, name, last_rollback)]
    if faults:
        more = "".join(f"; {advice}" for advice in evidence.more)
        better = evidence.verdict.get("outcome") == Outcome.BETTER
        instead = f": {command}" if better else more
        raise Refused(f"'{name}' is not switched: {'; '.join(faults)}{instead}")


def _faults(
    evidence: Evidence,
    new: SearchConfiguration,
    old: SearchConfiguration,
    name: str,
    last_rollback: str | None,
) -> Iterator[str]:
    """Why the evidence does not allow the switch."""
    is_known = old.query is not None or old.model is None
    if not is_known and evidence.by == BY_USERS:
        # Users had the application's own query, whatever it is, with both models.
        new = replace(new, query=evidence.new.query, window=evidence.new.window)
    if evidence.verdict.get("outcome") != Outcome.BETTER:
        yield f"the verdict of the evidence is '{evidence.reason}'"
    if parts := evidence.new.differences(new):
        yield (
            f"the evidence is of another {', '.join(parts)} than those of the switch "
            f"('{evidence.new.name}')"
        )
    if not is_known and evidence.by != BY_USERS:
        yield (
            f"what users have is not known, as '{old.name}' was uploaded without its query "
            f"template: upload it again with `query_template`, then compare"
        )
    elif parts := evidence.old.differences(old):
        yield (
            f"the evidence compares with {evidence.old.name}, and users have {old.name}, which is "
            f"another {', '.join(parts)}"
        )
    if evidence.by != BY_USERS and old.model is not None and evidence.alias != name:
        yield (
            f"the comparison was not counted among the attempts of '{name}': name the alias in it, "
            "and not a file or another alias"
        )
    written = datetime.fromisoformat(evidence.written)
    if last_rollback is not None and written <= datetime.fromisoformat(last_rollback):
        yield (
            f"the evidence is of {evidence.written}, and '{name}' was rolled back at "
            f"{last_rollback}: compare again"
        )
    age = datetime.now(UTC) - written
    if age > MAX_AGE or age < -timedelta(days=1):
        yield f"the evidence is of {evidence.written}, and must be of the last {MAX_AGE.days} days"


def _command(
    file: Path | None,
    new: SearchConfiguration,
    old: SearchConfiguration,
    over: str,
    grounds: SwitchGrounds,
) -> str:
    """The command that makes the right evidence."""
    template = "" if new.query == old.query else " --query-template FILE"
    is_same = old.window is None or new.window in {None, old.window}
    window = "" if is_same else f" --window {new.window}"
    return (
        f"owpc-ltr compare-live {file or new.name} {over} --judgments FILE{template}{window} "
        f"--out better.json{grounds.typed_options}"
    )


def switch_line(switch: Mapping[str, Any]) -> str:
    """What an alias was switched on, as its model's deployment record has it."""
    over, evidence = switch["over"], switch.get("evidence")
    if evidence is None:
        return f"replaced {over} without evidence: {switch['unproven']}"
    return (
        f"{evidence['verdict']['outcome']} than {over or evidence['old']['name']} by "
        f"{evidence['by']}, by evidence of {evidence['written']}"
    )


CHAMPION, CHALLENGER = "champion", "challenger"
ROLES = (CHAMPION, CHALLENGER)
DEFAULT_HISTORY = 5
"""How many earlier models an alias can be rolled back to, unless an upload says otherwise."""


@dataclass(frozen=True, repr=False)
class Alias(ShortRepr):
    """The model that an alias is set to (`current`, the champion), and earlier ones (latest last).

    `challenger` is the model that is tried against it, if there is one; `history` is how many
    earlier models are kept for rollback. `last_rollback` is its time (ISO 8601), before which all
    evidence was not right. `store` (None for the default one) and `store_kind` say
    where its models are; an alias that is not written yet has neither.
    """

    name: str
    current: str
    previous: tuple[str, ...] = ()
    challenger: str | None = None
    history: int = DEFAULT_HISTORY
    # Not compared: an alias that is not written yet lacks the places.
    last_rollback: str | None = field(default=None, compare=False)
    store: str | None = field(default=None, compare=False)
    store_kind: str | None = field(default=None, compare=False)

    @property
    def models(self) -> set[str]:
        """Every model that the alias uses: current, earlier ones, and the challenger."""
        return {self.current, *self.previous, *filter(None, [self.challenger])}

    def switched_to(self, model: str, history: int | None = None) -> Alias:
        """The alias set to another model, with the current one as the latest earlier one."""
        limit = self.history if history is None else history
        challenger = None if model == self.challenger else self.challenger
        previous = self.previous if model == self.current else (*self.previous, self.current)
        recent = previous[max(len(previous) - limit, 0) :]
        return replace(self, current=model, previous=recent, challenger=challenger, history=limit)

    def rolled_back(self) -> Alias:
        """The alias set to the model before."""
        if not self.previous:
            raise Refused(f"'{self.name}' has no earlier model to roll back to")
        return replace(
            self, current=self.previous[-1], previous=self.previous[:-1], last_rollback=now()
        )

    def challenged_by(self, model: str, history: int | None = None) -> Alias:
        """The alias with this model as the challenger of the current one."""
        if model == self.current:
            raise Refused(
                f"alias '{self.name}' is already set to '{model}': a model cannot challenge itself"
            )
        limit = self.history if history is None else history
        return replace(self, challenger=model, history=limit)

    def promoted(self) -> Alias:
        """The alias set to its challenger."""
        if self.challenger is None:
            raise Refused(
                f"'{self.name}' has no challenger to promote: upload one with "
                "`role='challenger'`, or name one of its models: owpc-ltr models promote NAME-HASH"
            )
        return self.switched_to(self.challenger)

    def without(self, model: str) -> Alias:
        """The alias without this model in its history. Raises Refused where it is in use."""
        for role, used in ((CHAMPION, self.current), (CHALLENGER, self.challenger)):
            if used == model:
                raise Refused(
                    f"'{model}' is the {role} of alias '{self.name}', and a model in use is not "
                    "removed: promote another model first"
                )
        return replace(self, previous=tuple(name for name in self.previous if name != model))

    def as_dict(self) -> dict[str, Any]:
        """The alias as JSON: its document in the cluster."""
        content = {**asdict(self), "previous": list(self.previous)}
        optional = {"challenger", "last_rollback"}
        return {key: part for key, part in content.items() if part or key not in optional}

    def model_of(self, role: str) -> str:
        """The model in a role. Raises UsageError or Refused where there is none."""
        if role not in ROLES:
            raise _no_role(role)
        model = self.current if role == CHAMPION else self.challenger
        if model is None:
            raise Refused(f"'{self.name}' has no challenger: upload one with `role='challenger'`")
        return model


def _no_role(role: str) -> UsageError:
    return UsageError(f"no role is called '{role}': use {' or '.join(ROLES)}")


class Aliases:
    """The aliases of a store; a change is refused if another one came first.

    The search template of an alias follows each of its switches.
    """

    def __init__(self, engine: Engine, store: Store) -> None:
        """Use the cluster behind `engine`, and the aliases of `store`."""
        self._engine = engine
        self._store = store
        prefix = "" if store.name is None else f"{store.kind}/{store.name}/"
        self._documents = VersionedDocuments(
            engine, "alias", prefix, look="check its model (owpc-ltr models show)"
        )
        self._templates = SearchTemplates(engine, store)

    def find(self, name: str) -> Alias | None:
        """The alias of this name, if there is one."""
        stored = self._documents.read(name)
        alias = _alias(stored.content) if stored else None
        return alias if alias and self._is_here(alias) else None

    def resolve(self, name: str) -> str:
        """The model that an alias is set to; a name without an alias is a model's own.

        `NAME:challenger` is the name's challenger.
        """
        name, colon, role = name.partition(":")
        alias = self.find(name)
        if alias is None:
            if colon or (split_immutable(name) is None and self._other_place(name)):
                raise self._unknown(name)
            return name
        return alias.model_of(role if colon else CHAMPION)

    def check_upload(self, name: str, model: str, role: str) -> Alias | None:
        """Refuse, before anything is stored, a name or a role that a new model cannot have.

        The name must not be that of another kind of store, hide a model, or be hidden by the new
        model's own name. A challenger needs a champion, and another one than itself.
        """
        stored = self._documents.read(name)
        alias = _alias(stored.content) if stored else None
        if alias:
            self._check_here(alias)
        else:
            check_alias(name)
        another = "choose another name with `name`"
        if self.find(model) is not None:
            raise Refused(
                f"the model would be stored as '{model}', which is an alias already: {another}"
            )
        if alias is None:
            self._check_hides_nothing(name, another)
        if role not in ROLES:
            raise _no_role(role)
        if role == CHALLENGER:
            if alias is None:
                raise Refused(
                    f"alias '{name}' has no model to challenge yet: upload the first one as "
                    "champion"
                )
            alias.challenged_by(model)
        return alias

    def _check_hides_nothing(self, name: str, another: str) -> None:
        models, parts = self._store.list_models(), split_immutable(name)
        if name in models:
            raise Refused(
                f"'{name}' is the name of a stored model, which an alias would hide: {another}"
            )
        if parts and (self.find(parts[0]) or any(is_model_of(parts[0], each) for each in models)):
            raise Refused(
                f"'{name}' reads as a model of '{parts[0]}', and may become one's name: {another}"
            )

    def switch(
        self,
        name: str,
        model: str,
        role: str = CHAMPION,
        *,
        history: int | None = None,
        check: Callable[[Alias | None], object],
    ) -> Alias:
        """Set `name`, or its challenger, to `model`, in one step.

        `history` is how many earlier models are kept for rollback from now on. `check` refuses a
        switch by what the alias is set to at this moment; None where there is none yet.
        """
        if role == CHALLENGER:
            return self._change(name, lambda alias: alias.challenged_by(model, history))
        stored = self._documents.read(name)
        alias = _alias(stored.content) if stored else None
        check(alias)
        return self._write((alias or Alias(name, model)).switched_to(model, history), stored)

    def promoted_model(self, name: str) -> str | None:
        """The challenger of `name`; None where only the template is to follow the last switch.

        Raises Refused where there is nothing to promote.
        """
        alias = self._existing(name)[0]
        return None if not alias.challenger and self._left(alias) else alias.promoted().current

    def complete(self, name: str) -> Alias:
        """Make the template follow the last switch of `name`."""
        return self._change(name, lambda alias: alias)

    def roll_back(self, name: str) -> Alias:
        """Switch `name` back to the model before. Raises Refused if there is none.

        A rollback whose template is still to follow is completed: another one would be too many.
        """
        return self._change(
            name, lambda it: it if self._left(it) not in {None, *it.models} else it.rolled_back()
        )

    def forget(self, name: str, model: str) -> Alias:
        """Remove this model from the history of `name`. Raises Refused where it is in use."""
        return self._change(name, lambda alias: alias.without(model))

    def delete(self, name: str) -> Alias:
        """Delete the alias, and first its search template; its models stay."""
        alias, stored = self._existing(name)
        self._templates.remove(name)
        self._documents.delete(name, stored)
        return alias

    def all(self) -> list[Alias]:
        """Every alias of the store, by name."""
        return [alias for alias in all_aliases(self._engine) if self._is_here(alias)]

    def models_in_use(self) -> set[str]:
        """Every model that an alias uses (current, earlier, challenger), or that is pinned."""
        used = {model for alias in self.all() for model in alias.models}
        return used | pinned_models(self._engine).keys()

    def users(self, model: str) -> list[Alias]:
        """The aliases that use a model."""
        return [alias for alias in self.all() if model in alias.models]

    def _is_here(self, alias: Alias) -> bool:
        return (alias.store, alias.store_kind) == (self._store.name, self._store.kind)

    def _check_here(self, alias: Alias) -> None:
        if not self._is_here(alias):
            raise Refused(
                f"'{alias.name}' is a name of the {alias.store_kind} store: take another name, or "
                f"use `store_kind='{alias.store_kind}'`"
            )

    def _change(self, name: str, change: Callable[[Alias], Alias]) -> Alias:
        alias, stored = self._existing(name)
        return self._write(change(alias), stored)

    def _existing(self, name: str) -> tuple[Alias, VersionedDocument]:
        stored = self._documents.read(name)
        if stored is None or not self._is_here(alias := _alias(stored.content)):
            raise self._unknown(name)
        return alias, stored

    def _unknown(self, name: str) -> BadInput:
        options = self._other_place(name)
        if options:
            instead = f"it is in another one: {options}"
        else:
            names = (alias.name for alias in self.all())
            instead = did_you_mean(name, names, file_advice("model", name) or "upload it first")
        place = place_of(self._store.kind, self._store.name, self._engine.settings.url)
        if not options and name in self._store.list_models():
            parts = split_immutable(name)
            how = "no alias leads to it: import it from its file (owpc-ltr import), and upload it"
            how = how if parts is None else f"no alias: name '{parts[0]}'"
            return BadInput(f"'{name}' is a model in {place}, and {how}")
        return BadInput(f"there is no model '{name}' in {place}: {instead}")

    def _other_place(self, name: str) -> str:
        """The options that find an alias of this name in another store."""
        for alias in all_aliases(self._engine):
            if alias.name == name and not self._is_here(alias):
                store = f" --store {alias.store}" if alias.store else ""
                return f"--store-kind {alias.store_kind}{store}"
        return ""

    def _write(self, alias: Alias, before: VersionedDocument | None) -> Alias:
        """The stored alias; it replaces what was read `before`, and nothing else."""
        former = _alias(before.content) if before else None
        if former:
            self._check_here(former)
        # Read here, where a fault leaves all as it was.
        models = [alias.current, *([former.current] if former else [])]
        has_template = any(map(self._templates.of_model, models))
        written = replace(alias, store=self._store.name, store_kind=self._store.kind)
        try:
            self._documents.replace(alias.name, written.as_dict(), before)
        except EngineUnavailable as fault:
            if former is None or isinstance(fault, Unsettled):
                raise
            raise EngineUnavailable(
                f"{fault}; alias '{alias.name}' is still set to '{former.current}'"
            ) from fault
        if has_template:
            self._carry_template(written)
        return written

    def _carry_template(self, alias: Alias) -> None:
        """Make the search template of a switched alias that of its model."""
        try:
            if not self._templates.follow(alias.name, alias.current):
                return
            drift = self._templates.drift(alias.name, alias.current)
            # A command at the same time may have switched it, and written the template before.
            again = self.find(alias.name)
        except EngineUnavailable as fault:
            raise Unsettled(
                f"{fault}; alias '{alias.name}' is set to '{alias.current}', but its search "
                "template may still serve another model: complete the switch by owpc-ltr models "
                f"promote {alias.current}"
            ) from fault
        if again is None:
            self._templates.remove(alias.name)
        elif again.current != alias.current:
            self._carry_template(again)
        elif drift and self._templates.of_model(alias.current):
            raise Refused(f"alias '{alias.name}' is set to '{alias.current}', but {drift}")
        else:
            give_warnings(filter(None, [drift]))

    def _left(self, alias: Alias) -> str | None:
        """The model that the template still serves, where a switch was interrupted."""
        model = self._templates.serving(alias.name)
        return model if self._templates.of_model(alias.current) and model != alias.current else None


def holds(engine: Engine, store: Store, name: str) -> bool:
    """Whether a store has the alias NAME (or NAME:challenger), or the model NAME-HASH."""
    name = name.partition(":")[0]
    if Aliases(engine, store).find(name) is not None:
        return True
    return split_immutable(name) is not None and name in store.list_models()


def all_aliases(engine: Engine) -> list[Alias]:
    """Every alias of the cluster, by name, whatever its store."""
    aliases = map(_alias, VersionedDocuments(engine, "alias").with_field("name"))
    return sorted(aliases, key=lambda alias: alias.name)


def _alias(content: dict[str, Any]) -> Alias:
    try:
        given = {part.name: content.get(part.name) for part in fields(Alias)}
        previous, kind = content["previous"], content["store_kind"]
        if type(previous) is not list or not all(type(name) is str for name in (kind, *previous)):
            raise TypeError("previous")
        alias = Alias(**{**given, "previous": tuple(previous), "history": content["history"]})
        check_settings(alias)
    except (KeyError, TypeError, UsageError) as error:
        raise BadInput(
            f"the document of alias {content.get('name')!r} in the index {INDEX} is damaged: "
            "delete it, and upload again"
        ) from error
    return alias


def pinned_models(engine: Engine) -> dict[str, str]:
    """The models that a document beside the aliases pins, and what that document is.

    Such a document has the models as `pinned`, and `pinned_by`. None of them is deleted meanwhile.
    """
    pins: dict[str, str] = {}
    for content in VersionedDocuments(engine, "document").with_field("pinned"):
        models = content["pinned"]
        if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
            raise BadInput(f"a document in the index {INDEX} is damaged: 'pinned' is {models!r}")
        pins |= dict.fromkeys(models, str(content.get("pinned_by")))
    return pins


def check_unpinned(engine: Engine, models: Collection[str]) -> None:
    """Raise Refused where one of these models is pinned."""
    pins = pinned_models(engine)
    for model in models:
        if model in pins:
            raise Refused(f"{pins[model]} uses '{model}': a model in use is not removed")


def the_name(
    engine: Engine, stores: Sequence[Store], given: str | None, file: Path | None = None
) -> str:
    """The name given, that of the model's file, or the only one that the stores have."""
    if given is not None:
        # NAME:challenger is the challenger of an alias.
        check_name("model", given.partition(":")[0])
        return given
    if file is not None:
        return check_name("model", file.name.removesuffix(".json"))
    names = alias_names(engine, stores)
    return only_one(names, "model", "`model`", engine.settings.url)


def alias_names(engine: Engine, stores: Sequence[Store]) -> list[str]:
    """The names of all aliases of these stores."""
    return list({alias.name: None for store in stores for alias in Aliases(engine, store).all()})
