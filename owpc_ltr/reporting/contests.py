"""Contests out of comparisons: who is new, what it is compared with, each pair seen from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from owpc_ltr.evaluation.comparing.figures import PoweredPair
from owpc_ltr.evaluation.comparing.result import ComparedPair, RankerComparison
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.reporting.contest import Contest, Contestant, Duel, Measure
from owpc_ltr.reporting.names import short_names
from owpc_ltr.reporting.powered import PoweredDuel
from owpc_ltr.reporting.powered import turned_round as powered_turned_round


def contest_of_comparison(
    found: RankerComparison, in_words: Callable[[str], str], seen: bool | None = None
) -> Contest:
    """The first ranker against the baseline, or against the last one where none is named.

    `seen` says whether the first one learned from these queries; without it the side tells.
    """
    names = short_names([one.name for one in found.rankers])
    baseline = found.baseline or found.rankers[-1].name
    first = next(one.name for one in found.rankers if one.name != baseline)
    # The new one stands first, the baseline last.
    rankers = sorted(found.rankers, key=lambda one: (one.name == baseline, one.name != first))
    order = [one.name for one in rankers]
    measures = {
        str(one): Measure(str(one), one.convention, one.higher_is_better, one.value_range)
        for one in found.metrics
    }
    return Contest(
        measures=tuple(measures.values()),
        contestants=tuple(
            Contestant(
                names[one.name],
                {str(each.metric): each.per_query for each in one.measured},
                {metric: mean.mean for metric, mean in one.means.items()},
                {metric: (mean.low, mean.high) for metric, mean in one.means.items()},
                None if one.unjudged is None else dict(one.unjudged),
            )
            for one in rankers
        ),
        duels=tuple(_duel(pair, order, names, measures) for pair in found.pairs),
        baseline=names[baseline],
        query_ids=tuple(found.query_ids.to_pylist()),
        query_texts=() if found.query_texts is None else tuple(found.query_texts.to_pylist()),
        queries_in_words=f"{found.n_queries:,} queries ({in_words(found.side)})",
        seen=found.side in {"train", "validation"} if seen is None else seen,
        corrected_over=len(found.pairs),
        weighted=found.weighted,
        warnings=tuple(found.warnings),
        notes=tuple(found.notes),
    )


def powered_duels(found: RankerComparison, contest: Contest) -> tuple[PoweredDuel, ...]:
    """The pairs by both judges, each as the ranker sees it that stands before the other."""
    names = short_names([one.name for one in found.rankers])
    order = [one.name for one in contest.contestants]
    measures = {one.name: one for one in contest.measures}
    return tuple(_powered(pair, order, names, measures) for pair in found.powered)


def _powered(
    pair: PoweredPair, order: Sequence[str], names: dict[str, str], measures: dict[str, Measure]
) -> PoweredDuel:
    a, b, found = names[pair.a], names[pair.b], pair.found
    if order.index(a) > order.index(b):
        a, b, found = b, a, powered_turned_round(found)
    return PoweredDuel(a, b, measures[pair.metric], found, pair.p_holm)


def _duel(
    pair: ComparedPair, order: Sequence[str], names: dict[str, str], measures: dict[str, Measure]
) -> Duel:
    """The pair as the ranker sees it that stands before the other."""
    a, b, found = pair.a, pair.b, pair.comparison
    if order.index(a) > order.index(b):
        a, b, found = b, a, turned_round(found)
    return Duel(names[a], names[b], measures[pair.metric], found, pair.p_holm, pair.shown_from)


def turned_round(one: Comparison) -> Comparison:
    """The same comparison with the other ranker first."""
    return replace(
        one,
        mean_a=one.mean_b,
        mean_b=one.mean_a,
        mean_difference=-one.mean_difference,
        wins=one.losses,
        losses=one.wins,
        low=-one.high,
        high=-one.low,
    )
