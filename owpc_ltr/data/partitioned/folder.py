"""The folder that is written: one process at a time, nothing of an unfinished run left in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from owpc_ltr.data.partitioned.manifest import MANIFEST, UNFINISHED, Share
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.files.output import disk_faults
from owpc_ltr.files.regular import open_in_shared, refuse_foreign

COLUMN = "bucket"
"""The hive partition: folders are called bucket=K."""


@contextmanager
def own_folder(folder: Path, share: Share) -> Iterator[None]:
    """The folder, held by this process alone, with nothing of an unfinished run in it."""
    check_folder(folder, share)
    with disk_faults(folder):
        if folder.exists():
            refuse_foreign(folder, linked=True)
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / f"{UNFINISHED}{share.suffix()}"
        lock = open_in_shared(mark, mode=0o644)
    try:
        _lock(lock, folder)
        with disk_faults(folder):
            _clear(folder, share)
        try:
            yield
        except BaseException:
            _leave(folder, mark)
            raise
        mark.unlink()
    finally:
        os.close(lock)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            f"another process is writing {folder} already: wait for it, or name another folder"
        ) from None


def check_folder(folder: Path, share: Share | None = None) -> None:
    """Refuse a folder that holds a dataset, or what is none of ours. Raises UsageError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"cannot write to {folder}: it is a file; name a folder")
    share = share or Share()
    finished = f"_manifest{share.suffix()}.json"
    if (folder / finished).exists() or (folder / MANIFEST).exists():
        raise UsageError(
            f"cannot write to {folder}: it holds this part of a dataset already: remove it, or "
            "name another folder"
            if share.of > 1
            else f"cannot write to {folder}: it holds a dataset already: remove it, or name "
            "another folder"
        )
    for other in folder.glob("_manifest-*-of-*.json"):
        if not other.name.endswith(f"-of-{share.of}.json"):
            raise UsageError(
                f"cannot write to {folder}: {other.name} in it is of other parts than these: name "
                "another folder"
            )
    unfinished = any(folder.glob(f"{UNFINISHED}*")) or any(folder.glob("_manifest-*-of-*.json"))
    if not unfinished and any(folder.iterdir()):
        raise UsageError(
            f"cannot write to {folder}: it has files that are no part of a dataset; name an empty "
            "folder, or a new one"
        )


def _clear(folder: Path, share: Share) -> None:
    """Take away the parts of an unfinished run."""
    for own in folder.glob(f"{COLUMN}=*"):
        number = own.name.removeprefix(f"{COLUMN}=")
        if number.isdecimal() and share.has(int(number)):
            refuse_foreign(own)
            for path in own.glob("*part-*.parquet*"):
                path.unlink()
            with suppress(OSError):
                own.rmdir()


def _leave(folder: Path, mark: Path) -> None:
    """After a failure: where nothing was written, nothing stays."""
    if not any(folder.glob(f"{COLUMN}=*")):
        with suppress(OSError):
            mark.unlink()
            folder.rmdir()
