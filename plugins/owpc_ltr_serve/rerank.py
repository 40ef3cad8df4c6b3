"""Cohere's rerank API: what a request asks for, the features of its documents, and the answer.

`/v1/rerank` and `/v2/rerank` are what OpenSearch connectors, Elasticsearch's custom inference
service and most libraries speak. Keys that are not known are ignored. All documents come back, best
first, unless `top_n` says otherwise. All documents of a request are of one kind:

- JSON objects of feature values, `{"title_bm25": 1.86, "votes": 12}`, or texts that hold one
- texts of the LTR plugin's log, `{main=[{name=title_bm25, value=1.86}, {name=votes}]}`, as Java
  writes it
- ids: one search asks the engine for the features of all, and external features are looked up
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from struct import pack
from typing import Any

import numpy as np
import orjson

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.documents import IDS, value_at
from owpc_ltr.engine.search.client_scoring import (
    check_featureset,
    document_fields,
    fields_of_hits,
    whole_answer,
)
from owpc_ltr.engine.stores import LARGEST_WINDOW, Search
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json, each_once, kind_of, nesting
from owpc_ltr_serve.endpoint import (
    DEEPEST_NESTING,
    MODEL_HEADER,
    STATUS_HEADER,
    BadRequest,
    Call,
    Endpoint,
    Reply,
    TooLate,
    Work,
    check_params,
    json_reply,
)
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.rankers import Rankers, ServedRanker

MOST_DOCUMENTS = LARGEST_WINDOW
"""Documents of one request."""
_AT_ONCE_BYTES, _AT_ONCE_DOCUMENTS = 250_000, 250
"""The largest request that is answered in the thread that received it: another one costs as much
again as the arithmetic."""
_FLAT = frozenset({"params", "return_documents"})
"""Keys of requests that are written again, in a search or an answer."""
_DIGITS = 10
"""Significant digits of a score: some parsers of the JVM make a BigDecimal of what is longer than
18 characters, and OpenSearch then fails to cast it."""

_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]*)?(?:E-?[0-9]+)?|Infinity)|NaN"
_LOG = re.compile(r"\[?\{[^{}=\[\]]+=\[(?P<entries>.*)\]\}\]?", re.DOTALL)
_ENTRY = re.compile(
    rf"\{{(?:name=(?P<a>(?:(?!, value=)[^{{}}])*)(?:, value=(?P<x>{_NUMBER}))?"
    rf"|value=(?P<y>{_NUMBER}), name=(?P<b>[^{{}}]*))\}}(?:, |$)"
)
_NUMBERS = frozenset((int, float))

Document = str | dict[str, Any]
WrittenScores = dict[int, float | orjson.Fragment]
"""Documents by position in the request, best first, and their scores as they are written."""


@dataclass(frozen=True)
class RerankRequest:
    """What a request asks for."""

    query: str
    documents: list[Document]
    model: str | None = None
    top_n: int | None = None
    return_documents: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    query_id: str | None = None


def rerank_endpoints(rankers: Rankers, metrics: Metrics) -> list[Endpoint]:
    """The endpoints of both versions of the API."""
    versions = [_Version(number, rankers, metrics) for number in ("1", "2")]
    return [
        Endpoint(f"/v{version.number}/rerank", version.answer, at_once=version.at_once)
        for version in versions
    ]


@dataclass(frozen=True)
class _Version:
    """A version of Cohere's API, which its answers name."""

    number: str
    rankers: Rankers
    metrics: Metrics

    def answer(self, call: Call) -> Reply:
        """The answer to a request."""
        clock = _Clock(call, self.metrics)
        request = read_request(_object(call.body))
        call.check_deadline()
        served = self.rankers.get(request.model)
        documents = decoded(request.documents, served.ranker.feature_names)
        return self._ranked(call, clock, request, served, documents)

    def at_once(self, call: Call) -> Reply | Work:
        """The answer, where all that it takes is a few milliseconds of arithmetic."""
        if len(call.body) > _AT_ONCE_BYTES:
            return partial(self.answer, call)
        clock = _Clock(call, self.metrics)
        request = read_request(_object(call.body))
        served = self.rankers.loaded(request.model)
        if served is None or len(request.documents) > _AT_ONCE_DOCUMENTS:
            return partial(self.answer, call)
        documents = decoded(request.documents, served.ranker.feature_names)
        work = partial(self._ranked, call, clock, request, served, documents)
        return work() if served.is_fast and not documents.are_ids else work

    def _ranked(
        self,
        call: Call,
        clock: _Clock,
        request: RerankRequest,
        served: ServedRanker,
        documents: Documents,
    ) -> Reply:
        clock.ended("parse")
        if documents.are_ids:
            params = {"keywords": request.query, "query": request.query, **request.params}
            served = self.rankers.located(served)
            candidates = of_ids(served, documents.content, params, request.query_id, call.left())
        else:
            candidates = of_values(served, documents.content)
        clock.ended("features")
        scores = ranked(served.score(candidates.matrix, candidates.fields), candidates)
        clock.ended("score")
        self.metrics.scored(served, candidates.matrix)
        call.check_deadline()
        headers = {MODEL_HEADER: served.model}
        if candidates.absent:
            n_absent = len(candidates.absent)
            reason = f"{n_absent} of {len(request.documents)} documents without features"
            headers[STATUS_HEADER] = f"degraded; {reason}"
            self.metrics.degraded(call.path, "documents without features")
        answer = cohere_answer(self.number, request, scores, candidates.warnings)
        reply = json_reply(answer, headers=headers)
        clock.ended("write")
        return reply


def ranked(scores: Vector, candidates: Candidates) -> WrittenScores:
    """The documents best first, equal scores in the order of the request.

    `scores` has one score a row of `candidates`. Documents without a row come last, with a score
    one below the lowest.
    """
    places, best_first = candidates.places, np.argsort(-scores, kind="stable").tolist()
    last = float(scores.min()) - 1.0 if len(scores) else 0.0
    *written, lowest = _written([*scores.tolist(), last])
    by_place = {places[row]: written[row] for row in best_first}
    return by_place | dict.fromkeys(candidates.absent, lowest)


def _written(scores: Sequence[float]) -> list[float | orjson.Fragment]:
    """Scores that are sent as every parser makes a double of them: 1.0, never 1.

    orjson writes a float with a point, and without an exponent below 1e16: from 1e10 on, the text
    is ours. One text of all takes half the time of one text each.
    """
    texts = (f"%.{_DIGITS}g " * len(scores) % tuple(scores)).split()
    return [orjson.Fragment(text) if "e+" in text else float(text) for text in texts]


def cohere_answer(
    version: str, request: RerankRequest, scores: WrittenScores, warnings: Sequence[str]
) -> Any:
    """Cohere's answer, of this version of its API.

    A document that is returned has a `text`, which Elasticsearch needs.
    """
    results: list[dict[str, Any]] = [
        {"index": index, "relevance_score": score}
        for index, score in islice(scores.items(), request.top_n)
    ]
    for result in results if request.return_documents else ():
        document = request.documents[result["index"]]
        result["document"] = {"text": document} if isinstance(document, str) else document
    meta: dict[str, Any] = {"api_version": {"version": version}}
    if warnings:
        meta["warnings"] = list(warnings)
    return {"id": str(uuid.uuid4()), "results": results, "meta": meta}


def read_request(content: Mapping[str, Any]) -> RerankRequest:
    """What a body asks for; `params` and `query_id` are keys of this service.

    Raises BadRequest, naming the key.
    """
    documents = _value(content, "documents", list)
    if documents is None:
        raise BadRequest("'documents' is missing")
    if not documents:
        raise BadRequest("'documents' is empty: give at least one document")
    if len(documents) > MOST_DOCUMENTS:
        raise BadRequest(f"'documents' has {len(documents)} entries: at most {MOST_DOCUMENTS}")
    query = _value(content, "query", str)
    if query is None:
        raise BadRequest("'query' is missing")
    params = _value(content, "params", dict) or {}
    check_params({"query": query, **params})
    top_n = _value(content, "top_n", int)
    if top_n is not None and top_n < 1:
        raise BadRequest(f"'top_n' is {top_n}: at least 1")
    return RerankRequest(
        query,
        documents,
        _value(content, "model", str),
        top_n,
        return_documents=bool(_value(content, "return_documents", bool)),
        params=params,
        query_id=_value(content, "query_id", str),
    )


_WORDS = {
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
}


def _value(content: Mapping[str, Any], key: str, kind: type) -> Any:
    """What stands under a key, of this type; None where it is null or missing."""
    value = content.get(key)
    if value is not None and type(value) is not kind:
        raise BadRequest(f"'{key}' is {kind_of(value)}, not {_WORDS[kind]}")
    return value


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = parsed(body)
    except (ValueError, RecursionError) as error:
        # The parser's message quotes nothing of the body.
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadRequest(f"the body is {kind_of(content)}, not an object")
    if not _FLAT.isdisjoint(content) and nesting(body) > DEEPEST_NESTING:
        raise BadRequest(f"the body is nested deeper than {DEEPEST_NESTING} levels")
    return content


class _Clock:
    """Tells the metrics how long each stage of a request took."""

    def __init__(self, call: Call, metrics: Metrics) -> None:
        self._path, self._metrics, self._last = call.path, metrics, time.monotonic()

    def ended(self, stage: str) -> None:
        now = time.monotonic()
        self._metrics.stage(self._path, stage, now - self._last)
        self._last = now


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents to rank, as a ranker reads them.

    `matrix` has one row a document and one column a feature, `fields` what else the ranker needs of
    documents. `absent` are documents, by position in the request, that have no row: the index does
    not have them, or nothing was sent. `warnings` are what whoever asked should know.
    """

    matrix: Matrix
    fields: dict[str, list[Any]]
    absent: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def places(self) -> list[int]:
        """The position in the request of each row."""
        absent = set(self.absent)
        every = range(len(self.matrix) + len(absent))
        return [place for place in every if place not in absent] if absent else list(every)


@dataclass(frozen=True)
class Documents:
    """Documents of one kind: ids, or objects of feature values; None for an empty text."""

    are_ids: bool
    content: list[Any]


def decoded(documents: Sequence[Document], names: Sequence[str]) -> Documents:
    """The ids or values of documents, for a ranker that reads features of these names.

    Engines send an empty text where a hit lacks the field. Raises BadRequest naming the document.
    """
    features, kinds = set(names), set(map(type, documents))
    if kinds == {dict} and not any(map(features.isdisjoint, documents)):
        return Documents(False, list(documents))
    if kinds == {str} and "{" not in "".join(map(str, documents)):
        return Documents(True, list(documents))
    kind: type | None = None
    content = []
    for place, document in enumerate(documents):
        value = _read(document, place, features)
        if value is not None and kind not in {None, type(value)}:
            raise BadRequest(
                f"documents[{place}] is of another kind than those before it: give feature values "
                "for all documents, or ids for all"
            )
        kind = kind if value is None else type(value)
        content.append(value)
    if kind is dict:
        return Documents(False, content)
    return Documents(True, ["" if doc_id is None else doc_id for doc_id in content])


def of_values(served: ServedRanker, values: Sequence[Mapping[str, Any] | None]) -> Candidates:
    """The features of documents that are objects of values; absent and null are missing.

    Raises BadRequest naming the document and the feature.
    """
    names = served.ranker.feature_names
    empty = tuple(place for place, document in enumerate(values) if document is None)
    documents = [document for document in values if document is not None]
    try:
        flat: list[Any] = []
        for row in map(_row(names), documents):
            flat += row
    except KeyError:
        flat = [document.get(name) for document in documents for name in names]
    if not _NUMBERS.issuperset(map(type, flat)):
        flat = [_number(value, *divmod(i, len(names)), names) for i, value in enumerate(flat)]
    # Twice as fast as numpy reads a list.
    exact = np.frombuffer(pack(f"{len(flat)}d", *flat)).reshape(len(documents), len(names))
    with np.errstate(over="ignore"):
        matrix = exact.astype(np.float32)
    if np.isinf(matrix).any():
        place, column = np.argwhere(np.isinf(matrix))[0].tolist()
        raise BadRequest(
            f"documents[{place}].{names[column]} is {exact[place, column]}, which is not a finite "
            "32-bit number"
        )
    warnings = []
    lacking = [names[column] for column in np.flatnonzero(np.isnan(matrix).all(axis=0))]
    if len(lacking) == len(names) and any(documents):
        some = ", ".join(names[:5])
        raise BadRequest(
            f"no document has a feature of the model '{served.model}': give values of {some}"
        )
    if lacking:
        warnings.append(f"no document has a value of {', '.join(lacking)}")
    if empty:
        warnings.append(f"{len(empty)} of {len(values)} documents are empty texts")
    fields = {
        name: [value_at(document, name) for document in documents]
        for name in document_fields(served.ranker)
    }
    if IDS in served.ranker.field_names:
        fields[IDS] = [str(document.get(IDS, place)) for place, document in enumerate(documents)]
    return Candidates(matrix, fields, empty, tuple(warnings))


def of_ids(
    served: ServedRanker,
    ids: Sequence[str],
    params: dict[str, Any],
    query_id: str | None,
    seconds: float,
) -> Candidates:
    """The features of documents by their ids, by one search; external features are looked up.

    The ranker is a located one (see `Rankers.located`). `params` and `query_id` are what features
    may need to know of the query; the engine has so many seconds to answer. Raises BadRequest where
    the index has none of the documents.
    """
    engine, store, featureset = served.engine, served.store, served.featureset
    assert engine and store and featureset and served.index  # noqa: PT018, S101 - for mypy
    check_featureset(served.ranker, featureset)
    if seconds <= 0:
        raise TooLate("the deadline passed before the engine was asked")
    distinct = list(dict.fromkeys(filter(None, ids)))
    values = None if served.joined is None else served.joined.of_query(query_id, params)
    try:
        search = store.log_search(featureset, params, distinct)
    except BadInput as error:  # a parameter that the feature set has no use for
        raise BadRequest(str(error)) from error
    body = {**search.body, "_source": list(document_fields(served.ranker)) or False}
    answer = whole_answer(engine, served.index, Search(body, search.params), seconds)
    by_id = {hit["_id"]: hit for hit in answer["hits"]["hits"]}
    absent = tuple(place for place, doc_id in enumerate(ids) if doc_id not in by_id)
    hits = [by_id[doc_id] for doc_id in ids if doc_id in by_id]
    if not hits:
        raise BadRequest(
            f"documents: '{served.index}' has none of these {len(ids)} ids; a document is an id, "
            "an object of feature values, or the LTR plugin's log"
        )
    with np.errstate(over="ignore"):
        matrix = served.features(values, hits)
    sources = [hit.get("_source") or {} for hit in hits]
    fields = fields_of_hits(served.ranker, [hit["_id"] for hit in hits], sources)
    warnings = (f"{len(absent)} of {len(ids)} documents are not in the index",) if absent else ()
    return Candidates(matrix, fields, absent, warnings)


def parsed(body: bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for a key that an object has twice."""
    content = orjson.loads(body)
    # Each key has a colon: only where there are more, in texts or of keys that are gone, are the
    # pairs looked at, which takes several times as long.
    if np.count_nonzero(np.frombuffer(body, np.uint8) == ord(":")) != _keys(content):
        json.loads(body, object_pairs_hook=each_once)
    return content


def _keys(content: Json) -> int:
    """How many keys an object has, with those of the objects in its lists."""
    if not isinstance(content, dict):
        return 0
    lists = [value for value in content.values() if isinstance(value, list)]
    return len(content) + sum(len(entry) for part in lists for entry in part if type(entry) is dict)


def _read(document: Json, place: int, features: set[str]) -> str | dict[str, Any] | None:
    """An id, or the values of features, also as JSON or the LTR plugin's log; None for no text."""
    if isinstance(document, dict) and features.isdisjoint(document):
        document = document.get("text", document)
    if isinstance(document, dict):
        return document
    if not isinstance(document, str):
        raise BadRequest(f"documents[{place}] is {kind_of(document)}, not a text or an object")
    bare = document.strip()
    if not bare.startswith(("{", "[{")):
        return document or None
    if bare[0] == "{" and bare[1:].lstrip()[:1] in {'"', "}"}:
        try:
            return dict(parsed(bare.encode()))
        except ValueError as error:
            raise BadRequest(f"documents[{place}] begins like a JSON object: {error}") from error
    return _logged(bare, place)


def _logged(text: str, place: int) -> dict[str, float]:
    """The values of the LTR plugin's log as Java writes it; a feature without one is left out.

    The order of features, and of a feature's parts, is not promised.
    """
    log = _LOG.fullmatch(text)
    entries = "" if log is None else log["entries"]
    values: dict[str, float] = {}
    seen, end = set(), 0
    while entry := _ENTRY.match(entries, end):
        name, value = entry["a"] or entry["b"], entry["x"] or entry["y"]
        if name in seen:
            raise BadRequest(f"documents[{place}] has the feature {shown(name)} twice")
        seen.add(name)
        if value is not None:
            values[name] = float(value)
        end = entry.end()
    if log is None or end != len(entries):
        raise BadRequest(
            f"documents[{place}] begins like an object, and is neither JSON nor the LTR plugin's "
            "log, {NAME=[{name=FEATURE, value=NUMBER}, …]}"
        )
    return values


def _row(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What takes the values of an object in the order of the names."""
    if len(names) == 1:
        return lambda document: (document[names[0]],)
    return itemgetter(*names)


def _number(value: Any, row: int, column: int, names: Sequence[str]) -> float:
    if value is None:
        return float("nan")
    if type(value) not in _NUMBERS:
        raise BadRequest(f"documents[{row}].{names[column]} is {kind_of(value)}, not a number")
    return float(value)
