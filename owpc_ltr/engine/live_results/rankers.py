"""Live rankers: how each ranks the whole index, for evaluation, comparison and pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.external_features.columns import refuse_unused
from owpc_ltr.data.judgments.grouping import JudgedQuery
from owpc_ltr.data.runs import TrecRun, is_run, read_run
from owpc_ltr.engine.deployment.serving_mode import by_folds, on_trial
from owpc_ltr.engine.live_queries import typed_queries
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, query_alone, with_stored
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.data_comparison import LIVE, is_live
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.formats.model_conversion import joined_in, joined_sources
from owpc_ltr.models.fold_models import FoldOf
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.reordering import FEATURE, ReorderingModel, load_model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.protocols import Model


QUERY = "query"
"""In place of a ranker: the query template alone."""


@dataclass(frozen=True)
class ModelService:
    """A model that serves searches of an index: its feature set and its training record."""

    serve: Serve
    index: str
    featureset: FeatureSet | None
    record: Mapping[str, Any]
    cluster: Cluster
    tables: Sequence[ExternalTable]

    def by_folds(self, fold_of: FoldOf) -> AbstractContextManager[Serve]:
        """The same, where models of folds rank the queries that it learned from."""
        engine, store = self.cluster.engine, self.cluster.store
        return by_folds(
            engine,
            store,
            self.serve,
            self.record,
            self.featureset,
            fold_of=fold_of,
            tables=self.tables,
        )


@contextmanager
def serving_model(
    cluster: Cluster,
    model: Model | ReorderingModel | Path | str,
    *,
    index: str | None,
    featureset: str | None,
    tables: Sequence[ExternalTable],
    plugins: Sequence[Path | str] = (),
    alone: bool = True,
) -> Iterator[ModelService]:
    """A model that serves searches: an uploaded one by its name, or another one on trial.

    A model on trial is in the cluster only while the block lasts. Where the model is not `alone`,
    the `tables` may be for other rankers; else Raises UsageError if it reads none of them.
    """
    if isinstance(model, str) and not Path(model).is_file():
        cluster = cluster.holding(model)
        name = cluster.models.resolve(model)
        stored, deployment = (
            cluster.store.get_model(name),
            cluster.models.deployment(name, whole=True),
        )
        record, interval = (deployment.record, deployment.interval) if deployment else ({}, None)
        if alone:
            refuse_unused(joined_in(stored), tables, f"the model '{name}'")
        serve = with_stored(cluster.engine, cluster.store, stored, interval, tables)
        where = cluster.index_of(name, index)
        yield ModelService(serve, where, stored.featureset, record, cluster=cluster, tables=tables)
        return
    ranker = load_model(Path(model), plugins) if isinstance(model, Path | str) else model
    own = None
    if featureset is not None or not isinstance(ranker, ReorderingModel):
        wanted = ranker.record.get("featureset_hash")
        own = cluster.the_featureset(featureset, wanted)
    if alone:
        refuse_unused(joined_sources(ranker), tables, "the model")
    with on_trial(cluster.engine, cluster.store, ranker, own, tables) as serve:
        where = cluster.the_index(index)
        yield ModelService(serve, where, own, ranker.record, cluster=cluster, tables=tables)


@dataclass(frozen=True)
class LiveRanker:
    """How a ranker serves a request; its record, None where nothing was trained.

    A ranker is `of_template` where it is the query template, or rescores what that brings.
    `by_folds` is how it serves where models of folds rank what it learned from.
    """

    serve: Serve
    record: Mapping[str, Any] | None
    of_template: bool = True
    by_folds: Callable[[FoldOf], Serve] | None = None

    def measured(self, fold_of: FoldOf) -> LiveRanker:
        """The ranker as it is measured on queries, of which models of folds rank some."""
        return replace(self, serve=self.by_folds(fold_of)) if self.by_folds else self


@dataclass(frozen=True, kw_only=True)
class LiveRankers:
    """Rankers of one cluster for the `judged` queries; models on trial are there until `kept` ends.

    `index` is that of rankers that name none, `featureset` that of model files (by default found by
    its hash). `tables` have the features from outside the index; `all_read_tables` where every
    model must read them.
    """

    cluster: Cluster
    query_template: Mapping[str, Any] | Path | str | None
    judged: Sequence[JudgedQuery]
    kept: ExitStack
    index: str | None = None
    featureset: str | None = None
    tables: Sequence[ExternalTable] = ()
    all_read_tables: bool = True
    plugins: Sequence[Path] = ()

    def of(self, ranker: Any) -> LiveRanker | TrecRun:
        """How a ranker serves; a run is returned as it is. Raises UsageError and BadInput."""
        if isinstance(ranker, TrecRun):
            return ranker
        if isinstance(ranker, Mapping) or ranker == QUERY:
            return self._query(ranker, self.index)
        name, index = _parted(ranker) if is_live(ranker) else (ranker, None)
        index = index or self.index
        if isinstance(name, str) and name.startswith(FEATURE):
            return replace(self._model(self._feature(name), index), record=None)
        if isinstance(name, str | Path) and Path(name).suffix == ".json":
            content = read_json_object(Path(name))
            if not {"kind", "record"} <= content.keys():
                return self._query(Path(name), index)
            name = load_model(Path(name), self.plugins)
        elif isinstance(name, str | Path) and is_run(Path(name)):
            return read_run(name)
        return self._model(name, index)

    def _query(self, query: Any, index: str | None) -> LiveRanker:
        where = self.cluster.the_index(index)
        own = self.query_template if query == QUERY else query
        template = self.cluster.template(where, own)[0]
        alone = query_alone(self.cluster.engine, self.cluster.store)
        return LiveRanker(_asking(alone, where, template), None, of_template=query == QUERY)

    def _model(self, model: Any, index: str | None) -> LiveRanker:
        # A text that is no file is an uploaded name.
        given = str(model) if isinstance(model, Path) and not model.is_file() else model
        served = self.kept.enter_context(
            serving_model(
                self.cluster,
                given,
                index=index,
                featureset=self.featureset,
                tables=self.tables,
                plugins=self.plugins,
                alone=self.all_read_tables,
            )
        )
        query = self.cluster.template(served.index, self.query_template)[0]
        typed = self._typed(served.featureset)

        def asking(serve: Serve) -> Serve:
            return _asking(serve, served.index, query, typed)

        return LiveRanker(
            asking(served.serve),
            served.record,
            by_folds=lambda fold_of: asking(self.kept.enter_context(served.by_folds(fold_of))),
        )

    def _typed(self, featureset: FeatureSet | None) -> dict[str, dict[str, Any]]:
        """The queries' parameters in the types that the templates need."""
        if featureset is None:
            return {}
        return {one.query_id: one.params for one in typed_queries(self.judged, featureset)}

    def _feature(self, text: str) -> LinearModel:
        known = self.cluster.the_featureset(self.featureset)
        name = text.removeprefix(FEATURE)
        if name not in known.feature_names:
            raise UsageError(
                f"no feature of '{known.name}' is called '{name}'; there are "
                f"{', '.join(known.feature_names)}"
            )
        weights = np.array([float(own == name) for own in known.feature_names])
        record = {"base": text, "featureset_hash": known.hash}
        return LinearModel(known.feature_names, weights, record=record)


def _parted(text: str) -> tuple[str, str | None]:
    """What `live:NAME@INDEX` names, and in which index."""
    name, at, index = text.removeprefix(LIVE).rpartition("@")
    if not at:
        name, index = index, ""
    if not name or (at and not index):
        raise UsageError(f"'{text}' names no ranker: write live:NAME@INDEX or live:QUERY.json")
    return name, index or None


def _asking(
    serve: Serve,
    index: str,
    query: dict[str, Any],
    params: Mapping[str, dict[str, Any]] | None = None,
) -> Serve:
    """The same service for an index and a query of its own, whatever the request names."""

    def ask(request: SearchRequest) -> Served:
        own = (params or {}).get(request.query_id or "", request.params)
        return serve(replace(request, index=index, query=query, params=dict(own)))

    return ask
