"""`Cluster`: everything that is done in a cluster.

    cluster = connect("http://127.0.0.1:9200")
    cluster.featuresets.push("movies.json", index="movies")
    cluster.log_features(judgments="judgments.tsv", out="movies.parquet")
    cluster.upload(model, name="movies-owpc")
    cluster.search("insidious 2", model="movies-owpc")

An index, feature set or name that is left out is the one that the model or the cluster knows,
where only one can be meant; else UsageError names those that there are.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from owpc_ltr.engine.deployment.upload import upload
from owpc_ltr.engine.deployment.verify import verify
from owpc_ltr.engine.explain_search import explain_search
from owpc_ltr.engine.feature_log.log_features import log_features
from owpc_ltr.engine.index import index
from owpc_ltr.engine.live_queries import check_judgments
from owpc_ltr.engine.live_results.compare_live import compare_live
from owpc_ltr.engine.live_results.judge_pool import judge_pool
from owpc_ltr.engine.profile import profile
from owpc_ltr.engine.search.request import (
    TUNED_ON,
    query_parts,
    request,
    rescored_window,
    tuned_on,
)
from owpc_ltr.engine.search.search import search
from owpc_ltr.engine.staging_index import the_index
from owpc_ltr.engine.stores import Store, choose_featureset, choose_store
from owpc_ltr.engine.workbench import judgments

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.deployment.uploaded_models import UploadedModels
    from owpc_ltr.engine.feature_sets import FeatureSets
    from owpc_ltr.features.feature_set import FeatureSet


class Cluster:
    """A cluster that answers requests, and the store in it of feature sets and models."""

    def __init__(
        self,
        engine: Engine,
        store_kind: str | None = None,
        store: str | None = None,
        connection: tuple[str, ...] = (),
    ) -> None:
        self.engine = engine
        self._store_kind, self.store_name = store_kind, store
        self._connection = connection

    def __repr__(self) -> str:
        return f"Cluster({self.engine.settings.url!r})"

    @cached_property
    def store(self) -> Store:
        """Where feature sets and models live; the cluster is asked which kind it has."""
        return choose_store(self.engine, self._store_kind, self.store_name)

    @property
    def typed_options(self) -> str:
        """The options that named the cluster and its store, for a command that is to be typed."""
        named = {"--store-kind": self._store_kind, "--store": self.store_name}
        words = [word for pair in named.items() if pair[1] for word in pair]
        return "".join(f" {shlex.quote(str(word))}" for word in (*words, *self._connection))

    @cached_property
    def stores(self) -> tuple[Store, ...]:
        """The store, and the plugin-free one of a cluster that has the LTR plugin.

        What was uploaded before the plugin was installed is in the second. Where a kind was asked
        for, there is only that.
        """
        from owpc_ltr.engine.stores.plugin_free import PluginFreeStore

        if self._store_kind is not None or self.store.kind == PluginFreeStore.kind:
            return (self.store,)
        return self.store, PluginFreeStore(self.engine, self.store_name)

    def within(self, seconds: float) -> Self:
        """This cluster, none of whose requests takes longer than that."""
        return type(self)(
            self.engine.within(seconds), self._store_kind, self.store_name, self._connection
        )

    def holding(self, model: str | None) -> Self:
        """This cluster with the store that an uploaded model, or the alias of one, is in."""
        from owpc_ltr.engine.deployment.alias import holds

        return self._with(lambda store: model is not None and holds(self.engine, store, model))

    def holding_set(self, featureset: str | None) -> Self:
        """This cluster with the store that a feature set is in; None for any."""

        def has(store: Store) -> bool:
            names = store.list_featuresets()
            return bool(names) if featureset is None else featureset in names

        return self._with(has)

    def uploaded(self, model: str | None) -> tuple[Store, str]:
        """The store of an uploaded model or alias, and the immutable name; None: the only one."""
        from owpc_ltr.engine.deployment.alias import the_name

        called = the_name(self.engine, self.stores, model)
        return self.holding(called).store, self.models.resolve(called)

    def _with(self, has: Callable[[Store], bool]) -> Self:
        if len(self.stores) == 1 or has(self.store) or not has(self.stores[1]):
            return self
        return type(self)(self.engine, self.stores[1].kind, self.store_name, self._connection)

    index = index
    log_features = log_features
    upload = upload
    verify = verify
    search = search
    request = request
    profile = profile
    explain = explain_search
    compare_live = compare_live
    check_judgments = check_judgments
    judge_pool = judge_pool
    judgments = judgments

    @property
    def featuresets(self) -> FeatureSets:
        """The feature sets of the store: push, get, list, delete."""
        from owpc_ltr.engine.feature_sets import FeatureSets

        return FeatureSets(self)

    @property
    def models(self) -> UploadedModels:
        """The models of the store and their names: list, show, promote, roll back, delete."""
        from owpc_ltr.engine.deployment.uploaded_models import UploadedModels

        return UploadedModels(self)

    def template(
        self, index: str, query: Mapping[str, Any] | Path | str | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The query with its places to fill in, and the rest of the body that it came in."""
        return query_parts(self.engine, index, query)

    def whole_template(
        self, index: str, query: Mapping[str, Any] | Path | str | None
    ) -> dict[str, Any]:
        """The query, and beside it the rest of the body that it came in, with a tuning's record."""
        template, rest = self.template(index, query)
        record = tuned_on(query)
        return {"query": template, **rest, **({} if record is None else {TUNED_ON: record})}

    def window(self, query: Mapping[str, Any] | Path | str | None, given: int | None) -> int:
        """How many documents are rescored: as given, as the template says, or the default."""
        return rescored_window(query, given)

    def the_index(self, name: str | None) -> str:
        """The index of this name, or the only one that is no store or system index."""
        return the_index(self.engine, name)

    def the_featureset(self, name: str | None, trained_hash: str | None = None) -> FeatureSet:
        """The feature set of this name, the one with this hash, or the only one of the store."""
        return choose_featureset(self.store, name, trained_hash)

    def index_of(self, model: str, index: str | None) -> str:
        """The index asked for, else the one that the model was proved on."""
        if index is not None:
            return self.the_index(index)
        deployment = self.models.deployment(model)
        if deployment is not None:
            return deployment.index
        # What is no model at all is told before which index may be meant.
        self.holding(model).store.get_model(model)
        return self.the_index(None)
