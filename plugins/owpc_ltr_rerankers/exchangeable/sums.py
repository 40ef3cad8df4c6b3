"""Sums that do not depend on the order of their terms, to the last bit.

Floating-point addition is not associative, so a plain sum changes when documents are permuted.
Here each term is rounded once to a multiple of a power of two that depends on the largest term
alone, and the multiples are added as whole numbers: any order gives the same bits. With n terms
the rounding is 2^(bits(n) − 63) of the largest, so that up to a thousand it is below that of
float64 itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from owpc_ltr.compiling import compiled

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
