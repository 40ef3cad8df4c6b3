"""Searches of the gateway with a model: the hits of the window, and their scores.

Anything that keeps a model from ranking in time is `Degraded`: the search is then answered without
the model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.search.client_rerank import (
    HitWindow,
    document_fields,
    score_hits,
    search_with_features,
)
from owpc_ltr.engine.stores import Search
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError
from owpc_ltr_serve.app import Observer
from owpc_ltr_serve.gateway_request import GatewaySearch

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.columns import ValuesOf
    from owpc_ltr_serve.rankers import Rankers, ServedRanker

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


class ModelSearch:
    """Searches the engine behind the rankers, and scores what it finds."""

    def __init__(self, rankers: Rankers, observer: Observer) -> None:
        self._rankers, self._observer = rankers, observer

    def served(self, asked: GatewaySearch, arm: str | None = None) -> ServedRanker:
        """The ranker that a search names, or that of an experiment's arm. Raises Degraded."""
        try:
            served = self._rankers.get(asked.model) if arm is None else self._rankers.arm(arm)
            # Where a file was trained, the cluster is asked.
            if served.store is None:
                served = self._rankers.located(replace(served, index=asked.index))
        except EngineUnavailable as fault:
            raise Degraded("model", "the engine did not say in time what it is") from fault
        except OwpcLtrError as fault:
            raise Degraded("model", str(fault)) from fault
        return served

    def scored(self, served: ServedRanker, asked: GatewaySearch, until: float) -> ScoredWindow:
        """The answer for the whole window, and the scores of its hits. Raises Degraded."""
        store, featureset = served.store, served.featureset
        assert store is not None  # noqa: S101 - told to the type checker
        assert featureset is not None  # noqa: S101
        started = time.monotonic()
        fields = document_fields(served.ranker)
        apart = _is_apart(asked, fields)
        size = max(asked.window, asked.first + asked.size)
        search = Search({**asked.body, "from": 0, "size": size}, asked.url_params)
        window = HitWindow(asked.index, featureset, asked.params, asked.window, fields)
        values = _external(served, asked)
        try:
            answer, logged = search_with_features(
                self._rankers.engine, store, window, search, apart=apart,
                deadline=max(until - started - MARGIN, MARGIN),
            )  # fmt: skip
        except EngineUnavailable as fault:
            raise Degraded("engine", "no features came in time") from fault
        except OwpcLtrError as fault:
            raise Degraded("features", str(fault)) from fault
        searched = time.monotonic()
        self._observer.stage(PATH, "engine", searched - started)
        scores = self._scores(served, values, logged)
        ended = time.monotonic()
        self._observer.stage(PATH, "score", ended - searched)
        return ScoredWindow(
            served, answer, logged, scores,
            apart=apart, search_seconds=searched - started, score_seconds=ended - searched,
        )  # fmt: skip

    def score(
        self, served: ServedRanker, asked: GatewaySearch, logged: list[dict[str, Any]]
    ) -> Vector:
        """The scores of hits whose features another model's search has brought. Raises Degraded."""
        return self._scores(served, _external(served, asked), logged)

    def _scores(
        self, served: ServedRanker, values: ValuesOf | None, logged: list[dict[str, Any]]
    ) -> Vector:
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
        self._observer.scored(served, rows)
        return scores


def _external(served: ServedRanker, asked: GatewaySearch) -> ValuesOf | None:
    """What the model reads from outside the index."""
    if served.joined is None:
        return None
    try:
        return served.joined.of_query(asked.query_id, asked.params)
    except OwpcLtrError as fault:
        raise Degraded("features", str(fault)) from fault


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


def hide_features(window: ScoredWindow, asked: GatewaySearch) -> None:
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
    most = asked.body.get("track_total_hits", TOTAL_HITS)
    total = answer["hits"].get("total")
    if most is False:
        answer["hits"].pop("total", None)
    elif type(most) is int and isinstance(total, dict) and total.get("value", 0) > most:
        answer["hits"]["total"] = {"value": most, "relation": "gte"}
