"""A log before its first search: what is logged of which index, cut into chunks.

Feature values depend on more than query and document: an `Environment` is the engine, the index and
the feature set, which must be the same before and after.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from owpc_ltr.data.feature_sources import KEY
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.judgments.grouping import UsedWeights, judges_of
from owpc_ltr.engine.client.engine import EngineLike, about
from owpc_ltr.engine.client.responses import AnswerPart, EngineRefusal, MalformedAnswer
from owpc_ltr.engine.feature_log.feature_reader import Chunk, QueryDocuments, cut
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.stores import Store, changed_features
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet, refuse_unfit
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json, json_text
from owpc_ltr.names import check_index

if TYPE_CHECKING:
    from owpc_ltr.data.external_features import ExternalTable, ExternalValues


@dataclass(frozen=True)
class LogJob:
    """Everything that is known before the first search.

    `description` is what makes this job another one than others; `joined` has the columns from
    outside the index, one row a judged pair.
    """

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
    weighed: UsedWeights
    joined: ExternalValues | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of the set, then those from outside the index."""
        names = self.environment.featureset.feature_names
        return names + (self.joined.feature_names if self.joined else ())

    def documents_of(self, chunk: Chunk) -> list[QueryDocuments]:
        """The documents of each query of a chunk."""
        queries = ((self.judgments.queries[query], self.params[query]) for query in chunk.queries)
        return [
            QueryDocuments(judged.query_id, params, judged.doc_ids) for judged, params in queries
        ]

    def refuse_drift(self) -> None:
        """Refuse an engine, an index or a feature set that is not the same any more."""
        now = observe(self.engine, self.store, self.featureset.name, self.index)
        _refuse_drift(self.environment, now)


def plan(
    engine: EngineLike,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    *,
    source: str | None,
    options: LogOptions,
    tables: Sequence[ExternalTable] = (),
) -> LogJob:
    """The job, checked: nothing that would only fail after hours. BadInput where it cannot be."""
    check_index(index)
    _check_judgments(judgments)
    params = typed_params(judgments, featureset)
    joined = None
    if tables:
        from owpc_ltr.data.external_features import external_values

        joined = external_values(tables, judgments.queries, featureset.feature_names)
    environment = observe(engine, store, featureset.name, index, purpose="log from")
    _refuse_drift(replace(environment, featureset=featureset), environment)
    judged = {"sha256": source, "fingerprint": fingerprint(judgments)}
    description = {
        "judgments": judged | judges_of(judgments.queries),
        "featureset": {"name": featureset.name, "hash": featureset.hash},
        "index": {"name": index, "indices": environment.indices},
        "engine": environment.engine,
        **({KEY: joined.accounts} if joined else {}),
    }
    return LogJob(
        engine,
        store,
        featureset=featureset,
        index=index,
        options=options,
        judgments=judgments,
        params=params,
        chunks=cut([len(query.doc_ids) for query in judgments.queries], options.chunk),
        environment=environment,
        description=description,
        weighed=UsedWeights.among(judgments.queries),
        joined=joined,
    )


def _check_judgments(judgments: Judgments) -> None:
    """Refuse what would only fail after hours."""
    if not judgments.queries:
        raise BadInput("the judgments hold no query")
    [(most_common, times)] = Counter(query.query_id for query in judgments.queries).most_common(1)
    if times > 1:
        raise BadInput(f"query '{most_common}' occurs twice in the judgments")
    for query in judgments.queries:
        if not query.doc_ids:
            raise BadInput(f"query '{query.query_id}' has no judged document")
        if len(set(query.doc_ids)) < len(query.doc_ids):
            raise BadInput(f"query '{query.query_id}' judges a document twice")


def fingerprint(judgments: Judgments) -> str:
    """Hex SHA-256 of everything that the judgments say, however their file is written."""
    digest = hashlib.sha256()
    for query in judgments.queries:
        digest.update(canonical([query.query_id, query.params, query.doc_ids]).encode())
        digest.update(np.ascontiguousarray(query.grades, dtype="<f4").data)
        # Weights of 1 say what no weights say.
        if query.weights is not None and (query.weights != 1).any():
            digest.update(b"weights")
            digest.update(np.ascontiguousarray(query.weights, dtype="<f4").data)
        if query.importance not in {None, 1.0}:
            digest.update(canonical({"importance": query.importance}).encode())
    return digest.hexdigest()


def canonical(value: object) -> str:
    """JSON text that depends on the value alone."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def typed_params(judgments: Judgments, featureset: FeatureSet) -> list[dict[str, Any]]:
    """Per query, its parameters as they are sent and kept in the dataset.

    They stay what they are in the judgments: a mustache template puts texts into JSON strings,
    and the engine reads "2010" as a number where the field is one. Only what a
    `derived_expression` or a `script_feature` names is sent as a number even if it is text,
    because their variables are none. Raises UsageError naming every variable that the judgments
    lack, BadInput for a list that a feature inserts as text.
    """
    present: set[str] = set().union(*(query.params for query in judgments.queries))
    lacking = sorted(set(featureset.params) - present)
    if lacking:
        raise UsageError(
            f"the feature set '{featureset.name}' needs {_quoted(lacking)}, which the judgments "
            f"do not have: they have {_quoted(sorted(present)) or 'no parameters'}; add a column"
        )
    numbers = _numbers(featureset)
    return [
        _typed(query.query_id, query.params, featureset, numbers) for query in judgments.queries
    ]


def _numbers(featureset: FeatureSet) -> dict[str, bool]:
    """The variables sent as numbers, and whether a number is needed (or text will do as well)."""
    numbers: dict[str, bool] = {}
    for feature in featureset.features:
        if feature.template_language in {"derived_expression", "script_feature"}:
            needed = feature.template_language == "derived_expression"
            numbers |= {name: numbers.get(name, False) or needed for name in feature.params}
    return numbers


def _typed(
    query_id: str, params: dict[str, Any], featureset: FeatureSet, numbers: dict[str, bool]
) -> dict[str, Any]:
    lacking = [name for name in featureset.params if name not in params]
    if lacking:
        raise BadInput(
            f"query '{query_id}' has no {_quoted(lacking)}, which the feature set "
            f"'{featureset.name}' needs"
        )
    try:
        refuse_unfit(featureset, params)
    except BadInput as error:
        raise BadInput(f"query '{query_id}': {error}") from error
    typed: dict[str, Any] = dict(params)
    for name, needed in numbers.items():
        number = _number(params[name])
        if number is not None:
            typed[name] = number
        elif needed:
            raise BadInput(
                f"query '{query_id}' has {name}={_shown(params[name])}, which a "
                f"derived_expression of '{featureset.name}' needs as a number"
            )
    return typed


def _number(text: Json) -> float | int | None:
    if isinstance(text, int | float) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        return None
    if re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: Json) -> str:
    return shown(value if isinstance(value, str) else json_text(value))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@dataclass(frozen=True)
class Environment:
    """The engine, the index and the feature set at one point in time.

    `engine` has `version`, `distribution` and the `store` kind; `indices`, of the index or those
    behind the alias, `uuid`, and `mapping_hash` of fields and analysis; `shards` how many.
    """

    featureset: FeatureSet
    engine: dict[str, str]
    indices: dict[str, dict[str, str]]
    shards: dict[str, int] = field(default_factory=dict)

    @property
    def is_elasticsearch(self) -> bool:
        """Whether the engine is Elasticsearch."""
        return self.engine["distribution"] == "elasticsearch"


def observe(
    engine: EngineLike, store: Store, featureset: str, index: str, *, purpose: str = "observe"
) -> Environment:
    """The environment now; `purpose` is what the index is for.

    Raises BadInput where there is no such index, and what the store raises without the set.
    """
    try:
        running = about(engine, "the engine")
        answer = AnswerPart(_index_answer(engine, index, purpose), f"'{index}'")
        indices = {name: answer[name] for name in sorted(answer.object)}
        identities = {name: _identity(part) for name, part in indices.items()}
        shards = {name: _number_of_shards(part) for name, part in indices.items()}
    except MalformedAnswer as error:
        raise Refused(str(error)) from error
    if not indices:
        raise Refused(f"there is no index behind '{index}'")
    return Environment(
        store.get_featureset(featureset),
        {"version": running.version, "distribution": running.distribution, "store": store.kind},
        identities,
        shards,
    )


def _index_answer(engine: EngineLike, index: str, purpose: str) -> Any:
    from owpc_ltr.engine.staging_index import close_index

    try:
        return engine.request("GET", "/" + quote(index, safe=""))
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        advice = close_index(engine, index, "check its name")
        raise BadInput(f"there is no index '{index}' to {purpose}: {advice}") from refusal


def _identity(index: AnswerPart) -> dict[str, str]:
    settings = index["settings"]["index"]
    # Analysis and similarity decide the scores as much as the fields do.
    decisive = [
        index["mappings"].object,
        settings.object.get("analysis"),
        settings.object.get("similarity"),
    ]
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"uuid": settings["uuid"].text, "mapping_hash": digest}


def _number_of_shards(index: AnswerPart) -> int:
    number = str(index["settings"]["index"].object.get("number_of_shards", 1))
    return max(int(number), 1) if number.isdecimal() else 1


def _refuse_drift(before: Environment, now: Environment) -> None:
    """Refused, in words, where the environment is not the same any more."""
    change = None
    if before.featureset.hash != now.featureset.hash:
        changed = changed_features(before.featureset, now.featureset)
        change = f"{changed} of the feature set '{before.featureset.name}' changed"
    change = (
        change
        or _change("the engine's", before.engine, now.engine)
        or _index_change(before.indices, now.indices)
    )
    if change:
        raise Refused(
            f"{change} while features were logged: values from before and after do not belong "
            "together, so nothing is published; log again with `restart`"
        )


def _index_change(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    if before.keys() != now.keys():
        return f"the index changed from {', '.join(before)} to {', '.join(now)}"
    changes = (_change(f"the index '{name}': its", before[name], now[name]) for name in before)
    return next(filter(None, changes), None)


def _change(whose: str, before: dict[str, str], now: dict[str, str]) -> str | None:
    for name, value in before.items():
        if now[name] != value:
            return f"{whose} {name} changed from {value} to {now[name]}"
    return None
