"""Live rankers: how each ranks the whole index, for evaluation, comparison and pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.external_features.columns import refuse_unused
from owpc_ltr.data.judgments.grouping import JudgedQuery
from owpc_ltr.data.runs import TrecRun, is_run, read_run
from owpc_ltr.engine.deployment.serving_mode import by_folds, on_trial
from owpc_ltr.engine.live_queries import typed_queries
from owpc_ltr.engine.search.live_evaluation import requests_of
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, query_alone, serve_all, with_stored
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


QUERY = "query"
"""In place of a ranker: the query template alone."""


@dataclass(frozen=True)
class LiveRanker:
    """How a ranker serves a request, from which index; its record, None where nothing was trained.

    A ranker is `of_template` where it is the query template, or rescores what that brings.
    `by_folds` is how it serves where models of folds rank what it learned from.
    """

    serve: Serve
    record: Mapping[str, Any] | None
    index: str
    featureset: FeatureSet | None = None
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
            return replace(self.model(self._feature(name), index), record=None)
        if isinstance(name, str | Path) and Path(name).suffix == ".json":
            content = read_json_object(Path(name))
            if not {"kind", "record"} <= content.keys():
                return self._query(Path(name), index)
            name = load_model(Path(name), self.plugins)
        elif isinstance(name, str | Path) and is_run(Path(name)):
            return read_run(name)
        return self.model(name, index)

    def _query(self, query: Any, index: str | None) -> LiveRanker:
        where = self.cluster.the_index(index)
        own = self.query_template if query == QUERY else query
        template = self.cluster.template(where, own)[0]
        alone = query_alone(self.cluster.engine, self.cluster.store)
        asking = _asking(alone, where, template)
        return LiveRanker(asking, None, where, of_template=query == QUERY)

    def model(self, model: Any, index: str | None = None) -> LiveRanker:
        """How a model serves searches: an uploaded one by its name, or another one on trial.

        Raises UsageError if the model reads none of the `tables`, and every model must.
        """
        index, cluster, tables = index or self.index, self.cluster, self.tables
        # A text that is no file is an uploaded name.
        if isinstance(model, Path | str) and not Path(model).is_file():
            cluster = cluster.holding(str(model))
            name = cluster.models.resolve(str(model))
            stored = cluster.store.get_model(name)
            deployment = cluster.models.deployment(name, whole=True)
            record = deployment.record if deployment else {}
            interval = deployment.interval if deployment else None
            if self.all_read_tables:
                refuse_unused(joined_in(stored), tables, f"the model '{name}'")
            whole = with_stored(cluster.engine, cluster.store, stored, interval, tables)
            featureset, where = stored.featureset, cluster.index_of(name, index)
        else:
            ranker = load_model(model, self.plugins) if isinstance(model, Path | str) else model
            record, featureset = ranker.record, None
            if self.featureset is not None or not isinstance(ranker, ReorderingModel):
                wanted = record.get("featureset_hash")
                featureset = cluster.the_featureset(self.featureset, wanted)
            if self.all_read_tables:
                refuse_unused(joined_sources(ranker), tables, "the model")
            trial = on_trial(cluster.engine, cluster.store, ranker, featureset, tables)
            whole = self.kept.enter_context(trial)
            where = cluster.the_index(index)
        query = self.cluster.template(where, self.query_template)[0]
        typed = self._typed(featureset)

        def of_folds(fold_of: FoldOf) -> Serve:
            serve = by_folds(
                cluster.engine, cluster.store, whole, record, featureset,
                fold_of=fold_of, tables=tables,
            )  # fmt: skip
            return _asking(self.kept.enter_context(serve), where, query, typed)

        whole_asking = _asking(whole, where, query, typed)
        return LiveRanker(whole_asking, record, where, featureset, by_folds=of_folds)

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


def documents_of(
    rankers: Sequence[LiveRanker | TrecRun],
    queries: Sequence[JudgedQuery],
    shared: SearchRequest,
    in_flight: int,
    progress: Callable[[str, float | None], None] | None = None,
) -> list[list[Sequence[str]]]:
    """By ranker, the documents that it brings for each query; a query is asked of all in turn.

    The requests share what is not the query's own; a ranker fills in its own index and query.
    """
    ways = [one.serve for one in rankers if isinstance(one, LiveRanker)]
    requests = requests_of(queries, shared)
    answers = iter(serve_all(ways, requests, in_flight, progress) if ways else ())
    found: list[list[Sequence[str]]] = []
    for one in rankers:
        if isinstance(one, TrecRun):
            run = one.lists()
            found.append([run.get(query.query_id, ()) for query in queries])
        else:
            found.append([answer.doc_ids for answer in next(answers)])
    return found


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
