"""Places in LETOR text: the line of a document, for those who have to mend it there."""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.files.regular import open_regular
from owpc_ltr.files.text import open_bytes


def line_of_row(path: Path, row: int) -> int | None:
    """The line, counted from 1, of document number `row`, counted from 0; None in Parquet.

    Blank lines and lines that are comments hold no document.
    """
    with open_regular(path) as file:
        if file.read(4) == b"PAR1":
            return None
    block, rest, line = memoryview(bytearray(1 << 20)), b"", 0
    with open_bytes(path) as source:
        while got := source.readinto(block):
            *lines, rest = (rest + block[:got]).split(b"\n")
            for text in lines:
                line += 1
                bare = text.strip(b" \t\r")
                if bare and not bare.startswith(b"#"):
                    if row == 0:
                        return line
                    row -= 1
    return None
