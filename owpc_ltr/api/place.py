"""Place: a cluster and the store in it, and what is meant where something is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from owpc_ltr.api.defaults import the_index

if TYPE_CHECKING:
    from owpc_ltr.api.feature_sets import FeatureSets
    from owpc_ltr.api.uploaded_models import UploadedModels
    from owpc_ltr.data.joined_tables.table import JoinedTable
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.store.base import Store

Progress = Callable[[str, float | None], None]


class Place:
    """A cluster that answers requests, and the store in it of feature sets and models."""

    def __init__(self, engine: Engine, store_kind: str | None = None, store: str | None = None):
        self.engine = engine
        self._store_kind, self._store_name = store_kind, store

    @cached_property
    def store(self) -> Store:
        """Where feature sets and models live; the cluster is asked which kind it has."""
        from owpc_ltr.engine.store.choose import choose_store

        return choose_store(self.engine, self._store_kind, self._store_name)

    @cached_property
    def stores(self) -> tuple[Store, ...]:
        """The store, and the plugin-free one of a cluster that has the LTR plugin.

        What was uploaded before the plugin was installed is in the second. Where a kind was asked
        for, there is only that.
        """
        from owpc_ltr.engine.store.plugin_free import PluginFreeStore

        if self._store_kind is not None or self.store.kind == PluginFreeStore.kind:
            return (self.store,)
        return self.store, PluginFreeStore(self.engine, self._store_name)

    def holding(self, model: str | None) -> Self:
        """This place with the store that an uploaded model, or the alias of one, is in."""
        from owpc_ltr.engine.deployment.aliases import holds

        return self._with(lambda store: model is not None and holds(self.engine, store, model))

    def holding_set(self, featureset: str | None) -> Self:
        """This place with the store that a feature set is in; None for any."""

        def has(store: Store) -> bool:
            names = store.list_featuresets()
            return bool(names) if featureset is None else featureset in names

        return self._with(has)

    def _with(self, has: Callable[[Store], bool]) -> Self:
        if len(self.stores) == 1 or has(self.store) or not has(self.stores[1]):
            return self
        return type(self)(self.engine, self.stores[1].kind, self._store_name)

    @property
    def featuresets(self) -> FeatureSets:
        """The feature sets of the store: push, get, list, delete."""
        from owpc_ltr.api.feature_sets import FeatureSets

        return FeatureSets(
            self.engine, lambda: self.store, lambda name: self.holding_set(name).store
        )

    @property
    def models(self) -> UploadedModels:
        """The models of the store and their names: list, show, promote, roll back, delete."""
        from owpc_ltr.api.uploaded_models import UploadedModels

        return UploadedModels(
            self.engine, lambda: self.store, lambda name: self.holding(name).store
        )

    def template(
        self, index: str, query: Mapping[str, Any] | Path | str | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The query with its places to fill in, and the rest of the body that it came in."""
        from owpc_ltr.engine.search.request import default_query, read_search, split_body

        if query is None:
            return default_query(self.engine, index), {}
        return read_search(Path(query)) if isinstance(query, Path | str) else split_body(query)

    def index_of(self, model: str, given: str | None) -> str:
        """The index asked for, else the one that the model was proved on."""
        from owpc_ltr.names import check_index

        if given is not None:
            return check_index(given)
        certificate = self.models.certificate(model)
        return certificate.index if certificate is not None else the_index(self.engine, None)


def tables_of(join: Any) -> tuple[JoinedTable, ...]:
    """The tables of `join`; where there are none, what reads them is not imported."""
    if join is None:
        return ()
    from owpc_ltr.data.joined_tables.reading import read_joined_tables

    return read_joined_tables(join)


def silent(_message: str, _done: float | None = None) -> None:
    """Show nothing."""
