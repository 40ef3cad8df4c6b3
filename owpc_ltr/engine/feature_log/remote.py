"""Remote logging: chunks whose features worker processes request, in the snapshot held here.

Each worker finds its own credentials, as this process did: none are sent.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from owpc_ltr.engine.client.concurrency import FIRST_LIMIT, ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import find_settings
from owpc_ltr.engine.feature_log.feature_reader import (
    Chunk,
    FeatureReader,
    QueryDocuments,
    Values,
    from_bytes,
    to_bytes,
)
from owpc_ltr.engine.feature_log.job import LogJob
from owpc_ltr.engine.feature_log.request_options import LEAST_RATE, LogOptions, RateLimit
from owpc_ltr.engine.feature_log.snapshot import PointInTime, Snapshot, SnapshotLost
from owpc_ltr.engine.stores import choose_store
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet

_AHEAD = 4
"""Chunks for each thread of the workers that are requested together."""


class RemoteWorkers(Protocol):
    """Processes that make calls."""

    @property
    def processes(self) -> int:
        """How many there are."""
        ...

    @property
    def threads(self) -> int:
        """How many calls they make side by side."""
        ...

    def each(self, calls: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        """The results of the calls, in order."""
        ...


@dataclass(frozen=True)
class RemoteJob:
    """All that a worker needs to know besides its questions; `limit` searches at first."""

    url: str
    ca: Path | None
    insecure: bool
    store: tuple[str, str | None]
    featureset: FeatureSet
    index: str
    indices: frozenset[str]
    snapshot: str
    elastic: bool
    options: LogOptions
    limit: int


def log_remotely(
    job: LogJob, snapshot: Snapshot, chunks: Sequence[Chunk], workers: RemoteWorkers
) -> Generator[Values]:
    """The values of chunks, in order, some of which are requested ahead.

    Raises Refused where others cannot search the snapshot, UsageError where the options cannot be
    shared out.
    """
    if not isinstance(snapshot, PointInTime) or not isinstance(job.engine, Engine):
        raise Refused(
            f"workers cannot log '{job.index}' together, for it has no point in time: log without "
            "workers, or with the right to open one"
        )
    if job.engine.client_given:
        raise UsageError(
            "workers open their own connections: connect by address, not by a ready client"
        )
    remote = _remote_job(job, job.engine, snapshot, workers.processes)
    together = _AHEAD * max(1, workers.threads)
    for first in range(0, len(chunks), together):
        remote = replace(remote, snapshot=snapshot.name)
        group = [
            partial(log_here, remote, job.documents_of(chunk))
            for chunk in chunks[first : first + together]
        ]
        limits = []
        for content, limit in workers.each(group):
            limits.append(limit)
            yield from_bytes(content)
        # The lowest limit that a worker found holds for all.
        remote = replace(remote, limit=min(limits))


def log_here(remote: RemoteJob, questions: Sequence[QueryDocuments]) -> tuple[bytes, int]:
    """In a worker: the values of some queries, and how many searches the engine bears at once."""
    options = remote.options
    settings = find_settings(remote.url, ca=remote.ca, insecure=remote.insecure)
    limiter = ConcurrencyLimiter(options.most_in_flight, remote.limit)
    rate = None if options.rate is None else RateLimit(options.rate)
    try:
        with closing(Engine(settings)) as engine:
            snapshot = PointInTime(
                engine.limited(limiter), remote.index, remote.snapshot, elastic=remote.elastic
            )
            reader = FeatureReader(
                snapshot, choose_store(engine, *remote.store), remote.featureset, remote.indices,
                options=options, rate=rate,
            )  # fmt: skip
            with limiter, RequestThreads(options.most_in_flight) as threads:
                values = Values.joined(threads.map(reader.values_of, questions))
            if rate is not None:
                rate.wait(0)
    except SnapshotLost:
        raise
    except EngineUnavailable as error:
        raise EngineUnavailable(f"worker on {platform.node()}: {error}") from error
    return to_bytes(values), limiter.limit


def _remote_job(job: LogJob, engine: Engine, snapshot: PointInTime, processes: int) -> RemoteJob:
    """The job of one of so many workers, with its share of what is allowed."""
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
    return RemoteJob(
        settings.url, settings.ca, insecure=settings.insecure,
        store=(job.store.kind, job.store.name), featureset=job.featureset, index=job.index,
        indices=frozenset(job.environment.indices), snapshot=snapshot.name,
        elastic=snapshot.elastic, options=share,
        limit=max(1, min(FIRST_LIMIT, options.most_in_flight) // processes),
    )  # fmt: skip
