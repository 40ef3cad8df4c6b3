"""The gateway: `POST /{index}/_search` as an engine answers it, in the order of a model.

The model is named by `"ext": {"owpc_ltr": {"model": …, "params": {…}}}`, or by an `sltr` in
`rescore`, as for the LTR plugin. The search goes to the engine for the whole window, with the
features of the model; its answer comes back with the page that was asked for, cut out of the
window's new order. All else of the answer is the engine's. Documents beyond the window follow in
the engine's order, so that pages neither repeat nor lose any.

Where the model fails, or cannot answer within half of the request's deadline, the search is sent as
it came, without the model, and its answer is sent even after the deadline: an error comes only
where the engine itself gives no answer. The header `X-LTR-Status` says which it was: `ranked`, or
`degraded; reason`.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from owpc_ltr.engine.client.engine import About, Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.experiments import QUERY, STOPPED, Experiment
from owpc_ltr.engine.search.client_scoring import within
from owpc_ltr.engine.search.request import COLLAPSE
from owpc_ltr.engine.stores import check_collapse
from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr_serve.endpoint import MODEL_HEADER, STATUS_HEADER, Call, Reply, raised_in
from owpc_ltr_serve.experiment_search import (
    FIELD,
    HEADER,
    ExperimentSearch,
    Impression,
    ImpressionLog,
    KnownExperiments,
)
from owpc_ltr_serve.model_search import (
    MARGIN,
    PATH,
    Degraded,
    GatewaySearch,
    ModelSearch,
    ScoredWindow,
    ShownPage,
    engine_scores,
    hide_features,
    in_time,
    lacking_right,
    put_page,
    ranked_list,
    read_search,
)

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json
    from owpc_ltr_serve.metrics import Metrics
    from owpc_ltr_serve.rankers import Rankers

QUERY_HEADER = "X-LTR-Query-Id"
"""Names the query that an impression was written of, for clicks to refer to."""
ELASTICSEARCH = {"X-Elastic-Product": "Elasticsearch"}
"""What Elasticsearch's clients demand of each answer of their engine."""
MODELS_SHARE = 0.5
"""The share of a request's deadline after which the search is sent without the model."""
LATE = 5.0
"""Seconds after the deadline until which the engine's own order is waited for."""
_log = logging.getLogger("owpc_ltr.serve")


class Gateway:
    """Answers searches of the engine behind the rankers.

    What was shown is written to `impressions`, if there are any.
    """

    def __init__(
        self, rankers: Rankers, metrics: Metrics, impressions: ImpressionLog | None = None
    ) -> None:
        self._rankers, self._metrics, self._impressions = rankers, metrics, impressions
        self._models = ModelSearch(rankers, metrics)
        self._arms = ExperimentSearch(self._models)
        self._experiments = KnownExperiments(rankers)
        self._headers: dict[str, str] | None = None

    def _product(self, call: Call) -> dict[str, str]:
        """The header by which clients know the engine; none where it does not say what it is."""
        if self._headers is None:
            try:
                about = self._about(call)
            except (NotAllowed, EngineRefusal):
                self._headers = {}
            except EngineUnavailable:
                return {}
            else:
                is_elastic = about.distribution == "elasticsearch"
                self._headers = ELASTICSEARCH if is_elastic else {}
        return self._headers

    def _about(self, call: Call) -> About:
        """What the engine says of itself, within the request's time."""
        return self._engine.within(max(call.left(), MARGIN)).about()

    @property
    def _engine(self) -> Engine:
        return self._rankers.engine

    def answer(self, call: Call) -> Reply:
        """The engine's answer in the model's order, or in its own; its error, in its own shape."""
        try:
            search = read_search(call)
            call.check_deadline()
            if COLLAPSE in search.body:
                # An engine that does not say what it is may answer the search all the same.
                with suppress(EngineUnavailable):
                    check_collapse(self._about(call))
            return self._answered(search, call)
        except UsageError as error:
            return _error(400, "illegal_argument_exception", str(error))
        except EngineRefusal as refusal:
            return _error(refusal.status, refusal.type, refusal.reason)
        except NotAllowed as fault:
            return _error(502, "security_exception", lacking_right(fault))
        except EngineUnavailable:
            # Its text names the engine's address.
            why = "the engine did not answer in time"
            return _error(503, "engine_unavailable", why, {"Retry-After": "1"})

    def _answered(self, search: GatewaySearch, call: Call) -> Reply:
        reason = ""
        try:
            page = self._page(search, time.monotonic() + MODELS_SHARE * call.left())
        except Exception as error:  # noqa: BLE001 - whatever a model does, users get results
            if not isinstance(error, Degraded):
                _log.error("%s: %s", PATH, raised_in(error))
                error = Degraded("model", f"the model failed: {type(error).__name__}")
            reason = error.reason
            page = _degraded(ShownPage(""), error, search.experiment)
        if page.answer is None:
            answer = self._plain(search, call)
            page = replace(page, answer=answer, ids=None if search.first else _ids(answer))
        if reason:
            self._metrics.degraded(PATH, reason)
        if search.experiment is not None:
            _mark(page, search.experiment)
        headers = {STATUS_HEADER: page.status, **self._product(call)}
        if page.model:
            headers[MODEL_HEADER] = page.model
        if page.attributes and "leads" in page.attributes:
            headers[HEADER] = f"{search.experiment}; leads={page.attributes['leads']}"
        # Also a search of an experiment that found nothing was made.
        if self._impressions is not None and (page.ids or (page.attributes and page.ids == [])):
            headers[QUERY_HEADER] = self._log(self._impressions, search, page)
        return Reply(_dumped(page.answer), 200, headers)

    def _page(self, search: GatewaySearch, until: float) -> ShownPage:
        """The page in the model's order, or without an answer where it is the engine's."""
        if not search.size:
            return ShownPage("engine; no hits were asked for")
        if search.first >= search.window:
            return ShownPage("engine; beyond the window")
        if search.experiment is None:
            return self._ranked(search, until)
        return self._of_experiment(self._experiments.get(search.experiment, until), search, until)

    def _of_experiment(
        self, experiment: Experiment, search: GatewaySearch, until: float
    ) -> ShownPage:
        """The page of an experiment: of both arms, of one, or of what a stopped one has left."""
        if experiment.state == STOPPED:
            return self._arm(experiment.in_use, search, until, "the experiment is stopped")
        if experiment.shadow:
            return self._shadowed(experiment, search, until)
        client = search.user.get("client_id")
        why: Degraded | None = Degraded(
            "client", "ext.ubi has no client_id, so that A is shown alone"
        )
        if client in {None, ""}:
            page = self._arm(experiment.a, search, until, "A alone")
        else:
            page, why = self._arms.page(experiment, search, str(client), until)
        if why is None:
            return page
        self._metrics.degraded(PATH, why.reason)
        return _degraded(page, why, experiment.name)

    def _arm(self, ranker: str, search: GatewaySearch, until: float, why: str) -> ShownPage:
        """The page of one ranker, an alias or an arm; `why` is for the query alone."""
        if ranker == QUERY:
            return ShownPage(f"engine; {why}")
        return self._ranked(search, until, ranker)

    def _shadowed(self, experiment: Experiment, search: GatewaySearch, until: float) -> ShownPage:
        """A's page, for which B is computed later."""
        compute = partial(self._arms.in_background, experiment, search)
        if experiment.a == QUERY:
            page = ShownPage("engine; B is not shown", compute_b=partial(compute, None))
        else:
            page = self._ranked(search, until, experiment.a, compute)
        return replace(page, attributes={"name": experiment.name})

    def _ranked(
        self,
        search: GatewaySearch,
        until: float,
        arm: str | None = None,
        compute_b: Callable[..., None] | None = None,
    ) -> ShownPage:
        """The page in the order of the model that the search names, or of an experiment's arm.

        `compute_b` gets the window in the engine's order, and what logs its result.
        """

        def scored() -> ScoredWindow:
            return self._models.scored(self._models.served(search, arm), search, until)

        window = in_time(
            until,
            lambda seconds: within(seconds, scored),
            "deadline",
            "the model did not answer in time",
        )
        hide_features(window, search)
        if compute_b is not None:
            hits = {**window.answer["hits"], "hits": [*window.answer["hits"]["hits"]]}
            compute_b = partial(compute_b, replace(window, answer={**window.answer, "hits": hits}))
        engine = engine_scores(window.answer["hits"]["hits"][: len(window.scores)])
        scores = search.rescoring.combined(engine, window.scores)
        ids = put_page(window.answer, ranked_list(replace(window, scores=scores)), search)
        return ShownPage("ranked", window.answer, window.served.model, ids, compute_b=compute_b)

    def _plain(self, search: GatewaySearch, call: Call) -> dict[str, Any]:
        """The engine's answer to the search as it came, without the model."""
        started = time.monotonic()
        answer = self._engine.request(
            "POST",
            f"/{search.index}/_search",
            params=search.url_params,
            body=search.body,
            deadline=max(call.left_in_all() - MARGIN, MARGIN),
        )
        self._metrics.stage(PATH, "plain", time.monotonic() - started)
        if not isinstance(answer, dict):
            raise EngineUnavailable("what came is not an engine's answer")
        return answer

    def _log(self, impressions: ImpressionLog, search: GatewaySearch, page: ShownPage) -> str:
        """The id under which an impression was written."""
        query_id = search.user.get("query_id") or str(uuid.uuid4())
        client = search.user.get("client_id")
        client = None if client is None else str(client)
        status = page.status.partition(";")[0]
        about = {"index": search.index, "model": page.model, "status": status}

        def write(attributes: dict[str, Any] | None) -> None:
            more = {"experiment": attributes} if attributes else {}
            impressions.write(
                Impression(query_id, search.words, page.ids or (), client, about | more)
            )

        if page.compute_b is None:
            write(page.attributes)
        else:
            page.compute_b(write)
        return query_id


def _degraded(page: ShownPage, why: Degraded, experiment: str | None) -> ShownPage:
    """The page of a search that does not count for its experiment, if it names one."""
    failed = None if experiment is None else {"name": experiment, "failed": why.reason}
    return replace(page, status=f"degraded; {why.reason}: {why}", attributes=failed)


def _mark(page: ShownPage, experiment: str) -> None:
    """Give each hit what a click copies, also where the search does not count."""
    failed = (page.attributes or {}).get("failed", "not interleaved")
    for hit in _hits(page.answer or {}):
        fields = hit.setdefault("fields", {})
        fields.setdefault(FIELD, [{"experiment": {"name": experiment, "failed": failed}}])


def _ids(answer: dict[str, Any]) -> list[str]:
    return [str(hit.get("_id")) for hit in _hits(answer)]


def _hits(answer: dict[str, Any]) -> list[dict[str, Any]]:
    hits = answer.get("hits")
    listed = hits.get("hits") if isinstance(hits, dict) else None
    return [hit for hit in listed or () if isinstance(hit, dict)]


def _error(status: int, kind: str, reason: str, headers: Mapping[str, str] | None = None) -> Reply:
    """An error as engines answer it, which their clients can read."""
    why = {"type": kind, "reason": reason}
    content = {"error": {"root_cause": [why], **why}, "status": status}
    return Reply(_dumped(content), status, headers or {})


def _dumped(content: Json) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:  # a number of more than 64 bits, or half a character
        return json.dumps(content).encode()
