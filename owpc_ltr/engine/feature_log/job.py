"""A log before its first search: what is logged of which index, cut into chunks.

Feature values depend on more than query and document: an `Environment` is the engine, the index and
the feature set, which must be the same before and after.

The features of one query's documents: requested, repeated, halved, confirmed absent. Judgments are
cut into chunks, whose values are one file each. Each judged document is logged, absent or rejected,
and `LogCounts` has them all.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.feature_sources import KEY
from owpc_ltr.data.judgments import Judgments, UsedWeights, judges_of
from owpc_ltr.engine.client.engine import EngineLike, about
from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    Hit,
    Incomplete,
    MalformedAnswer,
    SearchAnswer,
)
from owpc_ltr.engine.feature_log.snapshot import LogOptions, PointInTime
from owpc_ltr.engine.stores import Search, Store, changed_features
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet, refuse_unfit
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json, json_text
from owpc_ltr.names import check_index
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.data.external_features import ExternalTable, ExternalValues


DocumentRows = dict[str, list[float] | Refused]
"""By document id, its feature values, or why they cannot be read."""


@dataclass(frozen=True)
class QueryDocuments:
    """One judged query: its documents, and what goes into the templates."""

    query_id: str
    params: dict[str, Any]
    doc_ids: list[str]


@dataclass(frozen=True)
class FeatureReader:
    """Reads the feature values of a query's documents; safe to share between threads.

    Hits may come from `indices`: the index itself, or those behind the alias.
    """

    snapshot: PointInTime
    store: Store
    featureset: FeatureSet
    indices: frozenset[str]
    options: LogOptions

    def values_of(self, question: QueryDocuments) -> Values:
        """The values of every document of a query, in order.

        Raises Incomplete when the engine does not give a whole answer, several times over, and
        Refused for a document that must be rejected while that is not allowed.
        """
        documents = len(question.doc_ids)
        values = Values.unknown(documents, len(self.featureset.features))
        for start in range(0, documents, self.options.batch):
            self._fill(question, values, start, min(start + self.options.batch, documents))
        return values

    def _fill(self, question: QueryDocuments, values: Values, start: int, stop: int) -> None:
        """Ask for the documents from `start` to `stop`; in halves where that is refused."""
        documents = question.doc_ids[start:stop]
        try:
            rows = self._rows(question, documents)
        except EngineRefusal as refusal:
            if not _is_about_the_search(refusal):
                raise
            if len(documents) == 1:
                reason = f"the engine refuses the search: {refusal.type}"
                self._reject(question, values, start, reason, f"{reason}: {refusal.reason}")
                return
            # Either the request is too big, or one document spoils it: halving finds out.
            middle = (start + stop) // 2
            self._fill(question, values, start, middle)
            self._fill(question, values, middle, stop)
            return
        for position, document in enumerate(documents, start):
            row = rows.get(document)
            if isinstance(row, Refused):
                self._reject(question, values, position, "its features are unreadable", str(row))
            else:
                values.status[position] = (
                    DocumentStatus.ABSENT if row is None else DocumentStatus.LOGGED
                )
        logged = start + np.flatnonzero(values.status[start:stop] == DocumentStatus.LOGGED)
        if not len(logged):
            return
        exact = np.array([rows[question.doc_ids[position]] for position in logged])
        with np.errstate(over="ignore"):
            values.features[logged] = exact
        for number, column in np.argwhere(np.isinf(values.features[logged])):
            name = self.featureset.feature_names[column]
            reason = f"{name} is not a finite number"
            detail = (
                f"{name} is {float(exact[number, column])!r}, which is not a finite 32-bit number"
            )
            self._reject(question, values, int(logged[number]), reason, detail)

    def _reject(
        self, question: QueryDocuments, values: Values, position: int, reason: str, detail: str
    ) -> None:
        if not self.options.allow_rejected:
            raise Refused(
                f"document '{question.doc_ids[position]}' of query '{question.query_id}' "
                f"cannot be logged: {detail}; fix the feature set, or leave such documents out: "
                "`allow_rejected`"
            )
        values.status[position] = DocumentStatus.REJECTED
        values.features[position] = np.nan
        values.reasons.setdefault(position, reason)

    def _rows(self, question: QueryDocuments, documents: list[str]) -> DocumentRows:
        """A whole answer, asked for again while it is not; the last one may have bad rows."""
        sent = {name: question.params[name] for name in self.featureset.params}
        try:
            search = self.store.log_search(self.featureset, sent, documents)
        except EngineRefusal:
            raise
        except Refused as refusal:
            return dict.fromkeys(documents, refusal)
        fault: Refused | MalformedAnswer | None = None
        for attempt in self.options.tries():
            try:
                rows = self._search_and_confirm(search, documents)
            except EngineRefusal:
                raise
            except (Refused, MalformedAnswer) as error:
                fault = error
                continue
            fault = next((row for row in rows.values() if isinstance(row, Refused)), None)
            if fault is None or attempt == self.options.attempts - 1:
                return rows
        raise Incomplete(
            f"query '{question.query_id}' could not be logged in full in "
            f"{self.options.attempts} attempts: {fault}; nothing is published"
        ) from fault

    def _search_and_confirm(self, search: Search, documents: list[str]) -> DocumentRows:
        """The rows of those documents that are there; the others are not in the index."""
        hits = self._search(search, documents)
        absent = [document for document in documents if document not in hits]
        if absent:
            left_out = self._search(Search({"query": {"ids": {"values": absent}}}), absent)
            if left_out:
                raise Incomplete(
                    f"document '{min(left_out)}' is in the index, but was left out of the answer"
                )
        return {document: self._row(document, hit) for document, hit in hits.items()}

    def _row(self, document: str, hit: Hit) -> list[float] | Refused:
        try:
            row = self.store.features_of(self.featureset, hit)
        except Refused as refusal:
            return refusal
        if len(row) != len(self.featureset.features):
            return Incomplete(
                f"document '{document}' came with {len(row)} feature values in place of "
                f"{len(self.featureset.features)}"
            )
        for name, value in zip(self.featureset.feature_names, row, strict=True):
            if type(value) is not float and type(value) is not int:
                return Incomplete(
                    f"document '{document}' came with {value!r} in place of a number for {name}"
                )
        return row

    def _search(self, search: Search, documents: list[str]) -> dict[str, Hit]:
        body = {"_source": False, **search.body, "track_total_hits": True}
        body["size"] = max(body.get("size", 0), len(documents))
        answer = self.snapshot.search(body, search.params)
        return requested_hits(answer, frozenset(documents), self.indices)


def _is_about_the_search(refusal: EngineRefusal) -> bool:
    """Whether this search is refused, rather than searching as such."""
    too_many = "too_many" in f"{refusal.type} {refusal.reason}"
    return refusal.status in {400, 413} or (refusal.status == 500 and too_many)


def requested_hits(
    answer: SearchAnswer, requested: Collection[str], indices: Collection[str]
) -> dict[str, Hit]:
    """The hits of an answer by document id: each requested, and all that the engine counts.

    Raises Incomplete otherwise.
    """
    hits: dict[str, Hit] = {}
    for hit in answer.hits:
        document = hit["_id"]
        if document not in requested:
            raise Incomplete(f"the engine returned document {document!r}, which was not asked for")
        if document in hits:
            raise Incomplete(f"the engine returned document '{document}' twice")
        if hit.get("_index") not in indices:
            raise Incomplete(
                f"document '{document}' came from the index '{hit.get('_index')}' in place of "
                f"{' or '.join(sorted(indices))}: is an alias being moved?"
            )
        hits[document] = hit
    if len(hits) != answer.exact_total():
        raise Incomplete(f"the engine found {answer.total} documents and returned {len(hits)}")
    return hits


@dataclass(frozen=True, repr=False)
class LogCounts(ShortRepr):
    """judged = logged + absent + rejected (by reason), else Refused."""

    judged: int = 0
    logged: int = 0
    absent: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = (self.logged, self.absent, *self.rejected.values())
        if self.judged != sum(parts) or min(parts) < 0:
            raise Refused(
                f"the counts do not add up: {self.judged} judged, but {self.logged} logged + "
                f"{self.absent} absent + {self.n_rejected} rejected; please report this"
            )

    @property
    def n_rejected(self) -> int:
        """Rejected documents, for whatever reason."""
        return sum(self.rejected.values())

    def __add__(self, other: LogCounts) -> LogCounts:
        return LogCounts(
            self.judged + other.judged,
            self.logged + other.logged,
            self.absent + other.absent,
            dict(sorted((Counter(self.rejected) + Counter(other.rejected)).items())),
        )


class DocumentStatus(IntEnum):
    """What became of a judged document."""

    UNKNOWN = 0
    LOGGED = 1
    ABSENT = 2
    REJECTED = 3


@dataclass(frozen=True)
class Chunk:
    """Consecutive queries, and the rows that their documents have among all judged documents."""

    number: int
    queries: range
    rows: range


def cut(sizes: Sequence[int], documents: int) -> list[Chunk]:
    """Chunks of whole queries with at least so many documents each; the last may have fewer."""
    chunks: list[Chunk] = []
    ends = list(accumulate(sizes))
    first, row = 0, 0
    for query, end in enumerate(ends):
        if end - row >= documents or query == len(ends) - 1:
            chunks.append(Chunk(len(chunks), range(first, query + 1), range(row, end)))
            first, row = query + 1, end
    return chunks


@dataclass(frozen=True, eq=False)
class Values:
    """What became of some judged documents, in their order, and the reasons of rejected ones.

    `features` is float32 (n_documents, n_features), NaN where there is no value.
    """

    status: NDArray[np.uint8]
    features: Matrix
    reasons: dict[int, str]

    @classmethod
    def unknown(cls, documents: int, features: int) -> Values:
        """Room for the values of some documents."""
        return cls(
            np.zeros(documents, np.uint8), np.full((documents, features), np.nan, np.float32), {}
        )

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """The parts one after the other."""
        starts = accumulate((len(part.status) for part in parts), initial=0)
        return cls(
            np.concatenate([part.status for part in parts]),
            np.concatenate([part.features for part in parts]),
            {
                start + position: reason
                for start, part in zip(starts, parts, strict=False)
                for position, reason in sorted(part.reasons.items())
            },
        )

    def counts(self, judged: int) -> LogCounts:
        """The counts of so many judged documents; Refused where the fate of one is not known."""
        status = np.bincount(self.status, minlength=len(DocumentStatus)).tolist()
        rejected = dict(sorted(Counter(self.reasons.values()).items()))
        return LogCounts(
            judged, status[DocumentStatus.LOGGED], status[DocumentStatus.ABSENT], rejected
        )

    def to_bytes(self) -> bytes:
        """The values as an Arrow file."""
        flat = pa.array(np.ascontiguousarray(self.features).reshape(-1), pa.float32())
        features = pa.FixedSizeListArray.from_arrays(flat, self.features.shape[1])
        table = pa.table({"status": pa.array(self.status, pa.uint8()), "features": features})
        reasons = json.dumps(sorted(self.reasons.items()))
        table = table.replace_schema_metadata({"reasons": reasons})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, content: bytes) -> Values:
        """What `to_bytes` wrote."""
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            table = reader.read_all().combine_chunks()
        status, features = (table.column(name).combine_chunks() for name in ("status", "features"))
        flat = features.flatten().to_numpy().reshape(-1, features.type.list_size)
        return cls(status.to_numpy(), flat, dict(json.loads(table.schema.metadata[b"reasons"])))


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
