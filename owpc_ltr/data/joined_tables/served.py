"""The joined columns that a model reads, looked up for the hits of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.joined_tables.asked import AskedPairs, pairs_of
from owpc_ltr.data.joined_tables.source import JoinedSource, in_words, joined_features
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.joined_tables.table import JoinedTable

ValuesOf = Callable[[Sequence[str]], Matrix]
"""The values of some documents of one query."""


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """Joined features in a model's order, and the table that each is found in."""

    feature_names: tuple[str, ...]
    tables: tuple[JoinedTable, ...]

    def of_query(self, query_id: str | None, params: Mapping[str, Any]) -> ValuesOf:
        """The way to the values of one query's documents; NaN where a table has no row.

        Raises UsageError at once where a table's key is not known of the query.
        """
        self._check(pairs_of(query_id, params, []))

        def values(document_ids: Sequence[str]) -> Matrix:
            return self.values(pairs_of(query_id, params, document_ids))

        return values

    def values(self, pairs: AskedPairs) -> Matrix:
        """One row a pair, one column a feature."""
        found = {
            name: column
            for table in self.tables
            for name, column in zip(table.feature_names, table.at(table.find(pairs)).T, strict=True)
        }
        return np.stack([found[name] for name in self.feature_names], axis=1)

    def _check(self, pairs: AskedPairs) -> None:
        for table in self.tables:
            for name in table.source.keys:
                pairs.key(name, table.source.file)


def columns_for(
    sources: Sequence[JoinedSource], tables: Sequence[JoinedTable], whose: str
) -> JoinedColumns | None:
    """The columns of these sources out of tables that may be newer; None where there are none.

    `whose` begins the error, as in "the model 'shop'". Raises UsageError where no table has one.
    """
    names = joined_features(sources)
    if not names:
        return None
    holder = {name: table for table in tables for name in table.feature_names}
    lacking = [name for name in names if name not in holder]
    if lacking:
        given = " and no table given has it" if tables else ""
        raise UsageError(
            f"{whose} reads {in_words(lacking, sources)}, which is not in the index{given}: give "
            "the table with --join FILE"
        )
    needed = {id(holder[name]) for name in names}
    return JoinedColumns(names, tuple(table for table in tables if id(table) in needed))


def refuse_unused(
    sources: Sequence[JoinedSource], tables: Sequence[JoinedTable], whose: str
) -> None:
    """Refuse tables for what reads nothing that is joined. Raises UsageError."""
    if tables and not sources:
        raise UsageError(
            f"{whose} reads nothing that is joined: leave {tables[0].source.file} out (--join)"
        )
