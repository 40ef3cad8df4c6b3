"""Lists: the documents of one or many queries, as kernels see them."""

from __future__ import annotations

import math
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

_LARGEST_SHIFT = 1000  # 2^1000 is a float64; what is smaller than 2^-940 counts as 0

_SMALLEST = 1e-280


@compiled
def shift_for(largest: float, count: int) -> int:
    """How many binary places `count` terms up to `largest` may keep within 63 bits."""
    if largest == 0.0:
        return 0
    _, exponent = math.frexp(largest)
    bits = 0
    while count > 0:
        count >>= 1
        bits += 1
    return min(62 - bits - exponent, _LARGEST_SHIFT)


@compiled
def exact_sum(values: Any) -> float:
    """The sum of finite numbers, whatever their order."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    shift = shift_for(largest, len(values))
    scale = math.ldexp(1.0, shift)
    total = np.int64(0)
    for value in values:
        total += np.int64(np.rint(value * scale))
    return math.ldexp(float(total), -shift)


@compiled
def column_sums(rows: Any, sums: Any) -> None:
    """Write the sum of each column into `sums`, whatever the order of the rows."""
    count, width = rows.shape
    largest = np.zeros(width)
    for i in range(count):
        for c in range(width):
            largest[c] = max(largest[c], abs(rows[i, c]))
    scales = np.empty(width)
    for c in range(width):
        scales[c] = math.ldexp(1.0, shift_for(largest[c], count))
    totals = np.zeros(width, dtype=np.int64)
    for i in range(count):
        for c in range(width):
            totals[c] += np.int64(np.rint(rows[i, c] * scales[c]))
    for c in range(width):
        sums[c] = float(totals[c]) / scales[c]


@compiled
def sums_over_others(rows: Any, unit: bool, sums: Any) -> None:
    """Write Σ_{j≠i} ⟨x_i, x_j⟩ = ⟨x_i, Σ_j x_j⟩ − ⟨x_i, x_i⟩ for each row i into `sums`.

    With `unit` the rows are first divided by their length, in place (a zero row stays zero): then
    these are sums of cosines.
    """
    count, width = rows.shape
    if unit:
        for i in range(count):
            scale_to_unit(rows[i])
    totals = np.empty(width)
    column_sums(rows, totals)
    for i in range(count):
        # A list of one document has no others: not even a rounding error is left.
        sums[i] = dot(rows[i], totals) - dot(rows[i], rows[i]) if count > 1 else 0.0


@compiled
def scale_to_unit(row: Any) -> None:
    """Divide a vector by its Euclidean length, in place; zero stays zero."""
    square = dot(row, row)
    if not _SMALLEST < square < np.inf:
        # Too small or too large to be squared, or zero.
        largest = 0.0
        for value in row:
            largest = max(largest, abs(value))
        if largest == 0.0:
            return
        row /= largest
        square = dot(row, row)
    row *= 1.0 / math.sqrt(square)


@compiled(fastmath={"reassoc", "contract"})
def dot(x: Any, z: Any) -> float:
    """⟨x, z⟩, added up in an order that depends on the length alone."""
    total = 0.0
    for c in range(len(x)):
        total += x[c] * z[c]
    return total


_BLOCKS = 16


@dataclass(frozen=True, eq=False)
class ListBatch:
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
