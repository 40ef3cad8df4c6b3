"""Lifecycle of uploaded models: promoted, deleted, pruned; what an alias uses is never removed.

Also which models use a feature set: a model in a store has its own copy of the set, but explain,
verify and logging look it up by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import (
    Alias,
    Aliases,
    SwitchGrounds,
    check_switch,
    check_unpinned,
    deployed,
)
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecord,
    DeploymentRecords,
    is_named_by_content,
)
from owpc_ltr.engine.deployment.search_template import SearchTemplates
from owpc_ltr.engine.stores import Absent, Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.names import is_model_of, split_immutable

_SHOWN = 5


def prunable(engine: Engine, store: Store) -> list[str]:
    """Models of owpc-ltr in the store that no alias uses."""
    return unused_models(engine, store)[0]


def unused_models(engine: Engine, store: Store) -> tuple[list[str], list[str]]:
    """Models in the store that no alias uses: those of owpc-ltr, and those of other tools."""
    used = Aliases(engine, store).models_in_use()
    unused = [name for name in store.list_models() if name not in used]
    ours = made_here(engine, store, unused)
    return ours, [name for name in unused if name not in ours]


def made_here(engine: Engine, store: Store, models: Sequence[str]) -> list[str]:
    """Those of these models that owpc-ltr made.

    Most have a deployment record. A model that a killed upload left has the hash of its content in
    its name.
    """
    named = {model for model in models if split_immutable(model)}
    proved = DeploymentRecords(engine, store).recorded(named)
    return [
        model
        for model in models
        if model in proved or (model in named and _is_our_own(store, model))
    ]


def prune(engine: Engine, store: Store, names: Sequence[str]) -> None:
    """Delete these models and their records, or none if one is in use or not of owpc-ltr."""
    _check_ours(engine, store, names)
    for name in names:
        _check_unused(engine, store, name)
        _check_unserved(engine, store, name)
    records = DeploymentRecords(engine, store)
    for name in names:
        # Once more: another upload of the same model may have switched an alias to it meanwhile.
        _check_unused(engine, store, name)
        # The record first: a model without one is recognised and pruned, a record alone is not.
        records.delete(name)
        # A killed upload may have left the script of its proof.
        SearchTemplates(engine, store).remove(name)
        # It was there: where it is gone now, the answer to its deletion was lost.
        with suppress(Absent):
            store.delete_model(name)


def to_delete(engine: Engine, store: Store, name: str) -> list[str]:
    """The models that `delete` would remove: this one, or all of an alias of this store.

    Raises Refused where another alias uses one of them, it is pinned, or owpc-ltr did not make it.
    """
    models = _models_of(engine, store, name)
    check_unpinned(engine, models)
    return models


def _models_of(engine: Engine, store: Store, name: str) -> list[str]:
    aliases = Aliases(engine, store)
    alias = aliases.find(name)
    if alias is None:
        for user in aliases.users(name):
            user.without(name)
        left = _left_by(engine, store, name)
        if left:
            return left
        _check_ours(engine, store, [name])
        _check_unserved(engine, store, name)
        return [name]
    stored = store.list_models()
    models = [model for model in stored if model in alias.models or is_model_of(name, model)]
    for model in models:
        others = [user for user in aliases.users(model) if user.name != name]
        if others:
            raise Refused(
                f"alias '{others[0].name}' uses '{model}' of '{name}', or can be rolled back to "
                f"it: delete '{others[0].name}' first"
            )
    return made_here(engine, store, models)


def delete(engine: Engine, store: Store, name: str) -> list[str]:
    """Delete one model, or an alias and all of its models; returns the deleted models.

    The search template and the alias, or the model's entry in the history of its alias, are deleted
    first: neither ever serves a model that is not there.
    """
    models = to_delete(engine, store, name)
    aliases = Aliases(engine, store)
    if aliases.find(name) is not None:
        aliases.delete(name)
    else:
        for user in aliases.users(name):
            if aliases.find(user.name) == user:
                aliases.forget(user.name, name)
    prune(engine, store, models)
    return models


def _left_by(engine: Engine, store: Store, name: str) -> list[str]:
    """The models of an alias that is gone: a deletion was interrupted after its first step."""
    stored = store.list_models()
    if name in stored:
        return []
    used = Aliases(engine, store).models_in_use()
    left = [model for model in stored if is_model_of(name, model) and model not in used]
    return made_here(engine, store, left)


def _check_ours(engine: Engine, store: Store, names: Sequence[str]) -> None:
    stored = store.list_models()
    for name in names:
        if name not in stored:
            raise BadInput(
                f"there is no model '{name}' in the store: type its exact name (owpc-ltr models "
                "show)"
            )
    ours = made_here(engine, store, names)
    for name in names:
        if name not in ours:
            raise Refused(
                f"the model '{name}' was not made by owpc-ltr, which does not delete it: delete it "
                "with the tool that made it"
            )


def _is_our_own(store: Store, model: str) -> bool:
    try:
        return is_named_by_content(store.get_model(model))
    except BadInput:
        # It is gone by now, or is no model of owpc-ltr.
        return False


def _check_unused(engine: Engine, store: Store, name: str) -> None:
    users = Aliases(engine, store).users(name)
    if users:
        raise Refused(
            f"alias '{users[0].name}' uses '{name}', or can be rolled back to it: a model in use "
            "is not removed"
        )
    check_unpinned(engine, [name])


def _check_unserved(engine: Engine, store: Store, name: str) -> None:
    parts = split_immutable(name)
    if parts is None or not Aliases(engine, store).find(parts[0]):
        return
    if SearchTemplates(engine, store).serving(parts[0]) == name:
        raise Refused(
            f"applications still get '{name}' by the search template '{parts[0]}', and such a "
            f"model is not removed: owpc-ltr verify {parts[0]} says what to do first"
        )


def promote(engine: Engine, store: Store, name: str, grounds: SwitchGrounds) -> Alias:
    """Switch an alias to its challenger, or to the one of its models that is named.

    Raises Refused where there is no challenger or the switch has no grounds (see `check_switch`),
    BadInput where there is no such model.
    """
    aliases, records = Aliases(engine, store), DeploymentRecords(engine, store)
    model: str | None = name
    if split_immutable(name) is None or aliases.find(name) is not None:
        model = aliases.promoted_model(name)
        if model is None:
            return aliases.complete(name)
        _check_stored(store, name, model)
    record = records.find(str(model))
    if record is None:
        raise BadInput(
            f"there is no proven model '{model}' in {engine.settings.url}: check the name and the "
            "`store`, or upload it again"
        )
    # The record may have outlived its model: this raises where the model is gone.
    stored = store.get_model(record.model)
    return switch_to(engine, store, record, stored, grounds)


def switch_to(
    engine: Engine,
    store: Store,
    record: DeploymentRecord,
    stored: StoredModel,
    grounds: SwitchGrounds,
) -> Alias:
    """Switch the alias of an uploaded model to it; its record has the grounds before."""
    if not is_named_by_content(stored) or stored.name != record.model:
        raise Refused(
            f"the deployment record of '{record.model}' is of another model than the one that is "
            "stored: upload the model again"
        )
    aliases, records = Aliases(engine, store), DeploymentRecords(engine, store)
    new, name = deployed(record), record.name

    def check(alias: Alias | None) -> dict[str, Any] | None:
        return check_switch(records, alias, new, grounds, name=name)

    alias = aliases.find(name)
    if alias is not None and alias.current != record.model:
        records.put(replace(record, switch=check(alias)))
    return aliases.switch(name, record.model, check=check)


def roll_back(engine: Engine, store: Store, name: str) -> Alias:
    """Switch an alias back to the model before.

    Raises Refused where there is none, or the store has it no more.
    """
    aliases = Aliases(engine, store)
    alias = aliases.find(name)
    if alias is not None and alias.previous:
        _check_stored(store, name, alias.previous[-1])
    return aliases.roll_back(name)


def _check_stored(store: Store, name: str, model: str) -> None:
    """Refuse an alias of a model that is gone: another tool may have deleted it."""
    try:
        store.get_model(model)
    except Absent as absent:
        raise Refused(
            f"{absent}; alias '{name}' was not switched: upload the model again, or name one that "
            "is stored: owpc-ltr models promote NAME-HASH"
        ) from absent


def refuse_in_use(engine: Engine, store: Store, name: str, verb: str) -> None:
    """Refuse to change or delete a feature set that models of an alias use.

    `verb` is what would be done to it, for the message.
    """
    used_by = users_of(engine, store, name)
    if used_by:
        more = f" and {len(used_by) - _SHOWN} more" if len(used_by) > _SHOWN else ""
        raise Refused(
            f"the feature set '{name}' is used by {', '.join(used_by[:_SHOWN])}{more}, and verify, "
            f"explain and logging need it as it is: {verb} it anyway with `force`"
        )


def refuse_replacing(engine: Engine, store: Store, featureset: FeatureSet) -> None:
    """Refuse to replace the feature set of this name by a different one while models use it."""
    with suppress(Absent):
        if store.get_featureset(featureset.name).hash != featureset.hash:
            refuse_in_use(engine, store, featureset.name, "replace")


def users_of(engine: Engine, store: Store, name: str) -> list[str]:
    """The models with this feature set that aliases of the store use, each with its alias."""
    users = []
    for alias in Aliases(engine, store).all():
        for model in (alias.current, alias.challenger, *reversed(alias.previous)):
            # An earlier model may be gone.
            with suppress(BadInput):
                if model is not None and store.get_model(model).featureset.name == name:
                    users.append(f"'{model}' (of '{alias.name}')")
    return users
