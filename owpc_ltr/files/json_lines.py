"""JSON lines: one object a line, in a file that may be compressed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import open_bytes, shown

Document = tuple[str, dict[str, Any]]
"""A document's id and its fields."""


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and JSON object, one after the other. Raises BadInput naming the line."""
    number, source = 0, str(path)
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{source}, line {number}: not JSON: {error}") from error
        except RecursionError as error:
            raise BadInput(f"{source}, line {number}: nested too deep to be read") from error
        if not isinstance(document, dict):
            raise BadInput(f"{source}, line {number}: not a JSON object: {shown(line.strip())}")
        yield number, document
    if number == 0:
        raise BadInput(f"{source} is empty: expected one JSON document a line")


def with_ids(
    documents: Iterable[tuple[int, dict[str, Any]]], id_field: str | None, source: str
) -> Iterator[Document]:
    """Numbered documents, each with the id that a field holds, or else its line number."""
    for line, document in documents:
        if id_field is None:
            yield str(line), document
            continue
        identifier = document.get(id_field)
        if identifier is None or identifier == "" or isinstance(identifier, dict | list):
            raise BadInput(f"{source}, line {line}: no usable id in field '{id_field}'")
        yield str(identifier), document


def _lines(path: Path) -> Iterator[bytes]:
    """Lines of a file that may be compressed, read block by block."""
    rest = b""
    with open_bytes(path) as source:
        block = memoryview(bytearray(1 << 20))
        while got := source.readinto(block):
            *whole, rest = (rest + block[:got]).split(b"\n")
            yield from whole
    if rest:
        yield rest
