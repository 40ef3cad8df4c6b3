"""The run folder: a feature log's unfinished work beside its output, and that work as the output.

Finished chunks survive any crash. In the end they are one dataset, or a folder of parts, with a
manifest. A folder of parts may be larger than memory, or written by several runs: each logs the
queries of its own buckets, out of a snapshot of its own. What they say of the index and the engine
must be equal, or no reader takes the parts together.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.external_features.sources import KEY
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.judgments.grouping import importance_of, weights_of
from owpc_ltr.data.options import DEFAULT_BUCKETS
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.partitioned.writing import (
    SALT,
    DatasetFacts,
    Share,
    bucket_of,
    check_buckets,
    check_folder,
    write_partitioned,
)
from owpc_ltr.data.splits import positions_of
from owpc_ltr.engine.feature_log.feature_reader import (
    Chunk,
    DocumentStatus,
    LogCounts,
    Values,
    from_bytes,
)
from owpc_ltr.engine.feature_log.job import LogJob, canonical
from owpc_ltr.engine.feature_log.snapshot import Contents
from owpc_ltr.errors import BadInput, DiskFault, Refused, UsageError
from owpc_ltr.files.output import (
    Journal,
    digest_of,
    lock_folder,
    sync_folder,
    write_atomically,
)
from owpc_ltr.inspection.totals import ColumnFacts, column_facts, facts_together
from owpc_ltr.signatures import option_name

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable


class RunFolder:
    """`OUT.run/`: the job, a journal of finished chunks, and their files named by content.

    A chunk counts once its file and then its piece of the journal are on the disk. Files that no
    piece names are ignored.
    """

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        """Use a folder whose lock is held; see `open_run`. `resume` finds what is kept in it."""
        self.path = path
        self._job = job
        self._scope = ""
        self._journal = Journal(None)
        self._kept: dict[int, str] = {}

    def resume(self, contents: Contents) -> int:
        """Continue with the chunks of these contents; how many of others are thrown away."""
        # Each piece names job and contents: in whatever order a crash leaves files, none mix.
        self._scope = digest_of([self._job, contents])
        with _disk(self.path):
            try:
                self._journal = Journal(self.path / "journal")
            except BadInput:  # damaged from its first byte: nothing of it counts
                (self.path / "journal").unlink()
                self._journal = Journal(self.path / "journal")
            pieces = self._journal.pieces
            current = {int(key): p.value for key, p in pieces.items() if p.scope == self._scope}
            self._kept = {number: digest for number, digest in current.items() if self._has(digest)}
            if len(self._kept) < len(pieces):
                self._drop_others()
        return len(pieces) - len(current)

    def discard(self) -> int:
        """Throw away what is kept; how many chunks that were."""
        n_kept, self._kept = len(self._kept), {}
        with _disk(self.path):
            self._drop_others()
        return n_kept

    def has(self, number: int) -> bool:
        """Whether a chunk is kept."""
        return number in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, number: int, content: bytes) -> None:
        """Make a chunk durable."""
        digest = hashlib.sha256(content).hexdigest()
        with _disk(self.path):
            write_atomically(self.path / "chunks" / digest, content)
            self._journal.append(str(number), digest, self._scope)
        self._kept[number] = digest

    def read(self, number: int) -> bytes:
        """A kept chunk, as it was kept."""
        with _disk(self.path):
            content = (self.path / "chunks" / self._kept[number]).read_bytes()
        if hashlib.sha256(content).hexdigest() != self._kept[number]:
            raise Refused(f"{self.path} was changed from outside: start over with --restart")
        return content

    def _has(self, digest: str) -> bool:
        try:
            content = (self.path / "chunks" / digest).read_bytes()
        except FileNotFoundError:
            return False
        return hashlib.sha256(content).hexdigest() == digest

    def _drop_others(self) -> None:
        """Remove what is not kept from the journal, then its files."""
        self._journal.keep_only({str(number) for number in self._kept})
        for file in (self.path / "chunks").glob("*"):
            if file.name not in self._kept.values():
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
            sync_folder(path)
        yield RunFolder(path, job)
    except BaseException:
        if not _holds_work(path):
            remove(path)
        raise
    finally:
        os.close(lock)  # which also unlocks


def publish(folder: RunFolder, dataset: RankingDataset, out: Path) -> None:
    """Write the dataset in the run folder, move it to its place, and take the folder away.

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
    remove(folder.path)


def remove(path: Path) -> None:
    """Remove the folder; the journal first, so that a crash leaves no journal without files."""
    with suppress(OSError):  # what cannot be removed is no reason to fail: it holds no work
        for name in ("journal", "job.json"):
            (path / name).unlink(missing_ok=True)
        shutil.rmtree(path)


def assemble(
    folder: RunFolder, job: LogJob, description: dict[str, Any]
) -> tuple[RankingDataset, ColumnFacts]:
    """The dataset of all logged documents, and its columns; queries without one are left out.

    Nothing in it depends on time, on the machine, or on how often the run was resumed.
    """
    tally = _Tally()
    parts = list(_logged_parts(folder, job, tally))
    counts = tally.counts(job)
    missing = counts.pop("missing")
    dataset = join_datasets(parts, [f"chunk {number}" for number in range(len(parts))])
    manifest = {**counts, **description, "missing": missing}
    return replace(dataset, manifest=manifest), tally.columns(job)


def _logged_parts(folder: RunFolder, job: LogJob, tally: _Tally) -> Iterator[RankingDataset]:
    """The documents of each chunk that were logged; chunks without one are left out."""
    for chunk in job.chunks:
        values = from_bytes(folder.read(chunk.number))
        dataset = _logged_part(job, chunk, values)
        tally.add(chunk, values, dataset)
        if dataset is not None:
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
    )


@dataclass(frozen=True)
class PartitionedOutput:
    """A folder of parts in so many buckets, of which this run writes its share."""

    buckets: int = DEFAULT_BUCKETS
    share: Share = field(default_factory=Share)

    def check(self, out: Path, joined: Sequence[ExternalTable]) -> None:
        """Refuse what could not be written in the end. Raises UsageError."""
        check_buckets(self.buckets)
        if self.share.of > self.buckets:
            raise UsageError(
                f"{self.buckets} buckets cannot be shared by {self.share.of}: give --buckets "
                f"{self.share.of} or more"
            )
        if self.share.of > 1 and joined:
            raise UsageError(
                "--extra-features counts a table's rows once for all queries: log without --part"
            )
        check_folder(out, self.share)

    def own(self, judgments: Judgments) -> Judgments:
        """The queries of this run. Raises BadInput where there is none."""
        if self.share.of == 1:
            return judgments
        positions = positions_of((query.query_id for query in judgments.queries), SALT)
        buckets = bucket_of(positions, self.buckets).tolist()
        pairs = zip(judgments.queries, buckets, strict=True)
        queries = [query for query, bucket in pairs if self.share.has(bucket)]
        if not queries:
            raise BadInput(
                f"none of the {len(judgments.queries)} queries is in part {self.share.number}/"
                f"{self.share.of}: log them in fewer parts"
            )
        return replace(judgments, queries=queries)

    def beside(self, out: Path) -> Path:
        """What unfinished work is kept beside: each writer's own."""
        return out.with_name(f"{out.name}{self.share.suffix()}")


def publish_parts(
    folder: RunFolder,
    job: LogJob,
    description: dict[str, Any],
    out: Path,
    parted: PartitionedOutput,
) -> tuple[dict[str, Any], ColumnFacts]:
    """Write the folder, chunk after chunk; its manifest, and the facts of its columns."""
    tally, facts = _Tally(), DatasetFacts(description)

    def stream() -> Iterator[RankingDataset]:
        yield from _logged_parts(folder, job, tally)
        facts.counts = tally.counts(job)

    written = write_partitioned(
        stream(), out, buckets=parted.buckets, facts=facts, share=parted.share
    )
    remove(folder.path)
    return dict(written.whole_source or {}), tally.columns(job)


class _Tally:
    """What the chunks so far add up to."""

    def __init__(self) -> None:
        self.logged, self.queries = LogCounts(), 0
        self.facts: ColumnFacts | None = None

    def add(self, chunk: Chunk, values: Values, dataset: RankingDataset | None) -> None:
        self.logged += values.counts(len(chunk.rows))
        if dataset is not None:
            self.queries += dataset.n_queries
            facts = column_facts(dataset.features)
            self.facts = facts if self.facts is None else facts_together(self.facts, facts)

    def columns(self, job: LogJob) -> ColumnFacts:
        """The facts of all columns. Raises Refused where nothing could be logged."""
        if self.facts is None:
            judged = job.chunks[-1].rows.stop
            raise Refused(f"none of the {judged} judged documents could be logged")
        return self.facts

    def counts(self, job: LogJob) -> dict[str, Any]:
        """What adds up over several writers."""
        missing = self.columns(job).missing.tolist()
        return {
            **self.logged.as_json(),
            "queries": {"judged": len(job.judgments.queries), "logged": self.queries},
            "missing": dict(zip(job.feature_names, missing, strict=True)),
        }


def _settle(path: Path, job: dict[str, Any], *, restart: bool) -> None:
    """Make the folder hold this job: its work stays; work of another needs a `restart` to go."""
    description = path / "job.json"
    before = _read_description(description)
    if before == job and not restart:
        return
    if before is not None and _holds_work(path) and not restart:
        raise Refused(
            f"{path} holds unfinished work of another job ({_difference(before, job)}): finish "
            f"that one, throw it away with {option_name('restart')}, or name another "
            f"{option_name('out')}"
        )
    # Without its description the folder is nobody's: a crash in here leaves nothing to resume.
    description.unlink(missing_ok=True)
    (path / "journal").unlink(missing_ok=True)
    shutil.rmtree(path / "chunks", ignore_errors=True)
    (path / "chunks").mkdir(exist_ok=True)
    write_atomically(description, json.dumps(job, indent=1).encode())


def _holds_work(path: Path) -> bool:
    try:
        return (path / "journal").stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:  # what cannot be looked at is left alone
        return True


def _read_description(path: Path) -> dict[str, Any] | None:
    """The job that a folder is for: none where nothing stands there, {} where it is unreadable."""
    try:
        description = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return {}
    return description if isinstance(description, dict) else {}


def _difference(before: dict[str, Any], job: dict[str, Any]) -> str:
    names = dict.fromkeys([*job, *before])
    differing = (name for name in names if before.get(name) != job.get(name))
    words = ("external features" if name == KEY else name.replace("_", " ") for name in differing)
    return f"other {', '.join(words)}"


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
