"""Live rankers: by which request each ranks the whole index, and what it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.api.live import typed_queries
from owpc_ltr.api.trying import trying
from owpc_ltr.data.judgments.types import JudgedQuery
from owpc_ltr.data.runs import TrecRun, is_run, read_run
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.defaults import the_featureset, the_index
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import SearchRequest, split_body
from owpc_ltr.engine.search.serving import Serve, Served, query_alone
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.offline_comparison import LIVE, is_live
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.reordering import FEATURE, load_model


@dataclass(frozen=True)
class LiveSearch:
    """How live rankers are asked: in which cluster, and by which query of an application.

    `query` has `{{keywords}}` where the user's words go, and may be a file; left out, all text
    fields are searched. Models rescore its best `window` documents, and so deep is every list.
    `index` is that of rankers that name none, `featureset` that of model files (found by its hash
    where it is left out), `params` those of queries that have none of their own, `extra_features`
    the tables of features that are in no index. `topics` has the texts of queries of a judgment
    file.
    """

    cluster: Cluster | None = None
    index: str | None = None
    query: Mapping[str, Any] | Path | str | None = None
    window: int = DEFAULT_WINDOW
    in_flight: int = 4
    params: Mapping[str, Any] | None = None
    featureset: str | None = None
    extra_features: Any = None
    topics: Path | str | None = None


@dataclass(frozen=True)
class LiveRanker:
    """How a ranker serves a request; its record, None where nothing was trained."""

    serve: Serve
    record: Mapping[str, Any] | None


@dataclass(frozen=True)
class LiveRankers:
    """Rankers of one cluster, at work until `kept` ends, for these queries."""

    search: LiveSearch
    cluster: Cluster
    judged: Sequence[JudgedQuery]
    plugins: Sequence[Path]
    kept: ExitStack

    def of(self, ranker: Any) -> LiveRanker | TrecRun:
        """A ranker as it serves; a run is what it is. Raises UsageError and BadInput."""
        if isinstance(ranker, TrecRun):
            return ranker
        name, index = _parted(ranker) if is_live(ranker) else (ranker, None)
        index = index or self.search.index
        if isinstance(name, str) and name.startswith(FEATURE):
            return replace(self._model(self._feature(name), index), record=None)
        if isinstance(name, str | Path) and Path(name).suffix == ".json":
            content = read_json_object(Path(name))
            if not {"kind", "record"} <= content.keys():
                return self._query(split_body(content)[0], index)
            name = load_model(Path(name), self.plugins)
        elif isinstance(name, str | Path) and is_run(Path(name)):
            return read_run(name)
        return self._model(name, index)

    def _query(self, query: dict[str, Any], index: str | None) -> LiveRanker:
        where = the_index(self.cluster.engine, index)
        alone = query_alone(self.cluster.engine, self.cluster.store)
        return LiveRanker(_asking(alone, where, query), None)

    def _model(self, model: Any, index: str | None) -> LiveRanker:
        search = self.search
        # An uploaded name is text; a file of another ending is read.
        given = str(model) if isinstance(model, Path) and not model.is_file() else model
        tried = self.kept.enter_context(
            trying(self.cluster, given, index, search.featureset, search.extra_features)
        )
        query = self.cluster.template(tried.index, search.query)[0]
        typed = self._typed(tried.featureset)
        return LiveRanker(_asking(tried.serve, tried.index, query, typed), tried.record)

    def _typed(self, featureset: FeatureSet | None) -> dict[str, dict[str, Any]]:
        """The queries' parameters in the types that the templates need."""
        if featureset is None:
            return {}
        return {one.query_id: one.params for one in typed_queries(self.judged, featureset)}

    def _feature(self, text: str) -> LinearModel:
        store = self.cluster.store
        known = store.get_featureset(the_featureset(store, self.search.featureset))
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
    """The same way to serve, of an index and by a query of its own."""

    def ask(request: SearchRequest) -> Served:
        own = (params or {}).get(request.query_id or "", request.params)
        return serve(replace(request, index=index, query=query, params=dict(own)))

    return ask
