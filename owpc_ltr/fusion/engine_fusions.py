"""How engines fuse the scores of several searches (legs), computed as they compute it.

OpenSearch's `hybrid` query with a normalization or score-ranker processor, and Elasticsearch's
`linear` and `rrf` retrievers, in float32 and in the engines' order of operations. Sources:
neural-search 2.19 to 3.8 (processor.normalization, processor.combination) and Elasticsearch 9.2
(xpack.rank.linear, xpack.rank.rrf). The scores of 2.19.1 are compared with a real node's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.text import ShortRepr

RANK_CONSTANT = 60
"""The engines' default in reciprocal rank fusion."""

MAX_LEGS = 5
"""How many queries OpenSearch's `hybrid` takes."""

WEIGHT_SLACK = 0.01
"""How far from 1 OpenSearch lets the sum of the weights be."""

WORKBENCH_RANK_CONSTANTS = (1, 5, 10, 20, 60)

_LOWEST = np.float32(0.001)
"""What OpenSearch makes of a normalized score of 0, so that the document counts as found."""

_TINIEST = np.float32(1.4e-45)
"""Float.MIN_VALUE, at which both engines start to look for the highest score."""

_EPSILON = np.float32(1e-6)
"""Below it, Elasticsearch takes two scores for equal and a norm for zero."""

Mean = Literal["arithmetic", "geometric", "harmonic"]

Bound = tuple[Literal["apply", "clip", "ignore"], float]
"""A bound of `min_max` for one leg: its mode, and the score at the end of the range."""

Z_SCORE_SINCE = (3, 0)
"""The first version of OpenSearch that normalizes by `z_score`."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class EngineFusion(ShortRepr):
    """One way of an engine to make one score of a document's scores by leg.

    - `normalization`: `min_max`, `l2`, `z_score` (OpenSearch 3.0 and later), `rrf` (by rank), or
      `none` (Elasticsearch only).
    - `mean`: how OpenSearch combines normalized scores. `arithmetic` counts a leg that misses the
      document as 0; `geometric` and `harmonic` skip the leg with its weight. Elasticsearch
      always takes the weighted sum.
    - `weights`: one a leg; None: all equal. OpenSearch wants them to sum to 1, and uses them in
      `rrf` from 3.1 on.
    - `rank_constant`: k of 1 / (k + rank) in `rrf`.
    - `lower_bounds`, `upper_bounds`: one a leg for `min_max`, as in OpenSearch 3.2 and later;
      3.0 and 3.1 computed lower bounds in another way.

    Raises UsageError for a combination that the engine refuses.
    """

    normalization: Literal["min_max", "l2", "z_score", "rrf", "none"]
    mean: Mean = "arithmetic"
    weights: tuple[float, ...] | None = None
    rank_constant: int = RANK_CONSTANT
    lower_bounds: tuple[Bound, ...] | None = None
    upper_bounds: tuple[Bound, ...] | None = None
    engine: Literal["opensearch", "elasticsearch"] = "opensearch"

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise UsageError(f"{self.engine} does not fuse so: {fault}")

    def __str__(self) -> str:
        if self.normalization == "rrf":
            words = [f"RRF k={self.rank_constant}"]
        else:
            is_sum = self.engine == "elasticsearch"
            words = [self.normalization, "sum" if is_sum else self.mean]
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

        Raises UsageError where the number of legs is not that of the weights or bounds.
        """
        values = np.asarray(leg_scores, np.float32)
        legs = values.shape[1]
        for name in ("weights", "lower_bounds", "upper_bounds"):
            values_by_leg = getattr(self, name)
            if values_by_leg is not None and len(values_by_leg) != legs:
                raise UsageError(
                    f"{name} has {len(values_by_leg)} values for {legs} legs: give one a leg"
                )
        if self.engine == "opensearch":
            # The collector of `hybrid` takes a score of 0 for a document that was not found.
            values = np.where(values == 0, np.float32(np.nan), values)
        rows = _Rows.of(values, np.asarray(starts), shards)
        weights = np.asarray(self.weights or [1.0] * legs, np.float32)
        if self.normalization == "rrf":
            return _summed(self._reciprocal_ranks(rows), weights)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            normalized = np.where(rows.found, self._normalized(rows), np.float32(0))
            if self.engine == "elasticsearch":
                return _summed(normalized, weights)
            return _MEANS[self.mean](normalized, weights)

    def pipeline(self, version: tuple[int, ...] = (3, 1)) -> dict[str, Any]:
        """The search pipeline of an OpenSearch version that fuses so, as JSON.

        Up to 3.0 the rank constant stands among the parameters, and anywhere else is ignored.
        Raises UsageError for a version that cannot fuse so.
        """
        release = f"OpenSearch {'.'.join(map(str, version))}"
        if self.normalization == "z_score" and version < Z_SCORE_SINCE:
            raise UsageError(f"{release} has no z_score: take min_max, or 3.0 or later")
        if self.normalization == "rrf" and self.weights and version < (3, 1):
            raise UsageError(
                f"{release} has no weights of rrf: leave them out, or take 3.1 or later"
            )
        weighted: dict[str, Any] = {"weights": list(self.weights)} if self.weights else {}
        if self.normalization == "rrf":
            constant = {"rank_constant": self.rank_constant}
            inside, beside = (weighted, constant) if version >= (3, 1) else (constant, {})
            combination = {
                "technique": "rrf",
                **beside,
                **({"parameters": inside} if inside else {}),
            }
            processor = {"score-ranker-processor": {"combination": combination}}
            return {"phase_results_processors": [processor]}
        normalization: dict[str, Any] = {"technique": self.normalization}
        bounds = {
            f"{side}_bounds": [{"mode": mode, f"{end}_score": score} for mode, score in of_legs]
            for side, end, of_legs in (
                ("lower", "min", self.lower_bounds),
                ("upper", "max", self.upper_bounds),
            )
            if of_legs
        }
        normalization |= {"parameters": bounds} if bounds else {}
        combination = {"technique": f"{self.mean}_mean"}
        combination |= {"parameters": weighted} if weighted else {}
        clauses = {"normalization": normalization, "combination": combination}
        return {"phase_results_processors": [{"normalization-processor": clauses}]}

    def _fault(self) -> str:
        """What the engine refuses, with what it takes; nothing where it takes all."""
        is_elastic = self.engine == "elasticsearch"
        kind, weights = self.normalization, self.weights or ()
        bounds = [*(self.lower_bounds or ()), *(self.upper_bounds or ())]
        only_arithmetic = is_elastic or kind in {"z_score", "rrf"}
        faults = {
            f"it has no normalization '{kind}'": kind == ("z_score" if is_elastic else "none"),
            f"'{kind}' goes with the arithmetic mean only": (
                only_arithmetic and self.mean != "arithmetic"
            ),
            f"rank_constant {self.rank_constant} is not between 1 and 10000": (
                not 1 <= self.rank_constant <= 10_000
            ),
            "bounds go with OpenSearch's min_max only": (
                bool(bounds) and (is_elastic or kind != "min_max")
            ),
            f"weights {weights} are not all 0 or more": any(not weight >= 0 for weight in weights),
            f"weights {weights} do not sum to 1": (
                bool(weights) and not is_elastic and abs(sum(weights) - 1) > WEIGHT_SLACK
            ),
        }
        return next((words for words, holds in faults.items() if holds), "")

    def _normalized(self, rows: _Rows) -> Matrix:
        if self.normalization == "none":
            return rows.values
        if self.normalization == "l2":
            return _l2(rows, np.float32(0) if self.engine == "opensearch" else _EPSILON)
        if self.normalization == "z_score":
            return _z_score(rows)
        low, high = rows.lowest(), rows.highest()
        if self.engine == "elasticsearch":
            ranged = (rows.values - low) / (high - low)
            return np.where(np.abs(low - high) < _EPSILON, np.float32(1), ranged)
        return _min_max(rows.values, low, high, self.lower_bounds, self.upper_bounds)

    def _reciprocal_ranks(self, rows: _Rows) -> Matrix:
        if self.engine == "elasticsearch":
            places = rows.ranks(by_shard=False) + self.rank_constant
            ranked = np.float32(1) / places.astype(np.float32)
        else:
            # Java divides 1 by k + rank to ten decimals, and rounds halves up.
            divisors = rows.ranks(by_shard=True) + self.rank_constant
            ranked = ((2 * 10**10 + divisors) // (2 * divisors) / 1e10).astype(np.float32)
        return np.where(rows.found, ranked, np.float32(0))


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
            rows = self._ranked(leg, by_shard=True)
            np.add.at(total[:, leg], self.query[rows], values[rows, leg])
        return self._spread(total)

    def ranks(self, *, by_shard: bool) -> Ints:
        """The rank of each found document in its leg, from 1; ties in the order of the rows."""
        ranks = np.zeros(self.values.shape, np.int64)
        for leg in range(self.values.shape[1]):
            rows = self._ranked(leg, by_shard=by_shard)
            lists = self.query[rows] * (self.shards.max(initial=0) + 1)
            lists = lists + self.shards[rows] if by_shard else lists
            new = np.flatnonzero(np.diff(lists, prepend=-1))
            begins = np.repeat(new, np.diff(new, append=len(rows)))
            ranks[rows, leg] = np.arange(len(rows)) - begins + 1
        return ranks

    def _ranked(self, leg: int, *, by_shard: bool) -> Ints:
        """The rows that a leg has found, by query, by shard, and best first."""
        rows = np.flatnonzero(self.found[:, leg])
        shards = [self.shards[rows]] if by_shard else []
        return rows[np.lexsort([-self.values[rows, leg], *shards, self.query[rows]])]

    def _spread(self, by_query: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(by_query[self.query])


def _min_max(
    values: Matrix,
    low: Matrix,
    high: Matrix,
    lower: tuple[Bound, ...] | None,
    upper: tuple[Bound, ...] | None,
) -> Matrix:
    """OpenSearch's min_max: 1 for equal scores, .001 for the lowest, and bounds."""
    bottom, below = _bottoms(values, low, high, lower)
    top, above = _tops(values, low, high, upper)
    ranged = (values - bottom) / (top - bottom)
    ranged = np.where(top == bottom, np.float32(1), np.where(ranged == 0, _LOWEST, ranged))
    ranged = np.where(below, _LOWEST, np.where(above, np.float32(1), ranged))
    return np.where((low == high) & (high == values), np.float32(1), ranged)


def _bottoms(
    values: Matrix, low: Matrix, high: Matrix, bounds: tuple[Bound, ...] | None
) -> tuple[Matrix, NDArray[np.bool_]]:
    """The lower end of the range, and which scores are clipped to it."""
    if bounds is None:
        return low, np.zeros(low.shape, np.bool_)
    modes, scores = map(np.array, zip(*bounds, strict=True))
    at = scores.astype(np.float32)
    applied = np.where((high > at) & (values > at), at, low)
    clipped = np.where(high < at, low, at)
    ends = np.select([modes == "apply", modes == "clip"], [applied, clipped], low)
    return ends, (modes == "clip") & (values < ends)


def _tops(
    values: Matrix, low: Matrix, high: Matrix, bounds: tuple[Bound, ...] | None
) -> tuple[Matrix, NDArray[np.bool_]]:
    """The upper end of the range, and which scores are clipped to it: the lower end, negated."""
    negated = None if bounds is None else tuple((mode, -at) for mode, at in bounds)
    ends, clipped = _bottoms(-values, -high, -low, negated)
    return -ends, clipped


def _l2(rows: _Rows, least: np.float32) -> Matrix:
    """Scores over the square root of the sum of their squares; Elasticsearch adds in float64."""
    if least:
        norms = np.sqrt(rows.sums((rows.values * rows.values).astype(np.float64)))
        return np.where(norms < least, rows.values, rows.values / norms).astype(np.float32)
    norms = np.sqrt(rows.sums(rows.values * rows.values).astype(np.float64)).astype(np.float32)
    return np.where(norms == 0, _LOWEST, rows.values / norms)


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
    """The sum over the legs in float32, leg after leg as the engines add."""
    return np.asarray(np.cumsum(terms, axis=1, dtype=np.float32)[:, -1])


def _summed(values: Matrix, weights: Matrix) -> Vector:
    return _added(values * weights).astype(np.float64)


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
