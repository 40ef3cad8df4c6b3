"""Chunks whose features other processes ask the engine for, in the moment that this one holds.

Each of them finds its own credentials, as this one did: none are sent.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from owpc_ltr.engine.feature_log.chunks import Chunk, Values, from_bytes, to_bytes
from owpc_ltr.engine.feature_log.job import Job
from owpc_ltr.engine.feature_log.moment import Moment
from owpc_ltr.engine.feature_log.options import LEAST_RATE, LogOptions
from owpc_ltr.engine.feature_log.pinned import MomentLost, Pinned
from owpc_ltr.engine.feature_log.rate import Rate, Slowed
from owpc_ltr.engine.feature_log.requests import Asker, Question
from owpc_ltr.engine.feature_log.strain import SearchQueues
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.congestion import Congestion
from owpc_ltr.engine.http.connection import find_settings
from owpc_ltr.engine.http.pace import Pace
from owpc_ltr.engine.http.workers import Workers
from owpc_ltr.engine.store.choose import choose_store
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet

_AHEAD = 4
"""Chunks for each thread of the helpers that are asked for together."""


class Helpers(Protocol):
    """Other processes: each makes calls, and is there for whoever gives them."""

    @property
    def processes(self) -> int:
        """How many there are."""
        ...

    @property
    def threads(self) -> int:
        """How many calls they make side by side."""
        ...

    def each(self, calls: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        """What the calls make, in order."""
        ...


@dataclass(frozen=True)
class Asking:
    """All that another process needs to know besides its questions; `limit` searches at first."""

    url: str
    ca: Path | None
    insecure: bool
    store: tuple[str, str | None]
    featureset: FeatureSet
    index: str
    indices: frozenset[str]
    moment: str
    elastic: bool
    options: LogOptions
    limit: int

    def congestion(self) -> Congestion:
        """How many searches are borne, as far as is known."""
        return Congestion(self.options.most_in_flight, self.limit)


def asked_elsewhere(
    job: Job, moment: Moment, chunks: Sequence[Chunk], helpers: Helpers
) -> Generator[Values]:
    """The values of chunks, in order, some of which are asked for ahead.

    Raises Refused where the moment is not one that others can search, UsageError where the options
    cannot be shared out.
    """
    if not isinstance(moment, Pinned) or not isinstance(job.engine, Engine):
        raise Refused(
            f"workers cannot log '{job.index}' together, for the engine did not pin it to one "
            "moment: log without --cluster, or with the right to open a point in time"
        )
    asking = _asking(job, job.engine, moment, helpers.processes)
    together = _AHEAD * max(1, helpers.threads)
    for first in range(0, len(chunks), together):
        asking = replace(asking, moment=moment.name)
        group = [
            partial(ask, asking, [job.question(query) for query in chunk.queries])
            for chunk in chunks[first : first + together]
        ]
        limits = []
        for content, limit in helpers.each(group):
            limits.append(limit)
            yield from_bytes(content)
        # One that was told to slow down speaks for all.
        asking = replace(asking, limit=min(limits))


def ask(asking: Asking, questions: Sequence[Question]) -> tuple[bytes, int]:
    """The values of some queries, asked for from here, and how many searches the engine bears."""
    try:
        return _asked(asking, questions)
    except MomentLost:
        raise
    except EngineUnavailable as error:
        raise EngineUnavailable(f"worker on {platform.node()}: {error}") from error


def _asking(job: Job, engine: Engine, moment: Pinned, processes: int) -> Asking:
    """What one of so many processes is told: its share of what is allowed."""
    options, settings = job.options, engine.settings
    if options.in_flight is not None and options.in_flight < processes:
        raise UsageError(
            f"in-flight {options.in_flight} is less than one search for each of {processes} "
            "workers: allow more, or take fewer workers"
        )
    if options.rate is not None and options.rate / processes < LEAST_RATE:
        raise UsageError(
            f"rate {options.rate} is less than {LEAST_RATE} for each of {processes} workers: allow "
            "more, or take fewer workers"
        )
    share = replace(
        options,
        in_flight=max(1, options.most_in_flight // processes),
        rate=None if options.rate is None else options.rate / processes,
    )
    return Asking(
        settings.url,
        settings.ca,
        settings.insecure,
        (job.store.kind, job.store.name),
        job.featureset,
        job.index,
        frozenset(job.environment.indices),
        moment.name,
        moment.elastic,
        share,
        max(1, Congestion(options.most_in_flight).limit // processes),
    )


def _asked(asking: Asking, questions: Sequence[Question]) -> tuple[bytes, int]:
    settings = find_settings(asking.url, ca=asking.ca, insecure=asking.insecure)
    with closing(Engine(settings)) as engine:
        queues, pace = SearchQueues(engine), Pace(asking.congestion())
        queues.are_strained()
        paced = engine.at_pace(pace)
        moment: Moment = Pinned(paced, asking.index, asking.moment, elastic=asking.elastic)
        rate = None if asking.options.rate is None else Rate(asking.options.rate)
        asker = Asker(
            moment if rate is None else Slowed(moment, rate),
            choose_store(engine, *asking.store),
            asking.featureset,
            asking.indices,
            asking.options,
        )
        with pace, Workers(asking.options.most_in_flight) as workers:
            values = Values.joined(workers.map(asker.ask, questions))
        if rate is not None:
            rate.wait(0)
        if queues.are_strained():
            pace.rejected()
    return to_bytes(values), pace.limit
