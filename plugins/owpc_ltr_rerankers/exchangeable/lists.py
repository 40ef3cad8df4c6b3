"""Lists: the documents of one or many queries, as kernels see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput
from owpc_ltr.kernels.linear import query_blocks

_BLOCKS = 16


@dataclass(frozen=True, eq=False)
class Lists:
    """Documents, cut into queries at `offsets`, with their features and fields.

    `normalise`: each feature is first mapped to [0, 1] within its query (as in LETOR's
    QueryLevelNorm), 0 where it is constant. A missing feature counts 0 before that.
    """

    features: Matrix
    feature_names: tuple[str, ...]
    offsets: NDArray[np.int64]
    fields: Fields = field(default_factory=dict)
    normalise: bool = True
    threads: int = 1

    def blocks(self) -> list[tuple[int, int]]:
        """Runs of queries with about as many documents each, for threads."""
        cuts = query_blocks(self.offsets, _BLOCKS)
        return list(pairwise(cuts))

    def values_of(self, name: str) -> Any:
        """The values of a document field. Raises BadInput where it was not given."""
        if name not in self.fields:
            raise BadInput(
                f"the reranker needs the document field '{name}': give the documents with "
                "--documents FILE"
            )
        return self.fields[name]


def chosen_columns(pattern: str, names: tuple[str, ...]) -> NDArray[np.int64]:
    """The columns that a pattern names: feature names or globs, joined by `+`; all where empty.

    >>> chosen_columns("title*+3", ("title", "title_raw", "3", "30")).tolist()
    [0, 1, 2]
    """
    if not pattern:
        return np.arange(len(names))
    chosen: set[int] = set()
    # A feature may be called anything, also `a+b`: its own name comes before all patterns.
    for part in [pattern] if pattern in names else pattern.split("+"):
        found = {i for i, name in enumerate(names) if name == part or fnmatchcase(name, part)}
        if not found:
            raise BadInput(f"no feature fits '{part}': there are {', '.join(names[:30])}")
        chosen |= found
    return np.array(sorted(chosen), dtype=np.int64)


def without_diagonal(pairs: Vector) -> Vector:
    """The same with 0 where a document would be compared with itself."""
    np.fill_diagonal(pairs, 0.0)
    return pairs


@compiled
def copy_rows(features: Any, columns: Any, normalise: bool, rows: Any) -> None:
    """Copy one query's columns into `rows` (float64), mapped to [0, 1] where asked for."""
    count, width = len(features), len(columns)
    low, span = np.full(width, np.inf), np.full(width, -np.inf)
    for i in range(count):
        for k in range(width):
            value = float(features[i, columns[k]])
            value = 0.0 if np.isnan(value) else value
            rows[i, k] = value
            low[k], span[k] = min(low[k], value), max(span[k], value)
    if not normalise:
        return
    for k in range(width):
        span[k] -= low[k]
        # A constant column is 0 after its lowest value is taken away, whatever divides it.
        span[k] = span[k] if span[k] > 0.0 else 1.0
    for i in range(count):
        for k in range(width):
            rows[i, k] = (rows[i, k] - low[k]) / span[k]
