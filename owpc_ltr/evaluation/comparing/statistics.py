"""The statistics of a comparison: intervals of all means, a test of each pair, corrected over all.

Each pair is tested as `compare_paired` does it alone; queries are drawn once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.bootstrap import Interval, bca_intervals
from owpc_ltr.evaluation.comparing.figures import ComparedPair, MeanInterval
from owpc_ltr.evaluation.evaluate import Measured
from owpc_ltr.evaluation.multiple_comparisons import holm
from owpc_ltr.evaluation.sign_flips import sign_flips
from owpc_ltr.evaluation.significance import (
    Comparison,
    Paired,
    check_resamples,
    comparison_of,
    generators,
    paired,
)
from owpc_ltr.evaluation.verdict import LEVEL
from owpc_ltr.evaluation.weighted_means import mean_of

Progress = Callable[[str, float | None], None]
Ranked = Mapping[str, tuple[Measured, ...]]
"""Each ranker's metrics, by its name."""


class Statistics(NamedTuple):
    """Each ranker's means by the metrics' texts, and the pairs."""

    means: dict[str, dict[str, MeanInterval]]
    pairs: tuple[ComparedPair, ...]


class _Tested(NamedTuple):
    """A pair before it is corrected."""

    names: tuple[str, str]
    measured: Measured
    comparison: Comparison


@dataclass(frozen=True)
class Drawing:
    """How chance is drawn, and who is told how far it is."""

    seed: int = 0
    resamples: int = 10_000
    progress: Progress | None = None

    def told(self, what: str) -> Callable[[float], None] | None:
        """Who is told of the shares of one piece of work."""
        progress = self.progress
        return None if progress is None else (lambda share: progress(what, share))


def compare_all(
    ranked: Ranked, weights: Vector | None, baseline: str | None, drawing: Drawing
) -> Statistics:
    """Every ranker by every metric, on the queries that the metric counts for all of them.

    Pairs are of all rankers, or of each against the baseline. Raises Refused where a metric counts
    fewer than two queries.
    """
    check_resamples(drawing.resamples)
    names = list(ranked)
    wanted = list(combinations(names, 2))
    if baseline is not None:
        wanted = [(name, baseline) for name in names if name != baseline]
    means: dict[str, dict[str, MeanInterval]] = {name: {} for name in names}
    tested: list[_Tested] = []
    for counted, numbers in _by_counted_queries(ranked, weights):
        asked = [(name, number) for number in numbers for name in names]
        values = [ranked[name][number].per_query[counted] for name, number in asked]
        by_name = dict(zip(asked, values, strict=True))
        own = None if weights is None else weights[counted]
        spans = [one.metric.span for one in ranked[names[0]]]
        samples = [
            ((a, b), number, paired(by_name[a, number], by_name[b, number], own, spans[number]))
            for number in numbers
            for a, b in wanted
        ]
        # Weights that are all alike are none.
        own = samples[0][2].weights
        ends = _drawn_intervals(values, [sample for *_, sample in samples], own, drawing)
        for (name, number), column, end in zip(asked, values, ends, strict=False):
            metric = str(ranked[name][number].metric)
            means[name][metric] = MeanInterval(mean_of(column, own), *end)
        tested += _tested(ranked, samples, ends[len(values) :], drawing)
    tested.sort(key=lambda one: _place(one, ranked))
    return Statistics(means, _corrected(tested))


def _drawn_intervals(
    values: Sequence[Vector], samples: Sequence[Paired], weights: Vector | None, drawing: Drawing
) -> list[Interval]:
    """The intervals of the rankers' means, then those of the pairs' differences."""
    _coins, draws = generators(drawing.seed)
    columns = np.column_stack([*values, *(sample.differences for sample in samples)])
    done = drawing.told("drawing queries")
    return bca_intervals(columns, weights, LEVEL, drawing.resamples, draws, done)


def _by_counted_queries(
    ranked: Ranked, weights: Vector | None
) -> list[tuple[NDArray[np.bool_], list[int]]]:
    """Metrics that count the same queries go together."""
    groups: dict[bytes, tuple[NDArray[np.bool_], list[int]]] = {}
    for number, measured in enumerate(zip(*ranked.values(), strict=True)):
        counted = np.ones(len(measured[0].per_query), np.bool_)
        for one in measured:
            counted &= ~np.isnan(one.per_query)
        if weights is not None:
            counted &= weights > 0
        if counted.sum() < 2:
            raise Refused(
                f"{int(counted.sum())} of {len(counted)} queries count in {measured[0].metric} for "
                "every ranker, and a comparison needs 2: give more judged queries, or take "
                "unjudged documents for something else (--unjudged)"
            )
        groups.setdefault(counted.tobytes(), (counted, []))[1].append(number)
    return list(groups.values())


def _tested(
    ranked: Ranked,
    samples: Sequence[tuple[tuple[str, str], int, Paired]],
    ends: Sequence[Interval],
    drawing: Drawing,
) -> list[_Tested]:
    done = drawing.told("flipping signs")
    tested = []
    for place, ((pair, number, sample), end) in enumerate(zip(samples, ends, strict=True), 1):
        # The same coins for each pair, as if it were the only one.
        coins, _draws = generators(drawing.seed)
        flips = sign_flips(sample.terms, drawing.resamples, coins)
        found = comparison_of(sample, flips, end, drawing.resamples, drawing.seed)
        tested.append(_Tested(pair, ranked[pair[0]][number], found))
        if done is not None:
            done(place / len(samples))
    return tested


def _place(one: _Tested, ranked: Ranked) -> tuple[int, int, int]:
    """Pairs stand by metric, then in the order of the rankers."""
    names = list(ranked)
    first = [str(measured.metric) for measured in ranked[names[0]]]
    a, b = one.names
    return first.index(str(one.measured.metric)), names.index(a), names.index(b)


def _corrected(tested: Sequence[_Tested]) -> tuple[ComparedPair, ...]:
    p_values = holm(np.array([one.comparison.p_permutation for one in tested]))
    return tuple(
        ComparedPair(
            *one.names,
            str(one.measured.metric),
            one.comparison,
            p,
            one.measured.metric.higher_is_better,
        )
        for one, p in zip(tested, p_values.tolist(), strict=True)
    )
