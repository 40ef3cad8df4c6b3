"""The whole job of a feature log: chunk after chunk out of one snapshot, to the dataset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.concurrency import FIRST_LIMIT, ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import EngineLike, LimitableEngine, search_index
from owpc_ltr.engine.client.responses import AnswerPart
from owpc_ltr.engine.feature_log.feature_reader import (
    Chunk,
    DocumentStatus,
    FeatureReader,
    LogCounts,
    Values,
    from_bytes,
    to_bytes,
)
from owpc_ltr.engine.feature_log.job import LogJob, plan, refuse_drift
from owpc_ltr.engine.feature_log.remote import RemoteWorkers, log_remotely
from owpc_ltr.engine.feature_log.request_options import LogOptions, RateLimit, Schedule, wait_for
from owpc_ltr.engine.feature_log.run_folder import (
    PartitionedOutput,
    RunFolder,
    assemble,
    open_run,
    publish,
    publish_parts,
)
from owpc_ltr.engine.feature_log.snapshot import Contents, SnapshotLost, differing_copies
from owpc_ltr.engine.stores import Store
from owpc_ltr.engine.stores.feature_set_trial import field_types
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused, give_warnings
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.inspection.checks import warnings_after_log
from owpc_ltr.inspection.columns import warnings_of_log
from owpc_ltr.signatures import option_name
from owpc_ltr.text import ShortRepr, cut

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

Progress = Callable[[int], None]
"""Called with the number of judged documents that are accounted for."""


@dataclass(frozen=True, repr=False)
class LogReport(ShortRepr):
    """What a feature log did: the counts and manifest of the dataset, and how fast."""

    path: Path
    counts: LogCounts
    manifest: dict[str, Any]
    resumed: int
    """Judged documents that an earlier, interrupted run had accounted for."""
    seconds: float
    warnings: tuple[str, ...] = ()
    """Features that no document has a value for, or all the same; and what else looks wrong."""

    def __str__(self) -> str:
        counts, queries = self.counts, self.manifest["queries"]
        rejected = "".join(f"; {n:,} rejected: {why}" for why, n in counts.rejected.items())
        lines = [
            f"{self.path}: {counts.logged:,} documents of {queries['logged']:,} queries, "
            f"{len(self.manifest['missing'])} features",
            f"{counts.judged:,} judged = {counts.logged:,} logged + {counts.absent:,} absent + "
            f"{counts.n_rejected:,} rejected{rejected}",
            f"{self.pairs_per_second:,.0f} documents a second, {self.seconds:.1f} s",
        ]
        lines += map(_table_in_words, self.manifest.get("joined_tables", ()))
        if queries["logged"] < queries["judged"]:
            lost = queries["judged"] - queries["logged"]
            lines.append(f"{lost:,} queries have no document left and are not in the dataset")
        if self.resumed:
            lines.append(f"{self.resumed:,} documents were resumed from an interrupted run")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "dataset": str(self.path),
            **self.manifest,
            "resumed": self.resumed,
            "seconds": self.seconds,
            "pairs_per_second": self.pairs_per_second,
        }

    @property
    def pairs_per_second(self) -> float:
        """Query–document pairs that this run accounted for, a second."""
        return (self.counts.judged - self.resumed) / self.seconds


def run_log(
    engine: EngineLike,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    out: Path,
    *,
    source: str | None = None,
    options: LogOptions | None = None,
    joined: Sequence[ExternalTable] = (),
    parted: PartitionedOutput | None = None,
    workers: RemoteWorkers | None = None,
    progress: Progress = lambda _: None,
) -> LogReport:
    """Log the features of every judged document into the dataset `out`.

    `parted`: a folder of parts, and which share of the queries is logged into it. `workers`: other
    processes, which ask the engine; what they find is kept here, to the same bytes.

    `source` is the SHA-256 of the file that the judgments are from, for the manifest. The columns
    of `joined` tables come after the features of the set.

    All values are from one snapshot of the index. Work that is done is kept beside `out`; the same
    call goes on from it, to the same bytes, or, where the index holds something else by then, does
    it again.
    Raises Refused, and publishes nothing, where an answer stays incomplete, too many documents
    are absent or rejected, or the environment changed; EngineUnavailable where the engine does
    not answer.
    """
    started = time.monotonic()
    whole = judgments
    if parted is not None:
        parted.check(out, joined)
        judgments = parted.own(judgments)
    job = plan(
        engine, store, featureset, judgments, index,
        whole=whole, source=source, options=options or LogOptions(), tables=joined,
    )  # fmt: skip
    # Chunks of another size are another job's, though they would give the same values.
    kept_for = {**job.description, "chunk": job.options.chunk}
    beside = out if parted is None else parted.beside(out)
    restart = job.options.restart
    with open_run(beside, kept_for, restart=restart, of_parts=parted is not None) as folder:
        logged = log_snapshot(job, folder, progress, workers)
        description = job.manifest(logged.contents)
        if parted is not None:
            refuse_drift(job.environment, job.observe())
            manifest, columns = publish_parts(folder, job, description, out, parted)
            warnings: list[str] = []
        else:
            dataset, columns = assemble(folder, job, description)
            refuse_drift(job.environment, job.observe())
            publish(folder, dataset, out)
            manifest = dict(dataset.manifest or {})
            warnings = warnings_after_log(dataset)
    return LogReport(
        out, logged.counts, manifest, logged.resumed, seconds=time.monotonic() - started,
        warnings=(*warnings_of_log(columns, job.feature_names), *warnings),
    )  # fmt: skip


@dataclass(frozen=True)
class LoggedChunks:
    """Chunks that are all kept, of one snapshot."""

    counts: LogCounts
    contents: Contents
    resumed: int
    """Judged documents of chunks that were kept before."""
    any_copy: bool
    """Whether a search may have been answered by another copy of a shard than the others."""


def log_snapshot(
    job: LogJob, folder: RunFolder, progress: Progress, workers: RemoteWorkers | None = None
) -> LoggedChunks:
    """Log what is not kept yet. A snapshot that the engine loses is followed by another one.

    With `workers` the engine is asked from their processes. Warns where chunks are thrown away
    because they are not of this snapshot's contents.
    """
    most = 0

    def tell(accounted: int) -> None:
        nonlocal most
        if accounted > most:
            progress(accounted)
            most = accounted

    in_vain = 0
    limiter = ConcurrencyLimiter(job.options.most_in_flight)
    rate = None if job.options.rate is None else RateLimit(job.options.rate)
    while True:
        n_kept = len(folder)
        if job.options.schedule is not None:
            wait_for(Schedule.parse(job.options.schedule), lambda line: give_warnings([line]))
        try:
            logged = _log(job, folder, tell, limiter, rate=rate, workers=workers)
        except _ScheduleClosed:
            in_vain = 0
        except SnapshotLost:
            in_vain = in_vain + 1 if len(folder) <= n_kept else 0
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
    job: LogJob,
    folder: RunFolder,
    tell: Progress,
    limiter: ConcurrencyLimiter,
    rate: RateLimit | None,
    workers: RemoteWorkers | None,
) -> LoggedChunks:
    engine, in_flight = job.engine, job.options.in_flight or FIRST_LIMIT
    if isinstance(job.engine, LimitableEngine):
        engine, in_flight = job.engine.limited(limiter), job.options.most_in_flight
    with job.open_snapshot(engine) as snapshot, limiter, RequestThreads(in_flight) as threads:
        reader = job.reader(snapshot, rate)
        _resume(job, folder, reader, threads)
        resumed = sum(len(chunk.rows) for chunk in job.chunks if folder.has(chunk.number))
        counts = LogCounts()
        missing = [chunk for chunk in job.chunks if not folder.has(chunk.number)]
        if workers is None:
            # Each chunk is asked for when its turn comes.
            logged = (
                Values.joined(threads.map(reader.values_of, job.documents_of(chunk)))
                for chunk in missing
            )
        else:
            logged = log_remotely(job, snapshot, missing, workers)
        for chunk in job.chunks:
            if folder.has(chunk.number):
                values = from_bytes(folder.read(chunk.number))
            else:
                hours = job.options.schedule
                if hours is not None and Schedule.parse(hours).waiting(datetime.now()):
                    logged.close()
                    raise _ScheduleClosed
                values = _store_next(job, chunk, logged, reader, folder)
            counts += values.counts(len(chunk.rows))
            try:
                _check_shares(job, counts)
            except Refused:
                if not counts.logged:
                    folder.discard()  # so that it is not in the way of a corrected command
                raise
            tell(counts.judged)
        return LoggedChunks(counts, snapshot.contents, resumed, snapshot.any_copy)


def _warn_of_copies(job: LogJob, logged: LoggedChunks) -> None:
    difference = differing_copies(job.engine, job.index) if job.environment.replicated else ""
    if not difference:
        return
    copy = "this log asked one and the same throughout"
    if logged.any_copy:
        copy = (
            "a search that failed in one was answered by another, since there was no point in time"
        )
    give_warnings([
        f"{difference}, which moves text scores; {copy}, and live searches ask any, unless they "
        "send a preference"
    ])  # fmt: skip


def _resume(job: LogJob, folder: RunFolder, reader: FeatureReader, threads: RequestThreads) -> None:
    """Keep the chunks that are of this snapshot, or none."""
    thrown_away = folder.resume(reader.snapshot.contents)
    chunks_kept = [chunk for chunk in job.chunks if folder.has(chunk.number)]
    # Merges, stored scripts and clocks move scores though no document is another: of each chunk
    # queries are asked again.
    if chunks_kept and not all(
        threads.map(lambda chunk: _is_unchanged(job, folder, reader, chunk), chunks_kept)
    ):
        thrown_away += folder.discard()
    if thrown_away:
        chunks = "a kept chunk is" if thrown_away == 1 else f"{thrown_away} kept chunks are"
        give_warnings([
            f"'{job.index}' has changed since this log was interrupted: {chunks} of another "
            "snapshot, and logged again"
        ])  # fmt: skip


def _is_unchanged(job: LogJob, folder: RunFolder, reader: FeatureReader, chunk: Chunk) -> bool:
    """Whether two queries of a chunk are as they were: with most values, and most absent documents.

    The second one finds documents that a broken answer had left out.
    """
    before = from_bytes(folder.read(chunk.number))
    queries = job.documents_of(chunk)
    starts = np.cumsum([0, *(len(query.doc_ids) for query in queries)])
    values = np.add.reduceat(np.isfinite(before.features).sum(1), starts[:-1])
    absent = np.add.reduceat((before.status == DocumentStatus.ABSENT).astype(int), starts[:-1])
    sample = {int(np.argmax(values)), *([int(np.argmax(absent))] if absent.any() else [])}
    for number in sorted(sample):
        rows = slice(int(starts[number]), int(starts[number + 1]))
        now = reader.values_of(queries[number])
        if not (
            np.array_equal(now.status, before.status[rows])
            and np.array_equal(now.features, before.features[rows], equal_nan=True)
        ):
            return False
    return True


def _store_next(
    job: LogJob, chunk: Chunk, logged: Iterator[Values], reader: FeatureReader, folder: RunFolder
) -> Values:
    """The values of a chunk, which come next, kept."""
    try:
        values = next(logged)
        # A chunk is kept only where its values are known to be from what it is said to be from.
        reader.snapshot.refuse_change()
        refuse_drift(job.environment, job.observe())
    except SnapshotLost:
        raise
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{error}; {len(folder)} of {len(job.chunks)} chunks are kept, and the same command "
            "goes on from there"
        ) from error
    values.counts(len(chunk.rows))
    folder.keep(chunk.number, to_bytes(values))
    return values


def _table_in_words(table: dict[str, Any]) -> str:
    """A table's counts: `ctr.parquet: ctr by query_id and document_id; …`."""
    return (
        f"{table['file']}: {', '.join(table['features'])} by {' and '.join(table['keys'])}; "
        f"{table['matched']:,} judged pairs have a row, {table['unmatched']:,} have none; "
        f"{table['unused']:,} of {table['rows']:,} rows met no pair"
    )


_NONE_OF = 100
"""Absent documents that say that the ids are others; fewer may be a query's whose products went."""


def _check_shares(job: LogJob, counts: LogCounts) -> None:
    """Refuse counts, also running ones, where too many of the judged documents are missing.

    Running counts that are over the limit cannot come back under it. Where none is there, it says
    what the ids look like, and does not offer to go on.
    """
    judged, index, most = job.chunks[-1].rows.stop, job.index, job.options.max_absent
    share = counts.absent / judged
    if counts.absent > most * judged:
        if counts.absent == counts.judged >= min(_NONE_OF, judged):
            first = "" if counts.judged == judged else f"the first {counts.judged} of "
            advice = id_advice(job.engine, index, job.judgments.queries)
            raise Refused(f"none of {first}{judged} judged documents is in '{index}': {advice}")
        allowed = min(1.0, (int(share * 100) + 1) / 100)
        raise Refused(
            f"{counts.absent} of {judged} judged documents ({share:.1%}) are not in '{index}', and "
            f"at most {most:.1%} may be: is it the right index and id field? Otherwise allow it: "
            f"--max-absent {allowed}"
        )
    if counts.rejected and not job.options.allow_rejected:
        reasons = ", ".join(f"{n} ({reason})" for reason, n in sorted(counts.rejected.items()))
        raise Refused(
            f"documents were rejected: {reasons}; fix the feature set, or leave them out: "
            "--allow-rejected"
        )


_WHOLE_NUMBERS = {"integer", "long", "short", "unsigned_long"}
_FIELDS, _IDS = 50, 20
_LONGEST = 40


def id_advice(engine: EngineLike, index: str, queries: Sequence[JudgedQuery]) -> str:
    """An id of both sides, and the field of the index that holds judged ids, or a question."""
    judged = queries[0].doc_ids
    texts = [
        text for q in queries[:_IDS] for text in (q.query_id, str(q.params.get("query") or "?"))
    ]
    question = "is it the right index and id field?"
    advice = f"judged '{cut(judged[0], _LONGEST)}'"
    try:
        indexed = _search(engine, index, {"match_all": {}})
        if indexed is None:
            return f"{advice}, and '{index}' is empty: {question}"
        advice += f"; ids in the index look like '{cut(indexed['_id'].text, _LONGEST)}'"
        if _search(engine, index, {"ids": {"values": texts}}) is not None:
            swapped = f"are the columns swapped ({option_name('columns')})?"
            return f"{advice}, as the judged queries do: {swapped}"
        field = _holding(engine, index, list(judged[:_IDS]))
    except OwpcLtrError:  # advice may not hide what it is about
        field = None
    if field is None:
        return f"{advice}; {question}"
    return (
        f"{advice}; the field '{field}' holds the judged ids: index again with --id-field {field}"
    )


def _holding(engine: EngineLike, index: str, judged: list[str]) -> str | None:
    types = field_types(engine, index)
    kinds = {"keyword"} | (_WHOLE_NUMBERS if all(map(str.isdecimal, judged)) else set())
    fields = [name for name, kind in types.items() if kind in kinds][:_FIELDS]
    if not fields:
        return None
    clauses = [{"terms": {field: judged, "_name": field}} for field in fields]
    hit = _search(engine, index, {"bool": {"should": clauses, "minimum_should_match": 1}})
    if hit is None:
        return None
    field = next(iter(hit["matched_queries"])).text
    # The text of a document has no name.keyword, which is name indexed in another way.
    above = field.rpartition(".")[0]
    return above if types.get(above) == "text" else field


def _search(engine: EngineLike, index: str, query: dict[str, Any]) -> AnswerPart | None:
    """The first hit of a query; None where there is none."""
    body = {"query": query, "size": 1, "_source": False}
    what = f"a document of '{index}'"
    hits = search_index(engine, index, body, what).hits
    return AnswerPart(hits[0], what) if hits else None
