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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.queries import query_text
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.client_rerank import (
    HitWindow,
    document_fields,
    score_hits,
    search_with_features,
    within,
)
from owpc_ltr.engine.search.request import COLLAPSE, check_body
from owpc_ltr.engine.stores import LARGEST_WINDOW, Search, check_collapse
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.files.strict_json import kind_of, read_json_value, shown
from owpc_ltr.names import check_index
from owpc_ltr_serve.app import (
    MODEL_HEADER,
    STATUS_HEADER,
    Call,
    Endpoint,
    Observer,
    Reply,
)
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
PARAMETERS = frozenset(
    {
        *("routing", "preference", "search_type", "typed_keys", "request_cache", "pretty"),
        *("ignore_unavailable", "allow_no_indices", "expand_wildcards", "ignore_throttled"),
        *("allow_partial_search_results", "rest_total_hits_as_int", "batched_reduce_size"),
        *("max_concurrent_shard_requests", "pre_filter_shard_size", "ccs_minimize_roundtrips"),
        *("cancel_after_time_interval", "timeout", "_source", "_source_includes"),
        "_source_excludes",
    }
)
"""Parameters of a search's URL that go to the engine as they are."""
_IN_BODY = ("from", "size", "track_total_hits")
"""Parameters of a URL that stand for keys of the body."""
_APART = frozenset({"_name", "inner_hits", "top_hits", "explain", "profile", "ext"})
"""Keys of a search whose answer would show the features, were they asked for in the same one."""
_COMBINED: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "total": np.add,
    "multiply": np.multiply,
    "avg": lambda one, other: (one + other) / 2,
    "max": np.maximum,
    "min": np.minimum,
}
"""How a rescorer joins the two scores of a document, by `score_mode`."""
_MARGIN = 0.02
"""Seconds that are kept for what comes after the engine's answer."""


@dataclass(frozen=True)
class Rescoring:
    """What a rescorer makes of the engine's score and the model's; by default the model's."""

    query_weight: float = 0.0
    model_weight: float = 1.0
    mode: str = "total"

    def combined(self, engine: Vector, model: Vector) -> Vector:
        """The scores by which documents are ordered."""
        if self == Rescoring():
            return model
        return _COMBINED[self.mode](self.query_weight * engine, self.model_weight * model)


@dataclass(frozen=True)
class GatewaySearch:
    """A search that names a model: `body` and `url_params` are the engine's, without the model.

    `params` are those of the feature set, `query_id` is what external features know the query by;
    `user` is UBI's part of the request.
    """

    index: str
    body: dict[str, Any]
    url_params: dict[str, str]
    model: str | None
    params: dict[str, Any]
    window: int = DEFAULT_WINDOW
    rescoring: Rescoring = Rescoring()
    query_id: str | None = None
    user: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """How many documents stand above the page."""
        return int(self.body.get("from", 0))

    @property
    def size(self) -> int:
        """How many documents a page has."""
        return int(self.body.get("size", 10))


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
        query_id = str(asked.user.get("query_id") or uuid.uuid4())
        client = asked.user.get("client_id")
        words = asked.user.get("user_query") or query_text(asked.params)
        about = {"index": asked.index, "model": model, "status": status.partition(";")[0]}
        impressions.write(
            Impression(query_id, str(words), listed, None if client is None else str(client), about)
        )
        return query_id


def read_search(call: Call) -> GatewaySearch:
    """The search of a request. Raises UsageError, naming the key, for one that cannot be ranked."""
    index = check_index(call.path_params["index"])
    if index.startswith("."):
        raise UsageError(f"'{index}' is a system index, which is not searched here")
    try:
        body = read_json_value(call.body.decode()) if call.body.strip() else {}
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from error
    body = dict(_object(body, "the body"))
    params = dict(call.query_params)
    for name in _IN_BODY:
        if name in params:
            body[name] = _json_of(params.pop(name), name)
    unknown = sorted(params.keys() - PARAMETERS)
    if unknown:
        raise UsageError(f"the URL has '{shown(unknown[0])}', which does not go with a model")
    for name, least in (("from", 0), ("size", 0)):
        if name in body:
            _count(body[name], f"'{name}'", least, LARGEST_WINDOW)
    ext = dict(_object(body.pop("ext", {}), "'ext'"))
    own, user = ext.pop("owpc_ltr", None), ext.pop("ubi", {})
    if ext:
        body["ext"] = ext
    rescore = body.pop("rescore", None)
    if (own is None) == (rescore is None):
        raise UsageError(
            'name the model, by "ext": {"owpc_ltr": {"model": NAME, "params": {…}}} or by an sltr '
            "in 'rescore': one of them; searches without a model go to the engine itself"
        )
    read = _of_ext(own) if rescore is None else _of_rescore(rescore)
    check_body({key: part for key, part in body.items() if key != "query"})
    search = GatewaySearch(
        index, body, params, read["model"], read["params"], user=_object(user, "'ext.ubi'")
    )
    given = {key: read[key] for key in ("window", "rescoring", "query_id") if key in read}
    return replace(search, **given)


def _of_ext(own: Any) -> dict[str, Any]:
    place = "'ext.owpc_ltr'"
    own = _object(own, place)
    read = _model_and_params(own, place, {"window", "query_id"})
    if "window" in own:
        read["window"] = _count(own["window"], f"the window of {place}", 1, LARGEST_WINDOW)
    if "query_id" in own:
        read["query_id"] = _text(own["query_id"], f"the query_id of {place}")
    return read


def _of_rescore(rescore: Any) -> dict[str, Any]:
    clauses = rescore if isinstance(rescore, list) else [rescore]
    if len(clauses) != 1:
        raise UsageError(f"'rescore' has {len(clauses)} clauses: give the one with the sltr")
    clause = _object(clauses[0], "'rescore'")
    query = _object(clause.get("query"), "'rescore.query'")
    part = _object(query.get("rescore_query"), "'rescore.query.rescore_query'")
    if set(part) != {"sltr"}:
        raise UsageError("'rescore' has no sltr that names a model: send it to the engine itself")
    _refuse_others(clause, {"window_size", "query"}, "'rescore'")
    weights = {"query_weight", "rescore_query_weight"}
    _refuse_others(query, {"rescore_query", "score_mode", *weights}, "'rescore.query'")
    sltr = _object(part["sltr"], "'sltr'")
    read = _model_and_params(sltr, "'sltr'", {"cache"})
    # The engine's own defaults.
    read["window"] = _count(
        clause.get("window_size", 10), "the window_size of 'rescore'", 1, LARGEST_WINDOW
    )
    mode = query.get("score_mode", "total")
    if not isinstance(mode, str) or mode not in _COMBINED:
        raise UsageError(f"the score_mode of 'rescore' is one of {', '.join(_COMBINED)}")
    numbers = [_number(query.get(name, 1), f"the {name} of 'rescore'") for name in sorted(weights)]
    read["rescoring"] = Rescoring(numbers[0], numbers[1], mode)
    return read


def _model_and_params(own: Mapping[str, Any], place: str, others: set[str]) -> dict[str, Any]:
    _refuse_others(own, {"model", "params", *others}, place)
    model = None if own.get("model") is None else _text(own["model"], f"the model of {place}")
    return {"model": model, "params": _object(own.get("params", {}), f"the params of {place}")}


def _refuse_others(content: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(content.keys() - known)
    if unknown:
        raise UsageError(
            f"{place} has '{shown(unknown[0])}', which is not known here: it takes "
            f"{', '.join(sorted(known))}"
        )


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is {kind_of(value)}, not an object")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what} is {kind_of(value)}, not the text of a name")
    return value


def _number(value: Any, what: str) -> float:
    if type(value) not in (int, float) or abs(value) > 1e30:
        raise UsageError(f"{what} is not a number of use")
    return float(value)


def _count(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{what} is a whole number from {least} to {most}")
    return value


def _json_of(text: str, name: str) -> Any:
    try:
        return read_json_value(text)
    except ValueError as error:
        raise UsageError(f"the URL's '{name}' is not a number: {error}") from error


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
