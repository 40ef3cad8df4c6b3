"""The external features of judged pairs, and of the hits of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.external_features.sources import (
    DOCUMENT_ID,
    NOWHERE,
    DocumentPairs,
    ExternalSource,
    document_pairs,
    external_names,
    in_words,
    refuse_taken,
)
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import shown

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.data.judgments.grouping import JudgedQuery


ValuesOf = Callable[[Sequence[str]], Matrix]
"""The values of some documents of one query."""


@dataclass(frozen=True, eq=False)
class ExternalColumns:
    """External features in a model's order, and the table that each is found in."""

    feature_names: tuple[str, ...]
    tables: tuple[ExternalTable, ...]

    def of_query(self, query_id: str | None, params: Mapping[str, Any]) -> ValuesOf:
        """The way to the values of one query's documents; NaN where a table has no row.

        Raises UsageError at once where a table's key is not known of the query.
        """
        pairs = document_pairs([(query_id, params, [])])
        for table in self.tables:
            for name in table.source.keys:
                pairs.key(name, table.source.file)
        return lambda doc_ids: self.values(document_pairs([(query_id, params, doc_ids)]))

    def values(self, pairs: DocumentPairs) -> Matrix:
        """One row a pair, one column a feature."""
        columns = {
            name: column
            for table in self.tables
            for name, column in zip(table.feature_names, table.at(table.find(pairs)).T, strict=True)
        }
        return np.stack([columns[name] for name in self.feature_names], axis=1)


def tables_of(extra_features: Any) -> tuple[ExternalTable, ...]:
    """The tables of `extra_features`; where there are none, what reads them is not imported."""
    if extra_features is None or (isinstance(extra_features, list | tuple) and not extra_features):
        return ()
    from owpc_ltr.data.external_features.table import read_external_features

    return read_external_features(extra_features)


def columns_for(
    sources: Sequence[ExternalSource], tables: Sequence[ExternalTable], whose: str
) -> ExternalColumns | None:
    """The columns of these sources out of tables that may be newer; None where there are none.

    `whose` begins the error, as in "the model 'shop'". Raises UsageError where no table has one.
    """
    names = external_names(sources)
    if not names:
        return None
    holder = {name: table for table in tables for name in table.feature_names}
    lacking = [name for name in names if name not in holder]
    if lacking:
        given = " and no table given has it" if tables else ""
        raise UsageError(
            f"{whose} reads {in_words(lacking, sources)}, which is not in the index{given}: give "
            "the table with --extra-features FILE"
        )
    needed = {id(holder[name]) for name in names}
    return ExternalColumns(names, tuple(table for table in tables if id(table) in needed))


def refuse_unused(
    sources: Sequence[ExternalSource], tables: Sequence[ExternalTable], whose: str
) -> None:
    """Refuse tables for what reads no external features. Raises UsageError."""
    if tables and not sources:
        raise UsageError(
            f"{whose} reads no external features: leave {tables[0].source.file} out "
            f"(--extra-features)"
        )


@dataclass(frozen=True, eq=False)
class ExternalValues:
    """One row a judged pair and one column an external feature, NaN where no table has a row.

    `accounts` say of each table, beside what its source is: its `rows`; judged pairs that are
    `matched`, and `unmatched`; rows that are `unused`, for they met no pair.
    """

    feature_names: tuple[str, ...]
    values: Matrix
    accounts: list[dict[str, Any]]


def external_values(
    tables: Sequence[ExternalTable], queries: Sequence[JudgedQuery], taken: Sequence[str]
) -> ExternalValues:
    """The external features of judged pairs, tables in order; `taken` are names of other features.

    Raises BadInput for a name that is taken, and for a table none of whose rows meets a pair: its
    ids are of another kind.
    """
    pairs = document_pairs((query.query_id, query.params, query.doc_ids) for query in queries)
    parts, accounts = [], []
    for table in tables:
        refuse_taken(table.feature_names, table.source.file, taken, "the feature set")
        rows = table.find(pairs)
        if (rows == NOWHERE).all():
            raise _other_ids(table, pairs)
        parts.append(table.at(rows))
        matched = rows[rows != NOWHERE]
        counts = {
            "rows": len(table),
            "matched": len(matched),
            "unmatched": len(rows) - len(matched),
            "unused": len(table) - len(np.unique(matched)),
        }
        accounts.append({**table.source.as_dict(), **counts})
    names = tuple(name for table in tables for name in table.feature_names)
    return ExternalValues(names, np.hstack(parts), accounts)


def _other_ids(table: ExternalTable, pairs: DocumentPairs) -> BadInput:
    """The error for a table of other ids, with an example of both sides."""
    from owpc_ltr.data.external_features.table import keys_in_words

    source = table.source
    judged = ", ".join(
        f"{name} {shown(pairs.key(name, source.file)[0].as_py())}" for name in source.keys
    )
    what = "document" if source.keys == (DOCUMENT_ID,) else "query"
    what = "pair" if len(source.keys) > 1 else what
    return BadInput(
        f"cannot use {source.file}: none of its {len(table):,} rows is of a judged {what}: it has "
        f"{keys_in_words(source, table.texts, 0)}, for instance, and the judgments {judged}: are "
        "they ids of the same kind?"
    )
