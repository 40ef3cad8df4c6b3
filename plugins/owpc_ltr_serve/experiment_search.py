"""Searches that name an experiment: both rankers' lists, and the page that shows them interleaved.

Both lists are orders of the same hits. Rankers of one feature set share one search, whose features
both score; for rankers of two feature sets a second search, for the features alone, runs at the
same time. Where B fails or is late, the page is A's, and the search does not count.

The impression log has which documents a search showed, in order. Each line is a query of User
Behavior Insights 1.3.0 (JSON), so that clicks can be judged later: `owpc-ltr judge clicks FILE`
reads the lines, with the clicks of the application among them, and `--from-ubi` what was loaded
into `ubi_queries`. It is the only place where a service writes what users typed.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.engine.experiments import QUERY, Experiment, Experiments
from owpc_ltr.engine.search.client_scoring import document_fields, within
from owpc_ltr.engine.search.request import FILTERS
from owpc_ltr.errors import BadInput, OwpcLtrError, UsageError
from owpc_ltr.evaluation.interleaving import InterleavedPage, interleave
from owpc_ltr.files.output import open_to_append, output_file
from owpc_ltr.metrics.metric import pair_agreement
from owpc_ltr_serve.model_search import (
    Degraded,
    GatewaySearch,
    ModelSearch,
    RankedList,
    ScoredWindow,
    ShownPage,
    engine_scores,
    external_values,
    hide_features,
    in_time,
    put_page,
    ranked_list,
)

if TYPE_CHECKING:
    from owpc_ltr_serve.rankers import Rankers, ServedRanker


_log = logging.getLogger("owpc_ltr.serve")


@dataclass(frozen=True)
class Impression:
    """A list of documents that was shown for a query, the best first.

    `query_id` is what clicks name it by. `attributes` say by what it was ranked.
    """

    query_id: str
    user_query: str
    hit_ids: Sequence[str]
    client_id: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def as_line(self, now: datetime) -> bytes:
        """The JSON of a query of UBI, and a line break."""
        content = {
            "application": "owpc-ltr",
            "query_id": self.query_id,
            **({} if self.client_id is None else {"client_id": self.client_id}),
            "user_query": self.user_query,
            "object_id_field": "_id",
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z",
            "query_response_hit_ids": list(self.hit_ids),
            "query_attributes": dict(self.attributes),
        }
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


class ImpressionLog:
    """Appends impressions to a file that only its owner can read; safe to share between threads.

    The file may be moved away at any time, as log rotation does: the next line begins a new one.
    `lost` is called for each impression that could not be written. Raises UsageError where the file
    cannot be opened.
    """

    def __init__(self, path: Path | str, lost: Callable[[], None] = lambda: None) -> None:
        self.path = output_file(path) or Path(path)
        self._lost = lost
        self._failed = False
        try:
            with open_to_append(self.path):
                pass
        except OSError as error:
            raise UsageError(f"cannot write impressions to {path}: {error.strerror}") from error

    def write(self, impression: Impression) -> None:
        """Append one line. Where that fails, `lost` is called, and the log says so once."""
        line = impression.as_line(datetime.now(UTC))
        try:
            with open_to_append(self.path) as file:
                # No search waits for the disk. A machine that stops loses the lines of some
                # seconds, as if they were of searches that nobody made.
                file.append(line, durable=False)
            self._failed = False
        except (OSError, OwpcLtrError) as error:
            self._lost()
            if not self._failed:
                why = getattr(error, "strerror", None) or error
                _log.error("impressions are lost: %s: %s", self.path, why)
            self._failed = True


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


class KnownExperiments:
    """The experiments that searches name, read anew every few seconds; safe to share."""

    def __init__(self, rankers: Rankers, refresh: float = REFRESH) -> None:
        self._rankers, self._refresh = rankers, refresh
        self._cached: dict[str, tuple[Experiment, float]] = {}
        self._reading = threading.Lock()

    def get(self, name: str, until: float) -> Experiment:
        """The experiment as it is now, or was some seconds ago. Raises Degraded."""
        experiment, read_at = self._cached.get(name, (None, 0.0))
        if experiment is None:
            return self._read(name, until)
        if time.monotonic() - read_at > self._refresh and self._reading.acquire(blocking=False):
            # Others go on with what they have meanwhile.
            try:
                experiment = self._read(name, until)
            except Degraded as fault:
                if isinstance(fault.__cause__, BadInput):
                    self._cached.pop(name, None)
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
        while len(self._cached) >= _MOST_NAMES:
            self._cached.pop(next(iter(self._cached)), None)
        self._cached[name] = experiment, time.monotonic()
        return experiment


class ExperimentSearch:
    """Ranks searches by both arms of an experiment."""

    def __init__(self, models: ModelSearch) -> None:
        self._models = models
        self._threads = ThreadPoolExecutor(_THREADS, "owpc-ltr-arm")
        self._background = ThreadPoolExecutor(_BACKGROUND, "owpc-ltr-shadow")
        self._waiting = threading.BoundedSemaphore(_WAITING)

    def page(
        self, experiment: Experiment, search: GatewaySearch, client: str, until: float
    ) -> tuple[ShownPage, Degraded | None]:
        """The page of both lists; where B failed, A's, and why. Raises Degraded without A's."""
        main = experiment.b if experiment.a == QUERY else experiment.a
        served = self._models.served(search, main)
        of_a, of_b = Future[ScoredWindow](), None
        if QUERY not in (experiment.a, experiment.b):
            of_b = self._threads.submit(
                lambda: self._window_of_b(experiment.b, served, of_a, search, until)
            )
        window = in_time(
            until,
            lambda seconds: within(seconds, lambda: self._models.scored(served, search, until)),
            "deadline",
            "the model did not answer in time",
        )
        if of_b is not None:
            of_a.set_result(replace(window, logged=_copied(window.logged)))
        hide_features(window, search)
        lists = {main: ranked_list(window), QUERY: _by_query(window)}
        try:
            if of_b is not None:
                lists[experiment.b] = _over_hits(_result_of_b(of_b, until), window)
            both = lists[experiment.a], lists[experiment.b]
            return _interleaved(experiment, search, client, window.answer, both), None
        except Degraded as degraded:
            ids = put_page(window.answer, lists[experiment.a], search)
            return ShownPage("ranked", window.answer, ids=ids), degraded

    def in_background(
        self,
        experiment: Experiment,
        search: GatewaySearch,
        shown: ScoredWindow | None,
        log: Callable[[dict[str, Any]], None],
    ) -> None:
        """Compute B's list, which is not shown, and log how far it agrees with A's.

        `shown` is the window in A's order; None where A is the query alone.
        """

        def compute() -> None:
            try:
                figures = self._agreement(experiment, search, shown)
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
        self, experiment: Experiment, search: GatewaySearch, shown: ScoredWindow | None
    ) -> dict[str, Any]:
        if experiment.b == QUERY:
            assert shown is not None  # noqa: S101 - A is a model then
            a, b = ranked_list(shown), _by_query(shown)
        else:
            served = self._models.served(search, experiment.b)
            alone = _features_alone(search, served)
            tried = self._models.scored(served, alone, time.monotonic() + _PATIENCE)
            a = _by_query(tried) if shown is None else ranked_list(shown)
            b = _over_hits(tried, shown or tried)
        places = [np.argsort(-np.array(ranked.order, dtype=np.float64)) for ranked in (a, b)]
        tau = pair_agreement(*(place.astype(np.float64) for place in places)).tau
        return {"tau": tau, "ms_a": a.milliseconds, "ms_b": b.milliseconds}

    def _window_of_b(
        self,
        model: str,
        main: ServedRanker,
        of_a: Future[ScoredWindow],
        search: GatewaySearch,
        until: float,
    ) -> ScoredWindow:
        """The window of B's own search, or B's scores of A's hits."""
        served = self._models.served(search, model)
        if not _share_search(main, served):
            return self._models.scored(served, _features_alone(search, served), until)
        window = in_time(until, of_a.result, "deadline", "A did not answer in time")
        began = time.monotonic()
        scores = self._models.score(served, external_values(served, search), window.logged)
        seconds = time.monotonic() - began
        return replace(window, served=served, scores=scores, score_seconds=seconds)


def _copied(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hits that keep the features which the answer loses."""
    return [{**hit, **({"fields": dict(hit["fields"])} if "fields" in hit else {})} for hit in hits]


def _result_of_b(window: Future[ScoredWindow], until: float) -> ScoredWindow:
    """The window of B. Raises Degraded where it failed, or is late."""
    try:
        return in_time(until, window.result, "experiment", "B did not answer in time")
    except Degraded:
        raise
    except Exception as error:  # whatever B does, users get A's page
        raise Degraded("experiment", f"B failed: {type(error).__name__}") from error


def _share_search(main: ServedRanker, second: ServedRanker) -> bool:
    """Whether the search of the main ranker has all features that the second one needs."""
    assert main.featureset is not None  # noqa: S101 - told to the type checker
    assert second.featureset is not None  # noqa: S101
    fields = set(document_fields(second.ranker)) - {*document_fields(main.ranker)}
    return main.featureset.hash == second.featureset.hash and not fields


def _features_alone(search: GatewaySearch, served: ServedRanker) -> GatewaySearch:
    """The search for the same hits and their features, without all else that it asks for."""
    deciding = FILTERS | {"query", "from", "size"}
    body = {key: part for key, part in search.body.items() if key in deciding}
    if not document_fields(served.ranker):
        body["_source"] = False
    params = {key: part for key, part in search.url_params.items() if not key.startswith("_source")}
    return replace(search, body={**body, "track_total_hits": False}, url_params=params)


def _by_query(window: ScoredWindow) -> RankedList:
    hits = window.answer["hits"]["hits"]
    return RankedList([*range(len(hits))], engine_scores(hits))


def _over_hits(tried: ScoredWindow, window: ScoredWindow) -> RankedList:
    """B's list as an order of A's hits, where B had a search of its own.

    Hits that one search has and the other lacks, as the index changed in between, are last.
    """
    ranked = ranked_list(tried)
    if tried.answer is window.answer:
        return ranked
    hits = window.answer["hits"]["hits"]
    places = {(hit.get("_index"), hit["_id"]): place for place, hit in enumerate(hits)}
    scores = engine_scores(hits)
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
    search: GatewaySearch,
    client: str,
    answer: dict[str, Any],
    lists: tuple[RankedList, RankedList],
) -> ShownPage:
    """Put the page into the answer. Scores are those of the ranker that leads.

    Raises Degraded where an id is in two indices, as clicks do not say which one they mean.
    """
    hits = answer["hits"]["hits"]
    ordered = [[hits[place] for place in ranked.order] for ranked in lists]

    def merged(start: int, size: int) -> InterleavedPage:
        try:
            return interleave(
                *ordered,
                experiment=experiment.name,
                client=client,
                query=search.words,
                size=size,
                start=start,
            )
        except BadInput as error:
            raise Degraded("experiment", str(error)) from error

    page = merged(search.first, search.size)
    whole = merged(0, search.end) if search.first else page
    attributes = page.query_attributes["experiment"]
    put_page(answer, lists[0] if attributes["leads"] == "a" else lists[1], search)
    for hit in page.hits:
        hit.setdefault("fields", {})[FIELD] = [page.event_attributes[hit["_id"]]]
    answer["hits"]["hits"] = page.hits
    took = {"ms_a": lists[0].milliseconds, "ms_b": lists[1].milliseconds}
    ids = [str(hit["_id"]) for hit in whole.hits]
    return ShownPage("interleaved", answer, ids=ids, attributes={**attributes, **took})
