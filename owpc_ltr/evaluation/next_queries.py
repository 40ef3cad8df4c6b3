"""Which queries people should judge next: drawn by chance, more often where it narrows most.

Queries are cut into strata by how far two rankers differ in them by the cheap judgments. The number
that is drawn of each is Neyman's (1934): in proportion to its queries and to the spread of what
cheap judgments do not tell; in whole numbers by Wright (2012). Within a stratum every query is as
likely as any other, so that what is judged in the end is a random sample of each stratum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import hashes_of

STRATA = 4
"""How many strata there are of queries in which the rankers differ."""
_EVEN = 2.0
"""What cheap judgments do not tell spreads much more evenly than what they do: strata are thought
to spread by the mean square of their own differences, and so many times that of all."""


@dataclass(frozen=True)
class Stratum:
    """Queries that are drawn alike: how many there are, were judged, and are to be."""

    name: str
    largest: float
    queries: int
    judged: int
    to_judge: int

    @property
    def probability(self) -> float:
        """How likely a query of it is judged in the end."""
        return (self.judged + self.to_judge) / self.queries


@dataclass(frozen=True, eq=False)
class Drawn:
    """The queries to judge, by number in the order in which they were drawn, and the strata."""

    queries: NDArray[np.int64]
    strata: tuple[Stratum, ...]


def strata_by_size(differences: Vector, strata: int = STRATA) -> NDArray[np.int64]:
    """The stratum of each query: 0 without a difference, then as many queries in each other.

    Differences of one size are in one stratum.
    """
    sizes = np.abs(differences)
    apart = sizes > 0
    found = np.zeros(len(sizes), np.int64)
    if apart.any():
        cuts = np.unique(np.quantile(sizes[apart], np.arange(1, strata) / strata))
        found[apart] = 1 + np.searchsorted(cuts, sizes[apart], side="left")
    # Strata that nobody is in have no number.
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def draw_next(
    differences: Vector,
    strata: NDArray[np.str_],
    judged: NDArray[np.bool_],
    query_ids: list[str],
    n: int,
    seed: int = 0,
) -> Drawn:
    """So many queries more, or all that are left.

    `differences` are the cheap ones, times the queries' weights; `judged` says which queries
    people judged. The same seed draws the same.
    """
    names, codes = np.unique(strata, return_inverse=True)
    sizes = np.bincount(codes)
    counts = np.bincount(codes[judged], minlength=len(names))
    spread = _spread(differences, codes, len(names))
    wanted = allocated(sizes, counts, spread, n) - counts
    order = np.argsort(hashes_of(query_ids, f"judge next {seed}"), kind="stable")
    order = order[~judged[order]]
    # The place of each query among the unjudged ones of its stratum.
    by_stratum = np.argsort(codes[order], kind="stable")
    of = codes[order][by_stratum]
    place = np.arange(len(of)) - np.searchsorted(of, of)
    chosen = np.sort(by_stratum[place < wanted[of]])
    largest = np.zeros(len(names))
    np.maximum.at(largest, codes, np.abs(differences))
    told = zip(names.tolist(), largest, sizes, counts, wanted, strict=True)
    return Drawn(
        order[chosen],
        tuple(Stratum(a, float(b), int(c), int(d), int(e)) for a, b, c, d, e in told),
    )


def allocated(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], spread: Vector, n: int
) -> NDArray[np.int64]:
    """How many of each stratum are judged in the end, n of them newly: the least variance there is.

    Each has 2 where it can, for what spreads unseen cannot be told.
    """
    found = np.maximum(counts, np.minimum(sizes, 2))
    left = max(0, counts.sum() + n - int(found.sum()))
    for _ in range(min(left, int((sizes - found).sum()))):
        gain = np.where(found < sizes, (sizes * spread) ** 2 / (found * (found + 1.0)), -1.0)
        found[int(gain.argmax())] += 1
    return found


def _spread(differences: Vector, codes: NDArray[np.int64], width: int) -> Vector:
    """How far people's differences of each stratum are expected to spread about cheap ones."""
    squares = np.bincount(codes, differences**2, width) / np.bincount(codes, minlength=width)
    found: Vector = np.sqrt(squares + _EVEN * (float((differences**2).mean()) or 1.0))
    return found
