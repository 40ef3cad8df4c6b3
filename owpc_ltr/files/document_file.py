"""DocumentFile: JSON lines that are looked through whole before any of them is used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.json_lines import Document, read_json_lines, with_ids
from owpc_ltr.files.text import shown

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
