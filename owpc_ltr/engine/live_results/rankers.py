"""Live rankers: how each ranks the whole index, for comparison and pooling; and the comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Labels, Matrix
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.external_features.columns import refuse_unused
from owpc_ltr.data.judgments.grouping import JUDGED_BY, JudgedQuery, importance_of, judges_of
from owpc_ltr.data.runs import TrecRun, is_run, read_run
from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
from owpc_ltr.engine.deployment.proof import logged
from owpc_ltr.engine.deployment.serving_mode import by_folds, on_trial
from owpc_ltr.engine.evidence import (
    QUERY_ALONE,
    SearchConfiguration,
    content_digest,
    model_digest,
)
from owpc_ltr.engine.live_queries import LiveQueries, typed_queries
from owpc_ltr.engine.search.live_evaluation import (
    THE_MODEL,
    LiveComparison,
    LiveEvaluation,
    compare_lists,
    graded_lists,
    measure_live,
    requests_of,
    results_of_lists,
)
from owpc_ltr.engine.search.request import SearchRequest, filters_of, query_digest
from owpc_ltr.engine.search.serving import Serve, Served, query_alone, serve_all, with_stored
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import LIVE, ComparisonRequest, is_live
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.proxy_labels import with_proxy_labels
from owpc_ltr.evaluation.query_choice import ChosenQueries, choose_queries
from owpc_ltr.evaluation.ranked_lists import RankedLists, mean_known, within_window
from owpc_ltr.evaluation.results import ComparisonPlan
from owpc_ltr.evaluation.rules import copied_label_warnings, recall_warnings
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.query_analysis import text_scores
from owpc_ltr.files.output import digest_of
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.formats.model_conversion import joined_in, joined_sources
from owpc_ltr.metrics import uneven
from owpc_ltr.models.average import FoldOf
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.reordering import FEATURE, ReorderingModel, load_model
from owpc_ltr.signatures import Progress

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.stores import Store


QUERY = "query"
"""In place of a ranker: the query template alone."""
_SAMPLED = 100
"""How many queries' judged documents are looked at for signs of bad judgments."""
_MOST_DOCUMENTS = 500


@dataclass(frozen=True)
class QuerySearch:
    """A query template in an index, filters beside it, and how many documents a model rescores.

    `window` is None without a model. `known` is whether that is what users have, or will have, as
    far as anybody said.
    """

    index: str
    query: dict[str, Any]
    filters: Mapping[str, Any]
    window: int | None = None
    known: bool = True

    def of(self, request: SearchRequest, params: Mapping[str, Any]) -> SearchRequest:
        """The request of a query, for as many documents as it asks for."""
        return replace(
            request, index=self.index, query=self.query, rest=self.filters, params=dict(params)
        )

    def configuration(self, name: str, model: str | None = None) -> SearchConfiguration:
        """What users get by it, with a model of this digest or none."""
        digest = query_digest({"query": self.query, **self.filters}) if self.known else None
        return SearchConfiguration(name, self.index, digest, model, self.window)


@dataclass(frozen=True)
class LiveRanker:
    """How a ranker serves a request, with its own query and window; what it is to its users.

    `record` is that of its training, None where nothing was trained. `store` has the `featureset`
    that it reads, if it reads one. A ranker is `of_template` where it is the query template, or
    rescores what that brings. `by_folds` is how it serves where models of folds rank what it
    learned from, `alias` the one that is set to it now, if one is.
    """

    serve: Serve
    record: Mapping[str, Any] | None
    search: QuerySearch
    configuration: SearchConfiguration
    featureset: FeatureSet | None = None
    store: Store | None = None
    of_template: bool = True
    by_folds: Callable[[FoldOf], Serve] | None = None
    alias: str | None = None

    def measured(self, fold_of: FoldOf) -> LiveRanker:
        """The ranker as it is measured on queries, of which models of folds rank some."""
        return replace(self, serve=self.by_folds(fold_of)) if self.by_folds else self


@dataclass(frozen=True, kw_only=True)
class LiveRankers:
    """Rankers of one cluster for the `judged` queries; models are on trial until `trials` ends.

    An uploaded model is searched with the query template and window of its deployment record, which
    users have; with `same_query`, and every other ranker, with those given here. `index` is that of
    rankers that name none, `featureset` that of model files (by default found by its hash).
    `tables` have the features from outside the index; `all_read_tables` where every model must read
    them.
    """

    cluster: Cluster
    query_template: Mapping[str, Any] | Path | str | None
    window: int
    judged: Sequence[JudgedQuery]
    trials: ExitStack
    same_query: bool = False
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
            return self._file(Path(name), index)
        if isinstance(name, str | Path) and is_run(Path(name)):
            return read_run(name)
        return self.model(name, index)

    def _file(self, path: Path, index: str | None) -> LiveRanker:
        if not {"kind", "record"} <= read_json_object(path).keys():
            return self._query(path, index)
        found = self.model(load_model(path, self.plugins), index)
        return replace(found, configuration=replace(found.configuration, name=str(path)))

    def _query(self, query: Any, index: str | None) -> LiveRanker:
        of_template = query == QUERY
        template = self.query_template if of_template else query
        search = replace(self._given(self.cluster.the_index(index), template), window=None)
        name = QUERY_ALONE if isinstance(query, Mapping) or of_template else str(query)
        return replace(
            self.without_model(search), configuration=search.configuration(name),
            of_template=of_template,
        )  # fmt: skip

    def without_model(self, search: QuerySearch) -> LiveRanker:
        """The query of a search, whatever rescores it."""
        search = replace(search, window=None)
        alone = query_alone(self.cluster.engine, self.cluster.store)
        return LiveRanker(
            self._asking(alone, search), None, search, search.configuration(QUERY_ALONE)
        )

    def _given(self, index: str, template: Mapping[str, Any] | Path | str | None) -> QuerySearch:
        """The search that this template makes of an index."""
        query, rest = self.cluster.template(index, template)
        return QuerySearch(index, query, filters_of(rest), self.window, template is not None)

    def model(self, model: Any, index: str | None = None) -> LiveRanker:
        """How a model serves searches: an uploaded one by its name, or another one on trial.

        Raises UsageError if the model reads none of the `tables`, and every model must.
        """
        index, cluster, tables = index or self.index, self.cluster, self.tables
        alias: str | None = None
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
            search, digest = self._given(where, self.query_template), None
            if deployment is not None:
                alias = _served_by(cluster, deployment)
                digest = content_digest(deployment.content, record)
                if not self.same_query:
                    search = self._deployed(where, deployment.search)
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
            search = self._given(cluster.the_index(index), self.query_template)
            digest, name = model_digest(ranker), _name_of(model)
        # The queries' parameters in the types that the templates need.
        queries = () if featureset is None else typed_queries(self.judged, featureset)
        typed = {judged.query_id: judged.params for judged in queries}

        def of_folds(fold_of: FoldOf) -> Serve:
            serve = by_folds(
                cluster.engine, cluster.store, whole, record, featureset,
                fold_of=fold_of, tables=tables,
            )  # fmt: skip
            return self._asking(self.trials.enter_context(serve), search, typed)

        return LiveRanker(
            self._asking(whole, search, typed), record, search,
            search.configuration(name, digest), featureset, store=cluster.store, by_folds=of_folds,
            alias=alias,
        )  # fmt: skip

    def feature_warnings(
        self,
        rankers: Sequence[LiveRanker],
        queries: Sequence[JudgedQuery],
        in_flight: int,
        seed: int,
    ) -> list[ResultWarning]:
        """Warnings about the judgments from features of judged documents of a sample of queries.

        The features are those of the first ranker that reads a feature set.
        """
        read = [(one.store, one.featureset, one.search) for one in rankers if one.featureset]
        if not read:
            return []
        store, featureset, search = read[0]
        assert store is not None  # noqa: S101 - told to the type checker
        assert featureset is not None  # noqa: S101 - told to the type checker
        typed = typed_queries(queries, featureset)
        drawn = np.random.default_rng(seed).permutation(len(typed))[:_SAMPLED]

        def features_of(number: int) -> tuple[list[str], list[float], Matrix]:
            query = typed[number]
            grades = dict(zip(query.doc_ids, map(float, query.grades), strict=True))
            some = np.random.default_rng(number).permutation(query.doc_ids)[:_MOST_DOCUMENTS]
            sample = {"params": query.params, "document_ids": some.tolist()}
            ids, features = logged(self.cluster.engine, store, featureset, search.index, sample)
            return [query.query_id] * len(ids), [grades[name] for name in ids], features

        with RequestThreads(max(1, min(in_flight, len(drawn)))) as workers:
            logs = [log for log in workers.map(features_of, np.sort(drawn).tolist()) if log[0]]
        if not logs:
            return []
        ids, labels, features = zip(*logs, strict=True)
        data = make_dataset(
            np.concatenate(features), np.concatenate(labels), np.concatenate(ids).tolist(),
            feature_names=featureset.feature_names,
        )  # fmt: skip
        return judgment_warnings(data, text_scores(featureset))

    def _deployed(self, index: str, search: Mapping[str, Any] | None) -> QuerySearch:
        """The search of a deployment record; where it has none, what is given, as a guess."""
        if search is None:
            return replace(self._given(index, self.query_template), known=False)
        given = self._given(index, search["template"])
        return replace(given, window=search["window"])

    def _asking(
        self, serve: Serve, search: QuerySearch, typed: Mapping[str, dict[str, Any]] | None = None
    ) -> Serve:
        """The same service for a search of its own, whatever else the request names.

        Documents beyond the window follow in the order of the query.
        """
        alone = query_alone(self.cluster.engine, self.cluster.store)

        def ask(request: SearchRequest) -> Served:
            whole = search.of(request, (typed or {}).get(request.query_id or "", request.params))
            window = whole.size if search.window is None else search.window
            served = serve(replace(whole, size=window, window=window))
            if window >= whole.size:
                return served
            beyond = alone(replace(whole, window=whole.size))
            there = set(served.doc_ids)
            rest = tuple(doc_id for doc_id in beyond.doc_ids if doc_id not in there)
            return Served((*served.doc_ids, *rest), served.took)

        return ask

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


def _served_by(cluster: Cluster, deployment: DeploymentRecord) -> str | None:
    """The alias that is set to an uploaded model now, if it is the one of its upload."""
    alias = Aliases(cluster.engine, cluster.store).find(deployment.name)
    return deployment.name if alias is not None and alias.current == deployment.model else None


def _name_of(model: Any) -> str:
    return str(model) if isinstance(model, Path | str) else THE_MODEL


def _parted(text: str) -> tuple[str, str | None]:
    """What `live:NAME@INDEX` names, and in which index."""
    name, at, index = text.removeprefix(LIVE).rpartition("@")
    if not at:
        name, index = index, ""
    if not name or (at and not index):
        raise UsageError(f"'{text}' names no ranker: write live:NAME@INDEX or live:QUERY.json")
    return name, index or None


Serving = Callable[[ExitStack], LiveRankers]
"""How rankers serve; models that are not uploaded are in the cluster until the stack ends."""


def compare_rankers(
    request: ComparisonRequest,
    live: LiveQueries,
    serving: Serving,
    proxy: LiveQueries | None = None,
) -> LiveComparison:
    """The comparison of rankers by their live results.

    With `proxy` labels of all queries, those of `live` are human labels of a sample of them.
    """
    plan, all_queries = request.plan, proxy or live
    with ExitStack() as trials:
        served = serving(trials)
        same_query, engine = served.same_query, served.cluster.engine
        rankers = {name: served.of(ranker) for name, ranker in request.rankers.items()}
        windows = [
            ranker.search.window for ranker in rankers.values() if isinstance(ranker, LiveRanker)
        ]
        depth = max(filter(None, windows), default=live.window)
        for metric in plan.metrics:
            within_window(metric, depth)
        chosen = choose_queries(records_of(rankers), all_queries.judged, live.split)
        queries = [all_queries.judged[number] for number in chosen.queries.tolist()]
        for name, fold_of in chosen.folds.items():
            ranker = rankers[name]
            if isinstance(ranker, LiveRanker):
                rankers[name] = ranker.measured(fold_of)
        shared = SearchRequest("unasked", {}, {}, depth, depth)
        live_rankers = {name: r for name, r in rankers.items() if isinstance(r, LiveRanker)}
        # Judgments may contradict the query of the last one, which is asked alone, too.
        alone = [served.without_model(r.search) for r in live_rankers.values()][-1:]
        *ranked, of_alone = documents_of(
            [*rankers.values(), *alone], queries, shared, live.in_flight, plan.drawing.progress
        ) + ([] if alone else [[]])
        graded = queries if proxy is None else _graded_of(queries, live.judged)
        warnings = served.feature_warnings(
            [*live_rankers.values()], graded, live.in_flight, plan.drawing.seed
        )
    documents = dict(zip(rankers, ranked, strict=True))
    # Whether any ranker rescores what the query template brings.
    of_template = any(ranker.of_template for ranker in live_rankers.values())
    configurations = {name: ranker.configuration for name, ranker in live_rankers.items()}
    # The baseline, or the ranker that is named last, is what users have.
    in_use = sorted(live_rankers, key=lambda name: name == plan.baseline)
    alias = next((live_rankers[n].alias for n in reversed(in_use) if live_rankers[n].alias), None)
    others = [configurations[n] for n, ranker in live_rankers.items() if ranker.alias != alias]
    # What the alias serves beside the query alone is no attempt to replace it.
    if alias is not None and any(other.model is not None for other in others):
        sides = [digest_of(asdict(replace(c, name=""))) for c in configurations.values()]
        runs = [name for name in rankers if name not in live_rankers]
        candidate = digest_of(sorted(sides) + sorted(runs))
        plan = replace(plan, attempts=ClusterAttempts(engine, alias, candidate=candidate))
    how = _HowMeasured(
        depth, chosen, plan, query_template=live.query_template if of_template else "",
        unweighted=live.unweighted, alone=of_alone,
    )  # fmt: skip
    if proxy is None:
        comparison = how.compared(documents, queries)
    else:
        comparison = _by_both_labels(how, documents, queries, live.judged)
    if same_query:
        note = "the same query for every model: no evidence for a switch to another query template"
        comparison = replace(comparison, notes=(*comparison.notes, note))
    judged = queries if proxy is None else [*queries, *live.judged]
    judges = judges_of(judged).get(JUDGED_BY, {})
    found = LiveComparison(
        **comparison.facts, configurations=configurations, judges=judges, alias=alias
    )
    return found.with_warnings(warnings)


def _graded_of(queries: Sequence[JudgedQuery], human: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    """Those of the human labels that are of these queries."""
    ids = {query.query_id for query in queries}
    return [query for query in human if query.query_id in ids]


@dataclass(frozen=True)
class _HowMeasured:
    """What the lists of all rankers have in common."""

    depth: int
    chosen: ChosenQueries
    plan: ComparisonPlan
    query_template: Any
    unweighted: bool
    alone: Sequence[Sequence[str]]
    """What the query without a model brings; nothing where all rankers are runs."""

    def lists(
        self, documents: Mapping[str, Sequence[Sequence[str]]], queries: Sequence[JudgedQuery]
    ) -> dict[str, RankedLists]:
        return {
            name: graded_lists(queries, of_ranker, self.depth)
            for name, of_ranker in documents.items()
        }

    def compared(
        self, documents: Mapping[str, Sequence[Sequence[str]]], queries: Sequence[JudgedQuery]
    ) -> RankerComparison:
        """The comparison of these lists by the grades of these queries."""
        lists = self.lists(documents, queries)
        # Whether most relevant documents are in nobody's window.
        recall = max(mean_known(of_ranker.recall) for of_ranker in lists.values())
        return compare_lists(
            lists, queries, self.chosen, self.plan,
            query_template=self.query_template, unweighted=self.unweighted,
            notes=[f"lists are of the whole index, their first {self.depth} documents"],
            warnings=[one.line for one in recall_warnings(recall, self.depth, len(queries))],
            alone=graded_lists(queries, self.alone, self.depth) if self.alone else None,
        )  # fmt: skip


def _by_both_labels(
    how: _HowMeasured,
    documents: Mapping[str, Sequence[Sequence[str]]],
    queries: Sequence[JudgedQuery],
    human: Sequence[JudgedQuery],
) -> RankerComparison:
    """The comparison by human labels of a sample, with proxy labels of all queries."""
    grades = {query.query_id: query for query in human}
    places = [number for number, query in enumerate(queries) if query.query_id in grades]
    if len(places) < 2:
        raise Refused(
            f"{len(places)} of the {len(queries)} compared queries have human labels, and a "
            "comparison needs 2 at least: label a random sample of them (owpc-ltr judge pool "
            "--sample N)"
        )
    sample = [
        replace(grades[queries[n].query_id], importance=queries[n].importance) for n in places
    ]
    of_sample = {name: [of[n] for n in places] for name, of in documents.items()}
    chosen = how.chosen._replace(queries=how.chosen.queries[places])
    alone = [how.alone[n] for n in places] if how.alone else []
    comparison = replace(how, chosen=chosen, alone=alone).compared(of_sample, sample)
    copied = copied_label_warnings(*_common_grades(sample, [queries[n] for n in places]))
    comparison = comparison.with_warnings(list(copied))
    weights = None if how.unweighted else uneven(np.array([importance_of(q) for q in queries]))
    by_proxy = results_of_lists(
        how.lists(documents, queries), queries, how.chosen, how.plan,
        query_template=how.query_template, unweighted=how.unweighted,
    )  # fmt: skip
    return with_proxy_labels(comparison, by_proxy, np.array(places, np.int64), weights)


def _common_grades(
    human: Sequence[JudgedQuery], proxy: Sequence[JudgedQuery]
) -> tuple[Labels, Labels]:
    """Both grades of the documents that both judged."""
    common = [
        (grade, others[doc_id])
        for query, other in zip(human, proxy, strict=True)
        for others in [dict(zip(other.doc_ids, other.grades, strict=True))]
        for doc_id, grade in zip(query.doc_ids, query.grades, strict=True)
        if doc_id in others
    ]
    pairs: Labels = np.array(common, np.float32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def compare_with_query(
    request: ComparisonRequest, live: LiveQueries, serving: Serving
) -> LiveEvaluation:
    """The only ranker, which is a model, compared with the query alone."""
    ((name, model),) = request.rankers.items()
    plan = request.plan
    with ExitStack() as trials:
        served = serving(trials)
        ranker, cluster = served.model(model), served.cluster
        search = ranker.search
        question = live.question(
            search.index, search.query, plan.metrics, ranker.featureset, plan.drawing.seed
        )
        question = replace(question, filters=search.filters, window=int(search.window or 0))
        chosen = choose_queries({THE_MODEL: ranker.record or {}}, question.queries, live.split)
        question = replace(question.of(chosen.queries), smallest_gain=plan.smallest_gain)
        warnings = served.feature_warnings(
            [ranker], question.queries, live.in_flight, plan.drawing.seed
        )
        before = query_alone(cluster.engine, cluster.store)
        after = ranker.measured(chosen.folds.get(THE_MODEL, {})).serve
        evaluation = measure_live(
            question, before, after, plan.drawing.progress, chosen=chosen, attempts=plan.attempts
        )
    configurations = {
        THE_MODEL: ranker.configuration,
        QUERY_ALONE: replace(search, window=None).configuration(QUERY_ALONE),
    }
    judges = judges_of(question.queries).get(JUDGED_BY, {})
    evaluation = replace(evaluation, model=name, configurations=configurations, judges=judges)
    return evaluation.with_warnings(warnings)
