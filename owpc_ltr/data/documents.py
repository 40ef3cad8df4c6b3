"""Documents as the file that is indexed has them, JSON lines or a table, and their fields.

Fields are what rerankers may know of documents besides their features. They are read by document
id. A field is a text, a number, or a list of either: a site, a title, a vector, the ids that it
links to.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import LONGEST_LINE, lines_in, shown, why_no_id
from owpc_ltr.files.strict_json import as_id
from owpc_ltr.signatures import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.arrays import Fields
    from owpc_ltr.data.dataset import RankingDataset


_NAMES_OF_IDS = frozenset(("id", "_id", "docid", "doc_id", "document_id", "docno", "uuid"))

Document = tuple[str, dict[str, Any]]
"""A document's id and its fields."""


def is_table(path: Path) -> bool:
    """Whether a file is CSV or TSV, by its name; it may be compressed."""
    packed = path.suffix in {".gz", ".xz", ".zst"}
    return Path(path.stem if packed else path).suffix.lower() in {".csv", ".tsv"}


def read_documents(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each document and its line: JSON objects, or rows of CSV or TSV. Raises BadInput."""
    return _read_rows(path) if is_table(path) else read_json_lines(path)


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows below a header, their values as texts; an empty cell is no value."""
    from owpc_ltr.data.judgment_tables import header_delimiter

    lines = (line.decode("utf-8-sig") + "\n" for line in lines_in(path))
    csv.field_size_limit(LONGEST_LINE)
    number = 1
    try:
        header = next(lines, "")
        rows = csv.reader(chain([header], lines), delimiter=header_delimiter(header), strict=True)
        names = [name.strip() for name in next(rows, [])]
        if not all(names) or len(set(names)) < len(names):
            raise BadInput(f"{path}, line 1: two columns of one name, or one without: name each")
        for row in rows:
            number = rows.line_num
            if row and len(row) != len(names):
                raise BadInput(
                    f"{path}, line {number}: {len(row)} fields where the header has {len(names)}: "
                    "quote a field that has the delimiter in it"
                )
            if row:
                yield number, {name: cell for name, cell in zip(names, row, strict=True) if cell}
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}, after line {number}: not CSV in UTF-8: {error}") from error


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and JSON object, one after the other. Raises BadInput naming the line."""
    number, source = 0, str(path)
    for number, line in enumerate(lines_in(path), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            raise BadInput(
                f"{source}, line {number}: not JSON: {error}: write one JSON document a line; the "
                "name of a table ends in .csv or .tsv"
            ) from error
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
    """Numbered documents, each with the id that a field holds, or else its line number.

    Raises BadInput for a document without a usable id, and UsageError where no field is named and
    a document has one that looks like its id: judgments of these ids would join other documents.
    """
    for line, document in documents:
        if id_field is None:
            field = next((name for name in document if name.lower() in _NAMES_OF_IDS), None)
            if field is not None and str(document[field]) != str(line):
                raise UsageError(
                    f"{source}, line {line}: `id_field` is not given, and the document has a field "
                    f"'{field}': name the field of the ids, or rename this one to have line "
                    "numbers as ids"
                )
            yield str(line), document
            continue
        try:
            identifier = as_id(document.get(id_field, ""))
            why = why_no_id(identifier)
        except ValueError as error:
            why = str(error)
        if why:
            raise BadInput(
                f"{source}, line {line}: no usable id in field '{id_field}' (`id_field`): it "
                f"{why}; its fields are {shown(', '.join(document))}"
            )
        yield identifier, document


_PROGRESS_EVERY = 50_000


@dataclass(frozen=True)
class DocumentFile:
    """Documents of a file, their ids in a field, or else their line numbers."""

    path: Path
    id_field: str | None = None

    def __iter__(self) -> Iterator[Document]:
        """Each document's id and fields, read anew. Raises BadInput naming the line."""
        return with_ids(read_documents(self.path), self.id_field, str(self.path))

    def check(self, progress: Progress) -> int:
        """Read it all; the number of documents.

        Raises BadInput for a line that is no document or has no id, and for two of one id. Eight
        bytes a document are kept meanwhile, whatever their size.
        """
        hashes = array("q")
        for identifier, _ in self:
            hashes.append(hash(identifier))
            if len(hashes) % _PROGRESS_EVERY == 0:
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
        for line, document in read_documents(self.path):
            ((identifier, _),) = with_ids([(line, document)], self.id_field, str(self.path))
            if hash(identifier) not in suspects:
                continue
            if identifier in first:
                raise BadInput(
                    f"{self.path}, line {line}: the id {shown(identifier)} is also on line "
                    f"{first[identifier]}: the later document would overwrite the earlier"
                )
            first[identifier] = line


IDS = "_id"
"""The field under which rerankers find the document ids."""


def with_document_fields(
    data: RankingDataset, names: Sequence[str], path: Path | None, id_field: str | None = None
) -> RankingDataset:
    """The dataset with these fields of its documents; those it has, and `_id`, need no file.

    Raises BadInput where there is no file, where a judged document is not in it, or where the
    dataset does not know its documents' ids.
    """
    fields = dict(data.document_fields or {})
    if set(names) <= fields.keys():
        return data
    if data.doc_ids is None:
        raise BadInput(
            f"the field '{names[0]}' of documents is needed, and the data has no document ids: "
            "log it from an engine, or write #docid = … in LETOR text"
        )
    ids = data.doc_ids.to_pylist()
    fields[IDS] = data.doc_ids
    missing = [name for name in names if name not in fields]
    if missing:
        if path is None:
            raise BadInput(
                f"the field '{missing[0]}' of documents is needed: give the file that was indexed "
                "with `documents`"
            )
        documents = _read(path, id_field, set(ids), missing)
        absent = next((doc_id for doc_id in ids if doc_id not in documents), None)
        if absent is not None:
            ids_are = f"field '{id_field}'" if id_field else "line numbers"
            raise BadInput(
                f"{path} does not hold document '{absent}' (ids: {ids_are}): name the field of the "
                f"ids with `id_field`"
            )
        for column, name in enumerate(missing):
            fields[name] = _column(path, name, [documents[doc_id][column] for doc_id in ids])
    return replace(data, document_fields=fields)


def fields_of(data: RankingDataset) -> Fields:
    """The document fields of a dataset as plain lists."""
    return {name: values.to_pylist() for name, values in (data.document_fields or {}).items()}


def value_at(document: Mapping[str, Any], name: str) -> Any:
    """The value of a field, which may be nested (`site.name`); None if it is absent.

    >>> value_at({"site": {"name": "a.org"}}, "site.name")
    'a.org'
    """
    if name in document:
        return document[name]
    first, dot, inner_name = name.partition(".")
    inner = document.get(first)
    return value_at(inner, inner_name) if dot and isinstance(inner, dict) else None


def _read(
    path: Path, id_field: str | None, ids: set[str], names: Sequence[str]
) -> dict[str, list[Any]]:
    documents = with_ids(read_documents(path), id_field, str(path))
    return {
        identifier: [value_at(document, name) for name in names]
        for identifier, document in documents
        if identifier in ids
    }


def _column(path: Path, name: str, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadInput(
            f"{path}: the field '{name}' holds values of several kinds: make them all texts, "
            "numbers, or lists of one of them"
        ) from error
