"""What a file begins with, unpacked: enough of it to tell the format."""

from __future__ import annotations

import codecs
import re
from itertools import islice
from pathlib import Path

from owpc_ltr.files.text import open_bytes

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


def first_lines(head: bytes) -> list[str]:
    """The first lines that are not blank, stripped, at most 50; what is no UTF-8 is replaced."""
    text = head.decode("utf-8", "replace")
    lines = (match.group().strip() for match in re.finditer(r"[^\n]+", text))
    return list(islice((line for line in lines if line), _LOOKED_AT))


def _lines(head: bytearray) -> int:
    return sum(1 for line in head.split(b"\n") if line.strip())
