"""Permutation test: the sums that differences would have if each might as well be its opposite.

Where two rankers are equally good, so are the two values of a query, whichever has which (Fisher
1935; Smucker, Allan & Carterette, CIKM 2007). The null hypothesis is this symmetry, which is more
than equal means: skewed differences can reject it without a mean difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector

Matrix = NDArray[np.float64]
"""One resample a row, one query a column."""

ROUNDING = 1e-12
"""Sums that differ by less than this share of their terms are equal but for rounding."""

_CELLS = 1 << 20
_TABLED = 1 << 15
"""Up to so many differences, the sums of eight at a time fit in a table."""


@dataclass(frozen=True, eq=False)
class SignFlips:
    """The absolute sums under all sign flips, or under a sample of them.

    `largest` is that of equal signs, which no sum of other signs passes.
    """

    sums: Vector
    exact: bool
    largest: float

    def p_of(self, total: float) -> float:
        """The share of sums at least as far from 0 as `total`.

        Of a sample the one seen is counted in, so that p is never 0 (Phipson & Smyth 2010).
        """
        extreme = int((self.sums >= abs(total) - ROUNDING * self.largest).sum())
        number = len(self.sums)
        return extreme / number if self.exact else (extreme + 1) / (number + 1)


def sign_flips(differences: Vector, resamples: int, generator: np.random.Generator) -> SignFlips:
    """All flips where there are no more than `resamples`, otherwise a sample of them."""
    differences = differences[differences != 0.0]
    n = len(differences)
    total, largest = differences.sum(), float(np.abs(differences).sum())
    exact = n < resamples.bit_length()
    sums = np.empty(2**n if exact else resamples)
    table = _sums_of_eight(differences) if n <= _TABLED and not exact else None
    for count, first in blocks(len(sums), max(1, n)):
        if exact:
            kept = _all_subsets(first, count, n) @ differences
        else:
            coins = generator.integers(0, 256, size=(count, (n + 7) // 8), dtype=np.uint8)
            kept = _looked_up(table, coins) if table is not None else _added(coins, differences)
        sums[first : first + count] = np.abs(2.0 * kept - total)
    return SignFlips(sums, exact, largest)


def blocks(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Rows in blocks of about a million numbers, as (how many, the first of them)."""
    step = max(1, _CELLS // n_columns)
    for first in range(0, n_rows, step):
        yield min(step, n_rows - first), first


def _all_subsets(first: int, count: int, n: int) -> Matrix:
    """The binary digits of `count` numbers from `first` on."""
    numbers = np.arange(first, first + count)
    return ((numbers[:, None] >> np.arange(n)) & 1).astype(np.float64)


def _sums_of_eight(differences: Vector) -> Matrix:
    """For each eight differences, one row, the sum of those that each byte's bits choose."""
    padded = np.zeros(-(-len(differences) // 8) * 8)
    padded[: len(differences)] = differences
    chosen = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    return padded.reshape(-1, 8) @ chosen.T


def _looked_up(table: Matrix, coins: NDArray[np.uint8]) -> Vector:
    """The sum of the differences that the bits of each row of coins choose."""
    places = coins + (256 * np.arange(len(table), dtype=np.int64))
    sums: Vector = table.ravel().take(places).sum(axis=1)
    return sums


def _added(coins: NDArray[np.uint8], differences: Vector) -> Vector:
    """The same of so many differences that a table of their sums would be large."""
    kept = np.unpackbits(coins, axis=1, count=len(differences)).astype(np.float64)
    sums: Vector = kept @ differences
    return sums
