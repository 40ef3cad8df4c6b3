"""Searches of the gateway with a model: what of a request is the engine's, the hits, and the page.

Anything that keeps a model from ranking in time is `Degraded`: the search is then answered without
the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.client.responses import NotAllowed, missing_right
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.client_scoring import (
    HitWindow,
    document_fields,
    score_hits,
    search_with_features,
)
from owpc_ltr.engine.search.request import check_body
from owpc_ltr.engine.stores import LARGEST_WINDOW, Search
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, UsageError
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import Json, kind_of, nesting, read_json_value
from owpc_ltr.names import check_index, check_name
from owpc_ltr_serve.endpoint import DEEPEST_NESTING, Call, check_params

if TYPE_CHECKING:
    from owpc_ltr_serve.metrics import Metrics
    from owpc_ltr_serve.rankers import Rankers, ServedRanker, ValuesOf


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

_LONGEST_ID = 1000

"""Characters of a client's id."""

_IN_BODY = ("from", "size", "track_total_hits")

"""Parameters of a URL that stand for keys of the body."""

_COMBINED: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "total": np.add,
    "multiply": np.multiply,
    "avg": lambda engine, model: (engine + model) / 2,
    "max": np.maximum,
    "min": np.minimum,
}

"""How a rescorer joins the two scores of a document, by `score_mode`."""


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
    `user` is UBI's part of the request. An `experiment` names two models in place of one.
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
    experiment: str | None = None

    @property
    def first(self) -> int:
        """How many documents stand above the page."""
        return int(self.body.get("from", 0))

    @property
    def size(self) -> int:
        """How many documents a page has."""
        return int(self.body.get("size", 10))

    @property
    def end(self) -> int:
        """The number of documents up to the end of the page."""
        return self.first + self.size

    @property
    def words(self) -> str:
        """What the user typed, as far as the search says."""
        return str(self.user.get("user_query") or query_text(self.params))


def read_search(call: Call) -> GatewaySearch:
    """The search of a request. Raises UsageError, naming the key, for one that cannot be ranked."""
    index = check_index(call.path_params["index"])
    if index.startswith("."):
        raise UsageError(f"'{index}' is a system index, which is not searched here")
    if nesting(call.body) > DEEPEST_NESTING:
        raise UsageError(f"the body is nested deeper than {DEEPEST_NESTING} levels")
    try:
        body = read_json_value(call.body.decode()) if call.body.strip() else {}
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from error
    body = dict(_object(body, "the body"))
    params = dict(call.query_params)
    for name in (name for name in _IN_BODY if name in params):
        try:
            body[name] = read_json_value(params.pop(name))
        except ValueError as error:
            raise UsageError(f"the URL's '{name}' is not a number: {error}") from error
    unknown = sorted(params.keys() - PARAMETERS)
    if unknown:
        raise UsageError(f"the URL has {shown(unknown[0])}, which does not go with a model")
    for name in ("from", "size"):
        if name in body:
            _count(body[name], f"'{name}'", 0, LARGEST_WINDOW)
    ext = dict(_object(body.pop("ext", {}), "'ext'"))
    ours, user = ext.pop("owpc_ltr", None), ext.pop("ubi", {})
    if ext:
        body["ext"] = ext
    rescore = body.pop("rescore", None)
    if (ours is None) == (rescore is None):
        raise UsageError(
            'name the model, by "ext": {"owpc_ltr": {"model": NAME, "params": {…}}} or by an sltr '
            "in 'rescore': one of them; searches without a model go to the engine itself"
        )
    read = _of_ext(ours) if rescore is None else _of_rescore(rescore)
    check_params(read["params"])
    if _object(user, "'ext.ubi'").get("query_id") is not None:
        _query_id(user["query_id"])
    if "experiment" in read:
        _client_id(user.get("client_id"))
    check_body({key: part for key, part in body.items() if key != "query"})
    return GatewaySearch(index, body, params, user=user, **read)


def _of_ext(value: Json) -> dict[str, Any]:
    place = "'ext.owpc_ltr'"
    content = _object(value, place)
    read = _model_and_params(content, place, {"window", "query_id", "experiment"})
    if "experiment" in content:
        if read["model"] is not None:
            raise UsageError(f"{place} has a model and an experiment, which names two: give one")
        name = _text(content["experiment"], f"the experiment of {place}")
        read["experiment"] = check_name("search experiment", name)
    if "window" in content:
        read["window"] = _count(content["window"], f"the window of {place}", 1, LARGEST_WINDOW)
    if "query_id" in content:
        read["query_id"] = _text(content["query_id"], f"the query_id of {place}")
    return read


def _of_rescore(rescore: Json) -> dict[str, Any]:
    clauses = rescore if isinstance(rescore, list) else [rescore]
    if len(clauses) != 1:
        raise UsageError(f"'rescore' has {len(clauses)} clauses: give the one with the sltr")
    clause = _object(clauses[0], "'rescore'")
    query = _object(clause.get("query"), "'rescore.query'")
    part = _object(query.get("rescore_query"), "'rescore.query.rescore_query'")
    if set(part) != {"sltr"}:
        raise UsageError("'rescore' has no sltr that names a model: send it to the engine itself")
    _refuse_unknown(clause, {"window_size", "query"}, "'rescore'")
    weights = {"query_weight", "rescore_query_weight"}
    _refuse_unknown(query, {"rescore_query", "score_mode", *weights}, "'rescore.query'")
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


def _model_and_params(content: Mapping[str, Any], place: str, more: set[str]) -> dict[str, Any]:
    _refuse_unknown(content, {"model", "params", *more}, place)
    model = content.get("model")
    if model is not None:
        _text(model, f"the model of {place}")
    return {"model": model, "params": _object(content.get("params", {}), f"the params of {place}")}


def _refuse_unknown(content: Mapping[str, Any], keys: set[str], place: str) -> None:
    unknown = sorted(content.keys() - keys)
    if unknown:
        raise UsageError(
            f"{place} has {shown(unknown[0])}, which is not known here: it takes "
            f"{', '.join(sorted(keys))}"
        )


def _object(value: Json, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is {kind_of(value)}, not an object")
    return value


def _text(value: Json, what: str) -> str:
    """The value, which must be a text. Raises UsageError."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what} is {kind_of(value)}, not the text of a name")
    return value


def _query_id(value: Json) -> None:
    """Refuse an id that a header cannot bring back as it was logged."""
    text = value if isinstance(value, str) else ""
    if not (
        0 < len(text) <= 100 and text.isascii() and text.isprintable() and text == text.strip()
    ):
        raise UsageError("the query_id of 'ext.ubi' is 1 to 100 printable ASCII characters")


def _client_id(value: Json) -> None:
    if value is not None and type(value) not in (int, str):
        raise UsageError("the client_id of 'ext.ubi' is a text or a whole number")
    if len(str(value)) > _LONGEST_ID:
        raise UsageError(f"the client_id of 'ext.ubi' is longer than {_LONGEST_ID} characters")


def _number(value: Any, what: str) -> float:
    if type(value) not in (int, float) or abs(value) > 1e30:
        raise UsageError(f"{what} is not a number of use")
    return float(value)


def _count(value: Json, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{what} is a whole number from {least} to {most}")
    return value


T = TypeVar("T")

PATH = "/{index}/_search"

TOTAL_HITS = 10_000

"""How many hits an engine counts where a search does not say."""

MARGIN = 0.02

"""Seconds that are kept for what comes after the engine's answer."""

_APART = frozenset({"_name", "inner_hits", "top_hits", "explain", "profile", "ext"})

"""Keys of a search whose answer would show the features, were they asked for in the same one."""


class Degraded(Exception):
    """The model does not answer: `reason` is one word for counting, the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class ScoredWindow:
    """A search's answer, still in the engine's order, and the model's scores of its first hits.

    `logged` are those hits with their features, which `hide_features` takes out of the answer.
    """

    served: ServedRanker
    answer: dict[str, Any]
    logged: list[dict[str, Any]]
    scores: Vector
    apart: bool
    search_seconds: float
    score_seconds: float

    @property
    def milliseconds(self) -> float:
        """What the search and the scores took."""
        return round(1000 * (self.search_seconds + self.score_seconds), 2)


@dataclass(frozen=True, eq=False)
class RankedList:
    """The hits of an answer in a ranker's order, as places in the answer, and their scores.

    `milliseconds` is what the ranker would have taken alone; None for the query alone.
    """

    order: list[int]
    scores: Vector
    milliseconds: float | None = None


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
    compute_b: Callable[[Callable[[dict[str, Any]], None]], None] | None = None
    """Computes B's list, which is not shown, and then calls a function with the attributes."""


class ModelSearch:
    """Searches the engine behind the rankers, and scores what it finds."""

    def __init__(self, rankers: Rankers, metrics: Metrics) -> None:
        self._rankers, self._metrics = rankers, metrics

    def served(self, search: GatewaySearch, arm: str | None = None) -> ServedRanker:
        """The ranker that a search names, or that of an experiment's arm. Raises Degraded."""
        try:
            served = self._rankers.get(search.model) if arm is None else self._rankers.arm(arm)
            # Where a file was trained, the cluster is asked.
            if served.store is None:
                served = self._rankers.located(replace(served, index=search.index))
        except EngineUnavailable as fault:
            raise _lost(fault, "model", "the engine did not say in time what it is") from fault
        except OwpcLtrError as fault:
            raise Degraded("model", str(fault)) from fault
        return served

    def scored(self, served: ServedRanker, search: GatewaySearch, until: float) -> ScoredWindow:
        """The answer for the whole window, and the scores of its hits. Raises Degraded."""
        store, featureset = served.store, served.featureset
        assert store is not None  # noqa: S101 - told to the type checker
        assert featureset is not None  # noqa: S101
        started = time.monotonic()
        fields = document_fields(served.ranker)
        apart = _is_apart(search, fields)
        size = max(search.window, search.first + search.size)
        sent = Search({**search.body, "from": 0, "size": size}, search.url_params)
        window = HitWindow(search.index, featureset, search.params, search.window, fields)
        values = external_values(served, search)
        try:
            answer, logged = search_with_features(
                self._rankers.engine,
                store,
                window,
                sent,
                apart=apart,
                deadline=max(until - started - MARGIN, MARGIN),
            )
        except EngineUnavailable as fault:
            raise _lost(fault, "engine", "no features came in time") from fault
        except OwpcLtrError as fault:
            raise Degraded("features", str(fault)) from fault
        searched = time.monotonic()
        self._metrics.stage(PATH, "engine", searched - started)
        scores = self.score(served, values, logged)
        ended = time.monotonic()
        self._metrics.stage(PATH, "score", ended - searched)
        return ScoredWindow(
            served,
            answer,
            logged,
            scores,
            apart=apart,
            search_seconds=searched - started,
            score_seconds=ended - searched,
        )

    def score(
        self, served: ServedRanker, values: ValuesOf | None, logged: list[dict[str, Any]]
    ) -> Vector:
        """The scores of hits by their features, external ones among `values`. Raises Degraded."""
        try:
            rows = served.features(values, logged)
            scores = score_hits(served.ranker, rows, logged)
        except OwpcLtrError as fault:
            raise Degraded("features", str(fault)) from fault
        if not np.isfinite(scores).all():
            raise Degraded("scores", "the model gives a score that is not a finite number")
        self._metrics.scored(served, rows)
        return scores


def lacking_right(fault: NotAllowed) -> str:
    """What the account of the service lacks, without the engine's address."""
    return f"the service's account needs {missing_right(str(fault))} (403)"


def _lost(fault: EngineUnavailable, reason: str, late: str) -> Degraded:
    """Why the engine gave nothing: the right that the account lacks, or that it was `late`."""
    if isinstance(fault, NotAllowed):
        return Degraded("right", lacking_right(fault))
    return Degraded(reason, late)


def external_values(served: ServedRanker, search: GatewaySearch) -> ValuesOf | None:
    """What the model reads from outside the index. Raises Degraded."""
    if served.joined is None:
        return None
    try:
        return served.joined.of_query(search.query_id, search.params)
    except OwpcLtrError as fault:
        raise Degraded("features", str(fault)) from fault


def in_time(until: float, wait: Callable[[float], T], reason: str, why: str) -> T:
    """What `wait` returns within the seconds that are left. Raises Degraded where it is late."""
    try:
        return wait(max(until - time.monotonic(), 0.0))
    except TimeoutError as fault:
        raise Degraded(reason, why) from fault


def _is_apart(search: GatewaySearch, fields: tuple[str, ...]) -> bool:
    """Whether features come in a search of their own, so that the answer shows nothing of them."""
    limited = {"_source", "stored_fields"} & search.body.keys() or any(
        name.startswith("_source") for name in search.url_params
    )
    return (bool(fields) and bool(limited)) or _has_key(search.body, _APART)


def _has_key(tree: Json, keys: frozenset[str]) -> bool:
    if isinstance(tree, dict):
        return not keys.isdisjoint(tree) or any(_has_key(part, keys) for part in tree.values())
    return isinstance(tree, list) and any(_has_key(part, keys) for part in tree)


def hide_features(window: ScoredWindow, search: GatewaySearch) -> None:
    """Take out of an answer what came only because of the features."""
    if window.apart:
        return
    answer = window.answer
    for hit in answer["hits"]["hits"]:
        hit.pop("matched_queries", None)
        fields = hit.get("fields")
        if isinstance(fields, dict):
            fields.pop("_ltrlog", None)
            if not fields:
                del hit["fields"]
    most = search.body.get("track_total_hits", TOTAL_HITS)
    total = answer["hits"].get("total")
    if most is False:
        answer["hits"].pop("total", None)
    elif type(most) is int and isinstance(total, dict) and total.get("value", 0) > most:
        answer["hits"]["total"] = {"value": most, "relation": "gte"}


def ranked_list(window: ScoredWindow) -> RankedList:
    """The hits in the order of the scores; those beyond the window follow in the engine's."""
    # Equal scores stay in the engine's order.
    order: list[int] = np.argsort(-window.scores, kind="stable").tolist()
    order += range(len(order), len(window.answer["hits"]["hits"]))
    return RankedList(order, window.scores, window.milliseconds)


def engine_scores(hits: Sequence[dict[str, Any]]) -> Vector:
    """The scores that the engine gave to hits."""
    return np.array([hit["_score"] for hit in hits], np.float64)


def put_page(answer: dict[str, Any], ranked: RankedList, search: GatewaySearch) -> list[str]:
    """Put a list's page and scores into the answer; the ids of all documents to the page's end."""
    hits = answer["hits"]["hits"]
    for place, score in enumerate(ranked.scores.tolist()):
        hits[place]["_score"] = score
    if len(ranked.scores):
        answer["hits"]["max_score"] = float(ranked.scores.max())
    page = [hits[place] for place in ranked.order[: search.end]]
    answer["hits"]["hits"] = page[search.first :]
    return [str(hit["_id"]) for hit in page]
