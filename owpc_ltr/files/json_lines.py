"""JSON lines: one document a line, in a file that may be compressed."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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


Progress = Callable[[str, float | None], None]
_TOLD_EVERY = 50_000


@dataclass(frozen=True)
class DocumentFile:
    """Documents of a file, their ids in a field, or else their line numbers."""

    path: Path
    id_field: str | None = None

    def __iter__(self) -> Iterator[Document]:
        """Each document's id and fields, read anew. Raises BadInput naming the line."""
        return with_ids(read_json_lines(self.path), self.id_field, str(self.path))

    def check(self, progress: Progress) -> int:
        """Read it all; the number of documents.

        Raises BadInput for a line that is no document or has no id, and for two of one id. Eight
        bytes a document are kept meanwhile, whatever their size.
        """
        hashes = array("q")
        for identifier, _ in self:
            hashes.append(hash(identifier))
            if len(hashes) % _TOLD_EVERY == 0:
                progress(f"checked {len(hashes)} documents", None)
        if not hashes:
            raise BadInput(f"{self.path} holds no document: expected one JSON document a line")
        if self.id_field is not None:
            self._refuse_twice(hashes)
        return len(hashes)

    def _refuse_twice(self, hashes: array[int]) -> None:
        import numpy as np

        ordered = np.sort(np.frombuffer(hashes, np.int64))
        suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not suspects:
            return
        # Equal hashes are nearly always equal ids; a second reading knows, and has the lines.
        first: dict[str, int] = {}
        for line, document in read_json_lines(self.path):
            ((identifier, _),) = with_ids([(line, document)], self.id_field, str(self.path))
            if hash(identifier) not in suspects:
                continue
            if identifier in first:
                raise BadInput(
                    f"{self.path}, line {line}: the id {shown(identifier)} stands in line "
                    f"{first[identifier]} already: the later document would overwrite the earlier"
                )
            first[identifier] = line
