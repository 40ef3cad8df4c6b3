"""Rankers compared by their per-query results: the one comparison that every path makes.

All means have an interval, each pair a test, corrected over all. Each pair is tested as
`compare_paired` does it alone; queries are drawn once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison_table import ComparedRanker, MeanInterval, RankerComparison
from owpc_ltr.evaluation.looks import corrected_for, earlier_looks
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.resampling import (
    LEVEL,
    Interval,
    bca_intervals,
    mean_of,
    sign_flips,
)
from owpc_ltr.evaluation.results import ComparisonPlan, PerQueryResults, RankerResults, Resampling
from owpc_ltr.evaluation.rules import (
    contradictions,
    fewer_training_queries,
    list_doubts,
    table_warnings,
    treatment_warnings,
)
from owpc_ltr.evaluation.significance import (
    Comparison,
    Paired,
    ResultWarning,
    check_resamples,
    compare_paired,
    comparison_of,
    generators,
    holm,
    paired,
)
from owpc_ltr.metrics import Metric

OF_FOLDS = 2.0
"""What p is multiplied by where models of folds are measured: they are others than the model."""
_MANY = 0.2
"""Above this share of unjudged documents, figures say much of the judgments."""


def compare_results(results: PerQueryResults, how: ComparisonPlan) -> RankerComparison:
    """The comparison of rankers by their per-query results, with all that makes it doubtful.

    Raises Refused where a metric counts too few queries.
    """
    queries, weights = results.queries, results.queries.weights
    alone, looks, found = len(results.rankers) == 1, 0, Statistics({}, ())
    ranked = _ranked(results, how, alone=alone)
    if not alone:
        found = compare_all(ranked, weights, how.baseline, how.drawing, queries.clusters)
        looks = _looks_before(found.pairs, results)
    rankers = tuple(
        _compared_ranker(name, ranked[name], one, found, weights)
        for name, one in results.rankers.items()
    )
    told = [
        warning if alone else f"{one.name}: {warning}"
        for one in rankers
        for warning in one.warnings
    ]
    # Without a pair there is no verdict that names them.
    told += [doubt.line for doubt in queries.doubts] if alone else []
    pairs = tuple(_with_warnings(pair, results, how, looks) for pair in found.pairs)
    told += [doubt.line for pair in pairs for doubt in pair.doubts if not doubt.decides]
    return RankerComparison(
        rankers=rankers,
        metrics=results.metrics,
        pairs=pairs,
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
        n_independent=queries.n_independent,
        on_judged_documents=any(one.unjudged is None for one in results.rankers.values()),
        looks=looks,
    )


def _ranked(results: PerQueryResults, how: ComparisonPlan, *, alone: bool) -> Ranked:
    """Each ranker's metrics; of several, means are those of the queries that count for all."""
    weights, zero = results.queries.weights, results.all_tied
    return {
        name: tuple(
            Measured(
                metric,
                metric.average(of_metric, weights) if alone else np.nan,
                of_metric,
                np.nan if zero is None else metric.average(zero[number], weights),
                weights=weights,
                seed=how.drawing.seed,
            )
            for number, (metric, of_metric) in enumerate(
                zip(results.metrics, one.values, strict=False)
            )
        )
        for name, one in results.rankers.items()
    }


def _compared_ranker(
    name: str,
    measured: tuple[Measured, ...],
    values: RankerResults,
    found: Statistics,
    weights: Vector | None,
) -> ComparedRanker:
    means = found.means.get(name)
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
        measured
        if means is None
        else tuple(replace(one, mean=means[str(one.metric)].mean) for one in measured),
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
            f"many documents of {', '.join(holes)} are unjudged: their relevance is unknown; "
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
    """Each ranker's means by the metrics' texts, and the pairs, without warnings."""

    means: dict[str, dict[str, MeanInterval]]
    pairs: tuple[ComparedPair, ...]


def compare_all(
    ranked: Ranked,
    weights: Vector | None,
    baseline: str | None,
    drawing: Resampling,
    clusters: NDArray[np.int64] | None = None,
) -> Statistics:
    """Every ranker by every metric, on the queries that the metric counts for all of them.

    Pairs are of all rankers, or of each against the baseline. Queries of one number in `clusters`
    are one unit. Raises Refused where a metric counts fewer than two queries.
    """
    check_resamples(drawing.resamples)
    names = list(ranked)
    wanted = list(combinations(names, 2))
    if baseline is not None:
        wanted = [(name, baseline) for name in names if name != baseline]
    means: dict[str, dict[str, MeanInterval]] = {name: {} for name in names}
    tested: list[ComparedPair] = []
    for counted, numbers in _by_counted_queries(ranked, weights):
        asked = [(name, number) for number in numbers for name in names]
        values = [ranked[name][number].per_query[counted] for name, number in asked]
        by_name = dict(zip(asked, values, strict=True))
        own = None if weights is None else weights[counted]
        of = None if clusters is None else clusters[counted]
        spans = [one.metric.span for one in ranked[names[0]]]
        samples = [
            (
                (a, b),
                number,
                paired(by_name[a, number], by_name[b, number], own, spans[number], of),
            )
            for number in numbers
            for a, b in wanted
        ]
        # A ranker's means are drawn as a pair with itself: by clusters, and weights that are all
        # alike are none.
        units = [paired(column, column, own, clusters=of) for column in values]
        ends = _drawn_intervals([one.a for one in units], samples, units[0].weights, drawing)
        for (name, number), unit, end in zip(asked, units, ends, strict=False):
            metric = str(ranked[name][number].metric)
            means[name][metric] = MeanInterval(mean_of(unit.a, unit.weights), *end)
        tested += _tested(ranked, samples, ends[len(values) :], drawing)
    # Pairs stand by metric, then in the order of the rankers.
    metrics = [str(one.metric) for one in ranked[names[0]]]
    tested.sort(key=lambda one: (metrics.index(one.metric), names.index(one.a), names.index(one.b)))
    p_values = holm(np.array([one.p_holm for one in tested])).tolist()
    pairs = (replace(one, p_holm=p) for one, p in zip(tested, p_values, strict=True))
    return Statistics(means, tuple(pairs))


def _drawn_intervals(
    values: Sequence[Vector],
    samples: Sequence[tuple[tuple[str, str], int, Paired]],
    weights: Vector | None,
    drawing: Resampling,
) -> list[Interval]:
    """The intervals of the rankers' means, then those of the pairs' differences."""
    _coins, draws = generators(drawing.seed)
    columns = np.column_stack([*values, *(sample.differences for *_, sample in samples)])
    done = drawing.told("drawing queries")
    return bca_intervals(
        columns, weights, level=LEVEL, resamples=drawing.resamples, generator=draws, done=done
    )


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
    drawing: Resampling,
) -> list[ComparedPair]:
    """The pairs, whose p is not corrected yet."""
    done = drawing.told("flipping signs")
    tested = []
    for place, ((pair, number, sample), end) in enumerate(zip(samples, ends, strict=True), 1):
        # The same coins for each pair, as if it were the only one.
        coins, _draws = generators(drawing.seed)
        flips = sign_flips(sample.terms, drawing.resamples, coins)
        found = comparison_of(sample, flips, end, drawing.resamples, drawing.seed)
        metric = ranked[pair[0]][number].metric
        tested.append(
            ComparedPair(*pair, str(metric), found, found.p_permutation, metric.higher_is_better)
        )
        done(place / len(samples))
    return tested


def _looks_before(pairs: Sequence[ComparedPair], results: PerQueryResults) -> int:
    """How many comparisons by the first metric, which decides, were made on these queries."""
    values = {name: one.values[0] for name, one in results.rankers.items()}
    deciding = [pair for pair in pairs if pair.metric == str(results.metrics[0])]
    tests = [(values[pair.a], values[pair.b]) for pair in deciding]
    return earlier_looks(results.queries.ids, tests)


def _with_warnings(
    pair: ComparedPair, results: PerQueryResults, how: ComparisonPlan, looks: int
) -> ComparedPair:
    """The pair, p corrected for earlier looks, too, with all that makes it doubtful."""
    number = [str(metric) for metric in results.metrics].index(pair.metric)
    factor = OF_FOLDS if results.queries.cross_validated else 1.0
    others = _by_treatment(pair, number, results, how)
    left_out, as_judged, *_ = (*others.values(), None, None)
    if not others and results.has_lists:
        # All is judged: what unjudged documents are taken for changes nothing.
        left_out = as_judged = pair.comparison
    pair = replace(
        pair,
        p_holm=min(1.0, pair.p_holm * corrected_for(looks) * factor),
        left_out=left_out,
        as_judged=as_judged,
        smallest_gain=how.smallest_gain,
    )
    guards = _by_guards(pair, results, how) if number == 0 else {}
    verdict, by_tables = pair.verdict, _without_tables(pair, number, results, how)
    return replace(
        pair,
        doubts=(
            *_warnings_of((pair.a, pair.b), results),
            *treatment_warnings(verdict, pair.metric, others),
            *contradictions(verdict, pair.metric, guards),
            *fewer_training_queries(
                verdict.outcome, (pair.a, pair.b), results.queries.cross_validated
            ),
            *table_warnings(verdict, pair.metric, pair.comparison, by_tables),
        ),
    )


def _warnings_of(names: tuple[str, str], results: PerQueryResults) -> tuple[ResultWarning, ...]:
    """What is doubtful about two rankers, whatever the metric."""
    queries, told = results.queries, list[ResultWarning]()
    for name in names:
        told += queries.by_ranker.get(name, ())
    told += queries.doubts
    lists = {name: results.rankers[name].lists for name in names}
    known = {name: one for name, one in lists.items() if one is not None}
    if len(known) == len(names):
        told += list_doubts(known, results.alone, queries.clusters)
    return tuple(told)


def _by_treatment(
    pair: ComparedPair, number: int, results: PerQueryResults, how: ComparisonPlan
) -> dict[str, Comparison | None]:
    """The same comparison by what unjudged documents may be taken for."""
    metric = results.metrics[number]
    if results.left_out is None or results.as_judged is None:
        return {}
    if metric not in results.list_metrics:
        return {}
    number = results.list_metrics.index(metric)
    treated = {
        "with these left out": results.left_out,
        "with these as good as judged documents at their rank": results.as_judged,
    }
    if how.unjudged != "zero" and results.irrelevant is not None:
        treated["with these as irrelevant"] = results.irrelevant
    return {
        words: _compared_alone(values[pair.a][number], values[pair.b][number], metric, results, how)
        for words, values in treated.items()
    }


def _without_tables(
    pair: ComparedPair, number: int, results: PerQueryResults, how: ComparisonPlan
) -> Comparison | None:
    """The same comparison by the first metric, where features from tables tell nothing."""
    a, b = (results.rankers[name] for name in (pair.a, pair.b))
    if number or (a.without_tables is None and b.without_tables is None):
        return None
    one, other = (
        ranker.values[0] if ranker.without_tables is None else ranker.without_tables
        for ranker in (a, b)
    )
    return _compared_alone(one, other, results.metrics[0], results, how)


def _by_guards(
    pair: ComparedPair, results: PerQueryResults, how: ComparisonPlan
) -> dict[str, tuple[Comparison, bool]]:
    """Comparisons by the first rank, and with each query of one weight."""
    a, b = results.rankers[pair.a].values, results.rankers[pair.b].values
    first = len(results.metrics)
    found: dict[str, tuple[Comparison, bool]] = {}
    for number, metric in enumerate(results.guards, first):
        compared = _compared_alone(a[number], b[number], metric, results, how)
        if compared is not None:
            found[f"by {metric}"] = compared, metric.higher_is_better
    if results.queries.weights is not None:
        metric = results.metrics[0]
        compared = _compared_alone(a[0], b[0], metric, results, how, weighted=False)
        if compared is not None:
            found["with each query of one weight"] = compared, metric.higher_is_better
    return found


def _compared_alone(
    a: Vector, b: Vector, metric: Metric, results: PerQueryResults, how: ComparisonPlan,
    *, weighted: bool = True,
) -> Comparison | None:  # fmt: skip
    """Two rankers by one metric, without correction; None where fewer than two queries count."""
    counted = ~(np.isnan(a) | np.isnan(b))
    weights, clusters = results.queries.weights, results.queries.clusters
    if weights is not None and weighted:
        counted &= weights > 0
    if counted.sum() < 2:
        return None
    return compare_paired(
        a[counted],
        b[counted],
        seed=how.drawing.seed,
        resamples=how.drawing.resamples,
        weights=weights[counted] if weights is not None and weighted else None,
        span=metric.span,
        clusters=None if clusters is None else clusters[counted],
    )
