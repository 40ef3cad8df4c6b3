"""Output: a plain file, replaced as a whole, or `-`, standard output; locks, appends and journals.

Files and folders of another user are refused in shared places, and one process at a time holds a
lock. All files that grow by lines grow by `open_to_append`. A journal has the finished pieces of a
resumable job. A crash leaves no half-written file, lock or piece.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from owpc_ltr.errors import BadInput, DiskFault, Refused, Stopped, UsageError
from owpc_ltr.files.input import read_regular, refuse_outside
from owpc_ltr.files.strict_json import Json, is_torn

STANDARD_OUTPUT = "-"
_LONGEST_CHAIN = 40
"""Links that lead from one to the next, as in Linux."""
_DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd|/dev/fd")


def is_standard_output(path: Path | str) -> bool:
    """Whether a path is `-`; a file of that name needs a longer path."""
    return str(path) == STANDARD_OUTPUT


def write_output(path: Path | str, content: bytes, inputs: Iterable[Path | str] = ()) -> None:
    """Write a file whole, or standard output. Raises as `open_output` does."""
    with open_output(path, inputs) as file:
        file.write(content)


@contextmanager
def open_output(
    path: Path | str,
    inputs: Iterable[Path | str] = (),
    *,
    binary: bool = False,
    packs: bool = False,
) -> Iterator[IO[bytes]]:
    """A file to write bit by bit, which takes its name when the block ends without an error.

    Behind a link it is the link's file that is replaced; `-` is standard output. Raises UsageError
    for what is no plain file and for one of the `inputs`, DiskFault where the disk fails.
    """
    target = output_file(path, inputs, binary=binary, packs=packs)
    with disk_faults(path):
        if target is None:
            sys.stdout.flush()
            with os.fdopen(os.dup(1), "wb") as file:
                yield file
            return
        with open_atomically(target) as file:
            yield file


def output_file(
    path: Path | str,
    inputs: Iterable[Path | str] = (),
    *,
    binary: bool = False,
    packs: bool = False,
) -> Path | None:
    """The file that an output's name leads to, None for standard output.

    It is absent or a plain file, and not one of the inputs, under any name; a folder among these
    stands for the files in it. Binary output to a terminal is refused, and a name that promises a
    format which no output has. Raises UsageError.
    """
    if is_standard_output(path):
        if binary and os.isatty(1):
            raise UsageError("standard output is a terminal, and the file is binary: name a file")
        return None
    ending = Path(path).suffix.lower()
    if _NEVER_WRITTEN.fullmatch(ending) or (ending in _PACKED and not packs):
        raise UsageError(
            f"cannot write {path}: no output is a {ending} file: use another ending, as .html for "
            "a page, .json for a model, .tsv for judgments"
        )
    try:
        target = _followed(Path(path))
        if _is_plain(Path(path), target):
            _refuse_inputs(Path(path), target.stat(), inputs)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {path}: {why}; name another file") from error
    return target


_NEVER_WRITTEN = re.compile(
    r"\.(pdf|docx?|odt|xlsx?|ods|png|jpg|svg|zip|bz2|pkl|pickle|joblib|np[yz])"
)
_PACKED = {".gz", ".xz", ".zst"}
"""Endings that only a writer takes which `packs` what it writes."""


def check_output(path: Path | str, inputs: Iterable[Path | str], *, needs_folder: bool) -> None:
    """Refuse an output that could not be written, before the work rather than after it.

    The folder must be there, unless it `needs` none because it will be made. Raises UsageError.
    """
    target = output_file(path, inputs)
    if target is None:
        return
    folder = target.parent
    if not folder.is_dir():
        if folder.exists() or needs_folder:
            raise UsageError(f"cannot write {path}: there is no folder {folder}")
        return
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")


def same_file(path: Path | str, other: Path | str) -> bool:
    """Whether two outputs are one: the same name, or names that lead to the same file."""
    if is_standard_output(path) or is_standard_output(other):
        return str(path) == str(other)
    try:
        return os.path.realpath(path) == os.path.realpath(other) or Path(path).samefile(other)
    except OSError:
        return False


@contextmanager
def disk_faults(path: Path | str) -> Iterator[None]:
    """Turns errors of the disk in this block into one line that names the output."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has left: no fault of the disk
    except OSError as error:
        why = error.strerror or str(error)
        if is_standard_output(path):
            raise DiskFault(
                f"standard output could not be written: {why.lower()}; fix that, and run it again"
            ) from error
        raise DiskFault(
            f"cannot write {path}: {why}; fix that, or name another place, and run it again: what "
            "was there before is as it was"
        ) from error


def finite_json(value: object) -> Any:
    """The value with None in place of NaN and of infinite numbers, at any depth.

    >>> finite_json({"gap": float("inf"), "rows": [(1, float("nan"))]})
    {'gap': None, 'rows': [[1, None]]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(part) for part in value]
    return value


def _followed(path: Path) -> Path:
    """The end of a chain of links.

    Raises UsageError for one to an open descriptor, and for one that another user has put into a
    folder of all, as /tmp is: the rule of Linux for opening files.
    """
    target = path
    for _ in range(_LONGEST_CHAIN):
        if not target.is_symlink():
            return target
        if _DESCRIPTORS.fullmatch(os.path.realpath(target.parent)):
            raise UsageError(
                f"cannot write {path}: it is an open descriptor of a process; name a file, or - "
                "for standard output"
            )
        about, folder = target.lstat(), target.parent.stat()
        if folder.st_mode & stat.S_IWOTH and about.st_uid not in {os.geteuid(), folder.st_uid}:
            raise UsageError(
                f"cannot write {path}: it is a link that another user has put there, to "
                f"{target.readlink()}; name another file"
            )
        target = target.parent / target.readlink()
    raise UsageError(f"cannot write {path}: its links lead nowhere; name a file")


def _is_plain(path: Path, target: Path) -> bool:
    """Whether a plain file exists; False if nothing does. Raises UsageError for all else."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise UsageError(f"cannot write to {path}: it is a folder; name a file")
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"cannot write {path}: it is a pipe, a socket or a device; name a file, or - for "
            "standard output"
        )
    return True


def _refuse_inputs(path: Path, output: os.stat_result, inputs: Iterable[Path | str]) -> None:
    for source in inputs:
        for file in _files_of(Path(source)):
            try:
                same = os.path.samestat(file.stat(), output)
            except (OSError, ValueError):  # an input that cannot be read is told by its reader
                continue
            if same:
                raise UsageError(
                    f"cannot write {path}: it is the input {file}, which would be lost; name "
                    "another file"
                )


def _files_of(source: Path) -> Iterator[Path]:
    yield source
    try:
        if source.is_dir():
            yield from source.iterdir()
    except (OSError, ValueError):
        return


def write_atomically(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one, whole.

    A `mode` holds whatever the umask; without one, see `open_atomically`.
    """
    with open_atomically(path, mode) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A file to write bit by bit, which takes its name when the block ends without an error.

    It has the rights of the file that it replaces; a new one has those that the umask leaves.
    """
    refuse_outside(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = _mode_of(path) if mode is None else mode
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: Path) -> int | None:
    """The rights of a file, if it is there."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None


class LockHeld(Refused):
    """Another process, the `holder`, has the lock."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{holder} holds {path}: wait for it to end")
        self.holder = holder


def lock_file(path: Path, mode: int = 0o600) -> int:
    """A descriptor that holds the lock of a file, which is made if need be.

    Closing it releases the lock, and so does any end of the process. Raises LockHeld where another
    process has it.
    """
    while True:
        descriptor = open_in_shared(path, mode=mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise LockHeld(path, holder) from None
        except BaseException:
            os.close(descriptor)
            raise
        # The holder removed the file between our two steps.
        os.close(descriptor)


def lock_folder(folder: Path, purpose: Path) -> int:
    """As `lock_file` for FOLDER/lock; the folder is made, for its owner alone, if need be.

    Raises Refused, naming the `purpose`, where another process has it, and where another user has
    made the folder or can write to it.
    """
    refuse_outside(folder)
    while True:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            refuse_foreign(folder)
        try:
            Stopped.keeps_work = True
            return lock_file(folder / "lock")
        except LockHeld as held:
            raise Refused(
                f"{held.holder} is writing {purpose} already: wait for it, or choose another `out`"
            ) from None
        except FileNotFoundError:
            # The holder finished and removed the folder meanwhile.
            continue


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def open_in_shared(path: Path, flags: int = 0, mode: int = 0o600) -> int:
    """A descriptor to read and write the file, which is made if need be, and not truncated.

    Raises Refused for a link, and for anything else that is no plain file of one name: what is
    written there would go into a file that somebody else chose.
    """
    refuse_outside(path)
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if path.is_symlink():
            raise _planted(path) from error
        raise
    about = os.fstat(descriptor)
    # A file that was removed meanwhile has no name at all.
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(descriptor)
        raise _planted(path)
    return descriptor


def refuse_foreign(folder: Path, *, linked: bool = False) -> None:
    """Refuse a folder that another user has made, or can write to; `linked`: it may be a link.

    Raises Refused, and the error of the disk where nothing is there.
    """
    about = folder.stat() if linked else folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise Refused(f"{folder} is a link or a file, not a folder of this job: remove it")
    if about.st_uid != os.geteuid():
        raise Refused(
            f"{folder} belongs to another user (number {about.st_uid}), who could change what is "
            "read from it: remove it, or name another place with `out`"
        )
    if about.st_mode & stat.S_IWOTH:
        raise Refused(
            f"every user can write to {folder}, and change what is read from it: run chmod o-w "
            f"{folder}, or name another place with `out`"
        )


def _planted(path: Path) -> Refused:
    return Refused(
        f"{path} is a link, or no plain file: what is written there would go elsewhere: remove it"
    )


@dataclass(frozen=True)
class LockedLines:
    """A file of JSON lines that is locked; `torn` is what a crash had left of a line at its end."""

    descriptor: int
    torn: bytes

    def append(self, lines: bytes, *, durable: bool = True) -> None:
        """Append whole lines, or nothing. Raises OSError; what was written of them is taken back.

        `durable` ones have reached the disk.
        """
        size = os.fstat(self.descriptor).st_size
        try:
            left = memoryview(lines)
            while left:
                # Where the disk takes a part, the next call tells why.
                if not (written := os.write(self.descriptor, left)):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                left = left[written:]
            if durable:
                os.fsync(self.descriptor)
        except BaseException:
            with suppress(OSError):  # the next one to append cuts it off
                # Whoever rotates logs may have emptied the file meanwhile.
                os.ftruncate(self.descriptor, min(size, os.fstat(self.descriptor).st_size))
            raise


@contextmanager
def open_to_append(path: Path) -> Iterator[LockedLines]:
    """A file of JSON lines, for one process and thread at a time; it is made if need be.

    What a crash has left of a line at the end is cut off. Raises OSError, Refused for a link, and
    BadInput for a file of something else.
    """
    while True:
        descriptor = open_in_shared(path, os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A file that was moved away or replaced meanwhile is not the one to append to.
            if _is_still(descriptor, path):
                size = os.fstat(descriptor).st_size
                if not size:  # it may be new
                    sync_folder(path.parent)
                is_whole = not size or os.pread(descriptor, 1, size - 1) == b"\n"
                torn = b"" if is_whole else _cut_torn(descriptor, size, path)
                yield LockedLines(descriptor, torn)
                return
        finally:
            os.close(descriptor)


def _cut_torn(descriptor: int, size: int, path: Path) -> bytes:
    """Cut off the half of a line at the end, and give it back; a whole one is ended."""
    for length in (1 << 12, 1 << 24, size):
        end = os.pread(descriptor, length, max(0, size - length))
        if b"\n" in end:
            break
    last = end[end.rfind(b"\n") + 1 :]
    if is_torn(last):
        os.ftruncate(descriptor, size - len(last))
        return last
    if last.strip() and not last.lstrip().startswith(b"{"):
        raise BadInput(
            f"cannot append to {path}: its last line is not JSON: restore it, or name another file"
        )
    # An editor leaves out the last line feed.
    LockedLines(descriptor, b"").append(b"\n")
    return b""


_LARGEST_JOURNAL = 1 << 30
_BEGINNING = b'{"key": "'


class FinishedPiece(NamedTuple):
    """A finished piece of work, as JSON values, and the scope that it belongs to."""

    value: Any
    scope: str


class Journal:
    """The journal in a file, which is made with the first piece; None keeps nothing.

    `pieces` has the last one of each key. A piece is a sealed line with a `key`, a `value` and the
    `scope` that it belongs to (the digest of what the work depends on). A line that is torn or
    damaged does not count. Raises BadInput for a file that is not a journal.
    """

    def __init__(self, path: Path | None) -> None:
        self.pieces: dict[str, FinishedPiece] = {}
        self._path = path
        if path is not None and path.exists():
            self._read(path)

    def append(self, key: str, value: Json, scope: str = "") -> None:
        """Make a piece durable. Raises DiskFault."""
        if self._path is not None:
            line = sealed_line({"key": key, "value": value, "scope": scope})
            with disk_faults(self._path), open_to_append(self._path) as file:
                file.append(line)
            Stopped.keeps_work = True
        self.pieces[key] = FinishedPiece(value, scope)

    def _read(self, path: Path) -> None:
        content = read_regular(path, _LARGEST_JOURNAL, kind="a journal")
        if not _BEGINNING.startswith(content.lstrip()[: len(_BEGINNING)]):
            raise BadInput(f"{path} is not a journal of owpc-ltr: name another file")
        for line in content.splitlines(keepends=True):
            if (piece := unsealed(line)) is not None:
                self.pieces[piece["key"]] = FinishedPiece(piece["value"], piece["scope"])


def digest_of(content: Json) -> str:
    """Hex SHA-256 of a JSON value, whatever the order of its keys."""
    return _sha256(json.dumps(content, sort_keys=True).encode())


_SEAL = b', "sha256": "'


def sealed_line(content: Mapping[str, Any]) -> bytes:
    """A line of JSON that ends with a digest of the rest, which tells of any change."""
    text = json.dumps(content).encode()
    return text[:-1] + _SEAL + _sha256(text).encode() + b'"}\n'


def unsealed(line: bytes) -> dict[str, Any] | None:
    """The content of a line, without its digest; None where any byte of it was changed.

    >>> unsealed(sealed_line({"a": 1})), unsealed(sealed_line({"a": 1}).replace(b"1", b"2"))
    ({'a': 1}, None)
    """
    text, _, digest = line.rpartition(_SEAL)
    text += b"}"
    if digest != _sha256(text).encode() + b'"}\n':
        return None
    content: dict[str, Any] = json.loads(text)
    return content


def _sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()
