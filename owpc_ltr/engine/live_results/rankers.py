"""Live rankers: how each ranks the whole index, for comparison and pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.runs import TrecRun, is_run, read_run
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
from owpc_ltr.engine.deployment.trial import by_folds, on_trial
from owpc_ltr.engine.evidence import (
    QUERY_ALONE,
    SearchConfiguration,
    content_digest,
    model_digest,
)
from owpc_ltr.engine.live_queries import typed_queries
from owpc_ltr.engine.search.client_scoring import Serve, Served, query_alone, serve_all, with_stored
from owpc_ltr.engine.search.request import SearchRequest, filters_of, query_digest, tuned_on
from owpc_ltr.engine.staging_index import index_uuids
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.data_comparison import LIVE, is_live
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.models.combined import FEATURE, FoldOf, ReorderingModel, load_model
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.signatures import Progress

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgedQuery
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.stores import Store


QUERY = "query"
"""In place of a ranker: the query template alone."""


@dataclass(frozen=True)
class QuerySearch:
    """A query template in an index, filters beside it, and how many documents a model rescores.

    `window` is None without a model. `known` is whether that is what users have, or will have, as
    far as anybody said. `tuned_on` is the record of a query that was tuned on judged queries.
    """

    index: str
    query: dict[str, Any]
    filters: Mapping[str, Any]
    window: int | None = None
    known: bool = True
    tuned_on: Mapping[str, Any] | None = None

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

    `record` is that of its training, None where nothing was trained. `features` are the feature set
    that it reads, if it reads one, and the store that has it. A ranker is `of_template` where it is
    the query template, or rescores what that brings. `by_folds` is how it serves where models of
    folds rank what it learned from, `alias` the one that is set to it now, if one is.
    """

    serve: Serve
    record: Mapping[str, Any] | None
    search: QuerySearch
    configuration: SearchConfiguration
    features: tuple[Store, FeatureSet] | None = None
    of_template: bool = True
    by_folds: Callable[[FoldOf], Serve] | None = None
    alias: str | None = None

    def identified(self, engine: Engine) -> LiveRanker:
        """The ranker whose configuration tells the index from others of its name, of now."""
        uuids = index_uuids(engine, self.search.index)
        return replace(self, configuration=replace(self.configuration, uuids=uuids))

    def measured(self, fold_of: FoldOf) -> LiveRanker:
        """The ranker as it is measured on queries, of which models of folds rank some."""
        return replace(self, serve=self.by_folds(fold_of)) if self.by_folds else self


@dataclass(frozen=True, kw_only=True)
class LiveRankers:
    """Rankers of one cluster for the `judged` queries; models are on trial until `trials` ends.

    An uploaded model is searched with the query template and window of its deployment record, which
    users have; with `same_query`, and every other ranker, with those given here. `index` is that of
    rankers that name none, `featureset` that of model files (by default found by its hash).
    `deployments` are the records that were read before, whole, by the uploaded name.
    """

    cluster: Cluster
    query_template: Mapping[str, Any] | Path | str | None
    window: int | None
    judged: Sequence[JudgedQuery]
    trials: ExitStack
    same_query: bool = False
    index: str | None = None
    featureset: str | None = None
    plugins: Sequence[Path] = ()
    deployments: Mapping[str, DeploymentRecord] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many documents of the query template are rescored."""
        return self.cluster.window(self.query_template, self.window)

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
        ranker = self.model(load_model(path, self.plugins), index)
        return replace(ranker, configuration=replace(ranker.configuration, name=str(path)))

    def _query(self, query: Any, index: str | None) -> LiveRanker:
        of_template = query == QUERY
        template = self.query_template if of_template else query
        name = QUERY_ALONE if isinstance(query, Mapping) or of_template else str(query)
        search = self._given(self.cluster.the_index(index), template)
        return replace(self.without_model(search, name), of_template=of_template)

    def without_model(self, search: QuerySearch, name: str = QUERY_ALONE) -> LiveRanker:
        """The query of a search, whatever rescores it."""
        search = replace(search, window=None)
        alone = query_alone(self.cluster.engine, self.cluster.store)
        return LiveRanker(self._asking(alone, search), None, search, search.configuration(name))

    def _given(self, index: str, template: Mapping[str, Any] | Path | str | None) -> QuerySearch:
        """The search that this template makes of an index."""
        query, rest = self.cluster.template(index, template)
        return QuerySearch(
            index,
            query,
            filters_of(rest),
            self.depth,
            known=template is not None,
            tuned_on=tuned_on(template),
        )

    def model(self, model: Any, index: str | None = None) -> LiveRanker:
        """How a model serves searches: an uploaded one by its name, or another one on trial."""
        index, cluster = index or self.index, self.cluster
        # A text that is no file is an uploaded name.
        if isinstance(model, Path | str) and not Path(model).is_file():
            return self._uploaded(str(model), index)
        ranker = load_model(model, self.plugins) if isinstance(model, Path | str) else model
        featureset = None
        if self.featureset is not None or not isinstance(ranker, ReorderingModel):
            trained_hash = ranker.record.get("featureset_hash")
            featureset = cluster.the_featureset(self.featureset, trained_hash)
        trial = on_trial(cluster.engine, cluster.store, ranker, featureset)
        search = self._given(cluster.the_index(index), self.query_template)
        name = str(model) if isinstance(model, Path | str) else "the model"
        live = LiveRanker(
            self.trials.enter_context(trial),
            ranker.record,
            search,
            search.configuration(name, model_digest(ranker)),
            None if featureset is None else (cluster.store, featureset),
        )
        return self._of_model(live)

    def _uploaded(self, called: str, index: str | None) -> LiveRanker:
        cluster = self.cluster.holding(called)
        deployment = self.deployments.get(called) or cluster.models.deployment(called, whole=True)
        name = cluster.models.resolve(called) if deployment is None else deployment.model
        stored = cluster.store.get_model(name)
        record, interval, digest, alias = dict[str, Any](), None, None, None
        if deployment is None:
            search = self._given(cluster.index_of(name, index), self.query_template)
        else:
            record, interval = deployment.record, deployment.interval
            search = self._deployed(index or deployment.index, deployment.search)
            digest = content_digest(deployment.content, record)
            alias = _served_by(cluster, deployment)
        serve = with_stored(cluster.engine, cluster.store, stored, interval)
        sets, configuration = (cluster.store, stored.featureset), search.configuration(name, digest)
        return self._of_model(LiveRanker(serve, record, search, configuration, sets, alias=alias))

    def _deployed(self, index: str, search: Mapping[str, Any] | None) -> QuerySearch:
        """The search of a deployment record; where it has none, what is given, as a guess."""
        if search is None or self.same_query:
            given = self._given(index, self.query_template)
            return replace(given, known=given.known and self.same_query)
        given = self._given(index, search["template"])
        return replace(given, window=search["window"])

    def _of_model(self, ranker: LiveRanker) -> LiveRanker:
        """The ranker of a model that serves whole requests, as requests are made here."""
        store, featureset = ranker.features or (self.cluster.store, None)
        # The queries' parameters in the types that the templates need.
        queries = () if featureset is None else typed_queries(self.judged, featureset)
        typed = {judged.query_id: judged.params for judged in queries}

        def of_folds(fold_of: FoldOf) -> Serve:
            folds = by_folds(
                self.cluster.engine,
                store,
                ranker.serve,
                ranker.record or {},
                featureset,
                fold_of=fold_of,
            )
            return self._asking(self.trials.enter_context(folds), ranker.search, typed)

        serve = self._asking(ranker.serve, ranker.search, typed)
        return replace(ranker, serve=serve, by_folds=of_folds)

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
    """The record of each ranker's training, and of its query's tuning.

    A run and a feature have none, nor has a query that was not tuned.
    """
    live = {name: ranker for name, ranker in rankers.items() if isinstance(ranker, LiveRanker)}
    trained = {name: ranker.record for name, ranker in live.items() if ranker.record is not None}
    tuned = dict[str, Mapping[str, Any]]()
    # Of rankers that share a query, the query alone stands for it.
    for name in sorted(live, key=trained.__contains__):
        record = live[name].search.tuned_on
        if record is not None and record not in tuned.values():
            tuned[f"the query of {name}" if name in trained else name] = record
    return {**trained, **tuned}


def answers_of(
    rankers: Sequence[LiveRanker | TrecRun],
    queries: Sequence[JudgedQuery],
    shared: SearchRequest,
    in_flight: int,
    progress: Progress | None = None,
) -> list[Sequence[Served]]:
    """By ranker, what it brings for each query; a query is asked of all in turn.

    The requests share what is not the query's own; a ranker fills in its own index and query.
    """
    ways = [ranker.serve for ranker in rankers if isinstance(ranker, LiveRanker)]
    answers = iter(serve_all(ways, queries, shared, in_flight, progress) if ways else ())
    return [
        _listed(ranker, queries) if isinstance(ranker, TrecRun) else next(answers)
        for ranker in rankers
    ]


def _listed(run: TrecRun, queries: Sequence[JudgedQuery]) -> list[Served]:
    lists = run.lists()
    return [Served(tuple(lists.get(query.query_id, ())), 0) for query in queries]


def deployments_of(cluster: Cluster, rankers: Iterable[Any]) -> dict[str, DeploymentRecord]:
    """The deployment records of the rankers that are uploaded models, by their names."""
    named = [ranker for ranker in rankers if isinstance(ranker, str) and not _is_other(ranker)]
    records = {name: cluster.models.deployment(name, whole=True) for name in named}
    return {name: record for name, record in records.items() if record is not None}


def _is_other(ranker: str) -> bool:
    """Whether a text names a file, a query, a feature or another index, and no uploaded model."""
    named = ranker == QUERY or ranker.startswith((LIVE, FEATURE))
    return named or Path(ranker).is_file() or Path(ranker).suffix == ".json"


def _served_by(cluster: Cluster, deployment: DeploymentRecord) -> str | None:
    """The alias that is set to an uploaded model now, if it is the one of its upload."""
    alias = Aliases(cluster.engine, cluster.store).find(deployment.name)
    return deployment.name if alias is not None and alias.current == deployment.model else None


def _parted(text: str) -> tuple[str, str | None]:
    """What `live:NAME@INDEX` names, and in which index."""
    name, at, index = text.removeprefix(LIVE).rpartition("@")
    if not at:
        name, index = index, ""
    if not name or (at and not index):
        raise UsageError(f"'{text}' names no ranker: write live:NAME@INDEX or live:QUERY.json")
    return name, index or None
