"""Cohere's rerank API: what a request asks for, and the answer as its client reads it.

`/v1/rerank` and `/v2/rerank` are what OpenSearch connectors, Elasticsearch's custom inference
service and most libraries speak. Keys that are not known are ignored. All documents come back, best
first, unless `top_n` says otherwise.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import orjson

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.stores import LARGEST_WINDOW
from owpc_ltr.files.strict_json import kind_of, nesting
from owpc_ltr_serve.endpoint import (
    DEEPEST_NESTING,
    MODEL_HEADER,
    STATUS_HEADER,
    BadRequest,
    Call,
    Endpoint,
    Reply,
    Work,
    check_params,
    json_reply,
)
from owpc_ltr_serve.features import (
    Candidates,
    Document,
    Documents,
    decoded,
    of_ids,
    of_values,
    parsed,
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


_WORDS = {list: "a list", str: "a text", int: "a whole number", bool: "true or false",
          dict: "an object"}  # fmt: skip


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
