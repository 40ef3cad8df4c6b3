"""Text in blocks of whole lines, each with the number of its first line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import ByteSource

BLOCK = 8 << 20
"""Bytes that are read at once."""
LONGEST_LINE = 16 << 20


def line_blocks(source: ByteSource, quoted: bool = False) -> Iterator[tuple[int, bytes]]:
    """The content, cut at ends of lines; no byte order mark is in it.

    `quoted`: a line goes on where it ends within double quotes, as in CSV. Raises BadInput for a
    line that is longer than 16 MiB.
    """
    rest, line, buffer = b"", 1, memoryview(bytearray(BLOCK))
    begun = False
    while got := source.readinto(buffer):
        content = rest + bytes(buffer[:got])
        if not begun:
            content, begun = content.removeprefix(codecs.BOM_UTF8), True
        end = _end(content, quoted)
        rest = content[end:]
        if end:
            yield line, content[:end]
            line += content.count(b"\n", 0, end)
        if len(rest) > LONGEST_LINE:
            raise BadInput(
                f"cannot read {source.path}, line {line}: it is longer than "
                f"{LONGEST_LINE >> 20} MiB: cut it, or leave it out"
            )
    if rest.strip():
        yield line, rest


def bad_line_of(path: Path, line: int, block: bytes) -> BadInput:
    """What is wrong with a block, of which this is the first line, that is no UTF-8 text."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        number = line + block.count(b"\n", 0, error.start)
        return BadInput(
            f"cannot read {path}, line {number}: byte 0x{block[error.start]:02x} is not UTF-8 "
            "text: save the file as UTF-8"
        )
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
