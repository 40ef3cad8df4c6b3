"""JSON lines as tables, a block of lines at a time; what is no object is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from owpc_ltr.files.text import ByteSource

BLOCK = 8 << 20
"""Bytes that are read at once."""


def line_blocks(source: ByteSource) -> Iterator[bytes]:
    """The content, cut at ends of lines."""
    rest, buffer = b"", memoryview(bytearray(BLOCK))
    while got := source.readinto(buffer):
        content = rest + bytes(buffer[:got])
        end = content.rfind(b"\n") + 1
        rest = content[end:]
        if end:
            yield content[:end]
    if rest.strip():
        yield rest


def objects_table(block: bytes) -> tuple[Any, int]:
    """A block of lines as a table, and how many of them are no objects."""
    import pyarrow.json

    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    with suppress(pa.ArrowException):
        return pyarrow.json.read_json(pa.BufferReader(block), options), 0
    # A line that is no object, or values of two types: one at a time, scalars as their texts.
    rows, bad = [], 0
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            rows.append(_flat(content))
        else:
            bad += 1
    names = dict.fromkeys(name for row in rows for name in row)
    arrays = {name: pa.array([row.get(name) for row in rows]) for name in names if name}
    return (pa.table(arrays) if arrays else None), bad


def _flat(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Every value under its whole name, as text; a list as JSON."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{above}{name}."))
        elif value is not None:
            found[f"{above}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found
