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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.search.client_rerank import within
from owpc_ltr.engine.search.request import COLLAPSE
from owpc_ltr.engine.stores import check_collapse
from owpc_ltr.errors import EngineUnavailable, UsageError
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
from owpc_ltr_serve.model_search import (
    MARGIN,
    PATH,
    Degraded,
    ModelSearch,
    ScoredWindow,
    hide_features,
)

if TYPE_CHECKING:
    from owpc_ltr_serve.rankers import Rankers

QUERY_HEADER = "X-LTR-Query-Id"
"""Names the query that an impression was written of, for clicks to refer to."""
ELASTICSEARCH = {"X-Elastic-Product": "Elasticsearch"}
"""What Elasticsearch's clients demand of each answer of their engine."""
MODELS_SHARE = 0.5
"""The share of a request's deadline after which the search is sent without the model."""


def gateway_endpoints(
    rankers: Rankers, observer: Observer, impressions: ImpressionLog | None = None
) -> list[Endpoint]:
    """`POST /{index}/_search`. What was shown is written to `impressions`, if there are any."""
    return [Endpoint(PATH, _Gateway(rankers, observer, impressions).answer)]


@dataclass(frozen=True, eq=False)
class Page:
    """An answer with its page, and the ids of all documents down to the page's end.

    Without an `answer` it is to be the engine's own.
    """

    status: str
    answer: dict[str, Any] | None = None
    model: str = ""
    ids: list[str] | None = None


class _Gateway:
    """Answers searches of the engine behind the rankers."""

    def __init__(
        self, rankers: Rankers, observer: Observer, impressions: ImpressionLog | None
    ) -> None:
        self._rankers, self._observer, self._impressions = rankers, observer, impressions
        self._models = ModelSearch(rankers, observer)

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
        reason = ""
        try:
            page = self._page(asked, time.monotonic() + MODELS_SHARE * call.left())
        except Degraded as degraded:
            reason = degraded.reason
            page = Page(f"degraded; {reason}: {degraded}")
        if page.answer is None:
            answer = self._plain(asked, call)
            page = replace(page, answer=answer, ids=None if asked.first else _ids(answer))
        if reason:
            self._observer.degraded(PATH, reason)
        headers = {STATUS_HEADER: page.status}
        with suppress(EngineUnavailable):
            headers |= self._product
        if page.model:
            headers[MODEL_HEADER] = page.model
        if self._impressions is not None and page.ids:
            headers[QUERY_HEADER] = self._log(self._impressions, asked, page)
        return Reply(_dumped(page.answer), 200, headers)

    def _page(self, asked: GatewaySearch, until: float) -> Page:
        """The page in the model's order, or without an answer where it is the engine's."""
        if not asked.size:
            return Page("engine; no hits were asked for")
        if asked.first >= asked.window:
            return Page("engine; beyond the window")
        return self._ranked(asked, until)

    def _ranked(self, asked: GatewaySearch, until: float) -> Page:
        """The page in the order of the model that the search names."""

        def scored() -> ScoredWindow:
            return self._models.scored(self._models.served(asked), asked, until)

        try:
            window = within(until - time.monotonic(), scored)
        except TimeoutError as fault:
            raise Degraded("deadline", "the model did not answer in time") from fault
        hide_features(window, asked)
        ids = _reorder(window.answer, window.scores, asked)
        return Page("ranked", window.answer, window.served.model, ids)

    def _plain(self, asked: GatewaySearch, call: Call) -> dict[str, Any]:
        """The engine's answer to the search as it came, without the model."""
        started = time.monotonic()
        answer = self._engine.request(
            "POST", f"/{asked.index}/_search", params=asked.url_params, body=asked.body,
            deadline=max(call.left() - MARGIN, MARGIN),
        )  # fmt: skip
        self._observer.stage(PATH, "plain", time.monotonic() - started)
        if not isinstance(answer, dict):
            raise EngineUnavailable("what came is not an engine's answer")
        return answer

    def _log(self, impressions: ImpressionLog, asked: GatewaySearch, page: Page) -> str:
        """The id under which an impression was written."""
        query_id = asked.user.get("query_id") or str(uuid.uuid4())
        client = asked.user.get("client_id")
        words = asked.user.get("user_query") or query_text(asked.params)
        status = page.status.partition(";")[0]
        about = {"index": asked.index, "model": page.model, "status": status}
        client = None if client is None else str(client)
        impressions.write(Impression(query_id, str(words), page.ids or (), client, about))
        return query_id


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
