"""Searches that name an experiment: both rankers' lists, and the page that shows them interleaved.

Both lists are orders of the same hits. Rankers of one feature set share one search, whose features
both score; for rankers of two feature sets a second search, for the features alone, runs at the
same time. Where B fails or is late, the page is A's, and the search does not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from owpc_ltr_experiment.interleaving import Interleaved, interleave
from owpc_ltr_experiment.record import QUERY, Experiment, Experiments

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.search.client_rerank import document_fields, within
from owpc_ltr.engine.search.request import FILTERS
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.metrics.rank_agreement import pair_agreement
from owpc_ltr_serve.model_search import Degraded, ModelSearch, ScoredWindow, hide_features

if TYPE_CHECKING:
    from owpc_ltr_serve.gateway_request import GatewaySearch
    from owpc_ltr_serve.rankers import Rankers, ServedRanker

FIELD = "_owpc_ltr"
"""The entry of a hit's `fields` that has what to log with a click on it (`event_attributes`)."""
HEADER = "X-LTR-Experiment"
"""Says which experiment an answer counts for, and which ranker leads its page."""
REFRESH = 2.0
"""Seconds after which an experiment that was stopped is followed."""
_THREADS = 64
"""Threads for lists of B; where they hang, further ones are late, and pages are A's."""
_BACKGROUND, _WAITING = 2, 64
"""Threads that compute lists which are not shown, and how many lists may wait for them."""
_PATIENCE = 5.0
"""Seconds for a list that is not shown."""
_MOST_NAMES = 64


@dataclass(frozen=True, eq=False)
class RankedList:
    """The hits of an answer in a ranker's order, as places in the answer, and their scores.

    `milliseconds` is what the ranker would have taken alone; None for the query alone.
    """

    order: list[int]
    scores: Vector
    milliseconds: float | None = None


@dataclass(frozen=True, eq=False)
class InterleavedPage:
    """An answer with its page; what to log of the query; the ids of all documents to its end.

    Where B failed, `degraded` says why, and the page is A's.
    """

    answer: dict[str, Any]
    attributes: dict[str, Any]
    ids: list[str]
    degraded: Degraded | None = None


class KnownExperiments:
    """The experiments that searches name, read anew every few seconds; safe to share."""

    def __init__(self, rankers: Rankers, refresh: float = REFRESH) -> None:
        self._rankers, self._refresh = rankers, refresh
        self._known: dict[str, tuple[Experiment, float]] = {}
        self._reading = threading.Lock()

    def get(self, name: str, until: float) -> Experiment:
        """The experiment as it is now, or was some seconds ago. Raises Degraded."""
        experiment, read_at = self._known.get(name, (None, 0.0))
        if experiment is None:
            return self._read(name, until)
        if time.monotonic() - read_at > self._refresh and self._reading.acquire(blocking=False):
            # Others go on with what they have meanwhile.
            try:
                experiment = self._read(name, until)
            except Degraded as fault:
                if isinstance(fault.__cause__, BadInput):
                    self._known.pop(name, None)
                    raise
            finally:
                self._reading.release()
        return experiment

    def _read(self, name: str, until: float) -> Experiment:
        engine = self._rankers.engine.within(max(until - time.monotonic(), 0.01))
        try:
            experiment = Experiments(engine).get(name)
        except OwpcLtrError as fault:
            raise Degraded("experiment", str(fault)) from fault
        while len(self._known) >= _MOST_NAMES:
            self._known.pop(next(iter(self._known)), None)
        self._known[name] = experiment, time.monotonic()
        return experiment


class ExperimentSearch:
    """Ranks searches by both arms of an experiment."""

    def __init__(self, models: ModelSearch) -> None:
        self._models = models
        self._threads = ThreadPoolExecutor(_THREADS, "owpc-ltr-arm")
        self._background = ThreadPoolExecutor(_BACKGROUND, "owpc-ltr-shadow")
        self._waiting = threading.BoundedSemaphore(_WAITING)

    def page(
        self, experiment: Experiment, asked: GatewaySearch, client: str, until: float
    ) -> InterleavedPage:
        """The page of both lists. Raises Degraded where there is not even A's."""
        main = experiment.b if experiment.a == QUERY else experiment.a
        served = self._models.served(asked, main)
        second = None if QUERY in (experiment.a, experiment.b) else _Arm(self._models, experiment.b)
        if second is not None:
            self._threads.submit(second.search, served, asked, until)
        try:
            window = within(
                until - time.monotonic(), lambda: self._models.scored(served, asked, until)
            )
        except TimeoutError as fault:
            raise Degraded("deadline", "the model did not answer in time") from fault
        if second is not None:
            second.take(window)
        hide_features(window, asked)
        lists = {main: ranked_list(window), QUERY: _by_query(window)}
        try:
            if second is not None:
                lists[experiment.b] = _over_hits(second.window(until), window)
            both = lists[experiment.a], lists[experiment.b]
            return _interleaved(experiment, asked, client, window.answer, both)
        except Degraded as degraded:
            ids = put_page(window.answer, lists[experiment.a], asked)
            return InterleavedPage(window.answer, {}, ids, degraded)

    def in_background(
        self,
        experiment: Experiment,
        asked: GatewaySearch,
        shown: ScoredWindow | None,
        log: Callable[[dict[str, Any]], None],
    ) -> None:
        """Compute B's list, which is not shown, and log how far it agrees with A's.

        `shown` is the window in A's order; None where A is the query alone.
        """

        def compute() -> None:
            try:
                figures = self._agreement(experiment, asked, shown)
            except Degraded as degraded:
                figures = {"failed": degraded.reason}
            except Exception as error:  # noqa: BLE001 - the impression is logged whatever B does
                figures = {"failed": type(error).__name__}
            finally:
                self._waiting.release()
            log({"name": experiment.name, **figures})

        if self._waiting.acquire(blocking=False):
            self._background.submit(compute)
        else:
            log({"name": experiment.name, "failed": "busy"})

    def _agreement(
        self, experiment: Experiment, asked: GatewaySearch, shown: ScoredWindow | None
    ) -> dict[str, Any]:
        if experiment.b == QUERY:
            assert shown is not None  # noqa: S101 - A is a model then
            window, a, b = shown, ranked_list(shown), _by_query(shown)
        else:
            served = self._models.served(asked, experiment.b)
            alone = _features_alone(asked, served)
            tried = self._models.scored(served, alone, time.monotonic() + _PATIENCE)
            window = tried if shown is None else shown
            a = _by_query(tried) if shown is None else ranked_list(shown)
            b = _over_hits(tried, window)
        places = [np.argsort(-np.array(each.order, dtype=np.float64)) for each in (a, b)]
        tau = pair_agreement(*(place.astype(np.float64) for place in places)).tau
        return {"tau": tau, "ms_a": a.milliseconds, "ms_b": b.milliseconds}


class _Arm:
    """The window of B while it is computed: its own search, or its scores of A's hits."""

    def __init__(self, models: ModelSearch, model: str) -> None:
        self._models, self._model = models, model
        self._of_a: Future[tuple[ScoredWindow, list[dict[str, Any]]]] = Future()
        self._result: Future[ScoredWindow] = Future()

    def take(self, window: ScoredWindow) -> None:
        """A's window; copies of its hits keep the features that the answer loses."""
        hits = [
            {**hit, **({"fields": dict(hit["fields"])} if "fields" in hit else {})}
            for hit in window.logged
        ]
        self._of_a.set_result((window, hits))

    def search(self, main: ServedRanker, asked: GatewaySearch, until: float) -> None:
        """Compute the window, in a thread of its own."""
        try:
            self._result.set_result(self._scored(main, asked, until))
        except Degraded as degraded:
            self._result.set_exception(degraded)
        except Exception as error:  # noqa: BLE001 - whatever B does, users get A's page
            why = Degraded("experiment", f"B failed: {type(error).__name__}")
            self._result.set_exception(why)

    def _scored(self, main: ServedRanker, asked: GatewaySearch, until: float) -> ScoredWindow:
        served = self._models.served(asked, self._model)
        if not _share_search(main, served):
            return self._models.scored(served, _features_alone(asked, served), until)
        try:
            window, hits = self._of_a.result(max(until - time.monotonic(), 0.0))
        except TimeoutError as fault:
            raise Degraded("deadline", "A did not answer in time") from fault
        began = time.monotonic()
        scores = self._models.score(served, asked, hits)
        seconds = time.monotonic() - began
        return replace(window, served=served, scores=scores, score_seconds=seconds)

    def window(self, until: float) -> ScoredWindow:
        """The window. Raises Degraded where it failed, or is late."""
        try:
            return self._result.result(max(until - time.monotonic(), 0.0))
        except TimeoutError as fault:
            raise Degraded("experiment", "B did not answer in time") from fault


def _share_search(main: ServedRanker, other: ServedRanker) -> bool:
    """Whether the features of one ranker's search are all that the other needs."""
    assert main.featureset is not None  # noqa: S101 - told to the type checker
    assert other.featureset is not None  # noqa: S101
    fields = set(document_fields(other.ranker)) - {*document_fields(main.ranker)}
    return main.featureset.hash == other.featureset.hash and not fields


def _features_alone(asked: GatewaySearch, served: ServedRanker) -> GatewaySearch:
    """The search for the same hits and their features, without all else that it asks for."""
    deciding = FILTERS | {"query", "from", "size"}
    body = {key: part for key, part in asked.body.items() if key in deciding}
    if not document_fields(served.ranker):
        body["_source"] = False
    params = {key: part for key, part in asked.url_params.items() if not key.startswith("_source")}
    return replace(asked, body={**body, "track_total_hits": False}, url_params=params)


def ranked_list(window: ScoredWindow) -> RankedList:
    """The hits in the model's order; those beyond the window follow in the engine's."""
    # Equal scores stay in the engine's order.
    order: list[int] = np.argsort(-window.scores, kind="stable").tolist()
    order += range(len(order), len(window.answer["hits"]["hits"]))
    return RankedList(order, window.scores, window.milliseconds)


def _by_query(window: ScoredWindow) -> RankedList:
    hits = window.answer["hits"]["hits"]
    return RankedList([*range(len(hits))], np.array([hit["_score"] for hit in hits], np.float64))


def _over_hits(tried: ScoredWindow, window: ScoredWindow) -> RankedList:
    """B's list as an order of A's hits, where B had a search of its own.

    Hits that one search has and the other lacks, as the index changed in between, are last.
    """
    ranked = ranked_list(tried)
    if tried.answer is window.answer:
        return ranked
    hits = window.answer["hits"]["hits"]
    places = {(hit.get("_index"), hit["_id"]): place for place, hit in enumerate(hits)}
    scores = np.array([hit["_score"] for hit in hits], np.float64)
    order: dict[int, None] = {}
    for number in ranked.order:
        hit = tried.answer["hits"]["hits"][number]
        place = places.get((hit.get("_index"), hit["_id"]))
        if place is not None:
            order[place] = None
            if number < len(ranked.scores):
                scores[place] = ranked.scores[number]
    order.update(dict.fromkeys(range(len(hits))))
    return RankedList([*order], scores, ranked.milliseconds)


def _interleaved(
    experiment: Experiment,
    asked: GatewaySearch,
    client: str,
    answer: dict[str, Any],
    lists: tuple[RankedList, RankedList],
) -> InterleavedPage:
    """Put the page into the answer. Scores are those of the ranker that leads.

    Raises Degraded where an id is in two indices, as clicks do not say which one they mean.
    """
    hits = answer["hits"]["hits"]
    ordered = [[hits[place] for place in each.order] for each in lists]
    end = asked.first + asked.size

    def merged(start: int, size: int) -> Interleaved:
        try:
            return interleave(
                *ordered, experiment=experiment.name, client=client, query=words_of(asked),
                size=size, start=start,
            )  # fmt: skip
        except BadInput as error:
            raise Degraded("experiment", str(error)) from error

    page = merged(asked.first, asked.size)
    ids = [str(hit["_id"]) for hit in (merged(0, end) if asked.first else page).hits]
    attributes = page.query_attributes["experiment"]
    leading = lists[0] if attributes["leads"] == "a" else lists[1]
    put_page(answer, leading, asked)
    for hit in page.hits:
        hit.setdefault("fields", {})[FIELD] = [page.event_attributes[hit["_id"]]]
    answer["hits"]["hits"] = page.hits
    took = {"ms_a": lists[0].milliseconds, "ms_b": lists[1].milliseconds}
    return InterleavedPage(answer, {**attributes, **took}, ids)


def put_page(answer: dict[str, Any], ranked: RankedList, asked: GatewaySearch) -> list[str]:
    """Put a list's page and scores into the answer; the ids of all documents to the page's end."""
    hits = answer["hits"]["hits"]
    for place, score in enumerate(ranked.scores.tolist()):
        hits[place]["_score"] = score
    if len(ranked.scores):
        answer["hits"]["max_score"] = float(ranked.scores.max())
    end = asked.first + asked.size
    page = [hits[place] for place in ranked.order[:end]]
    answer["hits"]["hits"] = page[asked.first :]
    return [str(hit["_id"]) for hit in page]


def words_of(asked: GatewaySearch) -> str:
    """What the user typed, as far as the search says."""
    return str(asked.user.get("user_query") or query_text(asked.params))
