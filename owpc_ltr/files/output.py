"""Where output goes: a plain file, replaced whole, or `-`, standard output; numbers as JSON.

Cells of CSV that people open in a spreadsheet, where a text can be a formula, are written here too.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from owpc_ltr.errors import DiskFault, UsageError

STANDARD_OUTPUT = "-"
_LONGEST_CHAIN = 40
"""Links that lead from one to the next, as in Linux."""
_DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd|/dev/fd")


def is_standard_output(path: Path | str) -> bool:
    """Whether `-` is meant; a file of that name is named by its whole path."""
    return str(path) == STANDARD_OUTPUT


def write_output(path: Path | str, content: bytes, inputs: Iterable[Path | str] = ()) -> None:
    """Write a file whole, or standard output. Raises as `open_output` does."""
    with open_output(path, inputs) as file:
        file.write(content)


@contextmanager
def open_output(
    path: Path | str, inputs: Iterable[Path | str] = (), *, binary: bool = False
) -> Iterator[IO[bytes]]:
    """A file to write bit by bit, which takes its name when the block ends without an error.

    Behind a link it is the link's file that is replaced; `-` is standard output. Raises UsageError
    for what is no plain file and for one of the `inputs`, DiskFault where the disk fails.
    """
    target = output_file(path, inputs, binary=binary)
    with disk_faults(path):
        if target is None:
            sys.stdout.flush()
            with os.fdopen(os.dup(1), "wb") as file:
                yield file
            return
        with open_atomically(target) as file:
            yield file


def output_file(
    path: Path | str, inputs: Iterable[Path | str] = (), *, binary: bool = False
) -> Path | None:
    """The file that an output's name leads to, None for standard output.

    It is absent or a plain file, and none of the inputs, under whatever name; a folder among these
    stands for the files in it. Binary output goes to no terminal. Raises UsageError.
    """
    if is_standard_output(path):
        if binary and os.isatty(1):
            raise UsageError("standard output is a terminal, and the file is binary: name a file")
        return None
    try:
        target = _followed(Path(path))
        if _is_plain(Path(path), target):
            _refuse_inputs(Path(path), target.stat(), inputs)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {path}: {why}; name another file") from error
    return target


def check_output(
    path: Path | str,
    inputs: Iterable[Path | str] = (),
    *,
    binary: bool = False,
    needs_folder: bool = True,
) -> None:
    """Refuse an output that could not be written, before the work rather than after it.

    The folder must be there, unless it `needs` none because it will be made. Raises UsageError.
    """
    target = output_file(path, inputs, binary=binary)
    if target is None:
        return
    folder = target.parent
    if not folder.is_dir():
        if folder.exists() or needs_folder:
            raise UsageError(f"cannot write {path}: there is no folder {folder}")
        return
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")


def same_file(one: Path | str, other: Path | str) -> bool:
    """Whether two outputs are one: the same name, or names that lead to the same file."""
    if is_standard_output(one) or is_standard_output(other):
        return str(one) == str(other)
    try:
        return os.path.realpath(one) == os.path.realpath(other) or Path(one).samefile(other)
    except OSError:
        return False


@contextmanager
def disk_faults(path: Path | str) -> Iterator[None]:
    """Errors of the disk in this block, as one line that names the output."""
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


def finite_json(value: Any) -> Any:
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
    """Where links lead in the end.

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
    """Whether a plain file is there; False where nothing is. Raises UsageError for all else."""
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


def _refuse_inputs(path: Path, found: os.stat_result, inputs: Iterable[Path | str]) -> None:
    for source in inputs:
        for file in _files_of(Path(source)):
            try:
                same = os.path.samestat(file.stat(), found)
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


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one, whole."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write bit by bit, which takes its name when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _mode(path: Path) -> int:
    """The rights of the file that is replaced; a new one is for everybody to read."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        return 0o644


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MARKED = re.compile(r"'+[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPLITS = re.compile(r"[;\t\r]")
"""What stands between cells where spreadsheets take another delimiter."""


def inert_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula; `read_cell` gives it back. Numbers stay.

    >>> [inert_cell(text) for text in ("=1+1", "-2.5", "-two", "'=1", "a")]
    ["'=1+1", '-2.5', "'-two", "''=1", 'a']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def marked_cell(text: str) -> str:
    """A text as it is, in a table that `read_cell` reads: only what it would change is marked."""
    return f"'{text}" if _MARKED.match(text) else text


def read_cell(text: str) -> str:
    """The text of a cell that `inert_cell` or `marked_cell` wrote."""
    return text[1:] if text.startswith("'") and _MARKED.match(text) else text


def sheet_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as CSV; texts are inert."""
    out = io.StringIO(newline="")
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = [inert_cell(cell) if isinstance(cell, str) else cell for cell in row]
        split = any(isinstance(cell, str) and _SPLITS.search(cell) for cell in cells)
        (quoted if split else plain).writerow(cells)
    return out.getvalue().encode()
