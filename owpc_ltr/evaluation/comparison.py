"""Rankers compared by their per-query results: the one comparison that every path makes.

All means have an interval, each pair a test, corrected over all. Each pair is tested as
`compare_paired` does it alone; queries are drawn once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.attempts import corrected_for, sketch_of
from owpc_ltr.evaluation.compared_pair import ComparedPair, ComparedSegment
from owpc_ltr.evaluation.comparison_result import ComparedRanker, RankerComparison
from owpc_ltr.evaluation.measurement import ComparisonPlan, Measured, PerQueryResults, Resampling
from owpc_ltr.evaluation.ranked_lists import (
    RankedLists,
    as_good_as_judged,
    top_of,
    within_depth,
)
from owpc_ltr.evaluation.rules import (
    DecidingDocuments,
    contradictions,
    fewer_training_queries,
    judged_share_warnings,
    machine_warnings,
    ranked_list_warnings,
    rater_warnings,
    segment_warnings,
    table_warnings,
    treatment_warnings,
)
from owpc_ltr.evaluation.segments import FEWEST, is_accepted
from owpc_ltr.evaluation.significance import (
    LEVEL,
    OPPOSITE,
    Comparison,
    Outcome,
    PairedValues,
    ResultWarning,
    bca_intervals,
    check_resamples,
    compare_paired,
    comparison_of,
    generators,
    holm,
    mean_of,
    pair_values,
    sign_flips,
)
from owpc_ltr.metrics import Metric

OF_FOLDS = 2.0
"""What p is multiplied by where models of folds are measured: they are others than the model."""
MOST_RESAMPLES = 2_000_000
"""Of a permutation test, for memory and time: after 446 comparisons on the same queries, no p is
small enough."""
_AT_LEVEL = 20
"""How many of the permutations are as extreme where p is the level: it then is known to 22 %."""
_MANY = 0.2
"""Above this share of unjudged documents, figures say much of the judgments."""
_JUDGED_DEPTH = 100
"""Nobody judges further down: of a metric that looks there, unjudged documents are usual."""


def compare_results(results: PerQueryResults) -> RankerComparison:
    """The comparison of rankers by their per-query results, with all its warnings.

    Raises Refused where a metric counts too few queries.
    """
    plan, queries, weights = results.plan, results.queries, results.queries.weights
    _ = results.segments  # What is not there is told before the comparison counts.
    alone, earlier, tested = len(results.rankers) == 1, 0, tuple[ComparedPair, ...]()
    ranked = _ranked(results, alone=alone)
    if not alone:
        compared = compare_all(ranked, weights, plan.baseline, plan.drawing, queries.clusters)
        ranked, earlier = compared.ranked, _earlier_comparisons(compared.pairs, results)
        tested = with_finer_p(compared, _factor(results, earlier), plan.drawing)
    rankers = tuple(_compared_ranker(name, ranked, results) for name in ranked)
    messages = [
        message if alone else f"{ranker.name}: {message}"
        for ranker in rankers
        for message in ranker.warnings
    ]
    if alone:
        # Without a pair there is no verdict that names them.
        messages += [warning.line for warning in queries.warnings]
    pairs = tuple(_with_warnings(pair, results, earlier) for pair in tested)
    messages += [warning.line for pair in pairs for warning in pair.warnings if not warning.decides]
    return RankerComparison(
        rankers=rankers,
        metrics=plan.metrics,
        pairs=pairs,
        query_ids=queries.ids,
        query_texts=queries.texts,
        n_queries=len(queries.ids),
        split=queries.split,
        weighted=weights is not None,
        unjudged=plan.unjudged,
        warnings=(*queries.messages, *messages, *_favours(rankers, plan)),
        notes=(*queries.notes, *_left_out(pairs, len(queries.ids)), *_worth(weights)),
        baseline=plan.baseline,
        importance=weights,
        n_independent=queries.n_independent,
        on_judged_documents=any(ranker.unjudged is None for ranker in results.rankers.values()),
        earlier_comparisons=earlier,
        counted_in="" if plan.attempts is None else plan.attempts.place,
        by_segments=bool(plan.segments),
    )


def _ranked(results: PerQueryResults, *, alone: bool) -> Ranked:
    """Each ranker's metrics; of several, means are those of the queries that count for all."""
    plan, metrics, weights = results.plan, results.plan.metrics, results.queries.weights
    tied = [np.nan] * len(metrics)
    if results.all_tied is not None:
        tied = [
            m.average(values, weights) for m, values in zip(metrics, results.all_tied, strict=True)
        ]
    return {
        name: tuple(
            Measured(
                metric,
                metric.average(values, weights) if alone else np.nan,
                values,
                baseline,
                weights=weights,
                clusters=results.queries.clusters,
                seed=plan.drawing.seed,
            )
            for metric, values, baseline in zip(metrics, ranker.values, tied, strict=False)
        )
        for name, ranker in results.rankers.items()
    }


def _compared_ranker(name: str, ranked: Ranked, results: PerQueryResults) -> ComparedRanker:
    ranker, weights, shares = results.rankers[name], results.queries.weights, None
    if ranker.unjudged is not None:
        shares = {
            str(metric): _mean_share(of_queries, weights)
            for metric, of_queries in zip(results.plan.metrics, ranker.unjudged, strict=True)
        }
    holes = [
        f"{share:.0%} of what {metric} looks at is unjudged"
        for metric, share in _holes(shares, results.plan.metrics).items()
    ]
    warnings = (*ranker.warnings, *([", ".join(holes)] if holes else []))
    return ComparedRanker(name, ranked[name], shares, warnings)


def _holes(shares: Mapping[str, float] | None, metrics: Sequence[Metric]) -> dict[str, float]:
    """The shares of unjudged documents that are large, by metric."""
    deep = {str(metric) for metric in metrics if (top_of(metric) or 0) > _JUDGED_DEPTH}
    large = {metric: share for metric, share in (shares or {}).items() if share > _MANY}
    return {metric: share for metric, share in large.items() if metric not in deep}


def _mean_share(shares: Vector, weights: Vector | None) -> float:
    """The mean over queries that have a list; 0 where none has."""
    listed = _counted(weights, shares)
    if not listed.any():
        return 0.0
    return mean_of(shares[listed], _of(weights, listed))


def _counted(weights: Vector | None, *values: Vector) -> NDArray[np.bool_]:
    """The queries that have some weight, and all of these values."""
    counted: NDArray[np.bool_] = np.logical_and.reduce(
        [~np.isnan(values_of_ranker) for values_of_ranker in values]
    )
    return counted if weights is None else counted & (weights > 0)


def _of(values: NDArray[Any] | None, counted: NDArray[np.bool_]) -> NDArray[Any] | None:
    """Weights or clusters of the queries that count, where there are any."""
    return None if values is None else values[counted]


def _favours(rankers: Sequence[ComparedRanker], plan: ComparisonPlan) -> Iterator[str]:
    """Which rankers gain from unjudged documents, if there are many."""
    holes = [ranker.name for ranker in rankers if _holes(ranker.unjudged, plan.metrics)]
    if not holes:
        return
    if plan.unjudged == "zero":
        yield (
            "unjudged documents count as irrelevant, which favours the rankers whose documents "
            "were judged: compare with unjudged condensed, and judge what these bring "
            "(owpc-ltr judge pool)"
        )
        models = [ranker.name for ranker in rankers if ranker.unjudged is None]
        if models:
            yield (
                f"models rank judged documents alone here ({', '.join(models)}), and runs list "
                f"others too ({', '.join(holes)}): compare with unjudged condensed, or live"
            )
    else:
        yield (
            f"many documents of {', '.join(holes)} are unjudged: their relevance is unknown; "
            "judge them (owpc-ltr judge pool)"
        )


def _left_out(pairs: Sequence[ComparedPair], n_queries: int) -> Iterator[str]:
    """Metrics that do not count all queries."""
    counted = {pair.metric: pair.comparison.n_queries for pair in pairs}
    for metric, count in counted.items():
        if count < n_queries:
            yield f"{metric} counts {count:,} of {n_queries:,} queries, the same for every ranker"


def _worth(weights: Vector | None) -> Iterator[str]:
    """The effective number of weighted queries (Kish 1965)."""
    if weights is None:
        return
    worth = float(weights.sum() ** 2 / (weights**2).sum())
    if worth < len(weights) / 2:
        yield f"so weighted, {len(weights):,} queries tell as much as {worth:,.0f} equal ones"


Ranked = Mapping[str, tuple[Measured, ...]]
"""Each ranker's metrics, by its name."""


class Statistics(NamedTuple):
    """The rankers with their means and the intervals of these, and the pairs, without warnings.

    `samples` are what is compared, by both rankers and the metric.
    """

    ranked: Ranked
    pairs: tuple[ComparedPair, ...]
    samples: Mapping[tuple[str, str, str], PairedValues]


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
    metrics = [measured.metric for measured in ranked[names[0]]]
    opponents = list(combinations(names, 2))
    if baseline is not None:
        opponents = [(name, baseline) for name in names if name != baseline]
    means: dict[tuple[str, int], Measured] = {}
    pairs: list[ComparedPair] = []
    samples: dict[tuple[str, str, str], PairedValues] = {}
    for counted, numbers in _by_counted_queries(ranked, weights):
        # A ranker's mean is drawn as a pair with itself: by clusters, and weights that are all
        # alike are none.
        drawn = {
            (a, b, number): pair_values(
                ranked[a][number].per_query[counted],
                ranked[b][number].per_query[counted],
                _of(weights, counted),
                metrics[number].span,
                _of(clusters, counted),
            )
            for a, b in (*zip(names, names, strict=True), *opponents)
            for number in numbers
        }
        columns = [
            drawing_of_pair.a if a == b else drawing_of_pair.differences
            for (a, b, _), drawing_of_pair in drawn.items()
        ]
        _coins, draws = generators(drawing.seed)
        ends = bca_intervals(
            np.column_stack(columns),
            next(iter(drawn.values())).weights,
            level=LEVEL,
            resamples=drawing.resamples,
            generator=draws,
            done=drawing.progress_of("drawing queries"),
        )
        done = drawing.progress_of("flipping signs")
        for place, ((a, b, number), interval) in enumerate(zip(drawn, ends, strict=True), 1):
            sample, metric = drawn[a, b, number], metrics[number]
            if a == b:
                mean = mean_of(sample.a, sample.weights)
                means[a, number] = replace(ranked[a][number], mean=mean, drawn=interval)
                continue
            # The same coins for each pair, as if it were the only one.
            compared = comparison_of(sample, interval, drawing.resamples, drawing.seed)
            p, higher = compared.p_permutation, metric.higher_is_better
            pairs.append(ComparedPair(a, b, str(metric), compared, p, higher_is_better=higher))
            samples[a, b, str(metric)] = sample
            done(place / len(drawn))
    # Pairs stand by metric, then in the order of the rankers.
    texts = [str(metric) for metric in metrics]
    pairs.sort(
        key=lambda pair: (texts.index(pair.metric), names.index(pair.a), names.index(pair.b))
    )
    of_rankers = {name: tuple(means[name, n] for n in range(len(metrics))) for name in names}
    return Statistics(of_rankers, _with_holm(pairs), samples)


def _with_holm(pairs: Sequence[ComparedPair]) -> tuple[ComparedPair, ...]:
    """The pairs, their p corrected over all of them."""
    p_values = holm(np.array([pair.comparison.p_permutation for pair in pairs])).tolist()
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, p_values, strict=True))


def with_finer_p(
    compared: Statistics, factor: float, drawing: Resampling
) -> tuple[ComparedPair, ...]:
    """The pairs, with more permutations where the least p of theirs, corrected, is too large.

    p is multiplied by `factor`, and by Holm's. So many are drawn that a p at the level is that of
    20 of them; those of pairs that are far from it stay. The seed is the same.
    """
    factor *= len(compared.pairs)
    if drawing.resamples * LEVEL >= 2 * factor:
        return compared.pairs
    resamples = min(MOST_RESAMPLES, ceil(_AT_LEVEL * factor / LEVEL))
    done, pairs = drawing.progress_of("flipping more signs"), list(compared.pairs)
    for place, pair in enumerate(pairs):
        comparison = pair.comparison
        if comparison.p_permutation * (drawing.resamples + 1) <= _AT_LEVEL:
            terms = compared.samples[pair.a, pair.b, pair.metric].terms
            coins, _draws = generators(drawing.seed)
            p = sign_flips(terms, resamples, coins).p_of(float(terms.sum()))
            pairs[place] = replace(pair, comparison=replace(comparison, p_permutation=p))
        done((place + 1) / len(pairs))
    return _with_holm(pairs)


def _by_counted_queries(
    ranked: Ranked, weights: Vector | None
) -> list[tuple[NDArray[np.bool_], list[int]]]:
    """Metrics that count the same queries go together."""
    groups: dict[bytes, tuple[NDArray[np.bool_], list[int]]] = {}
    for number, measured in enumerate(zip(*ranked.values(), strict=True)):
        counted = _counted(weights, *(measure.per_query for measure in measured))
        if counted.sum() < 2:
            raise Refused(
                f"{int(counted.sum())} of {len(counted)} queries count in {measured[0].metric} for "
                "every ranker, and a comparison needs 2: give more judged queries, or take "
                "unjudged documents for something else (unjudged)"
            )
        groups.setdefault(counted.tobytes(), (counted, []))[1].append(number)
    return list(groups.values())


def _earlier_comparisons(pairs: Sequence[ComparedPair], results: PerQueryResults) -> int:
    """How many comparisons by the first metric, which decides, were made on these queries.

    It is asked when all figures are there: a comparison that failed is no attempt.
    """
    plan, queries = results.plan, results.queries
    if plan.attempts is None:
        return 0
    values = {name: ranker.values[0] for name, ranker in results.rankers.items()}
    metric = str(plan.metrics[0])
    tests = {
        (pair.a, pair.b): (values[pair.a], values[pair.b])
        for pair in pairs
        if pair.metric == metric
    }
    return plan.attempts.count(sketch_of(queries.ids, queries.texts), metric, tests)


def _factor(results: PerQueryResults, earlier: int) -> float:
    """What p is multiplied by, for earlier comparisons, and for folds."""
    return corrected_for(earlier) * (OF_FOLDS if results.queries.cross_validated else 1.0)


def _with_warnings(pair: ComparedPair, results: PerQueryResults, earlier: int) -> ComparedPair:
    """The pair with all its warnings; its p is corrected for earlier comparisons, too."""
    plan, queries, names = results.plan, results.queries, (pair.a, pair.b)
    number = [str(metric) for metric in plan.metrics].index(pair.metric)
    metric = plan.metrics[number]
    others: dict[str, Comparison | None] = {}
    if metric in results.list_metrics:
        place = results.list_metrics.index(metric)
        others = {
            words: _compared_alone(values[pair.a][place], values[pair.b][place], metric, results)
            for words, values in results.by_treatment.items()
        }
    left_out, as_judged, *_ = (*others.values(), None, None)
    if not others and results.has_lists:
        # All is judged: what unjudged documents are taken for changes nothing.
        left_out = as_judged = pair.comparison
    pair = replace(
        pair,
        p_holm=min(1.0, pair.p_holm * _factor(results, earlier)),
        left_out=left_out,
        as_judged=as_judged,
        smallest_gain=plan.smallest_gain,
    )
    verdict = pair.verdict
    warnings = [
        *(warning for name in names for warning in queries.by_ranker.get(name, ())),
        *queries.warnings,
        *_list_warnings(names, results),
        *treatment_warnings(verdict, pair.metric, others),
        *_deciding_warnings(pair, metric, results),
    ]
    if number == 0:
        warnings += contradictions(verdict, pair.metric, _by_guards(names, results))
        pair = in_segments(pair, results)
        warnings += pair.warnings
    warnings += fewer_training_queries(verdict.outcome, names, queries.cross_validated)
    if number == 0:
        without = _without_tables(names, results)
        warnings += table_warnings(verdict, pair.metric, pair.comparison, without)
    return replace(pair, warnings=tuple(warnings))


def _list_warnings(names: tuple[str, str], results: PerQueryResults) -> list[ResultWarning]:
    """The warnings about the lists of two rankers, which do not depend on the metric."""
    lists = {name: results.rankers[name].lists for name in names}
    with_lists = {name: ranked for name, ranked in lists.items() if ranked is not None}
    if results.judged_alone or len(with_lists) < len(names):
        return []
    return ranked_list_warnings(with_lists, results.alone)


def powered_warnings(pair: ComparedPair, results: PerQueryResults) -> list[ResultWarning]:
    """The warnings about a difference by human and proxy labels which human ones alone do not show.

    `results` are those by human labels.
    """
    verdict, metrics = pair.verdict, results.plan.metrics
    if verdict.outcome not in OPPOSITE or verdict.outcome is pair.by_human_labels.verdict.outcome:
        return []
    others = {
        words: _as_powered(pair, other)
        for words, other in zip(results.by_treatment, (pair.left_out, pair.as_judged), strict=False)
    }
    number = [str(metric) for metric in metrics].index(pair.metric)
    warnings = [*treatment_warnings(verdict, pair.metric, others)]
    warnings += _deciding_warnings(pair, metrics[number], results)
    if number == 0:
        warnings += contradictions(verdict, pair.metric, _by_guards((pair.a, pair.b), results))
    return warnings


def _as_powered(pair: ComparedPair, other: Comparison | None) -> Comparison | None:
    """Another view of a pair, by human labels, as the pair is decided.

    Where there are proxy labels, the interval by both is moved as the mean by human labels is.
    """
    if pair.prediction_powered is None or other is None:
        return other
    both = pair.prediction_powered.by_both
    moved = other.mean_difference - pair.comparison.mean_difference
    low, high = both.low + moved, both.high + moved
    p = 1.0 if low <= 0.0 <= high else both.p
    return replace(other, mean_difference=both.mean + moved, low=low, high=high, p_permutation=p)


def _deciding_warnings(
    pair: ComparedPair, metric: Metric, results: PerQueryResults
) -> Iterator[ResultWarning]:
    """Whether who judged, and how much is judged, makes the difference between two lists."""
    verdict, names = pair.verdict, (pair.a, pair.b)
    if verdict.outcome not in OPPOSITE or metric not in results.list_metrics:
        return
    won, lost = names if verdict.outcome is Outcome.BETTER else reversed(names)
    winner, loser = (results.rankers[name].lists for name in (won, lost))
    if winner is None or loser is None:
        return
    within = within_depth(metric, winner.depth)

    def compared(winning: Vector, losing: Vector) -> Comparison | None:
        values = {won: winning, lost: losing}
        comparison = _compared_alone(values[pair.a], values[pair.b], metric, results)
        return _as_powered(pair, comparison)

    def wins_with(winning: RankedLists, losing: RankedLists) -> bool:
        comparison = compared(
            winning.unjudged_irrelevant(within), losing.unjudged_irrelevant(within)
        )
        return comparison is not None and comparison.verdict().outcome is verdict.outcome

    deciding = DecidingDocuments((won, lost), winner, loser)
    if not results.judged_alone:
        best = loser.highest_possible(within)
        worst = None if best is None else compared(winner.unjudged_irrelevant(within), best)
        yield from judged_share_warnings(deciding, verdict, worst, results.queries.clusters)
    yield from rater_warnings(deciding, wins_with)
    people = {won: winner.by_people, lost: loser.by_people}
    if people[won] is winner and people[lost] is loser:
        return
    treated = {
        "as irrelevant": {
            name: [lists.unjudged_irrelevant(within)] for name, lists in people.items()
        },
        "left out": {name: [lists.condensed(within)] for name, lists in people.items()},
        "as good as judged ones": as_good_as_judged(people, [metric]),
    }
    without = {words: compared(of[won][0], of[lost][0]) for words, of in treated.items()}
    yield from machine_warnings(deciding, verdict, pair.metric, without)


def _without_tables(names: tuple[str, str], results: PerQueryResults) -> Comparison | None:
    """The same comparison by the first metric, with external features held constant."""
    rankers = [results.rankers[name] for name in names]
    if all(ranker.without_tables is None for ranker in rankers):
        return None
    a, b = (
        ranker.values[0] if ranker.without_tables is None else ranker.without_tables
        for ranker in rankers
    )
    return _compared_alone(a, b, results.plan.metrics[0], results)


def _by_guards(
    names: tuple[str, str], results: PerQueryResults
) -> dict[str, tuple[Comparison | None, bool]]:
    """Comparisons by the first rank, and with each query of one weight."""
    a, b = (results.rankers[name].values for name in names)
    metrics = results.plan.metrics
    compared = {
        f"by {guard}": (
            _compared_alone(a[number], b[number], guard, results),
            guard.higher_is_better,
        )
        for number, guard in enumerate(results.guards, len(metrics))
    }
    if results.queries.weights is not None:
        compared["with each query of one weight"] = (
            _compared_alone(a[0], b[0], metrics[0], results, weighted=False),
            metrics[0].higher_is_better,
        )
    return compared


def in_segments(pair: ComparedPair, results: PerQueryResults) -> ComparedPair:
    """A pair by the first metric in the segments of its queries, doubted if the better one loses.

    It has none without a difference, unless they were asked for. Those of few queries are not
    tested; p is corrected over the others.
    """
    plan, clusters = results.plan, results.queries.clusters
    if pair.verdict.outcome not in OPPOSITE and not plan.segments:
        return pair
    a, b = (results.rankers[name].values[0] for name in (pair.a, pair.b))
    segments, p = [], []
    for name, inside in results.segments.items():
        within = np.where(inside, a, np.nan)
        counted = np.flatnonzero(_counted(results.queries.weights, within, b))
        compared = None
        if len(counted if clusters is None else np.unique(clusters[counted])) >= FEWEST:
            compared = _compared_alone(within, b, plan.metrics[0], results)
        accepted = is_accepted(name, plan.accept_loss)
        segments.append(ComparedSegment(name, len(counted), compared, accepted=accepted))
        p.append(np.nan if compared is None else compared.p_permutation)
    tested, corrected = ~np.isnan(p), np.array(p)
    corrected[tested] = holm(corrected[tested])
    with_p = (replace(of, p_holm=p) for of, p in zip(segments, corrected.tolist(), strict=True))
    pair = replace(pair, segments=tuple(with_p))
    return replace(pair, warnings=(*pair.warnings, *segment_warnings(pair)))


def _compared_alone(
    a: Vector, b: Vector, metric: Metric, results: PerQueryResults, *, weighted: bool = True
) -> Comparison | None:
    """Two rankers by one metric, without correction; None where fewer than two queries count."""
    weights, drawing = results.queries.weights if weighted else None, results.plan.drawing
    counted = _counted(weights, a, b)
    if counted.sum() < 2:
        return None
    return compare_paired(
        a[counted],
        b[counted],
        seed=drawing.seed,
        resamples=drawing.resamples,
        weights=_of(weights, counted),
        span=metric.span,
        clusters=_of(results.queries.clusters, counted),
    )
