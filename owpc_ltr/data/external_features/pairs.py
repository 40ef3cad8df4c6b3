"""Pairs of query and document whose external features are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.data.judgments.types import JudgedQuery


QUERY_ID, QUERY, DOCUMENT_ID = "query_id", "query", "document_id"


@dataclass(frozen=True, eq=False)
class DocumentPairs:
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
        """What a table is asked for under one of its keys, one text a pair.

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


def judged_pairs(queries: Sequence[JudgedQuery]) -> DocumentPairs:
    """All judged pairs, in order."""
    import pyarrow as pa

    return DocumentPairs(
        [query.query_id for query in queries],
        [text_of(query.params) for query in queries],
        np.array([len(query.document_ids) for query in queries], np.int64),
        pa.array([one for query in queries for one in query.document_ids], pa.string()),
    )


def pairs_of(
    query_id: str | None, params: Mapping[str, Any], documents: Sequence[str]
) -> DocumentPairs:
    """The pairs of one query."""
    import pyarrow as pa

    return DocumentPairs(
        [query_id],
        [text_of(params)],
        np.array([len(documents)], np.int64),
        pa.array(list(documents), pa.string()),
    )


def text_of(params: Mapping[str, Any]) -> str | None:
    """What the user typed, by the parameters of a query."""
    texts = (params.get(name) for name in ("keywords", "query"))
    return next((text for text in texts if isinstance(text, str)), None)


def _lacking(name: str, table: str, query_id: str | None) -> str:
    if name == QUERY_ID:
        return (
            f"{table} is joined by '{QUERY_ID}', and this query has no id: say it (--query-id), or "
            f"give a table that is joined by '{QUERY}', the text of the query"
        )
    return (
        f"{table} is joined by '{QUERY}', and query '{query_id}' has no text: its parameters have "
        f"neither 'keywords' nor 'query'; give a table that is joined by '{QUERY_ID}'"
    )
