"""The statistics of a comparison: intervals of all means, a test of each pair, corrected over all.

Each pair is tested as `compare_paired` does it alone; queries are drawn once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.comparison import ComparedRanker, MeanInterval, RankerComparison
from owpc_ltr.evaluation.measurement import Measured, RankerValues
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.evaluation.pairs import ComparedPair
from owpc_ltr.evaluation.resampling import Interval, bca_intervals, mean_of, sign_flips
from owpc_ltr.evaluation.significance import (
    Comparison,
    Paired,
    check_resamples,
    comparison_of,
    generators,
    holm,
    paired,
)
from owpc_ltr.evaluation.verdict import LEVEL
from owpc_ltr.metrics import Metric
from owpc_ltr.signatures import Progress, silent

_MANY = 0.2
"""Above this share of unjudged documents, figures say much of the judgments."""


@dataclass(frozen=True)
class Drawing:
    """How chance is drawn, and who is told how far it is."""

    seed: int = 0
    resamples: int = RESAMPLES
    progress: Progress = silent

    def told(self, what: str) -> Callable[[float], None]:
        """Who is told of the shares of one piece of work."""
        return lambda share: self.progress(what, share)


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts where they are known, weights where they vary, and why these."""

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    split: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonPlan:
    """What is measured how: the metrics, unjudged documents, against whom, and by what chance."""

    metrics: Sequence[Metric]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Drawing = Drawing()


def side_by_side(
    values: Mapping[str, RankerValues],
    zero: Sequence[Vector] | None,
    queries: ComparedQueries,
    how: ComparisonPlan,
) -> RankerComparison:
    """The comparison of rankers by their values; `zero` are those of scoring everything alike.

    Raises Refused where a metric counts too few queries.
    """
    weights = queries.weights
    ranked = {
        name: tuple(
            Measured(metric, np.nan, of_metric, _floor(metric, number, zero, weights))
            for number, (metric, of_metric) in enumerate(zip(how.metrics, one.values, strict=True))
        )
        for name, one in values.items()
    }
    found = compare_all(ranked, weights, how.baseline, how.drawing)
    rankers = tuple(
        _ranker(name, ranked[name], one, found, weights) for name, one in values.items()
    )
    told = [f"{one.name}: {warning}" for one in rankers for warning in one.warnings]
    return RankerComparison(
        rankers=rankers,
        metrics=tuple(how.metrics),
        pairs=found.pairs,
        query_ids=queries.ids,
        query_texts=queries.texts,
        n_queries=len(queries.ids),
        split=queries.split,
        weighted=weights is not None,
        unjudged=how.unjudged,
        warnings=(*queries.warnings, *told, *_favours(rankers, how.unjudged)),
        notes=(*queries.notes, *_left_out(found, len(queries.ids)), *_worth(weights)),
        baseline=how.baseline,
        importance=weights,
    )


def _floor(
    metric: Metric, number: int, zero: Sequence[Vector] | None, weights: Vector | None
) -> float:
    return float("nan") if zero is None else metric.average(zero[number], weights)


def _ranker(
    name: str,
    measured: tuple[Measured, ...],
    values: RankerValues,
    found: Statistics,
    weights: Vector | None,
) -> ComparedRanker:
    means = found.means[name]
    shares = None
    if values.unjudged is not None:
        texts = (str(one.metric) for one in measured)
        shares = {
            text: _mean_share(share, weights)
            for text, share in zip(texts, values.unjudged, strict=True)
        }
    holes = [
        f"{share:.0%} of what {text} looks at is unjudged"
        for text, share in (shares or {}).items()
        if share > _MANY
    ]
    return ComparedRanker(
        name,
        tuple(replace(one, mean=means[str(one.metric)].mean) for one in measured),
        means,
        shares,
        (*values.warnings, *([", ".join(holes)] if holes else [])),
    )


def _mean_share(shares: Vector, weights: Vector | None) -> float:
    """The mean over queries that have a list; 0 where none has."""
    listed = ~np.isnan(shares)
    if weights is not None:
        listed &= weights > 0
    if not listed.any():
        return 0.0
    return mean_of(shares[listed], None if weights is None else weights[listed])


def _favours(rankers: Sequence[ComparedRanker], unjudged: str) -> Iterator[str]:
    """Whom unjudged documents favour, where there are many."""
    holes = [one.name for one in rankers if one.unjudged and max(one.unjudged.values()) > _MANY]
    if not holes:
        return
    if unjudged == "zero":
        yield (
            "unjudged documents count as irrelevant, which favours the rankers whose documents "
            "were judged: compare with unjudged condensed, and judge what these bring "
            "(owpc-ltr judge pool)"
        )
        shown = [one.name for one in rankers if one.unjudged is None]
        if shown:
            yield (
                f"models rank judged documents alone here ({', '.join(shown)}), and runs list "
                f"others too ({', '.join(holes)}): compare with unjudged condensed, or live"
            )
    else:
        yield (
            f"many documents of {', '.join(holes)} are unjudged: what they are worth nobody knows; "
            "judge them (owpc-ltr judge pool)"
        )


def _left_out(found: Statistics, n_queries: int) -> Iterator[str]:
    """Metrics that do not count all queries."""
    counted = {pair.metric: pair.comparison.n_queries for pair in found.pairs}
    for metric, count in counted.items():
        if count < n_queries:
            yield f"{metric} counts {count:,} of {n_queries:,} queries, the same for every ranker"


def _worth(weights: Vector | None) -> Iterator[str]:
    """How many equal queries have as much to say as these (Kish 1965)."""
    if weights is None:
        return
    worth = float(weights.sum() ** 2 / (weights**2).sum())
    if worth < len(weights) / 2:
        yield f"so weighted, {len(weights):,} queries tell as much as {worth:,.0f} equal ones"


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
                "unjudged documents for something else (unjudged)"
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
