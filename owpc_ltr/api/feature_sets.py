"""The feature sets of a cluster: pushed, read, listed, deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.store.base import Store
    from owpc_ltr.features.feature_set import FeatureSet


class FeatureSets:
    """The feature sets of a cluster's store."""

    def __init__(self, engine: Engine, store: Callable[[], Store]) -> None:
        self._engine, self._store = engine, store

    def push(
        self,
        featureset: FeatureSet | Path | str,
        *,
        index: str | None = None,
        name: str | None = None,
        keywords: str = "test",
        replace: bool = False,
    ) -> FeatureSet:
        """Store a feature set, after every feature has been tried on the index.

        `featureset` may be a file in the LTR plugin's JSON. `keywords` fill its parameters in the
        trial, but for those that its own validation has. With `replace` another set of its name
        makes room.
        """
        from owpc_ltr.api.defaults import the_index
        from owpc_ltr.features.feature_set import FeatureSet
        from owpc_ltr.features.loading import load_featureset

        if not isinstance(featureset, FeatureSet):
            featureset = load_featureset(Path(featureset), name)
        elif name is not None:
            featureset = with_changes(featureset, name=name)
        where = the_index(self._engine, index)
        tried = dict.fromkeys(featureset.params, keywords)
        given = (featureset.validation or {}).get("params", {})
        validation = {"index": where, "params": {**tried, **given}}
        pushed = with_changes(featureset, validation=validation)
        store = self._store()
        store.prepare()
        store.put_featureset(pushed, replace=replace)
        return pushed

    def get(self, name: str) -> FeatureSet:
        """The feature set of this name; BadInput if there is none."""
        return self._store().get_featureset(name)

    def names(self) -> list[str]:
        """Their names, sorted."""
        return self._store().list_featuresets()

    def delete(self, name: str) -> None:
        """Take out a feature set; models keep their own copy of it."""
        self._store().delete_featureset(name)
