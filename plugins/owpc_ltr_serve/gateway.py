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
from owpc_ltr_experiment.record import QUERY, STOPPED, Experiment

from owpc_ltr.arrays import Vector
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
from owpc_ltr_serve.experiment_search import (
    HEADER,
    ExperimentSearch,
    KnownExperiments,
    words_of,
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
class Shadowed:
    """An experiment whose B is computed after the answer, and A's window, if A is a model."""

    experiment: Experiment
    window: ScoredWindow | None


@dataclass(frozen=True, eq=False)
class ShownPage:
    """An answer with its page, and the ids of all documents down to the page's end.

    Without an `answer` it is to be the engine's own.
    """

    status: str
    answer: dict[str, Any] | None = None
    model: str = ""
    ids: list[str] | None = None
    attributes: dict[str, Any] | None = None
    """What an impression says of the experiment."""
    shadowed: Shadowed | None = None


class _Gateway:
    """Answers searches of the engine behind the rankers."""

    def __init__(
        self, rankers: Rankers, observer: Observer, impressions: ImpressionLog | None
    ) -> None:
        self._rankers, self._observer, self._impressions = rankers, observer, impressions
        self._models = ModelSearch(rankers, observer)
        self._arms = ExperimentSearch(self._models)
        self._experiments = KnownExperiments(rankers)

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
            page = ShownPage(f"degraded; {reason}: {degraded}")
            if asked.experiment is not None:
                failed = {"name": asked.experiment, "failed": reason}
                page = replace(page, attributes=failed)
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
        if page.attributes and "leads" in page.attributes:
            headers[HEADER] = f"{asked.experiment}; leads={page.attributes['leads']}"
        # Also a search of an experiment that found nothing was made.
        if self._impressions is not None and (page.ids or (page.attributes and page.ids == [])):
            headers[QUERY_HEADER] = self._log(self._impressions, asked, page)
        return Reply(_dumped(page.answer), 200, headers)

    def _page(self, asked: GatewaySearch, until: float) -> ShownPage:
        """The page in the model's order, or without an answer where it is the engine's."""
        if not asked.size:
            return ShownPage("engine; no hits were asked for")
        if asked.first >= asked.window:
            return ShownPage("engine; beyond the window")
        if asked.experiment is None:
            return self._ranked(asked, until)
        return self._of_experiment(self._experiments.get(asked.experiment, until), asked, until)

    def _of_experiment(
        self, experiment: Experiment, asked: GatewaySearch, until: float
    ) -> ShownPage:
        """The page of an experiment: of both arms, of one, or of what a stopped one has left."""
        if experiment.state == STOPPED:
            return self._arm(experiment.in_use, asked, until, "the experiment is stopped")
        if experiment.shadow:
            return self._shadowed(experiment, asked, until)
        client = asked.user.get("client_id")
        why: Degraded | None
        if client in {None, ""}:
            page = self._arm(experiment.a, asked, until, "A alone")
            why = Degraded("client", "ext.ubi has no client_id, so that A is shown alone")
        else:
            shown = self._arms.page(experiment, asked, str(client), until)
            page = ShownPage(
                "interleaved", shown.answer, ids=shown.ids, attributes=shown.attributes
            )
            why = shown.degraded
        if why is None:
            return page
        self._observer.degraded(PATH, why.reason)
        failed = {"name": experiment.name, "failed": why.reason}
        return replace(page, status=f"degraded; {why.reason}: {why}", attributes=failed)

    def _arm(self, ranker: str, asked: GatewaySearch, until: float, why: str) -> ShownPage:
        """The page of one ranker, an alias or an arm; `why` is for the query alone."""
        return (
            ShownPage(f"engine; {why}") if ranker == QUERY else self._ranked(asked, until, ranker)
        )

    def _shadowed(self, experiment: Experiment, asked: GatewaySearch, until: float) -> ShownPage:
        """A's page, for which B is computed later."""
        attributes = {"name": experiment.name}
        if experiment.a == QUERY:
            status = "engine; B is not shown"
            return ShownPage(status, attributes=attributes, shadowed=Shadowed(experiment, None))
        return replace(
            self._ranked(asked, until, experiment.a, shadowed=experiment), attributes=attributes
        )

    def _ranked(
        self,
        asked: GatewaySearch,
        until: float,
        arm: str | None = None,
        shadowed: Experiment | None = None,
    ) -> ShownPage:
        """The page in the order of the model that the search names, or of an experiment's arm."""

        def scored() -> ScoredWindow:
            return self._models.scored(self._models.served(asked, arm), asked, until)

        try:
            window = within(until - time.monotonic(), scored)
        except TimeoutError as fault:
            raise Degraded("deadline", "the model did not answer in time") from fault
        hide_features(window, asked)
        later = None
        if shadowed is not None:
            later = Shadowed(shadowed, replace(window, answer=_with_all_hits(window.answer)))
        ids = _reorder(window.answer, window.scores, asked)
        return ShownPage("ranked", window.answer, window.served.model, ids, shadowed=later)

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

    def _log(self, impressions: ImpressionLog, asked: GatewaySearch, page: ShownPage) -> str:
        """The id under which an impression was written."""
        query_id = asked.user.get("query_id") or str(uuid.uuid4())
        client = asked.user.get("client_id")
        client = None if client is None else str(client)
        status = page.status.partition(";")[0]
        about = {"index": asked.index, "model": page.model, "status": status}

        def write(attributes: dict[str, Any] | None) -> None:
            more = {"experiment": attributes} if attributes else {}
            impressions.write(
                Impression(query_id, words_of(asked), page.ids or (), client, about | more)
            )

        if page.shadowed is None:
            write(page.attributes)
        else:
            self._arms.in_background(page.shadowed.experiment, asked, page.shadowed.window, write)
        return query_id


def _with_all_hits(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with a list of hits of its own."""
    return {**answer, "hits": {**answer["hits"], "hits": [*answer["hits"]["hits"]]}}


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
