"""The gateway: `POST /{index}/_search` as an engine answers it, in the order of a model.

The model is named by `"ext": {"owpc_ltr": {"model": …, "params": {…}}}`, or by an `sltr` in
`rescore`, as for the LTR plugin. The search goes to the engine for the whole window, with the
features of the model; its answer comes back with the page that was asked for, cut out of the
window's new order. All else of the answer is the engine's. Documents beyond the window follow in
the engine's order, so that pages neither repeat nor lose any.

Where the model cannot answer within half of the request's deadline, the search is sent as it came,
without the model. The header `X-LTR-Status` says which it was: `ranked`, or `degraded; reason`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.search.client_rerank import (
    HitWindow,
    document_fields,
    score_hits,
    search_with_features,
    within,
)
from owpc_ltr.engine.search.request import COLLAPSE
from owpc_ltr.engine.stores import Search, check_collapse
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr_serve.app import (
    MODEL_HEADER,
    STATUS_HEADER,
    Call,
    Endpoint,
    Observer,
    Reply,
)
from owpc_ltr_serve.gateway_request import GatewaySearch, read_search
from owpc_ltr_serve.impressions import Impression, ImpressionLog

if TYPE_CHECKING:
    from owpc_ltr_serve.rankers import Rankers, ServedRanker

PATH = "/{index}/_search"
QUERY_HEADER = "X-LTR-Query-Id"
"""Names the query that an impression was written of, for clicks to refer to."""
ELASTICSEARCH = {"X-Elastic-Product": "Elasticsearch"}
"""What Elasticsearch's clients demand of each answer of their engine."""
MODELS_SHARE = 0.5
"""The share of a request's deadline after which the search is sent without the model."""
TOTAL_HITS = 10_000
"""How many hits an engine counts where a search does not say."""
_APART = frozenset({"_name", "inner_hits", "top_hits", "explain", "profile", "ext"})
"""Keys of a search whose answer would show the features, were they asked for in the same one."""
_MARGIN = 0.02
"""Seconds that are kept for what comes after the engine's answer."""


def gateway_endpoints(
    rankers: Rankers, observer: Observer, impressions: ImpressionLog | None = None
) -> list[Endpoint]:
    """`POST /{index}/_search`. What was shown is written to `impressions`, if there are any."""
    return [Endpoint(PATH, _Gateway(rankers, observer, impressions).answer)]


class _Degraded(Exception):
    """The model does not answer: `reason` is one word for counting, the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class _Gateway:
    """Answers searches of the engine behind the rankers."""

    def __init__(
        self, rankers: Rankers, observer: Observer, impressions: ImpressionLog | None
    ) -> None:
        self._rankers, self._observer, self._impressions = rankers, observer, impressions

    @cached_property
    def _product(self) -> dict[str, str]:
        """The header by which clients know the engine; none where it may not be asked."""
        try:
            about = self._engine.about()
        except (NotAllowed, EngineRefusal):
            return {}
        return ELASTICSEARCH if about.distribution == "elasticsearch" else {}

    @property
    def _engine(self) -> Engine:
        return self._rankers.engine

    def answer(self, call: Call) -> Reply:
        """The engine's answer in the model's order, or in its own; its error, in its own shape."""
        try:
            asked = read_search(call)
            call.check_deadline()
            if COLLAPSE in asked.body:
                check_collapse(self._engine.about())
            return self._answered(asked, call)
        except UsageError as error:
            return _error(400, "illegal_argument_exception", str(error))
        except EngineRefusal as refusal:
            return _error(refusal.status, refusal.type, refusal.reason)
        except EngineUnavailable:
            # Its text names the engine's address.
            why = "the engine did not answer in time"
            return _error(503, "engine_unavailable", why, {"Retry-After": "1"})

    def _answered(self, asked: GatewaySearch, call: Call) -> Reply:
        model, listed = "", None
        try:
            if asked.size == 0 or asked.first >= asked.window:
                answer = self._plain(asked, call)
                what = "no hits were asked for" if not asked.size else "beyond the window"
                status = f"engine; {what}"
            else:
                until = time.monotonic() + MODELS_SHARE * call.left()
                try:
                    model, answer, listed = within(
                        until - time.monotonic(), lambda: self._ranked(asked, until)
                    )
                except TimeoutError as fault:
                    raise _Degraded("deadline", "the model did not answer in time") from fault
                status = "ranked"
        except _Degraded as degraded:
            answer = self._plain(asked, call)
            self._observer.degraded(PATH, degraded.reason)
            status = f"degraded; {degraded.reason}: {degraded}"
        headers = {STATUS_HEADER: status}
        with suppress(EngineUnavailable):
            headers |= self._product
        if model:
            headers[MODEL_HEADER] = model
        if listed is None and not asked.first:
            listed = _ids(answer)
        if self._impressions is not None and listed:
            headers[QUERY_HEADER] = self._log(self._impressions, asked, listed, model, status)
        return Reply(_dumped(answer), 200, headers)

    def _served(self, asked: GatewaySearch) -> ServedRanker:
        try:
            served = self._rankers.get(asked.model)
            # Where a file was trained, the cluster is asked.
            if served.store is None:
                served = self._rankers.located(replace(served, index=asked.index))
        except EngineUnavailable as fault:
            raise _Degraded("model", "the engine did not say in time what it is") from fault
        except OwpcLtrError as fault:
            raise _Degraded("model", str(fault)) from fault
        return served

    def _ranked(self, asked: GatewaySearch, until: float) -> tuple[str, dict[str, Any], list[str]]:
        """The model, the answer in its order, and the ids of all documents to the page's end."""
        served = self._served(asked)
        store, featureset = served.store, served.featureset
        assert store is not None  # noqa: S101 - told to the type checker
        assert featureset is not None  # noqa: S101
        started = time.monotonic()
        fields = document_fields(served.ranker)
        apart = _is_apart(asked, fields)
        size = max(asked.window, asked.first + asked.size)
        search = Search({**asked.body, "from": 0, "size": size}, asked.url_params)
        window = HitWindow(asked.index, featureset, asked.params, asked.window, fields)
        try:
            values = None
            if served.joined is not None:
                values = served.joined.of_query(asked.query_id, asked.params)
            answer, logged = search_with_features(
                self._engine, store, window, search, apart=apart,
                deadline=max(until - started - _MARGIN, _MARGIN),
            )  # fmt: skip
            searched = time.monotonic()
            self._observer.stage(PATH, "engine", searched - started)
            rows, scores = score_hits(served.ranker, store, featureset, values, logged)
        except EngineUnavailable as fault:
            raise _Degraded("engine", "no features came in time") from fault
        except OwpcLtrError as fault:
            raise _Degraded("features", str(fault)) from fault
        if not np.isfinite(scores).all():
            raise _Degraded("scores", "the model gives a score that is no finite number")
        self._observer.stage(PATH, "score", time.monotonic() - searched)
        self._observer.scored(served, rows)
        if not apart:
            _hide_features(answer, asked)
        return served.model, answer, _reorder(answer, scores, asked)

    def _plain(self, asked: GatewaySearch, call: Call) -> dict[str, Any]:
        """The engine's answer to the search as it came, without the model."""
        started = time.monotonic()
        answer = self._engine.request(
            "POST", f"/{asked.index}/_search", params=asked.url_params, body=asked.body,
            deadline=max(call.left() - _MARGIN, _MARGIN),
        )  # fmt: skip
        self._observer.stage(PATH, "plain", time.monotonic() - started)
        if not isinstance(answer, dict):
            raise EngineUnavailable("what came is not an engine's answer")
        return answer

    def _log(
        self,
        impressions: ImpressionLog,
        asked: GatewaySearch,
        listed: list[str],
        model: str,
        status: str,
    ) -> str:
        """The id under which an impression was written."""
        query_id = asked.user.get("query_id") or str(uuid.uuid4())
        client = asked.user.get("client_id")
        words = asked.user.get("user_query") or query_text(asked.params)
        about = {"index": asked.index, "model": model, "status": status.partition(";")[0]}
        impressions.write(
            Impression(query_id, str(words), listed, None if client is None else str(client), about)
        )
        return query_id


def _is_apart(asked: GatewaySearch, fields: tuple[str, ...]) -> bool:
    """Whether features come in a search of their own, so that the answer shows nothing of them."""
    limited = {"_source", "stored_fields"} & asked.body.keys() or any(
        name.startswith("_source") for name in asked.url_params
    )
    return (bool(fields) and bool(limited)) or _has_key(asked.body, _APART)


def _has_key(tree: Any, keys: frozenset[str]) -> bool:
    if isinstance(tree, dict):
        return not keys.isdisjoint(tree) or any(_has_key(part, keys) for part in tree.values())
    return isinstance(tree, list) and any(_has_key(part, keys) for part in tree)


def _hide_features(answer: dict[str, Any], asked: GatewaySearch) -> None:
    """Take out of an answer what came only because of the features."""
    for hit in answer["hits"]["hits"]:
        hit.pop("matched_queries", None)
        fields = hit.get("fields")
        if isinstance(fields, dict):
            fields.pop("_ltrlog", None)
            if not fields:
                del hit["fields"]
    most = asked.body.get("track_total_hits", TOTAL_HITS)
    total = answer["hits"].get("total")
    if most is False:
        answer["hits"].pop("total", None)
    elif type(most) is int and isinstance(total, dict) and total.get("value", 0) > most:
        answer["hits"]["total"] = {"value": most, "relation": "gte"}


def _reorder(answer: dict[str, Any], scores: Vector, asked: GatewaySearch) -> list[str]:
    """Put the page into the answer, and return the ids of all documents down to its end."""
    hits = answer["hits"]["hits"]
    own = np.array([hit["_score"] for hit in hits[: len(scores)]], dtype=np.float64)
    final = asked.rescoring.combined(own, scores)
    order = np.argsort(-final, kind="stable").tolist()  # equal scores stay in the engine's order
    for place, score in enumerate(final.tolist()):
        hits[place]["_score"] = score
    ranked = [hits[place] for place in order] + hits[len(scores) :]
    end = asked.first + asked.size
    answer["hits"]["hits"] = ranked[asked.first : end]
    if len(final):
        answer["hits"]["max_score"] = float(final.max())
    return [str(hit["_id"]) for hit in ranked[:end]]


def _ids(answer: dict[str, Any]) -> list[str]:
    hits = answer.get("hits")
    found = hits.get("hits") if isinstance(hits, dict) else None
    return [str(hit.get("_id")) for hit in found or () if isinstance(hit, dict)]


def _error(status: int, kind: str, reason: str, headers: Mapping[str, str] | None = None) -> Reply:
    """An error as engines answer it, which their clients can read."""
    why = {"type": kind, "reason": reason}
    content = {"error": {"root_cause": [why], **why}, "status": status}
    return Reply(_dumped(content), status, headers or {})


def _dumped(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:  # a number of more than 64 bits, or half a character
        return json.dumps(content).encode()
