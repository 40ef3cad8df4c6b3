"""Chunk after chunk out of one moment, going on with what is kept of the same contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from owpc_ltr.engine.feature_log.account import Account, check_shares
from owpc_ltr.engine.feature_log.chunks import Chunk, Values, from_bytes, to_bytes
from owpc_ltr.engine.feature_log.contents import Contents
from owpc_ltr.engine.feature_log.environment import refuse_drift
from owpc_ltr.engine.feature_log.folder import RunFolder
from owpc_ltr.engine.feature_log.job import Job
from owpc_ltr.engine.feature_log.moment import moment_of
from owpc_ltr.engine.feature_log.pinned import MomentLost
from owpc_ltr.engine.feature_log.requests import Asker
from owpc_ltr.engine.http.workers import Workers
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


def log_one_moment(job: Job, folder: RunFolder, progress: Progress) -> Logged:
    """Log what is not kept yet. A moment that the engine loses is followed by another one.

    Warns where chunks are thrown away because they are not of this moment's contents.
    """
    told = 0

    def tell(accounted: int) -> None:
        nonlocal told
        if accounted > told:
            progress(accounted - told)
            told = accounted

    in_vain = 0
    while True:
        kept = len(folder)
        try:
            return _log(job, folder, tell)
        except MomentLost:
            in_vain = in_vain + 1 if len(folder) <= kept else 0
            if in_vain == job.options.attempts:
                raise


def _log(job: Job, folder: RunFolder, tell: Progress) -> Logged:
    with (
        moment_of(job.engine, job.index, job.environment, job.options) as moment,
        Workers(job.options.in_flight) as workers,
    ):
        asker = job.asker(moment)
        _resume(job, folder, asker, workers)
        resumed = sum(len(chunk.rows) for chunk in job.chunks if folder.has(chunk.number))
        account = Account()
        for chunk in job.chunks:
            if folder.has(chunk.number):
                values = from_bytes(folder.read(chunk.number))
            else:
                values = _log_chunk(job, chunk, asker, workers, folder)
            account += values.account(len(chunk.rows))
            check_shares(
                account,
                job.chunks[-1].rows.stop,
                job.index,
                job.options.max_absent,
                allow_rejected=job.options.allow_rejected,
            )
            tell(account.judged)
        return Logged(account, moment.contents, resumed)


def _resume(job: Job, folder: RunFolder, asker: Asker, workers: Workers) -> None:
    """Keep the chunks that are of this moment, or none."""
    thrown_away = folder.resume(asker.moment.contents)
    kept = [chunk for chunk in job.chunks if folder.has(chunk.number)]
    # Merges, stored scripts and clocks move scores though no document is another: of each chunk
    # one query is asked again.
    if kept and not all(workers.map(lambda chunk: _is_as_kept(job, folder, asker, chunk), kept)):
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


def _log_chunk(job: Job, chunk: Chunk, asker: Asker, workers: Workers, folder: RunFolder) -> Values:
    questions = [job.question(query) for query in chunk.queries]
    try:
        values = Values.joined(workers.map(asker.ask, questions))
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
