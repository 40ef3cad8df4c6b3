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

from owpc_ltr.engine.feature_log.snapshot import Contents
from owpc_ltr.errors import BadInput, DiskFault, Refused, UsageError
from owpc_ltr.files.journal import Journal, digest_of
from owpc_ltr.files.lock import lock_folder
from owpc_ltr.files.output import write_atomically

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset


class RunFolder:
    """`OUT.run/`: the job, a journal of finished chunks, and their files named by content.

    A chunk counts once its file is on the disk and its piece in the journal is; files that no piece
    names are as if they had never been.
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
            found = {int(key): p.value for key, p in pieces.items() if p.scope == self._scope}
            self._kept = {number: digest for number, digest in found.items() if self._has(digest)}
            if len(self._kept) < len(pieces):
                self._drop_the_rest()
        return len(pieces) - len(found)

    def discard(self) -> int:
        """Throw away what is kept; how many chunks that were."""
        kept, self._kept = len(self._kept), {}
        with _disk(self.path):
            self._drop_the_rest()
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

    def _drop_the_rest(self) -> None:
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
            _sync(path)
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
            f"cannot keep work in {error.filename or path}: {reason}; fix that and run the same "
            "command again: it continues from there"
        ) from error
