"""Document fields: what rerankers may know of documents besides their features.

They are read from the file that was indexed (one JSON document a line), by document id. A field
is a text, a number, or a list of either: a site, a title, a vector, the ids that it links to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.arrays import Fields
from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.data.dataset import RankingDataset

IDS = "_id"
"""Under this name rerankers find the document ids."""


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
    if data.document_ids is None:
        raise BadInput(
            f"the field '{names[0]}' of documents is needed, and the data has no document ids: "
            "log it from an engine, or write #docid = … in LETOR text"
        )
    ids = data.document_ids.to_pylist()
    fields[IDS] = data.document_ids
    wanted = [name for name in names if name not in fields]
    if wanted:
        if path is None:
            raise BadInput(
                f"the field '{wanted[0]}' of documents is needed: give the file that was indexed "
                "with --documents FILE"
            )
        found = _read(path, id_field, set(ids), wanted)
        absent = next((one for one in ids if one not in found), None)
        if absent is not None:
            raise BadInput(f"{path} does not hold document '{absent}': is its id in another field?")
        for column, name in enumerate(wanted):
            fields[name] = _column(path, name, [found[one][column] for one in ids])
    return replace(data, document_fields=fields)


def fields_of(data: RankingDataset) -> Fields:
    """The document fields of a dataset as plain lists."""
    return {name: values.to_pylist() for name, values in (data.document_fields or {}).items()}


def value_at(document: Mapping[str, Any], name: str) -> Any:
    """The value of a field, which may be inside others (`site.name`); None where it is not there.

    >>> value_at({"site": {"name": "a.org"}}, "site.name")
    'a.org'
    """
    if name in document:
        return document[name]
    first, dot, rest = name.partition(".")
    inner = document.get(first)
    return value_at(inner, rest) if dot and isinstance(inner, dict) else None


def _read(
    path: Path, id_field: str | None, ids: set[str], names: Sequence[str]
) -> dict[str, list[Any]]:
    from owpc_ltr.files.json_lines import read_json_lines, with_ids

    documents = with_ids(read_json_lines(path), id_field, str(path))
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
