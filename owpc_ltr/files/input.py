"""Files that are read: bounded, and only in folders where a command may read.

Files are regular ones only; plain, gzip, xz or zstandard; bytes or text. Two folders are known:
that of the user's files that outlive a command, and the one that an agent may use. `why_unsafe`
says whether others can change what is at a path.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import lzma
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, DiskFault, Refused

if TYPE_CHECKING:
    import pyarrow as pa


_confined: list[Path] = []
"""The folder of the block under way; as the working directory, it is that of all threads."""


def state_folder() -> Path:
    """The folder `state` of the environment's OWPC_LTR_HOME, or the platform's own."""
    import platformdirs

    if home := os.environ.get("OWPC_LTR_HOME"):
        return Path(home).expanduser().absolute() / "state"
    return platformdirs.user_state_path("owpc-ltr", appauthor=False)


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """In this block files are read and written in this folder only, whatever names them.

    The folder, absolute and without links, is the working directory, and has temporary files, too.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    _confined.append(folder)
    try:
        with chdir(folder):
            yield
    finally:
        _confined.pop()
        tempfile.tempdir = before


def is_confined() -> bool:
    """Whether an agent is the caller, and not a person."""
    return bool(_confined)


def is_inside(path: Path | str, *others: Path) -> bool:
    """Whether a path, also of a file that is yet to be written, leads into the folder.

    `others` are folders that count as well. Without a block every path does.
    """
    if not _confined:
        return True
    try:
        if str(path).startswith("~"):
            return False
        target = Path(path).resolve()
        return any(target.is_relative_to(folder) for folder in (_confined[-1], *others))
    except (OSError, RuntimeError, ValueError):
        return False


def refuse_outside(path: Path | str, name: str = "") -> None:
    """Refuse a path that leaves the folder of the block, if there is one, also by a link.

    `name` is what named it. Without that, the library's own state is allowed, too.
    """
    if not is_inside(path, *(() if name else (state_folder().resolve(),))):
        raise Refused(
            f"{name or 'the file'} {str(path)!r} is outside of the folder of this session: name a "
            "file in it, by a path that is relative to it"
        )


def why_unsafe(path: Path) -> str:
    """Why others can replace or change what is at a path that exists; empty where they cannot.

    It and all folders above it belong to the user or to root, and nobody else can write them;
    folders that many may write, as /tmp, are safe where each may only remove what is their own.
    """
    if not hasattr(os, "getuid"):
        return ""
    path = path.resolve()
    for place in (path, *path.parents):
        status = place.stat()
        if status.st_uid not in {0, os.getuid()}:
            return f"'{place}' belongs to another user"
        shared = place != path and status.st_mode & stat.S_ISVTX
        if _others_write(status) and not shared:
            return f"others can write '{place}'"
    return ""


def _others_write(status: os.stat_result) -> bool:
    """Whether anybody but the owner can write; a user's own group, of nobody else, is the user."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP or status.st_gid == 0:
        return False
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    alone = set(group.gr_mem) <= {user.pw_name}
    return not (alone and group.gr_gid == user.pw_gid and group.gr_name == user.pw_name)


READ = "cannot read"


def open_regular(path: Path, cannot: str = READ) -> BufferedReader:
    """The file, open for reading; `cannot` begins the messages, as in "cannot import".

    Raises BadInput where it is absent, unreadable or no plain file, DiskFault where the disk fails.
    """
    refuse_outside(path)
    try:
        _refuse_others(f"{cannot} {path}", path.stat().st_mode)
        # Not to wait, should a pipe have taken the name meanwhile.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_others(f"{cannot} {path}", os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, cannot, error) from error


@contextmanager
def open_for_arrow(path: Path, kind: str = "Parquet or Arrow file") -> Iterator[BufferedReader]:
    """The file, open; errors in the block become BadInput, or DiskFault for those of the disk."""
    import pyarrow as pa

    with open_regular(path) as file:
        try:
            yield file
        except (pa.ArrowException, OSError, MemoryError, UnicodeError, RecursionError) as error:
            if getattr(error, "errno", None) == errno.EIO:
                raise DiskFault(f"{READ} {path}: {os.strerror(errno.EIO)}") from error
            why = (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].lower()
            raise BadInput(
                f"{READ} {path}: it is not a complete {kind} ({shown(why, 120)[1:-1]}): write or "
                "fetch it again"
            ) from error


def read_regular(path: Path, largest: int, cannot: str = READ, kind: str = "") -> bytes:
    """The bytes of a plain file, as they are. Raises BadInput where it is larger than `largest`."""
    with open_regular(path, cannot) as file:
        try:
            # One byte more, should the file grow meanwhile.
            content = file.read(min(largest, os.fstat(file.fileno()).st_size) + 1)
        except OSError as error:
            raise _unreadable(path, cannot, error) from error
    if len(content) > largest:
        raise BadInput(f"{path} is larger than {largest} bytes{f': not {kind}' if kind else ''}")
    return content


def _refuse_others(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise BadInput(f"{name}: it is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{name}: it is a pipe or a device; write it to a file first")


def _unreadable(path: Path, cannot: str, error: OSError | ValueError) -> BadInput | DiskFault:
    why = getattr(error, "strerror", None) or str(error)
    name = str(path) if isinstance(error, OSError) else repr(str(path))
    if getattr(error, "errno", None) == errno.EIO:
        return DiskFault(f"{cannot} {name}: {why}; fix the disk and run it again")
    if cannot != READ:
        return BadInput(f"{cannot} {name}: {why}")
    return BadInput(f"{cannot} {name}: {why.lower()}; check the name")


LARGEST_RATIO = 200
"""A file that inflates more than this, beyond `FREE_BYTES`, counts as a decompression bomb."""
FREE_BYTES = 64 << 20
"""The size to which every compressed file may inflate."""

_FOREIGN = (
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"BZh", "compressed with bzip2: use gzip, xz or zstd, or unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
    (b"PAR1", "a Parquet file, where text is asked for"),
    (b"\xd0\xcf\x11\xe0", "an old Office file: save it as CSV (UTF-8)"),
)
_SPREADSHEET = (b"[Content_Types].xml", b"docProps/", b"xl/", b"oasis.opendocument")
"""What an archive names first that is a workbook (.xlsx, .ods)."""


class ByteSource:
    """The inflated bytes of a file, and how far into the file they have come."""

    def __init__(self, path: Path, raw: IO[bytes], size: int) -> None:
        self.path = path
        self.size = size
        self.taken = 0
        self._raw = raw
        self._stream, self.compressed = _inflating(raw)

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is; 0 at the end of the file.

        Raises BadInput where the compressed file is damaged or cut, or inflates out of proportion,
        DiskFault where the disk fails.
        """
        filled = 0
        try:
            while filled < len(buffer):
                got = self._stream.readinto(buffer[filled:])
                if not got:
                    break
                filled += got
                self.taken += got
                self._refuse_bomb()
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if getattr(error, "errno", None) == errno.EIO:
                why = f"cannot read {self.path}: {os.strerror(errno.EIO)}"
                raise DiskFault(f"{why}; fix the disk and run it again") from error
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = "the compressed file is cut or damaged" if self.compressed else "a disk error"
            raise BadInput(f"cannot read {self.path}: {what} ({why}): fetch it again") from error
        return filled

    @property
    def share(self) -> float:
        """The share of the file that has been read, above 0."""
        return max(self._raw.tell(), 1) / max(self.size, 1)

    def _refuse_bomb(self) -> None:
        # Of what was taken in so far: a bomb is known by its first part.
        if self.compressed and self.taken > max(FREE_BYTES, LARGEST_RATIO * self._raw.tell()):
            raise BadInput(
                f"cannot read {self.path}: its {self.size} bytes inflate more than "
                f"{LARGEST_RATIO}-fold, as a decompression bomb does: unpack it if it is right"
            )


@contextmanager
def open_bytes(path: Path, any_content: bool = False) -> Iterator[ByteSource]:
    """The file as a `ByteSource`.

    Raises BadInput for what is no regular, readable file, and, unless `any_content` is welcome,
    for formats that are not text.
    """
    with open_regular(path) as raw:
        head = raw.read(512)
        for magic, what in () if any_content else _FOREIGN:
            if head.startswith(magic):
                sheet = any(part in head for part in _SPREADSHEET)
                kind = "a spreadsheet: save it as CSV (UTF-8)" if sheet else what
                raise BadInput(f"cannot read {path}: it is {kind}")
        raw.seek(0)
        yield ByteSource(path, raw, os.fstat(raw.fileno()).st_size)


def read_text(path: Path, largest: int = 1 << 30) -> str:
    """The whole file as text; a byte order mark is left out.

    Raises BadInput where it is no UTF-8 (naming the line), holds a NUL, or is larger than
    `largest` bytes when inflated.
    """
    content = read_bytes(path, largest)
    if content.startswith(codecs.BOM_UTF8):
        del content[:3]
    bad = content.find(b"\0")
    if bad < 0:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            bad = error.start
    raise _no_text(path, content.count(b"\n", 0, bad) + 1, content[bad])


def _no_text(path: Path, line: int, byte: int) -> BadInput:
    return BadInput(
        f"cannot read {path}, line {line}: byte 0x{byte:02x} is not UTF-8 text: save the file as "
        "UTF-8"
    )


def read_bytes(path: Path, largest: int = 1 << 30, any_content: bool = False) -> bytearray:
    """The whole file, inflated; see `open_bytes`.

    Raises BadInput where it is larger than `largest` bytes.
    """
    content = bytearray()
    with open_bytes(path, any_content) as source:
        block = memoryview(bytearray(1 << 20))
        while got := source.readinto(block):
            content += block[:got]
            if len(content) > largest:
                raise BadInput(f"cannot read {path}: it is larger than {largest >> 20} MiB; cut it")
    return content


def shown(token: bytes | str, longest: int = 48) -> str:
    """A value of a file for an error message: one line, printable, quoted, not too long."""
    text = token if isinstance(token, str) else token.decode("utf-8", "backslashreplace")
    cut = text[:longest]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"'{safe}{'…' if len(text) > longest else ''}'"


def first_duplicate(names: Sequence[str]) -> str | None:
    """The first name that occurred before; None if each occurs once."""
    if len(set(names)) == len(names):
        return None
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _inflating(raw: IO[bytes]) -> tuple[Any, bool]:
    head = raw.read(6)
    raw.seek(0)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw), True
    if head == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(raw), True
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow as pa

        return pa.CompressedInputStream(raw, "zstd"), True
    return raw, False


BLOCK = 8 << 20
"""Bytes that are read at once."""
LONGEST_LINE = 16 << 20


def line_blocks(source: ByteSource, quoted: bool = False) -> Iterator[tuple[int, bytes]]:
    """The content, cut at ends of lines; no byte order mark is in it.

    `quoted`: a line goes on where it ends within double quotes, as in CSV. Raises BadInput for a
    line that is longer than 16 MiB.
    """
    partial, line, buffer = b"", 1, memoryview(bytearray(BLOCK))
    begun = False
    while got := source.readinto(buffer):
        content = partial + bytes(buffer[:got])
        if not begun:
            content, begun = content.removeprefix(codecs.BOM_UTF8), True
        end = _end(content, quoted)
        partial = content[end:]
        if end:
            yield line, content[:end]
            line += content.count(b"\n", 0, end)
        if len(partial) > LONGEST_LINE:
            raise BadInput(
                f"cannot read {source.path}, line {line}: it is longer than "
                f"{LONGEST_LINE >> 20} MiB: cut it, or leave it out"
            )
    if partial.strip():
        yield line, partial


def bad_line_of(path: Path, line: int, block: bytes) -> BadInput:
    """The error for a block that is not UTF-8 text; `line` is its first line."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        return _no_text(path, line + block.count(b"\n", 0, error.start), block[error.start])
    return BadInput(f"cannot read {path}: the lines from {line} on cannot be read")


def _end(content: bytes, quoted: bool) -> int:
    """Behind the last end of a line."""
    last = content.rfind(b"\n") + 1
    if not quoted or not last:
        return last
    # Quotes within a quoted field are doubled: where their number is odd, one is open.
    end, odd = last, content.count(b'"', 0, last) % 2
    while end and odd:
        before = content.rfind(b"\n", 0, end - 1) + 1
        odd ^= content.count(b'"', before, end) % 2
        end = before
    # None is closed: a quote that stands within a field opens nothing.
    return end or last


_LOOKED_AT = 50
_BLOCK = 1 << 16
_LARGEST = 1 << 20


def read_head(path: Path) -> bytes:
    """The first 50 lines that are not blank and what is between them, or 1 MiB, or the whole file.

    Whole lines, where there are any; without a byte order mark, and without blank space at the
    beginning that goes on for long. Raises BadInput for what cannot be read or unpacked.
    """
    head = bytearray()
    block = memoryview(bytearray(_BLOCK))
    with open_bytes(path, any_content=True) as source:
        while got := source.readinto(block):
            head += block[:got]
            if not head.strip():
                head.clear()
            elif len(head) >= _LARGEST or _lines(head) > _LOOKED_AT:
                # A line that is cut would look like none of its format.
                del head[head.rfind(b"\n") + 1 or len(head) :]
                break
    return bytes(head).removeprefix(codecs.BOM_UTF8)


def begins_with(path: Path, content: bytes) -> bool:
    """Whether there is this content in the first bytes of a file. A pipe can be read once only."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return content in file.read(100)
    except (OSError, ValueError):
        return False


def first_lines(head: bytes) -> list[str]:
    """The first lines that are not blank, stripped, at most 50; what is no UTF-8 is replaced."""
    text = head.decode("utf-8", "replace")
    lines = (match.group().strip() for match in re.finditer(r"[^\n]+", text))
    return list(islice((line for line in lines if line), _LOOKED_AT))


def _lines(head: bytearray) -> int:
    return sum(1 for line in head.split(b"\n") if line.strip())


INVISIBLE = r"[\x{200b}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{feff}]"
"""For Arrow's regular expressions."""
_PYTHON = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", INVISIBLE))
_BEGIN = (b"\xe2\x80", b"\xe2\x81", b"\xef\xbb\xbf")
"""Bytes with which the invisible characters begin, and a few others."""


def why_unseen(text: str) -> str | None:
    """The fault of an id that contains an invisible character; None for other ids."""
    match = _PYTHON.search(text)
    if match is None:
        return None
    return (
        f"has a character in it that cannot be seen (U+{ord(match.group()):04X}): two ids that "
        "look alike would be two"
    )


UNFIT = r"^$|^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f]"
"""Matches ids that are not allowed, in Arrow's regular expressions and Python's."""


def why_no_id(text: str, *, typed: bool = False) -> str | None:
    """Why a text is not an id of a query or a document; None if it is one.

    An id that is `typed`, the text of a query without an id, may contain invisible characters.
    """
    if not text:
        return "is empty"
    why = None if typed else why_unseen(text)
    if why is None and re.search(UNFIT, text):
        why = "begins or ends with a blank, or has a control character in it"
    return why and f"{shown(text)} {why}"


def first_unseen(content: bytes | bytearray, ids: pa.StringArray) -> int | None:
    """The first id that contains an invisible character; `content` is the bytes of all ids."""
    if not any(begin in content for begin in _BEGIN):
        return None
    rows = (row for row, text in enumerate(ids.to_pylist()) if _PYTHON.search(text))
    return next(rows, None)


def lines_in(path: Path) -> Iterator[bytes]:
    """Lines of a file that may be compressed, read block by block."""
    partial = b""
    with open_bytes(path) as source:
        block = memoryview(bytearray(1 << 20))
        while got := source.readinto(block):
            *whole, partial = (partial + block[:got]).split(b"\n")
            yield from whole
    if partial:
        yield partial
