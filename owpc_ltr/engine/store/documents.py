"""Feature sets and models as they lie in a store: the LTR plugin's JSON, in both stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import StoredModel, same_model
from owpc_ltr.names import check_name

if TYPE_CHECKING:
    from owpc_ltr.engine.store.base import Store

TAKEN = {405, 409}
"""HTTP statuses that say: there is something of this name."""


def keep_featureset(store: Store, featureset: FeatureSet, create: Callable[[], None]) -> None:
    """Create a set; an equal one of that name is success, another one Refused."""
    try:
        create()
    except EngineRefusal as refusal:
        if refusal.status not in TAKEN:
            raise
        # Also what a retry sees after its first answer was lost.
        if store.get_featureset(featureset.name).hash != featureset.hash:
            raise Refused(
                f"there is another feature set '{featureset.name}' already: take another name, or "
                "replace it: --replace"
            ) from refusal
    except EngineUnavailable as fault:
        # The answer may be all that was lost.
        if not _has_featureset(store, featureset):
            raise fault from fault.__cause__


def keep_model(store: Store, model: StoredModel, create: Callable[[], None]) -> None:
    """Create a model and read it back: what counts is what lies in the store.

    An answer can be lost after the model was stored, and the set that the engine copies can be
    changed by somebody else in between.
    """
    check_name("model", model.name)
    _check_featureset(store, model)
    taken: OwpcLtrError | None = None
    try:
        create()
    except EngineRefusal as refusal:
        if refusal.status not in TAKEN:
            raise
        taken = refusal
    except EngineUnavailable as fault:
        if not _is_there(store, model):
            raise fault from fault.__cause__
        return
    if same_model(store.get_model(model.name), model):
        return
    if taken is not None:
        raise Refused(
            f"there is another model '{model.name}' already, and a name is never used again: take "
            "another one"
        ) from taken
    store.delete_model(model.name)
    raise Refused(
        f"the feature set '{model.featureset.name}' was changed while the model '{model.name}' was "
        "stored, so that it was taken out again: try once more"
    )


class Absent(BadInput):
    """Something is not in a store: `what` is `model` or `feature set`."""

    def __init__(self, what: str, name: str, place: str) -> None:
        self.what = what
        super().__init__(f"there is no {what} '{name}' in {place}: check the name, or the --store")


def _check_featureset(store: Store, model: StoredModel) -> None:
    """Refuse a model whose features are not those that lie in the store under that name."""
    kept = store.get_featureset(model.featureset.name)
    if kept.hash == model.featureset.hash:
        return
    old, new = ({f.name: f for f in each.features} for each in (model.featureset, kept))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    what = ", ".join(f"'{name}'" for name in changed[:5]) or "the order of features"
    raise Refused(
        f"the stored feature set '{kept.name}' is not the one of the model '{model.name}' "
        f"({what} changed): push the model's set under another name, or log and train again"
    )


def _has_featureset(store: Store, featureset: FeatureSet) -> bool:
    try:
        return store.get_featureset(featureset.name).hash == featureset.hash
    except Absent:
        return False


def _is_there(store: Store, model: StoredModel) -> bool:
    try:
        return same_model(store.get_model(model.name), model)
    except OwpcLtrError:
        return False
