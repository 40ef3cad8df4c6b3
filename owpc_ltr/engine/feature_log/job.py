"""A log before its first search: what is asked of which environment, cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.external_features.source import KEY
from owpc_ltr.data.judgments.types import judges_of
from owpc_ltr.data.judgments.weights import Weighed
from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.feature_log.assembly import fingerprint
from owpc_ltr.engine.feature_log.chunks import Chunk, cut
from owpc_ltr.engine.feature_log.contents import Contents
from owpc_ltr.engine.feature_log.environment import Environment, observe, refuse_drift
from owpc_ltr.engine.feature_log.moment import Moment
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.parameters import typed_params
from owpc_ltr.engine.feature_log.requests import Asker, Question
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.names import check_index

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.columns import JoinedValues
    from owpc_ltr.data.external_features.table import JoinedTable
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.stores.store import Store


@dataclass(frozen=True)
class Job:
    """Everything that is known before the first search."""

    engine: EngineLike
    store: Store
    featureset: FeatureSet
    index: str
    options: LogOptions
    judgments: Judgments
    params: list[dict[str, Any]]
    chunks: list[Chunk]
    environment: Environment
    description: dict[str, Any]
    """What makes this job another one than others."""
    weighed: Weighed
    joined: JoinedValues | None = None
    """The columns from outside the index, one row a judged pair."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of the set, then those of joined tables."""
        own = self.environment.featureset.feature_names
        return own + (self.joined.feature_names if self.joined else ())

    def observe(self) -> Environment:
        """The environment now."""
        return observe(self.engine, self.store, self.featureset.name, self.index)

    def asker(self, moment: Moment) -> Asker:
        """Who asks for features in this moment."""
        indices = frozenset(self.environment.indices)
        return Asker(moment, self.store, self.featureset, indices, self.options)

    def manifest(self, contents: Contents) -> dict[str, Any]:
        """The job and what the index held, for the manifest."""
        return {**self.description, "index": {**self.description["index"], "contents": contents}}

    def question(self, query: int) -> Question:
        """What is asked for one judged query."""
        judged = self.judgments.queries[query]
        return Question(judged.query_id, self.params[query], judged.document_ids)


def plan(
    engine: EngineLike,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    source: str | None,
    options: LogOptions,
    tables: Sequence[JoinedTable] = (),
) -> Job:
    """The job, checked: nothing that would only fail after hours. BadInput where it cannot be."""
    check_index(index)
    _check_judgments(judgments)
    params = typed_params(judgments, featureset)
    joined = _joined(tables, judgments, featureset)
    try:
        environment = observe(engine, store, featureset.name, index)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        raise BadInput(f"there is no index '{index}' to log from: check its name") from refusal
    refuse_drift(replace(environment, featureset=featureset), environment)
    about: dict[str, Any] = {"sha256": source, "fingerprint": fingerprint(judgments)}
    about |= judges_of(judgments.queries)
    description = {
        "judgments": about,
        "featureset": {"name": featureset.name, "hash": featureset.hash},
        "index": {"name": index, "indices": environment.indices},
        "engine": environment.engine,
        **({KEY: joined.accounts} if joined else {}),
    }
    return Job(
        engine,
        store,
        featureset,
        index,
        options,
        judgments,
        params,
        cut([len(query.document_ids) for query in judgments.queries], options.chunk),
        environment,
        description,
        Weighed.among(judgments.queries),
        joined,
    )


def _joined(
    tables: Sequence[JoinedTable], judgments: Judgments, featureset: FeatureSet
) -> JoinedValues | None:
    if not tables:
        return None
    from owpc_ltr.data.external_features.columns import join_judged

    return join_judged(tables, judgments.queries, featureset.feature_names)


def _check_judgments(judgments: Judgments) -> None:
    """Refuse what would only fail after hours."""
    if not judgments.queries:
        raise BadInput("the judgments hold no query")
    seen: set[str] = set()
    for query in judgments.queries:
        if query.query_id in seen:
            raise BadInput(f"query '{query.query_id}' stands twice in the judgments")
        seen.add(query.query_id)
        if not query.document_ids:
            raise BadInput(f"query '{query.query_id}' has no judged document")
        if len(set(query.document_ids)) < len(query.document_ids):
            raise BadInput(f"query '{query.query_id}' judges a document twice")
