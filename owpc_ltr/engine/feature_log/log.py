"""The whole job of a feature log: chunk after chunk out of one snapshot, to the dataset."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.feature_sources import KEY
from owpc_ltr.data.judgments import JUDGED_BY, importance_of, judges_column, weights_of
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.partitioned import check_buckets, check_folder, write_partitioned
from owpc_ltr.engine.client.concurrency import FIRST_LIMIT, ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import EngineLike, LimitableEngine
from owpc_ltr.engine.feature_log.job import (
    Chunk,
    DocumentStatus,
    FeatureReader,
    LogCounts,
    LogJob,
    Values,
    canonical,
    plan,
)
from owpc_ltr.engine.feature_log.snapshot import (
    MOST_IN_FLIGHT,
    Contents,
    LogOptions,
    PointInTime,
    SnapshotLost,
    point_in_time,
    read_contents,
)
from owpc_ltr.errors import (
    DiskFault,
    EngineUnavailable,
    OwpcLtrError,
    Refused,
    UsageError,
    give_warning,
)
from owpc_ltr.files.input import refuse_outside
from owpc_ltr.files.output import digest_of, lock_folder, sync_folder, write_atomically
from owpc_ltr.inspection.checks import warnings_of_log
from owpc_ltr.inspection.measures import ColumnFacts, column_facts, facts_together
from owpc_ltr.text import ShortRepr, cut

if TYPE_CHECKING:
    from owpc_ltr.data.external_features import ExternalTable
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.features.feature_set import FeatureSet


_DIGEST_BYTES = hashlib.sha256().digest_size


class RunFolder:
    """The finished chunks of one job, `kept` by number; see `open_run`."""

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        """Use a folder whose lock is held. `resume` finds what is kept in it."""
        self.path = path
        self.kept: set[int] = set()
        self._job = job
        self._scope = ""

    def resume(self, contents: Contents) -> int:
        """Continue with the chunks of these contents; how many others are thrown away."""
        self._scope = digest_of([self._job, contents])
        self.kept = set()
        thrown_away = 0
        with _disk(self.path):
            for file in _chunk_files(self.path):
                number = int(file.name.removeprefix(_PREFIX))
                if file == self._file(number) and self._checked(number, file.read_bytes()):
                    self.kept.add(number)
                else:
                    file.unlink()
                    thrown_away += 1
        return thrown_away

    def discard(self) -> int:
        """Throw away what is kept; how many chunks that were."""
        n_kept, self.kept = len(self.kept), set()
        with _disk(self.path):
            _remove_chunks(self.path)
        return n_kept

    def keep(self, number: int, values: Values) -> None:
        """Make a chunk durable."""
        content = values.to_bytes()
        with _disk(self.path):
            write_atomically(self._file(number), self._digest(number, content) + content)
        self.kept.add(number)

    def read(self, number: int) -> Values:
        """A kept chunk, as it was kept."""
        with _disk(self.path):
            content = self._checked(number, self._file(number).read_bytes())
        if content is None:
            raise Refused(f"{self.path} was changed from outside: start over with `restart`")
        return Values.from_bytes(content)

    def _file(self, number: int) -> Path:
        return self.path / f"{_PREFIX}{number}"

    def _digest(self, number: int, content: bytes) -> bytes:
        return hashlib.sha256(f"{self._scope} {number} ".encode() + content).digest()

    def _checked(self, number: int, content: bytes) -> bytes | None:
        """The values in a chunk's file; None where they are not this chunk's."""
        digest, values = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return values if digest == self._digest(number, values) else None


_PREFIX = "chunk-"


def _chunk_files(path: Path) -> list[Path]:
    files = path.glob(f"{_PREFIX}*")
    return [file for file in files if file.name.removeprefix(_PREFIX).isdecimal()]


def _remove_chunks(path: Path) -> None:
    for file in _chunk_files(path):
        file.unlink()


@contextmanager
def open_run(
    out: Path, job: dict[str, Any], *, restart: bool, of_parts: bool = False
) -> Iterator[RunFolder]:
    """The run folder of an output, held by this process alone.

    Raises Refused when another process has it or it belongs to another job. It stays behind when
    the work fails, unless nothing was kept; `publish` ends it. The output is a file, or a folder
    `of_parts`.
    """
    if out.is_dir() and not of_parts:
        raise UsageError(f"cannot write {out}: it is a folder")
    path = out.with_name(out.name + ".run")
    with _disk(path):
        lock = lock_folder(path, out)
    try:
        with _disk(path):
            _settle(path, job, restart=restart)
        yield RunFolder(path, job)
    except BaseException:
        with suppress(OSError):  # what cannot be looked at is left alone
            if not _chunk_files(path):
                shutil.rmtree(path)
        raise
    finally:
        os.close(lock)  # which also unlocks


def _settle(path: Path, job: dict[str, Any], *, restart: bool) -> None:
    """Make the folder hold this job: its work stays; work of another needs a `restart` to go."""
    description = path / "job.json"
    before = _read_description(description)
    if before == job and not restart:
        return
    if _chunk_files(path) and not restart:
        raise Refused(
            f"{path} holds unfinished work of another job ({_difference(before, job)}): finish "
            "that one, throw it away with `restart`, or name another `out`"
        )
    _remove_chunks(path)
    write_atomically(description, json.dumps(job, indent=1).encode())


def _read_description(path: Path) -> dict[str, Any]:
    """The job that a folder is for; {} where it cannot be read."""
    try:
        refuse_outside(path)
        description = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return description if isinstance(description, dict) else {}


def _difference(before: dict[str, Any], job: dict[str, Any]) -> str:
    names = dict.fromkeys([*job, *before])
    differing = (name for name in names if before.get(name) != job.get(name))
    words = ("external features" if name == KEY else name.replace("_", " ") for name in differing)
    return f"other {', '.join(words)}"


def publish(
    folder: RunFolder,
    job: LogJob,
    counts: LogCounts,
    description: dict[str, Any],
    out: Path,
    *,
    buckets: int | None,
) -> tuple[RankingDataset | None, dict[str, Any], ColumnFacts]:
    """Write the output and take the run folder away; the dataset of a file, manifest and columns.

    Queries without a logged document are left out. Nothing in the output depends on time, on the
    machine, or on how often the run was resumed.
    """
    parts = _LoggedParts(folder, job)

    def manifest() -> dict[str, Any]:
        queries = {"judged": len(job.judgments.queries), "logged": parts.queries}
        missing = dict(zip(job.feature_names, parts.columns.missing.tolist(), strict=True))
        return {**vars(counts), "queries": queries, **description, "missing": missing}

    dataset = None
    if buckets is not None:
        write_partitioned(parts, out, buckets=buckets, source=manifest)
    else:
        datasets = list(parts)
        joined = join_datasets(datasets, [f"chunk {number}" for number in range(len(datasets))])
        dataset = replace(joined, manifest=manifest())
        _save(dataset, folder, out)
    with suppress(OSError):  # what cannot be removed is no reason to fail: it holds no work
        # The chunks first: a crash leaves none without the description of its job.
        _remove_chunks(folder.path)
        shutil.rmtree(folder.path)
    return dataset, manifest(), parts.columns


def _save(dataset: RankingDataset, folder: RunFolder, out: Path) -> None:
    """Write the dataset in the run folder, and move it to its place.

    Behind a link it is the link's file that is written, as by every command.
    """
    finished = folder.path / "dataset.parquet"
    with _disk(out):
        if out.is_symlink():
            save_dataset(dataset, out)
        else:
            save_dataset(dataset, finished)
            finished.replace(out)
            sync_folder(out.parent)


class _LoggedParts:
    """The logged documents of each chunk; once they are read, their `columns` and `queries`."""

    columns: ColumnFacts

    def __init__(self, folder: RunFolder, job: LogJob) -> None:
        self._folder, self._job = folder, job
        self.queries = 0

    def __iter__(self) -> Iterator[RankingDataset]:
        """Chunks without a logged document are left out."""
        for chunk in self._job.chunks:
            dataset = _logged_part(self._job, chunk, self._folder.read(chunk.number))
            if dataset is not None:
                facts = column_facts(dataset.features)
                self.columns = facts_together(self.columns, facts) if self.queries else facts
                self.queries += dataset.n_queries
                yield dataset


def _logged_part(job: LogJob, chunk: Chunk, values: Values) -> RankingDataset | None:
    queries = job.judgments.queries[chunk.queries.start : chunk.queries.stop]
    features = values.features
    if job.joined is not None:
        rows = slice(chunk.rows.start, chunk.rows.stop)
        features = np.hstack((features, job.joined.values[rows]))
    logged = values.status == DocumentStatus.LOGGED
    starts = np.cumsum([0, *(len(query.doc_ids) for query in queries)])
    sizes = np.add.reduceat(logged, starts[:-1], dtype=np.int64)
    ranked: list[int] = np.flatnonzero(sizes).tolist()
    if not ranked:
        return None
    return RankingDataset(
        features=features[logged],
        labels=np.concatenate([query.grades for query in queries])[logged],
        offsets=np.concatenate(([0], np.cumsum(sizes[ranked]))).astype(np.int64),
        query_ids=pa.array([queries[q].query_id for q in ranked], pa.string()),
        feature_names=job.feature_names,
        doc_ids=pa.array(
            [document for query in queries for document in query.doc_ids], pa.string()
        ).filter(pa.array(logged)),
        featureset_hash=job.environment.featureset.hash,
        query_params=pa.array(
            [canonical(job.params[chunk.queries.start + q]) for q in ranked], pa.string()
        ),
        query_weights=(
            np.array([importance_of(queries[q]) for q in ranked]) if job.weighed.queries else None
        ),
        document_weights=(
            np.concatenate([weights_of(query) for query in queries])[logged]
            if job.weighed.documents
            else None
        ),
        document_fields=(
            {JUDGED_BY: judges_column(queries).filter(pa.array(logged))}
            if JUDGED_BY in job.description["judgments"]
            else None
        ),
    )


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskFault(
            f"cannot keep work in {error.filename or path}: {reason}; fix that and run the same "
            "command again: it continues from there"
        ) from error


Progress = Callable[[int], None]
"""Called with the number of judged documents that are accounted for."""


@dataclass(frozen=True, repr=False)
class LogReport(ShortRepr):
    """What a feature log did: the counts and manifest of the dataset, and how fast.

    `resumed` are judged documents that an earlier, interrupted run had accounted for; `warnings`
    are features that no document has a value for, or all the same, and what else looks wrong.
    """

    path: Path
    counts: LogCounts
    manifest: dict[str, Any]
    resumed: int
    seconds: float
    warnings: tuple[str, ...] = ()

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


def _table_in_words(table: dict[str, Any]) -> str:
    """A table's counts: `ctr.parquet: ctr by query_id and document_id; …`."""
    return (
        f"{table['file']}: {', '.join(table['features'])} by {' and '.join(table['keys'])}; "
        f"{table['matched']:,} judged pairs have a row, {table['unmatched']:,} have none; "
        f"{table['unused']:,} of {table['rows']:,} rows met no pair"
    )


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
    buckets: int | None = None,
    progress: Progress = lambda _: None,
) -> LogReport:
    """Log the features of every judged document into the dataset `out`, or a folder of `buckets`.

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
    options = options or LogOptions()
    if buckets is not None:
        check_buckets(buckets)
        check_folder(out)
    job = plan(
        engine, store, featureset, judgments, index, source=source, options=options, tables=joined
    )
    # Chunks of another size are another job's, though they would give the same values.
    kept_for = {**job.description, "chunk": options.chunk}
    of_parts = buckets is not None
    with open_run(out, kept_for, restart=options.restart, of_parts=of_parts) as folder:
        counts, contents, resumed = _log_snapshots(job, folder, progress)
        index_facts = {**job.description["index"], "contents": contents}
        description = {**job.description, "index": index_facts}
        dataset, manifest, columns = publish(folder, job, counts, description, out, buckets=buckets)
    return LogReport(
        out,
        counts,
        manifest,
        resumed,
        seconds=time.monotonic() - started,
        warnings=tuple(warnings_of_log(columns, job.feature_names, dataset)),
    )


Logged = tuple[LogCounts, Contents, int]
"""The counts of all chunks, the contents of the index that they are from, and how many of their
documents were kept before."""


def _log_snapshots(job: LogJob, folder: RunFolder, progress: Progress) -> Logged:
    """Log what is not kept yet. A snapshot that the engine loses is followed by another one."""
    options, in_vain = job.options, 0
    while True:
        n_kept = len(folder.kept)
        try:
            return _log(job, folder, progress)
        except SnapshotLost:
            in_vain = in_vain + 1 if len(folder.kept) <= n_kept else 0
            if in_vain == options.attempts:
                raise
            # A node that left has to be missed first.
            time.sleep(options.pause * 2**in_vain)


def _log(job: LogJob, folder: RunFolder, progress: Progress) -> Logged:
    """Log the chunks that are not stored yet, from one snapshot."""
    engine, options, environment = job.engine, job.options, job.environment
    limiter = ConcurrencyLimiter(options.in_flight or MOST_IN_FLIGHT)
    in_flight = options.in_flight or FIRST_LIMIT
    if isinstance(engine, LimitableEngine):
        engine, in_flight = engine.limited(limiter), limiter.most
    elastic = environment.is_elasticsearch
    with (
        point_in_time(engine, job.index, elastic=elastic) as snapshot,
        limiter,
        RequestThreads(in_flight) as threads,
    ):
        contents = read_contents(snapshot, environment.shards, options, elastic=elastic)
        indices = frozenset(environment.indices)
        reader = FeatureReader(snapshot, job.store, job.featureset, indices, options=options)
        _resume(job, folder, reader, threads, contents)
        resumed = sum(len(chunk.rows) for chunk in job.chunks if chunk.number in folder.kept)
        counts = LogCounts()
        for chunk in job.chunks:
            if chunk.number in folder.kept:
                values = folder.read(chunk.number)
            else:
                values = _logged(job, chunk, folder, reader, threads)
            counts += values.counts(len(chunk.rows))
            try:
                _check_shares(job, counts, snapshot)
            except Refused:
                if not counts.logged:
                    folder.discard()  # so that it is not in the way of a corrected command
                raise
            progress(counts.judged)
        return counts, contents, resumed


def _logged(
    job: LogJob, chunk: Chunk, folder: RunFolder, reader: FeatureReader, threads: RequestThreads
) -> Values:
    """The values of a chunk, requested and kept."""
    try:
        values = Values.joined(threads.map(reader.values_of, job.documents_of(chunk)))
        # A chunk is kept only where its values are known to be from what it is said to be from.
        job.refuse_drift()
    except SnapshotLost:
        raise
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{error}; {len(folder.kept)} of {len(job.chunks)} chunks are kept, and the same "
            "command goes on from there"
        ) from error
    values.counts(len(chunk.rows))
    folder.keep(chunk.number, values)
    return values


def _resume(
    job: LogJob,
    folder: RunFolder,
    reader: FeatureReader,
    threads: RequestThreads,
    contents: Contents,
) -> None:
    """Keep the chunks that are of this snapshot, or none."""
    thrown_away = folder.resume(contents)
    chunks_kept = [chunk for chunk in job.chunks if chunk.number in folder.kept]
    # Merges, stored scripts and clocks move scores though no document is another: of each chunk
    # queries are asked again.
    if not all(threads.map(lambda chunk: _is_unchanged(job, folder, reader, chunk), chunks_kept)):
        thrown_away += folder.discard()
    if thrown_away:
        chunks = "a kept chunk is" if thrown_away == 1 else f"{thrown_away} kept chunks are"
        give_warning(
            f"'{job.index}' has changed since this log was interrupted, or files in "
            f"{folder.path} are damaged: {chunks} logged again"
        )


def _is_unchanged(job: LogJob, folder: RunFolder, reader: FeatureReader, chunk: Chunk) -> bool:
    """Whether two queries of a chunk are as they were: with most values, and most absent documents.

    The second one finds documents that a broken answer had left out.
    """
    before = folder.read(chunk.number)
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


def _check_shares(job: LogJob, counts: LogCounts, snapshot: PointInTime) -> None:
    """Refuse counts, also running ones, where too many of the judged documents are missing.

    Running counts that are over the limit cannot come back under it. Where none is there, it shows
    ids of both sides, and does not offer to go on.
    """
    judged, index, most = job.chunks[-1].rows.stop, job.index, job.options.max_absent
    share = counts.absent / judged
    if counts.absent > most * judged:
        if counts.absent == counts.judged:
            first = "" if counts.judged == judged else f"the first {counts.judged} of "
            columns = "`columns`"
            raise Refused(
                f"none of {first}{judged} judged documents is in '{index}': {_ids(job, snapshot)}; "
                f"is it the right index and id field, and are the columns right ({columns})?"
            )
        allowed = min(1.0, (int(share * 100) + 1) / 100)
        raise Refused(
            f"{counts.absent} of {judged} judged documents ({share:.1%}) are not in '{index}', and "
            f"at most {most:.1%} may be: is it the right index and id field? Otherwise allow it: "
            f"`max_absent={allowed}`"
        )
    if counts.judged == judged and not counts.logged:
        raise Refused(f"none of the {judged} judged documents could be logged")
    if counts.rejected and not job.options.allow_rejected:
        reasons = ", ".join(f"{n} ({reason})" for reason, n in sorted(counts.rejected.items()))
        raise Refused(
            f"documents were rejected: {reasons}; fix the feature set, or leave them out: "
            "`allow_rejected`"
        )


_LONGEST_ID = 40


def _ids(job: LogJob, snapshot: PointInTime) -> str:
    """An id of both sides, in words."""
    judged = f"judged '{cut(job.judgments.queries[0].doc_ids[0], _LONGEST_ID)}'"
    body = {"query": {"match_all": {}}, "size": 1, "_source": False}
    try:
        hits = snapshot.search(body, {}, f"a document of '{job.index}'").hits
    except OwpcLtrError:  # advice may not hide what it is about
        return judged
    if not hits:
        return f"{judged}, and '{job.index}' is empty"
    return f"{judged}; ids in the index look like '{cut(hits[0]['_id'], _LONGEST_ID)}'"
