"""The whole job of a feature log, chunk by chunk: `log_features`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.feature_log.account import Account, check_shares
from owpc_ltr.engine.feature_log.assembly import assemble, fingerprint
from owpc_ltr.engine.feature_log.chunks import Chunk, Values, cut, from_bytes, to_bytes
from owpc_ltr.engine.feature_log.environment import Environment, observe, refuse_drift
from owpc_ltr.engine.feature_log.folder import RunFolder, open_run, publish
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.parameters import typed_params
from owpc_ltr.engine.feature_log.requests import Asker, Question, Transport
from owpc_ltr.engine.feature_log.workers import Workers
from owpc_ltr.engine.http.refusals import EngineRefusal
from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.names import check_index

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.store.base import Store

Progress = Callable[[int], None]
"""Called with the number of judged documents that have been accounted for since the last call."""


@dataclass(frozen=True)
class LogReport:
    """What a feature log did: the account and manifest of the dataset, and how fast."""

    path: Path
    account: Account
    manifest: dict[str, Any]
    resumed: int
    """Judged documents that an earlier, interrupted run had accounted for."""
    seconds: float

    @property
    def pairs_per_second(self) -> float:
        """Query–document pairs that this run accounted for, a second."""
        return (self.account.judged - self.resumed) / self.seconds


def log_features(
    engine: Transport,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    out: Path,
    *,
    source: str | None = None,
    options: LogOptions | None = None,
    progress: Progress = lambda _: None,
) -> LogReport:
    """Log the features of every judged document into the dataset `out`.

    `source` is the SHA-256 of the file that the judgments are from, for the manifest.

    Work that is done is kept beside `out`; the same call goes on from it, to the same bytes.
    Raises Refused, and publishes nothing, where an answer stays incomplete, too many documents
    are absent or rejected, or the environment changed; EngineUnavailable where the engine does
    not answer.
    """
    started = time.monotonic()
    options = options or LogOptions()
    job = _plan(engine, store, featureset, judgments, index, source, options)
    # Chunks of another size are another job's, though they would give the same values.
    kept_for = {**job.description, "chunk": options.chunk}
    with open_run(out, kept_for, restart=options.restart) as folder:
        resumed = sum(len(chunk.rows) for chunk in job.chunks if folder.has(chunk.number))
        account = _log_chunks(job, folder, progress)
        dataset = assemble(
            folder, job.chunks, judgments, job.params, job.environment, job.description
        )
        refuse_drift(job.environment, job.observe())
        publish(folder, dataset, out)
    return LogReport(
        out, account, dict(dataset.manifest or {}), resumed, time.monotonic() - started
    )


@dataclass(frozen=True)
class _Job:
    """Everything that is known before the first search."""

    asker: Asker
    judgments: Judgments
    params: list[dict[str, Any]]
    chunks: list[Chunk]
    environment: Environment
    description: dict[str, Any]
    """What makes this job another one than others; part of the manifest."""

    def observe(self) -> Environment:
        """The environment now."""
        return observe(
            self.asker.engine, self.asker.store, self.asker.featureset.name, self.asker.index
        )

    def question(self, query: int) -> Question:
        """What is asked for one judged query."""
        judged = self.judgments.queries[query]
        return Question(judged.query_id, self.params[query], judged.document_ids)


def _plan(
    engine: Transport,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    source: str | None,
    options: LogOptions,
) -> _Job:
    check_index(index)
    _check_judgments(judgments)
    params = typed_params(judgments, featureset)
    try:
        environment = observe(engine, store, featureset.name, index)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        raise BadInput(f"there is no index '{index}' to log from: check its name") from refusal
    refuse_drift(replace(environment, featureset=featureset), environment)
    description = {
        "judgments": {"sha256": source, "fingerprint": fingerprint(judgments)},
        "featureset": {"name": featureset.name, "hash": featureset.hash},
        "index": {"name": index, "indices": environment.indices},
        "engine": environment.engine,
    }
    return _Job(
        Asker(engine, store, featureset, index, frozenset(environment.indices), options),
        judgments,
        params,
        cut([len(query.document_ids) for query in judgments.queries], options.chunk),
        environment,
        description,
    )


def _check_judgments(judgments: Judgments) -> None:
    """Refuse what would only fail after hours."""
    if not judgments.queries:
        raise BadInput("the judgments hold no query")
    seen: set[str] = set()
    for query in judgments.queries:
        if query.query_id in seen:
            raise BadInput(f"query '{query.query_id}' stands twice in the judgments")
        seen.add(query.query_id)
        if not query.document_ids:
            raise BadInput(f"query '{query.query_id}' has no judged document")
        if len(set(query.document_ids)) < len(query.document_ids):
            raise BadInput(f"query '{query.query_id}' judges a document twice")


def _log_chunks(job: _Job, folder: RunFolder, progress: Progress) -> Account:
    """Log what is not kept yet, and account for everything."""
    account = Account()
    options = job.asker.options
    with Workers(options.in_flight) as workers:
        for chunk in job.chunks:
            if folder.has(chunk.number):
                values = from_bytes(folder.read(chunk.number))
            else:
                values = _log_chunk(job, chunk, workers, folder)
            account += values.account(len(chunk.rows))
            check_shares(
                account,
                job.chunks[-1].rows.stop,
                job.asker.index,
                options.max_absent,
                allow_rejected=options.allow_rejected,
            )
            progress(len(chunk.rows))
    return account


def _log_chunk(job: _Job, chunk: Chunk, workers: Workers, folder: RunFolder) -> Values:
    questions = [job.question(query) for query in chunk.queries]
    try:
        values = Values.joined(workers.map(job.asker.ask, questions))
        # A chunk is kept only where its values are known to be from the environment it names.
        refuse_drift(job.environment, job.observe())
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{error}; {len(folder)} of {len(job.chunks)} chunks are kept, and the same command "
            "goes on from there"
        ) from error
    values.account(len(chunk.rows))
    folder.keep(chunk.number, to_bytes(values))
    return values
