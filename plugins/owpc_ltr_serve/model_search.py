"""Searches of the gateway with a model: the hits of the window, their scores, and the page.

Anything that keeps a model from ranking in time is `Degraded`: the search is then answered without
the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.external_features.columns import ValuesOf
from owpc_ltr.engine.search.serving import (
    HitWindow,
    document_fields,
    score_hits,
    search_with_features,
)
from owpc_ltr.engine.stores import Search
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError
from owpc_ltr_serve.gateway_request import GatewaySearch

if TYPE_CHECKING:
    from owpc_ltr_serve.metrics import Metrics
    from owpc_ltr_serve.rankers import Rankers, ServedRanker

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
            raise Degraded("model", "the engine did not say in time what it is") from fault
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
                self._rankers.engine, store, window, sent, apart=apart,
                deadline=max(until - started - MARGIN, MARGIN),
            )  # fmt: skip
        except EngineUnavailable as fault:
            raise Degraded("engine", "no features came in time") from fault
        except OwpcLtrError as fault:
            raise Degraded("features", str(fault)) from fault
        searched = time.monotonic()
        self._metrics.stage(PATH, "engine", searched - started)
        scores = self.score(served, values, logged)
        ended = time.monotonic()
        self._metrics.stage(PATH, "score", ended - searched)
        return ScoredWindow(
            served, answer, logged, scores,
            apart=apart, search_seconds=searched - started, score_seconds=ended - searched,
        )  # fmt: skip

    def score(
        self, served: ServedRanker, values: ValuesOf | None, logged: list[dict[str, Any]]
    ) -> Vector:
        """The scores of hits by their features, external ones among `values`. Raises Degraded."""
        assert served.store is not None  # noqa: S101 - told to the type checker
        assert served.featureset is not None  # noqa: S101
        try:
            rows, scores = score_hits(
                served.ranker, served.store, served.featureset, values, logged
            )
        except OwpcLtrError as fault:
            raise Degraded("features", str(fault)) from fault
        if not np.isfinite(scores).all():
            raise Degraded("scores", "the model gives a score that is no finite number")
        self._metrics.scored(served, rows)
        return scores


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


def _has_key(tree: Any, keys: frozenset[str]) -> bool:
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
