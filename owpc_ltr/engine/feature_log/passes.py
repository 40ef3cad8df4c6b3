"""Chunk after chunk out of one moment, going on with what is kept of the same contents."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from owpc_ltr.engine.client.concurrency import FIRST_LIMIT, ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import LimitableEngine
from owpc_ltr.engine.feature_log.account import Account, check_shares
from owpc_ltr.engine.feature_log.chunks import Chunk, Values, from_bytes, to_bytes
from owpc_ltr.engine.feature_log.contents import Contents
from owpc_ltr.engine.feature_log.copies import unlike_copies
from owpc_ltr.engine.feature_log.environment import refuse_drift
from owpc_ltr.engine.feature_log.folder import RunFolder
from owpc_ltr.engine.feature_log.job import Job
from owpc_ltr.engine.feature_log.moment import RateLimited, moment_of
from owpc_ltr.engine.feature_log.pinned import MomentLost
from owpc_ltr.engine.feature_log.remote import RemoteWorkers, log_remotely
from owpc_ltr.engine.feature_log.requests import Asker
from owpc_ltr.engine.feature_log.schedule import RateLimit, wait_for
from owpc_ltr.errors import EngineUnavailable, give_warnings

Progress = Callable[[int], None]
"""Called with the number of judged documents that have been accounted for since the last call."""


@dataclass(frozen=True)
class Logged:
    """Chunks that are all kept, of one moment."""

    account: Account
    contents: Contents
    resumed: int
    """Judged documents of chunks that were kept before."""
    unpinned: bool
    """Whether a search may have been answered by another copy of a shard than the others."""


def log_one_moment(
    job: Job, folder: RunFolder, progress: Progress, workers: RemoteWorkers | None = None
) -> Logged:
    """Log what is not kept yet. A moment that the engine loses is followed by another one.

    With `workers` the engine is asked from their processes. Warns where chunks are thrown away
    because they are not of this moment's contents.
    """
    told = 0

    def tell(accounted: int) -> None:
        nonlocal told
        if accounted > told:
            progress(accounted - told)
            told = accounted

    in_vain = 0
    limiter = ConcurrencyLimiter(job.options.most_in_flight)
    rate = None if job.options.rate is None else RateLimit(job.options.rate)
    while True:
        kept = len(folder)
        if job.options.hours is not None:
            wait_for(job.options.hours, lambda line: give_warnings([line]))
        try:
            logged = _log(job, folder, tell, limiter, rate, workers)
        except _ScheduleClosed:
            in_vain = 0
        except MomentLost:
            in_vain = in_vain + 1 if len(folder) <= kept else 0
            if in_vain == job.options.attempts:
                raise
            # A node that left has to be missed first.
            time.sleep(job.options.pause * 2**in_vain)
        else:
            _warn_of_copies(job, logged)
            return logged
        limiter = ConcurrencyLimiter(job.options.most_in_flight, limiter.limit)


class _ScheduleClosed(Exception):
    """The hours are over in which the engine may be asked."""


def _log(
    job: Job,
    folder: RunFolder,
    tell: Progress,
    limiter: ConcurrencyLimiter,
    rate: RateLimit | None,
    workers: RemoteWorkers | None,
) -> Logged:
    engine, in_flight = job.engine, job.options.in_flight or FIRST_LIMIT
    if isinstance(job.engine, LimitableEngine):
        engine, in_flight = job.engine.limited(limiter), job.options.most_in_flight
    with (
        moment_of(engine, job.index, job.environment, job.options) as moment,
        limiter,
        RequestThreads(in_flight) as threads,
    ):
        asker = job.asker(moment if rate is None else RateLimited(moment, rate))
        _resume(job, folder, asker, threads)
        resumed = sum(len(chunk.rows) for chunk in job.chunks if folder.has(chunk.number))
        account = Account()
        missing = [chunk for chunk in job.chunks if not folder.has(chunk.number)]
        if workers is None:
            asked = _asked_here(job, missing, asker, threads)
        else:
            asked = log_remotely(job, moment, missing, workers)
        for chunk in job.chunks:
            if folder.has(chunk.number):
                values = from_bytes(folder.read(chunk.number))
            else:
                if job.options.hours is not None and job.options.hours.waiting(datetime.now()):
                    asked.close()
                    raise _ScheduleClosed
                values = _keep_next(job, chunk, asked, asker, folder)
            account += values.account(len(chunk.rows))
            check_shares(
                account,
                job.chunks[-1].rows.stop,
                job.index,
                job.options.max_absent,
                allow_rejected=job.options.allow_rejected,
            )
            tell(account.judged)
        return Logged(account, moment.contents, resumed, moment.unpinned)


def _warn_of_copies(job: Job, logged: Logged) -> None:
    unlike = unlike_copies(job.engine, job.index) if job.environment.replicated else ""
    if not unlike:
        return
    here = (
        "a search that failed in one was answered by another, since there was no point in time"
        if logged.unpinned
        else "this log asked one and the same throughout"
    )
    give_warnings([
        f"{unlike}, which moves text scores; {here}, and live searches ask any, unless they "
        "send a preference"
    ])  # fmt: skip


def _resume(job: Job, folder: RunFolder, asker: Asker, threads: RequestThreads) -> None:
    """Keep the chunks that are of this moment, or none."""
    thrown_away = folder.resume(asker.moment.contents)
    kept = [chunk for chunk in job.chunks if folder.has(chunk.number)]
    # Merges, stored scripts and clocks move scores though no document is another: of each chunk
    # one query is asked again.
    if kept and not all(threads.map(lambda chunk: _is_as_kept(job, folder, asker, chunk), kept)):
        thrown_away += folder.discard()
    if thrown_away:
        chunks = "a kept chunk is" if thrown_away == 1 else f"{thrown_away} kept chunks are"
        give_warnings([
            f"'{job.index}' has changed since this log was interrupted: {chunks} of another "
            "moment, and logged again"
        ])  # fmt: skip


def _is_as_kept(job: Job, folder: RunFolder, asker: Asker, chunk: Chunk) -> bool:
    """Whether the query of a chunk that has most values has the same ones now."""
    kept = from_bytes(folder.read(chunk.number))
    sizes = [len(job.judgments.queries[query].document_ids) for query in chunk.queries]
    starts = np.cumsum([0, *sizes])
    values = np.add.reduceat(np.isfinite(kept.features).sum(1), starts[:-1])
    richest = int(np.argmax(values))
    rows = slice(int(starts[richest]), int(starts[richest + 1]))
    now = asker.ask(job.question(chunk.queries[richest]))
    return bool(
        np.array_equal(now.fates, kept.fates[rows])
        and np.array_equal(now.features, kept.features[rows], equal_nan=True)
    )


def _asked_here(
    job: Job, chunks: Sequence[Chunk], asker: Asker, threads: RequestThreads
) -> Generator[Values]:
    """The values of chunks, each asked for when its turn comes."""
    for chunk in chunks:
        questions = [job.question(query) for query in chunk.queries]
        yield Values.joined(threads.map(asker.ask, questions))


def _keep_next(
    job: Job, chunk: Chunk, asked: Iterator[Values], asker: Asker, folder: RunFolder
) -> Values:
    """The values of a chunk, which come next, kept."""
    try:
        values = next(asked)
        # A chunk is kept only where its values are known to be from what it is said to be from.
        asker.moment.refuse_change()
        refuse_drift(job.environment, job.observe())
    except MomentLost:
        raise
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{error}; {len(folder)} of {len(job.chunks)} chunks are kept, and the same command "
            "goes on from there"
        ) from error
    values.account(len(chunk.rows))
    folder.keep(chunk.number, to_bytes(values))
    return values
