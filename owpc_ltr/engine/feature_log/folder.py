"""The run folder: a feature log's half-done work beside its output, whole after any crash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.feature_log.contents import Contents
from owpc_ltr.engine.feature_log.lock import locked
from owpc_ltr.errors import DiskFault, Refused, UsageError
from owpc_ltr.files.output import write_atomically
from owpc_ltr.files.regular import open_in_shared

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset


class RunFolder:
    """`OUT.run/`: the job, a journal of finished chunks, and their files named by content.

    A chunk counts once its file is on the disk and its line in the journal is; a torn last line
    and files that no line names are as if they had never been.
    """

    def __init__(self, path: Path, job: dict[str, Any], journal: int) -> None:
        """Take over a folder whose lock is held; see `open_run`. `resume` tells what it keeps."""
        self.path = path
        self._job = job
        self._key = ""
        self._journal = journal
        self._kept: dict[int, str] = {}

    def resume(self, contents: Contents) -> int:
        """Go on with the chunks of these contents; how many of other contents are thrown away."""
        # Each line names job and contents: in whatever order a crash leaves files, none mix.
        text = json.dumps([self._job, contents], sort_keys=True)
        self._key = hashlib.sha256(text.encode()).hexdigest()
        with _disk(self.path):
            self._kept, others = self._read_journal()
            if others:
                self._sweep()
        return others

    def discard(self) -> int:
        """Throw away what is kept; how many chunks that were."""
        kept = len(self._kept)
        self._kept = {}
        with _disk(self.path):
            os.ftruncate(self._journal, 0)
            self._sweep()
        return kept

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
            self._append(journal_line(self._key, number, digest))
        self._kept[number] = digest

    def read(self, number: int) -> bytes:
        """A kept chunk, as it was kept."""
        with _disk(self.path):
            content = (self.path / "chunks" / self._kept[number]).read_bytes()
        if hashlib.sha256(content).hexdigest() != self._kept[number]:
            raise Refused(f"{self.path} was changed from outside: start over with --restart")
        return content

    def _append(self, line: bytes) -> None:
        if os.write(self._journal, line) != len(line):
            raise OSError("the disk took only part of a line")
        os.fsync(self._journal)

    def _read_journal(self) -> tuple[dict[int, str], int]:
        """The chunks whose line and file are whole; the rest of the journal is cut off.

        Also how many of the lines cut off are whole and of another job or other contents.
        """
        kept: dict[int, str] = {}
        good = 0
        lines = (self.path / "journal").read_bytes().splitlines(keepends=True)
        for line in lines:
            entry = _entry(line)
            if entry is None or entry[0] != self._key or not self._has_file(entry[2]):
                break
            kept[entry[1]] = entry[2]
            good += len(line)
        os.ftruncate(self._journal, good)
        cut_off = [_entry(line) for line in lines[len(kept) :]]
        return kept, sum(entry is not None and entry[0] != self._key for entry in cut_off)

    def _has_file(self, digest: str) -> bool:
        return _is_whole(self.path / "chunks" / digest, digest)

    def _sweep(self) -> None:
        """Take away the files that no line names."""
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
        lock = locked(path, out)
    journal = None
    try:
        with _disk(path):
            _settle(path, job, restart=restart)
            journal = open_in_shared(path / "journal", os.O_APPEND)
            _sync(path)
            folder = RunFolder(path, job, journal)
        yield folder
    except BaseException:
        if not _holds_work(path):
            remove(path)
        raise
    finally:
        if journal is not None:
            os.close(journal)
        os.close(lock)  # which also unlocks


def publish(folder: RunFolder, dataset: RankingDataset, out: Path) -> None:
    """Write the dataset in the run folder, move it to its place, and take the folder away.

    Behind a link it is the link's file that is written, as by every command.
    """
    from owpc_ltr.data.parquet import save_dataset

    finished = folder.path / "dataset.parquet"
    with _disk(out):
        if out.is_symlink():
            save_dataset(dataset, out)
        else:
            save_dataset(dataset, finished)
            finished.replace(out)
            _sync(out.parent)
    remove(folder.path)


def _settle(path: Path, job: dict[str, Any], *, restart: bool) -> None:
    """Make the folder hold this job: what it holds of it stays, other work only goes if told."""
    description = path / "job.json"
    other = _read_description(description)
    if other == job and not restart:
        return
    if other is not None and _holds_work(path) and not restart:
        raise Refused(
            f"{path} holds half-done work of another job ({_difference(other, job)}): finish "
            "that one, or throw it away with --restart"
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


def _difference(other: dict[str, Any], job: dict[str, Any]) -> str:
    names = dict.fromkeys([*job, *other])
    differing = (name for name in names if other.get(name) != job.get(name))
    return "other " + ", ".join(name.replace("_", " ") for name in differing)


def journal_line(job: str, number: int, digest: str) -> bytes:
    """A journal's line, with a digest of its own: a damaged number would name another chunk."""
    entry = {"job": job, "chunk": number, "sha256": digest}
    own = hashlib.sha256(json.dumps(entry).encode()).hexdigest()
    return json.dumps({**entry, "line": own}).encode() + b"\n"


def _entry(line: bytes) -> tuple[str, int, str] | None:
    """The job, chunk and digest of a journal's line; None where it is torn or damaged."""
    try:
        entry = json.loads(line)
        job, number, digest = entry["job"], entry["chunk"], entry["sha256"]
        whole = line == journal_line(job, number, digest)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (job, number, digest) if whole else None


def _is_whole(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    """Take the folder away; the journal first, so that a crash leaves nothing half-true."""
    with suppress(OSError):  # what cannot be removed is no reason to fail: it holds no work
        for name in ("journal", "job.json"):
            (path / name).unlink(missing_ok=True)
        shutil.rmtree(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskFault(
            f"cannot keep work in {error.filename or path}: {reason}; mend that and run the same "
            "command again: it goes on where it was"
        ) from error
