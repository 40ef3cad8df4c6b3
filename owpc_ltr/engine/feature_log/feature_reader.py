"""The features of one query's documents: requested, repeated, halved, confirmed absent.

Judgments are cut into chunks, whose values are one file each. Each judged document is logged,
absent or rejected, and `LogCounts` has them all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    Hit,
    Incomplete,
    MalformedAnswer,
    SearchAnswer,
)
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.feature_log.snapshot import PointInTime
from owpc_ltr.engine.stores import Search, Store
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.text import ShortRepr

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
