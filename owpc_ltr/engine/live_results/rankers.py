"""Live rankers: how each ranks the whole index, for comparison and pooling; and the comparison."""

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
from owpc_ltr.engine.live_queries import LiveQueries, typed_queries
from owpc_ltr.engine.search.live_evaluation import (
    THE_MODEL,
    LiveEvaluation,
    compare_lists,
    graded_lists,
    measure_live,
    requests_of,
)
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, query_alone, serve_all, with_stored
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import LIVE, ComparisonRequest, is_live
from owpc_ltr.evaluation.query_choice import choose_queries
from owpc_ltr.evaluation.ranked_lists import mean_known, within_window
from owpc_ltr.evaluation.rules import recall_warnings
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.formats.model_conversion import joined_in, joined_sources
from owpc_ltr.models.average import FoldOf
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.reordering import FEATURE, ReorderingModel, load_model
from owpc_ltr.signatures import Progress

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
    """Rankers of one cluster for the `judged` queries; models are on trial until `trials` ends.

    `index` is that of rankers that name none, `featureset` that of model files (by default found by
    its hash). `tables` have the features from outside the index; `all_read_tables` where every
    model must read them.
    """

    cluster: Cluster
    query_template: Mapping[str, Any] | Path | str | None
    judged: Sequence[JudgedQuery]
    trials: ExitStack
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
        where, of_template = self.cluster.the_index(index), query == QUERY
        template = self.cluster.template(where, self.query_template if of_template else query)[0]
        alone = query_alone(self.cluster.engine, self.cluster.store)
        return LiveRanker(_asking(alone, where, template), None, where, of_template=of_template)

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
                trained_hash = record.get("featureset_hash")
                featureset = cluster.the_featureset(self.featureset, trained_hash)
            if self.all_read_tables:
                refuse_unused(joined_sources(ranker), tables, "the model")
            trial = on_trial(cluster.engine, cluster.store, ranker, featureset, tables)
            whole = self.trials.enter_context(trial)
            where = cluster.the_index(index)
        query = self.cluster.template(where, self.query_template)[0]
        # The queries' parameters in the types that the templates need.
        queries = () if featureset is None else typed_queries(self.judged, featureset)
        typed = {judged.query_id: judged.params for judged in queries}

        def of_folds(fold_of: FoldOf) -> Serve:
            serve = by_folds(
                cluster.engine, cluster.store, whole, record, featureset,
                fold_of=fold_of, tables=tables,
            )  # fmt: skip
            return _asking(self.trials.enter_context(serve), where, query, typed)

        whole_asking = _asking(whole, where, query, typed)
        return LiveRanker(whole_asking, record, where, featureset, by_folds=of_folds)

    def _feature(self, text: str) -> LinearModel:
        featureset = self.cluster.the_featureset(self.featureset)
        name, names = text.removeprefix(FEATURE), featureset.feature_names
        if name not in names:
            raise UsageError(
                f"no feature of '{featureset.name}' is called '{name}'; there are "
                f"{', '.join(names)}"
            )
        weights = np.array([float(feature == name) for feature in names])
        record = {"base": text, "featureset_hash": featureset.hash}
        return LinearModel(names, weights, record=record)


def records_of(rankers: Mapping[str, LiveRanker | TrecRun]) -> dict[str, Mapping[str, Any]]:
    """The record of each ranker's training; a run, a query and a feature have none."""
    live = {name: ranker for name, ranker in rankers.items() if isinstance(ranker, LiveRanker)}
    return {name: ranker.record for name, ranker in live.items() if ranker.record is not None}


def documents_of(
    rankers: Sequence[LiveRanker | TrecRun],
    queries: Sequence[JudgedQuery],
    shared: SearchRequest,
    in_flight: int,
    progress: Progress | None = None,
) -> list[list[Sequence[str]]]:
    """By ranker, the documents that it brings for each query; a query is asked of all in turn.

    The requests share what is not the query's own; a ranker fills in its own index and query.
    """
    ways = [ranker.serve for ranker in rankers if isinstance(ranker, LiveRanker)]
    requests = requests_of(queries, shared)
    answers = iter(serve_all(ways, requests, in_flight, progress) if ways else ())
    documents: list[list[Sequence[str]]] = []
    for ranker in rankers:
        if isinstance(ranker, TrecRun):
            run = ranker.lists()
            documents.append([run.get(query.query_id, ()) for query in queries])
        else:
            documents.append([answer.doc_ids for answer in next(answers)])
    return documents


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
        filled = (params or {}).get(request.query_id or "", request.params)
        return serve(replace(request, index=index, query=query, params=dict(filled)))

    return ask


Serving = Callable[[ExitStack], LiveRankers]
"""How rankers serve; models that are not uploaded are in the cluster until the stack ends."""


def compare_rankers(
    request: ComparisonRequest, live: LiveQueries, serving: Serving
) -> RankerComparison:
    """The comparison of rankers by their live results."""
    plan = request.plan
    for metric in plan.metrics:
        within_window(metric, live.window)
    with ExitStack() as trials:
        served = serving(trials)
        rankers = {name: served.of(ranker) for name, ranker in request.rankers.items()}
        chosen = choose_queries(records_of(rankers), live.judged, live.split)
        queries = [live.judged[number] for number in chosen.queries.tolist()]
        for name, fold_of in chosen.folds.items():
            ranker = rankers[name]
            if isinstance(ranker, LiveRanker):
                rankers[name] = ranker.measured(fold_of)
        shared = SearchRequest("unasked", {}, {}, live.window, live.window)
        ranked = documents_of(
            list(rankers.values()), queries, shared, live.in_flight, plan.drawing.progress
        )
    lists = {
        name: graded_lists(queries, documents, live.window)
        for name, documents in zip(rankers, ranked, strict=True)
    }
    # Whether most relevant documents are in nobody's window.
    recall = max(mean_known(of_ranker.recall) for of_ranker in lists.values())
    # Whether any ranker rescores what the query template brings.
    live_rankers = (ranker for ranker in rankers.values() if isinstance(ranker, LiveRanker))
    of_template = any(ranker.of_template for ranker in live_rankers)
    return compare_lists(
        lists, queries, chosen, plan,
        query_template=live.query_template if of_template else "", unweighted=live.unweighted,
        notes=[f"lists are of the whole index, their first {live.window} documents"],
        warnings=[warning.line for warning in recall_warnings(recall, live.window, len(queries))],
    )  # fmt: skip


def compare_with_query(
    request: ComparisonRequest, live: LiveQueries, serving: Serving
) -> LiveEvaluation:
    """The only ranker, which is a model, compared with the query alone."""
    ((name, model),) = request.rankers.items()
    plan = request.plan
    with ExitStack() as trials:
        served = serving(trials)
        ranker, cluster = served.model(model), served.cluster
        query = cluster.template(ranker.index, live.query_template)[0]
        question = live.question(
            ranker.index, query, plan.metrics, ranker.featureset, plan.drawing.seed
        )
        chosen = choose_queries({THE_MODEL: ranker.record or {}}, question.queries, live.split)
        question = replace(question.of(chosen.queries), smallest_gain=plan.smallest_gain)
        before = query_alone(cluster.engine, cluster.store)
        after = ranker.measured(chosen.folds.get(THE_MODEL, {})).serve
        evaluation = measure_live(
            question, before, after, plan.drawing.progress, chosen=chosen, attempts=plan.attempts
        )
    return replace(evaluation, model=name)
