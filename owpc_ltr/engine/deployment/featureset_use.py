"""Which uploaded models use a feature set, so that none loses it unnoticed.

A model in a store has its own copy of the set; what is logged for it by the set's name has not.
"""

from __future__ import annotations

from contextlib import suppress

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.aliases import Aliases
from owpc_ltr.engine.stores.store import Absent, Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet

_SHOWN = 5


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
