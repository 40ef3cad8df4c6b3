"""The columns of joined tables for all judged pairs, and an account of each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.joined_tables.asked import AskedPairs, judged_pairs
from owpc_ltr.data.joined_tables.roles import refuse_taken
from owpc_ltr.data.joined_tables.table import NOWHERE, JoinedTable, keys_in_words
from owpc_ltr.data.judgments.types import JudgedQuery
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown


@dataclass(frozen=True, eq=False)
class JoinedValues:
    """One row a judged pair and one column a joined feature, NaN where no table has a row.

    `accounts` say of each table, beside what its source is: its `rows`; judged pairs that are
    `matched`, and `unmatched`; rows that are `unused`, for they met no pair.
    """

    feature_names: tuple[str, ...]
    values: Matrix
    accounts: list[dict[str, Any]]


def join_judged(
    tables: Sequence[JoinedTable], queries: Sequence[JudgedQuery], taken: Sequence[str]
) -> JoinedValues:
    """The joined columns of judged pairs, the tables in order; `taken` are other features' names.

    Raises BadInput for a name that is taken, and for a table none of whose rows meets a pair: its
    ids are of another kind.
    """
    pairs = judged_pairs(queries)
    parts, accounts = [], []
    for table in tables:
        refuse_taken(table.feature_names, table.source.file, taken, "the feature set")
        rows = table.find(pairs)
        if (rows == NOWHERE).all():
            raise _strange(table, pairs)
        parts.append(table.at(rows))
        accounts.append({**table.source.as_dict(), **_account(table, rows)})
    names = tuple(name for table in tables for name in table.feature_names)
    return JoinedValues(names, np.hstack(parts), accounts)


def _account(table: JoinedTable, rows: NDArray[np.int64]) -> dict[str, int]:
    met = rows[rows != NOWHERE]
    used = np.zeros(len(table), bool)
    used[met] = True
    return {
        "rows": len(table),
        "matched": len(met),
        "unmatched": len(rows) - len(met),
        "unused": len(table) - int(used.sum()),
    }


def _strange(table: JoinedTable, pairs: AskedPairs) -> BadInput:
    """The error for a table of other ids, with an example of both sides."""
    source = table.source
    judged = ", ".join(
        f"{name} {shown(pairs.key(name, source.file)[0].as_py())}" for name in source.keys
    )
    what = "pair" if len(source.keys) > 1 else "document" if "document_id" in source.keys else (
        "query")  # fmt: skip
    return BadInput(
        f"cannot join {source.file}: none of its {len(table):,} rows is of a judged {what}: it has "
        f"{keys_in_words(source, table.texts, 0)}, for instance, and the judgments {judged}: are "
        "they ids of the same kind?"
    )
