"""The feature sets of a cluster: pushed, read, listed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.features.feature_set import FeatureSet


class FeatureSets:
    """The feature sets of a cluster's store."""

    def __init__(
        self,
        engine: Engine,
        store: Callable[[], Store],
        holding: Callable[[str], Store] | None = None,
    ) -> None:
        """Use the cluster behind `engine`, and `store`; `holding` gives the store of a set."""
        self._engine, self._store = engine, store
        self._holding = holding or (lambda _: store())

    def push(
        self,
        featureset: FeatureSet | Path | str,
        *,
        index: str | None = None,
        name: str | None = None,
        keywords: str = "test",
        params: Mapping[str, Any] | None = None,
        allow_unmapped: bool = False,
        replace: bool = False,
        force: bool = False,
    ) -> FeatureSet:
        """Store a feature set, after every feature has been tried on the index.

        `featureset` may be a file in the LTR plugin's JSON. In the trial its parameters are
        `params` (numbers and lists among them), else those of its own validation, else
        `keywords`. With `replace` another set of its name makes room.

        Raises Refused where uploaded models use that other set, unless `force`; BadInput for a
        field that a template names and the index's mapping does not have, unless `allow_unmapped`:
        an engine would say nothing, and answer that nothing matches. Warns of derived features,
        which not every model can use in the engine.
        """
        from owpc_ltr.engine.defaults import the_index
        from owpc_ltr.engine.deployment.featureset_use import refuse_replacing
        from owpc_ltr.engine.parameters import plain_params
        from owpc_ltr.engine.stores.index_fields import refuse_unmapped
        from owpc_ltr.engine.stores.trial import derived_cautions, put_tried, trial_params
        from owpc_ltr.errors import give_warnings
        from owpc_ltr.features.feature_set import FeatureSet
        from owpc_ltr.features.loading import load_featureset

        if not isinstance(featureset, FeatureSet):
            featureset = load_featureset(Path(featureset), name)
        elif name is not None:
            featureset = with_changes(featureset, name=name)
        where = the_index(self._engine, index)
        tried = trial_params(featureset, keywords, plain_params(params))
        if not allow_unmapped:
            refuse_unmapped(self._engine, featureset, where, tried.values)
        validation = {"index": where, "params": tried.values}
        pushed = with_changes(featureset, validation=validation)
        if replace and not force:
            refuse_replacing(self._engine, self._store(), pushed)
        put_tried(self._store(), pushed, tried, replace=replace)
        give_warnings(derived_cautions(self._engine, self._store(), pushed))
        return pushed

    def get(self, name: str) -> FeatureSet:
        """The feature set of this name; BadInput if there is none."""
        return self._holding(name).get_featureset(name)

    def names(self) -> list[str]:
        """Their names, sorted."""
        return self._store().list_featuresets()

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a feature set. Raises Refused where uploaded models use it, unless `force`.

        They go on ranking by their own copy of it, but nothing more is logged for them.
        """
        from owpc_ltr.engine.deployment.featureset_use import refuse_in_use

        store = self._holding(name)
        if not force:
            refuse_in_use(self._engine, store, name, "delete")
        store.delete_featureset(name)
