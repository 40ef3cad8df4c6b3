"""`models prune`: models that no alias points to; only those that owpc-ltr made.

A name moved to another of its models: to its challenger, or to one that was there before.

Which uploaded models use a feature set, so that none loses it unnoticed.

A model in a store has its own copy of the set; what is logged for it by the set's name has not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Alias, Aliases, is_named_by_content
from owpc_ltr.engine.deployment.deployment_record import Certificates
from owpc_ltr.engine.stores.store import Absent, Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.names import is_model_of, split_immutable

_SHOWN = 5


def prunable(engine: Engine, store: Store) -> list[str]:
    """Models of ours in the store that no alias points to, can go back to, or may come to."""
    used = Aliases(engine, store).pointed_to()
    unused = [name for name in store.list_models() if name not in used]
    ours = made_here(engine, store, unused)
    return [name for name in unused if name in ours]


def made_here(engine: Engine, store: Store, models: Collection[str]) -> set[str]:
    """Those of these models that are provably owpc-ltr's, by two proofs.

    Most have a certificate. An upload that was killed before it wrote one has left a model all the
    same, whose name holds the hash of its content.
    """
    looks = {model for model in models if split_immutable(model)}
    certified = Certificates(engine, store).of(looks)
    return certified | {model for model in looks - certified if _is_our_own(store, model)}


def prune(engine: Engine, store: Store, names: Sequence[str]) -> None:
    """Remove these models and their certificates, or none if one is in use, or not of ours."""
    _check_ours(engine, store, names)
    for name in names:
        _check_unused(engine, store, name)
    certificates = Certificates(engine, store)
    for name in names:
        # Looked at again: another upload of the same model may have given it a name meanwhile.
        _check_unused(engine, store, name)
        # The certificate first: a model without one can be told and pruned, the reverse cannot.
        certificates.delete(name)
        # It was there: what is gone now is what was asked for, the answer of which was lost.
        with suppress(Absent):
            store.delete_model(name)


def doomed(engine: Engine, store: Store, name: str) -> list[str]:
    """What `delete` would remove: this one model, or every model of a name of this store.

    Raises Refused where a name points to one of them, or owpc-ltr did not make it.
    """
    aliases = Aliases(engine, store)
    alias = aliases.find(name)
    if alias is None:
        for user in aliases.users(name):
            user.without(name)
        left = _left_by(engine, store, name)
        if left:
            return left
        _check_ours(engine, store, [name])
        return [name]
    there = store.list_models()
    own = [model for model in there if model in alias.models or is_model_of(name, model)]
    for model in own:
        others = [user for user in aliases.users(model) if user.name != name]
        if others:
            raise Refused(
                f"'{others[0].name}' points to '{model}' of '{name}', or can go back to it: delete "
                f"'{others[0].name}' first"
            )
    ours = made_here(engine, store, own)
    return [model for model in own if model in ours]


def delete(engine: Engine, store: Store, name: str) -> list[str]:
    """Remove one model, or a name and all of its models; what was removed.

    A name goes first, and a model is forgotten by the history of its name first: at no moment does
    a name mean what is not there.
    """
    models = doomed(engine, store, name)
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
    """The models of a name that is gone: of a deletion that was stopped after its first step."""
    there = store.list_models()
    if name in there:
        return []
    used = Aliases(engine, store).pointed_to()
    left = [model for model in there if is_model_of(name, model) and model not in used]
    ours = made_here(engine, store, left)
    return [model for model in left if model in ours]


def _check_ours(engine: Engine, store: Store, names: Sequence[str]) -> None:
    there = set(store.list_models())
    for name in names:
        if name not in there:
            raise BadInput(
                f"there is no model '{name}' in the store: type its exact name (owpc-ltr models "
                "list)"
            )
    ours = made_here(engine, store, names)
    for name in names:
        if name not in ours:
            raise Refused(
                f"the model '{name}' was not made by owpc-ltr, and is left alone: take it out with "
                "what made it"
            )


def _is_our_own(store: Store, model: str) -> bool:
    try:
        return is_named_by_content(store.get_model(model))
    except BadInput:
        # What is gone by now, or cannot be read as a model of ours, is none.
        return False


def _check_unused(engine: Engine, store: Store, name: str) -> None:
    users = Aliases(engine, store).users(name)
    if users:
        raise Refused(
            f"'{users[0].name}' points to '{name}', or can go back to it: nothing that a name "
            "points to is removed"
        )


def promote(engine: Engine, store: Store, name: str) -> Alias:
    """Let a name point to its challenger, or to the model of it that is given by its own name.

    Raises Refused where there is no challenger, BadInput where there is no such model.
    """
    aliases, certificates = Aliases(engine, store), Certificates(engine, store)
    if split_immutable(name) is None or aliases.find(name) is not None:
        return aliases.promote(name)
    model = certificates.called(name)
    certificate = certificates.find(model, whole=False)
    if certificate is None or certificate.alias_name is None:
        raise BadInput(
            f"there is no proven model '{name}' in {engine.settings.url}: check the name and the "
            "--store, or upload it again"
        )
    # The certificate may have outlived its model: what is gone raises here.
    store.get_model(model)
    return aliases.promote(certificate.alias_name, model)


def refuse_in_use(engine: Engine, store: Store, name: str, verb: str) -> None:
    """Refuse to take a feature set away from the models that an alias points to, or can go back to.

    `verb` is what would be done to it, for the message.
    """
    used_by = users_of(engine, store, name)
    if used_by:
        more = f" and {len(used_by) - _SHOWN} more" if len(used_by) > _SHOWN else ""
        raise Refused(
            f"the feature set '{name}' is used by {', '.join(used_by[:_SHOWN])}{more}, and verify, "
            f"explain and logging need it as it is: {verb} it all the same with --force"
        )


def refuse_replacing(engine: Engine, store: Store, featureset: FeatureSet) -> None:
    """The same for a set that is to be replaced by another one of its name."""
    with suppress(Absent):
        if store.get_featureset(featureset.name).hash != featureset.hash:
            refuse_in_use(engine, store, featureset.name, "replace")


def users_of(engine: Engine, store: Store, name: str) -> list[str]:
    """The models with this feature set that aliases of the store use, each with its alias."""
    found = []
    for alias in Aliases(engine, store).all():
        for model in (alias.current, alias.challenger, *reversed(alias.previous)):
            # What a name could go back to may be gone.
            with suppress(BadInput):
                if model is not None and store.get_model(model).featureset.name == name:
                    found.append(f"'{model}' (of '{alias.name}')")
    return found
