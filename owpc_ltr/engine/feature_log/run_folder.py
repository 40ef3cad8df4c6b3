"""The run folder: a feature log's finished chunks beside its output, until they are the output.

`OUT.run/` has `job.json` and a file for each finished chunk. A file begins with a digest of its
values, its number, the job, and what the index held: a file of anything else, or a damaged one,
does not count, in whatever order a crash leaves them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.external_features.sources import KEY
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.judgments.grouping import (
    JUDGED_BY,
    importance_of,
    judges_column,
    weights_of,
)
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.partitioned.writing import write_partitioned
from owpc_ltr.engine.feature_log.feature_reader import Chunk, DocumentStatus, LogCounts, Values
from owpc_ltr.engine.feature_log.job import LogJob, canonical
from owpc_ltr.engine.feature_log.snapshot import Contents
from owpc_ltr.errors import DiskFault, Refused, UsageError
from owpc_ltr.files.folders import refuse_outside
from owpc_ltr.files.output import digest_of, lock_folder, sync_folder, write_atomically
from owpc_ltr.inspection.columns import ColumnFacts, column_facts, facts_together
from owpc_ltr.signatures import option_name

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
            raise Refused(f"{self.path} was changed from outside: start over with --restart")
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
            f"that one, throw it away with {option_name('restart')}, or name another "
            f"{option_name('out')}"
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
