"""Sources of external features in manifests and records, and the pairs by which rows are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import shown
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    import pyarrow as pa


KEY = "joined_tables"
"""The key of the sources in a manifest, in a record, and beside the content of a stored model."""


@dataclass(frozen=True, repr=False)
class ExternalSource(ShortRepr):
    """A table whose columns are features: its file's name, the digest of it, and its columns.

    `keys` are `query_id` or `query`, and `document_id`: those that its rows are found by.
    """

    file: str
    sha256: str
    keys: tuple[str, ...]
    features: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The source as JSON."""
        return {**asdict(self), "keys": list(self.keys), "features": list(self.features)}


def sources_in(content: Mapping[str, Any] | None, place: str = "it") -> tuple[ExternalSource, ...]:
    """The sources that a manifest, record or definition names. Raises BadInput for what is none."""
    entries = (content or {}).get(KEY) or ()
    try:
        if not isinstance(entries, list | tuple):
            raise TypeError("no list")
        return tuple(
            ExternalSource(
                _text(entry["file"]),
                _text(entry["sha256"]),
                _texts(entry["keys"]),
                _texts(entry["features"]),
            )
            for entry in entries
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{place} is damaged: its '{KEY}' are not sources of columns") from error


def external_names(sources: Sequence[ExternalSource]) -> tuple[str, ...]:
    """The names of all external features, in order, each once."""
    return tuple(dict.fromkeys(name for source in sources for name in source.features))


def external_entry(sources: Sequence[ExternalSource]) -> dict[str, Any]:
    """The entry of a record; nothing where no feature is external."""
    return {KEY: [source.as_dict() for source in sources]} if sources else {}


def in_words(names: Sequence[str], sources: Sequence[ExternalSource]) -> str:
    """Some external features, and what each is from: `'ctr' (from ctr.parquet)`."""
    files = {name: source.file for source in sources for name in source.features}
    listed = ", ".join(f"'{name}' (from {files[name]})" for name in names[:3])
    return listed + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def refuse_taken(features: Sequence[str], file: str, taken: Sequence[str], whose: str) -> None:
    """Refuse a column whose name another feature has."""
    duplicate = next((name for name in features if name in set(taken)), None)
    if duplicate is not None:
        raise BadInput(
            f"cannot use {file}: {whose} has a feature {shown(duplicate)} too: rename the column"
        )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError("no list")
    return tuple(map(_text, values))


QUERY_ID, QUERY, DOCUMENT_ID = "query_id", "query", "document_id"
NOWHERE = -1
"""The row of a pair that a table does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class DocumentPairs(ShortRepr):
    """The documents of some queries, one after the other, `sizes` of each query.

    A query has an id, or None where nobody gave it one, and its text, or None where its
    parameters have neither `keywords` nor `query`.
    """

    query_ids: Sequence[str | None]
    texts: Sequence[str | None]
    sizes: NDArray[np.int64]
    documents: pa.StringArray

    def __len__(self) -> int:
        return len(self.documents)

    def key(self, name: str, table: str) -> pa.StringArray:
        """The values of a table's key, one text for each pair.

        Raises UsageError, naming the table, for queries that have no such key.
        """
        if name == DOCUMENT_ID:
            return self.documents
        import pyarrow as pa

        values = self.query_ids if name == QUERY_ID else self.texts
        if None in values:
            raise UsageError(_lacking(name, table, self.query_ids[values.index(None)]))
        return pa.array(values, pa.string()).take(self._queries)

    @cached_property
    def _queries(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(np.repeat(np.arange(len(self.sizes)), self.sizes))


def document_pairs(
    queries: Iterable[tuple[str | None, Mapping[str, Any], Sequence[str]]],
) -> DocumentPairs:
    """The pairs of queries, in order; of each query its id, its parameters, and its documents."""
    import pyarrow as pa

    ids, params, documents = zip(*queries, strict=True)
    return DocumentPairs(
        ids,
        [_text_of(values) for values in params],
        np.array(list(map(len, documents)), np.int64),
        pa.array(chain.from_iterable(documents), pa.string()),
    )


def _text_of(params: Mapping[str, Any]) -> str | None:
    """The text that the user typed, by the parameters of a query."""
    texts = (params.get(name) for name in ("keywords", "query"))
    return next((text for text in texts if isinstance(text, str)), None)


def _lacking(name: str, table: str, query_id: str | None) -> str:
    if name == QUERY_ID:
        return (
            f"{table} finds rows by '{QUERY_ID}', and this query has no id: say it (`query_id`), "
            f"or give a table that finds rows by '{QUERY}', the text of the query"
        )
    return (
        f"{table} finds rows by '{QUERY}', and query '{query_id}' has no text: its parameters have "
        f"neither 'keywords' nor 'query'; give a table that finds rows by '{QUERY_ID}'"
    )
