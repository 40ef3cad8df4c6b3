"""How OpenSearch fuses the scores of several searches (legs), computed as it computes it.

Its `hybrid` query with a normalization or score-ranker processor, in float32 and in the engine's
order of operations. Source: neural-search 2.19 to 3.8 (processor.normalization,
processor.combination). The scores of 2.19.1 are compared with a real node's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.text import ShortRepr

RANK_CONSTANT = 60
"""The engine's default in reciprocal rank fusion."""

MAX_LEGS = 5
"""How many queries OpenSearch's `hybrid` takes."""

WEIGHT_SLACK = 0.01
"""How far from 1 OpenSearch lets the sum of the weights be."""

WORKBENCH_RANK_CONSTANTS = (1, 5, 10, 20, 60)

_LOWEST = np.float32(0.001)
"""What OpenSearch makes of a normalized score of 0, so that the document counts as found."""

_TINIEST = np.float32(1.4e-45)
"""Float.MIN_VALUE, at which the engine starts to look for the highest score."""

Normalization = Literal["min_max", "l2", "z_score", "rrf"]
Mean = Literal["arithmetic", "geometric", "harmonic"]

Z_SCORE_SINCE = (3, 0)
"""The first version of OpenSearch that normalizes by `z_score`."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class EngineFusion(ShortRepr):
    """One way of OpenSearch to make one score of a document's scores by leg.

    - `normalization`: `min_max`, `l2`, `z_score` (OpenSearch 3.0 and later), or `rrf` (by rank).
    - `mean`: how normalized scores are combined. `arithmetic` counts a leg that misses the document
      as 0; `geometric` and `harmonic` skip the leg with its weight.
    - `weights`: one a leg, which sum to 1; None: all equal. `rrf` uses them from 3.1 on.
    - `rank_constant`: k of 1 / (k + rank) in `rrf`.

    Raises UsageError for a combination that the engine refuses.
    """

    normalization: Normalization
    mean: Mean = "arithmetic"
    weights: tuple[float, ...] | None = None
    rank_constant: int = RANK_CONSTANT

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise UsageError(f"opensearch does not fuse so: {fault}")

    def __str__(self) -> str:
        if self.normalization == "rrf":
            words = [f"RRF k={self.rank_constant}"]
        else:
            words = [self.normalization, self.mean]
        words += ["/".join(f"{weight:g}" for weight in self.weights or ())]
        return " ".join(word for word in words if word)

    def scores(
        self, leg_scores: Matrix | Vector, starts: Ints, shards: Ints | None = None
    ) -> Vector:
        """The fused score of each document; 0 where no leg has found it. Shape: (documents,).

        - `leg_scores`: (documents, legs), NaN where the leg did not retrieve the document. Equal
          scores rank in the order of the rows.
        - `starts`: (queries + 1,), where the documents of each query begin.
        - `shards`: (documents,), the shard of each document. OpenSearch before 3.5 ranks the
          documents of each shard by themselves in `rrf`; None: as on one shard.

        Raises UsageError where the number of legs is not that of the weights.
        """
        values = np.asarray(leg_scores, np.float32)
        legs = values.shape[1]
        if self.weights is not None and len(self.weights) != legs:
            raise UsageError(
                f"weights has {len(self.weights)} values for {legs} legs: give one a leg"
            )
        # The collector of `hybrid` takes a score of 0 for a document that was not found.
        values = np.where(values == 0, np.float32(np.nan), values)
        rows = _Rows.of(values, np.asarray(starts), shards)
        weights = np.asarray(self.weights or [1.0] * legs, np.float32)
        if self.normalization == "rrf":
            ranked = np.where(rows.found, self._reciprocal_ranks(rows), np.float32(0))
            return _added(ranked * weights).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            normalized = np.where(rows.found, self._normalized(rows), np.float32(0))
            return _MEANS[self.mean](normalized, weights)

    def _fault(self) -> str:
        """What the engine refuses, with what it takes; nothing where it takes all."""
        kind, weights = self.normalization, self.weights or ()
        faults = {
            f"it has no normalization '{kind}'": kind not in get_args(Normalization),
            f"'{kind}' goes with the arithmetic mean only": (
                kind in {"z_score", "rrf"} and self.mean != "arithmetic"
            ),
            f"rank_constant {self.rank_constant} is not between 1 and 10000": (
                not 1 <= self.rank_constant <= 10_000
            ),
            f"weights {weights} are not all 0 or more": any(not weight >= 0 for weight in weights),
            f"weights {weights} do not sum to 1": (
                bool(weights) and abs(sum(weights) - 1) > WEIGHT_SLACK
            ),
        }
        return next((words for words, holds in faults.items() if holds), "")

    def _normalized(self, rows: _Rows) -> Matrix:
        if self.normalization == "l2":
            squares = rows.sums(rows.values * rows.values).astype(np.float64)
            norms = np.sqrt(squares).astype(np.float32)
            return np.where(norms == 0, _LOWEST, rows.values / norms)
        if self.normalization == "z_score":
            return _z_score(rows)
        low, high = rows.lowest(), rows.highest()
        ranged = (rows.values - low) / (high - low)
        return np.where(high == low, np.float32(1), np.where(ranged == 0, _LOWEST, ranged))

    def _reciprocal_ranks(self, rows: _Rows) -> Matrix:
        # Java divides 1 by k + rank to ten decimals, and rounds halves up.
        divisors = rows.ranks() + self.rank_constant
        return ((2 * 10**10 + divisors) // (2 * divisors) / 1e10).astype(np.float32)


def engine_fusions(legs: int, version: tuple[int, ...] = Z_SCORE_SINCE) -> tuple[EngineFusion, ...]:
    """What OpenSearch's hybrid optimizer tries: for two legs 82 variants, 71 before 3.0.

    `min_max` and `l2` with three means and `z_score` with the arithmetic one, at weights in steps
    of .1 (from three legs on of .25), and `rrf` with five rank constants (Search Relevance
    Workbench 3.7). Raises UsageError for a number of legs that `hybrid` does not take.
    """
    if not 2 <= legs <= MAX_LEGS:
        raise UsageError(f"{legs} legs cannot be fused: OpenSearch takes 2 to {MAX_LEGS}")
    steps = 10 if legs == 2 else 4
    shares = itertools.product(range(steps + 1), repeat=legs)
    weights = [tuple(share / steps for share in part) for part in shares if sum(part) == steps]
    kinds: list[tuple[Any, Any]]
    kinds = [*itertools.product(("min_max", "l2"), ("arithmetic", "geometric", "harmonic"))]
    if version >= Z_SCORE_SINCE:
        kinds.append(("z_score", "arithmetic"))
    by_score = [EngineFusion(kind, mean, part) for kind, mean in kinds for part in weights]
    by_rank = [EngineFusion("rrf", rank_constant=k) for k in WORKBENCH_RANK_CONSTANTS]
    return (*by_score, *by_rank)


@dataclass(frozen=True)
class _Rows:
    """The documents of queries: their scores by leg, which are found, and where queries begin.

    Only queries that have documents: `first` is where each begins, `query` which one a row is of.
    """

    values: Matrix
    found: NDArray[np.bool_]
    first: Ints
    query: Ints
    shards: Ints

    @classmethod
    def of(cls, values: Matrix, starts: Ints, shards: Ints | None) -> _Rows:
        lengths = np.diff(starts)
        lengths = lengths[lengths > 0]
        first = np.cumsum(lengths) - lengths
        query = np.repeat(np.arange(len(lengths)), lengths)
        alone = np.zeros(len(values), np.int64)
        return cls(values, ~np.isnan(values), first, query, alone if shards is None else shards)

    def lowest(self) -> Matrix:
        """The lowest score of the leg in the document's query. Shape: (documents, legs)."""
        filled = np.where(self.found, self.values, np.float32(np.inf))
        return self._spread(np.minimum.reduceat(filled, self.first)) if len(filled) else filled

    def highest(self) -> Matrix:
        """The highest score of the leg in the document's query."""
        filled = np.where(self.found, self.values, _TINIEST)
        filled = np.maximum(filled, _TINIEST)
        return self._spread(np.maximum.reduceat(filled, self.first)) if len(filled) else filled

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of found values by query, in their type, added one by one as the engine does.

        Shard after shard, best first: in float32, another order ends in other digits.
        """
        total = np.zeros((len(self.first), values.shape[1]), values.dtype)
        for leg in range(values.shape[1]):
            rows = self._ranked(leg)
            np.add.at(total[:, leg], self.query[rows], values[rows, leg])
        return self._spread(total)

    def ranks(self) -> Ints:
        """The rank of each found document in its leg and shard, from 1; ties by row."""
        ranks = np.zeros(self.values.shape, np.int64)
        for leg in range(self.values.shape[1]):
            rows = self._ranked(leg)
            lists = self.query[rows] * (self.shards.max(initial=0) + 1) + self.shards[rows]
            new = np.flatnonzero(np.diff(lists, prepend=-1))
            begins = np.repeat(new, np.diff(new, append=len(rows)))
            ranks[rows, leg] = np.arange(len(rows)) - begins + 1
        return ranks

    def _ranked(self, leg: int) -> Ints:
        """The rows that a leg has found, by query, by shard, and best first."""
        rows = np.flatnonzero(self.found[:, leg])
        return rows[np.lexsort([-self.values[rows, leg], self.shards[rows], self.query[rows]])]

    def _spread(self, by_query: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(by_query[self.query])


def _z_score(rows: _Rows) -> Matrix:
    """Scores in standard deviations above the mean, at least .001.

    A score that is the mean itself, as that of a single hit, stays the leg's highest raw score:
    so the source has it.
    """
    values = np.where(rows.found, rows.values, 0).astype(np.float64)
    counts = rows.sums(rows.found.astype(np.float64))
    means = rows.sums(values) / counts
    squares = rows.sums(np.where(rows.found, values - means, 0) ** 2)
    mean = means.astype(np.float32)
    deviation = np.sqrt(squares / np.maximum(counts - 1, 1)).astype(np.float32)
    scaled = (rows.values - mean) / deviation
    scaled = np.where(scaled <= 0, _LOWEST, scaled)
    scaled = np.where(deviation == 0, rows.lowest(), scaled)
    return np.where(mean == rows.values, rows.highest(), scaled)


def _added(terms: NDArray[Any]) -> Matrix:
    """The sum over the legs in float32, leg after leg as the engine adds."""
    return np.asarray(np.cumsum(terms, axis=1, dtype=np.float32)[:, -1])


def _arithmetic(values: Matrix, weights: Matrix) -> Vector:
    counted = np.where(values >= 0, weights, np.float32(0))
    return _ratio(_added(np.where(values >= 0, values * weights, np.float32(0))), _added(counted))


def _geometric(values: Matrix, weights: Matrix) -> Vector:
    total = np.zeros(len(values), np.float32)
    for leg, weight in enumerate(weights):
        logs = np.log(np.where(values[:, leg] > 0, values[:, leg], 1).astype(np.float64))
        # Java adds in double and keeps float32.
        total = (total + np.float64(weight) * logs).astype(np.float32)
    shares = _added(np.where(values > 0, weights, np.float32(0)))
    means = np.exp(_ratio(total, shares)).astype(np.float32)
    return np.where(shares == 0, 0.0, means.astype(np.float64))


def _harmonic(values: Matrix, weights: Matrix) -> Vector:
    counted = np.where(values > 0, weights, np.float32(0))
    return _ratio(_added(counted), _added(counted / np.where(values > 0, values, np.float32(1))))


def _ratio(above: Matrix, below: Matrix) -> Vector:
    """The quotient, in float32; 0 over 0 is 0."""
    out = np.zeros_like(above)
    return np.divide(above, below, out=out, where=below > 0).astype(np.float64)


_MEANS = {"arithmetic": _arithmetic, "geometric": _geometric, "harmonic": _harmonic}
