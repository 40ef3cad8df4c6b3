"""Queries that all have one value, and a sample of them another: checked, and what each stands for.

The sample is random, of all queries or of each stratum of them. A sampled query stands for as many
as its stratum has queries to a sampled one; means are ratios of such sums (Hájek 1971).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import hashes_of
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.resampling import ROUNDING, mean_of
from owpc_ltr.evaluation.significance import ResultWarning

_SALT = "prediction-powered"


@dataclass(frozen=True, eq=False)
class SampledQueries:
    """Every query's `proxy` value, and the `human` one of those `judged` (their numbers).

    `stratum` is a number for each judged query, whose strata have `sizes` queries, of which
    `counts` are judged. `turn` is a random place among the judged queries, by their ids.
    """

    proxy: Vector
    human: Vector
    judged: NDArray[np.int64]
    weights: Vector | None
    stratum: NDArray[np.int64]
    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]
    turn: NDArray[np.int64]

    @cached_property
    def expansion(self) -> Vector:
        """How many queries each judged one stands for."""
        each: Vector = self.sizes / self.counts
        return each[self.stratum]

    @cached_property
    def worth(self) -> Vector:
        """How much each judged query counts in a mean over all."""
        return self.expansion if self.weights is None else self.expansion * self.own_weights

    @cached_property
    def own_weights(self) -> Vector:
        """The judged queries' weights."""
        return np.ones(len(self.human)) if self.weights is None else self.weights[self.judged]

    @cached_property
    def centred_proxy(self) -> Vector:
        """The proxy values less their mean over all queries."""
        centred: Vector = self.proxy - mean_of(self.proxy, self.weights)
        return centred

    @cached_property
    def whole(self) -> Vector:
        """What each query's proxy value adds to the error of their mean over all."""
        if self.weights is None:
            return self.centred_proxy
        terms: Vector = self.weights * self.centred_proxy / self.weights.mean()
        return terms

    @property
    def third_of_all(self) -> float:
        """The third moment of the proxy values' mean over all."""
        n = len(self.proxy)
        return float((self.whole**3).sum()) / (n * max((n - 1.0) * (n - 2.0), 1.0))

    @property
    def shares(self) -> Vector:
        """Each stratum's part in the variance of a mean, for a variance of 1 within it."""
        whole = self.sizes / self.sizes.sum()
        part: Vector = whole**2 * (1.0 - self.counts / self.sizes) / self.counts
        return part

    def mean(self, values: Vector) -> float:
        """What the judged queries say of the mean over all."""
        return float(self.worth @ values / self.worth.sum())

    def scaled(self, deviations: Vector) -> Vector:
        """Deviations from a mean as they add up to its error."""
        if self.weights is None:
            return deviations
        terms: Vector = self.own_weights * deviations * (len(self.proxy) / self.worth.sum())
        return terms

    def variance_of_mean(self, deviations: Vector) -> tuple[float, float]:
        """The variance of the mean of scaled deviations, and its degrees of freedom.

        It is of the choice of the sample alone, and 0 where all queries are judged.
        """
        sums = np.bincount(self.stratum, deviations, len(self.sizes))
        within = deviations - (sums / self.counts)[self.stratum]
        squares = np.bincount(self.stratum, within**2, len(self.sizes))
        free = np.maximum(self.counts - 1, 1)
        parts = self.shares * squares / free
        total = float(parts.sum())
        if total == 0.0:
            return 0.0, float(len(deviations) - 1)
        return total, total**2 / float((parts**2 / free).sum())

    def third_of_mean(self, deviations: Vector) -> float:
        """The third moment of the mean of scaled deviations."""
        counts = self.counts[self.stratum]
        sums = np.bincount(self.stratum, deviations, len(self.sizes))
        within = deviations - (sums / self.counts)[self.stratum]
        # As the variance of few is too small, so is the third moment (Joanes & Gill 1998).
        unbiased = counts**2 / np.maximum((counts - 1.0) * (counts - 2.0), 1.0)
        return float((((self.expansion / len(self.proxy)) * within) ** 3) @ unbiased)


def sampled_queries(
    proxy: Vector,
    human: Vector,
    query_ids: Sequence[str],
    weights: Vector | None = None,
    strata: Sequence[str] | None = None,
) -> SampledQueries:
    """The queries, those of weight 0 left out. Raises BadInput, or Refused for too few."""
    proxy, human = np.asarray(proxy, np.float64), np.asarray(human, np.float64)
    _check(proxy, human, query_ids, weights, strata)
    ids = np.asarray(query_ids, dtype=np.str_)
    of = np.zeros(len(proxy), np.str_) if strata is None else np.asarray(strata, dtype=np.str_)
    if weights is not None:
        counted = weights > 0
        proxy, human, ids, of = proxy[counted], human[counted], ids[counted], of[counted]
        weights = weights[counted]
        weights = None if (weights == weights[:1]).all() else weights
    # Equal rankings summed in another order are equal.
    proxy = np.where(np.abs(proxy) <= ROUNDING, 0.0, proxy)
    human = np.where(np.abs(human) <= ROUNDING, 0.0, human)
    judged = np.flatnonzero(~np.isnan(human))
    names, codes = np.unique(of, return_inverse=True)
    sizes = np.bincount(codes, minlength=len(names))
    counts = np.bincount(codes[judged], minlength=len(names))
    _check_counts(names, sizes, counts)
    turn = np.argsort(np.argsort(hashes_of(ids[judged].tolist(), _SALT), kind="stable"))
    return SampledQueries(
        proxy=proxy,
        human=human[judged],
        judged=judged,
        weights=weights,
        stratum=codes[judged],
        sizes=sizes,
        counts=counts,
        turn=turn,
    )


def _check(
    proxy: Vector,
    human: Vector,
    query_ids: Sequence[str],
    weights: Vector | None,
    strata: Sequence[str] | None,
) -> None:
    for what, values in (
        ("human values", human), ("ids", query_ids), ("weights", weights), ("strata", strata)
    ):  # fmt: skip
        if values is not None and len(values) != len(proxy):
            raise BadInput(
                f"there are {len(values)} {what} for {len(proxy)} queries: give one a query"
            )
    strange = ~np.isfinite(proxy) | np.isinf(human)
    if strange.any():
        place = int(strange.argmax())
        raise BadInput(
            f"query {query_ids[place]} has the differences {proxy[place]} (proxy) and "
            f"{human[place]} (human): both are numbers, the human one NaN where nobody judged"
        )
    if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
        raise BadInput("a query's weight is negative or no number: weights are 0 or more")


def _check_counts(
    names: NDArray[np.str_], sizes: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    if counts.sum() < 2:
        raise Refused(
            f"{int(counts.sum())} of the compared queries have human labels, and an interval needs "
            "2 at least: label more (owpc-ltr judge sample)"
        )
    few = np.flatnonzero(counts < np.minimum(sizes, 2))
    if len(few):
        raise Refused(
            f"{counts[few[0]]} of the {sizes[few[0]]} queries of the stratum '{names[few[0]]}' "
            "have human labels: label 2 of it at least"
        )


UNLIKELY = 0.01
"""Samples that are random look so strange once in a hundred."""


def p_of_random(sample: SampledQueries) -> float:
    """How often a random sample (of each stratum) has means so far from those of all queries.

    Of the proxy differences and of their sizes, twice the smaller p (Bonferroni).
    """
    from scipy.special import stdtr

    p = 1.0
    for values in (sample.proxy, np.abs(sample.proxy)):
        own = values[sample.judged]
        centre = own.mean()
        # Importance says nothing of who was drawn: each query counts once.
        apart = float(sample.expansion @ own) / len(values) - float(values.mean())
        variance, degrees = sample.variance_of_mean(own - centre)
        if variance > 0.0 and math.isfinite(apart):
            p = min(p, 2.0 * float(stdtr(degrees, -abs(apart) / math.sqrt(variance))))
    return min(1.0, 2.0 * p)


def random_sample_doubts(p: float) -> Iterator[ResultWarning]:
    """The doubt about a sample that is visibly not random."""
    if p >= UNLIKELY:
        return
    yield ResultWarning(
        "not-random",
        "the human-labelled queries are not a random sample of the proxy-labelled ones: by "
        f"proxy labels, the rankers differ otherwise on them (p = {p:.2g})",
        "draw them at random (owpc-ltr judge sample)",
    )
