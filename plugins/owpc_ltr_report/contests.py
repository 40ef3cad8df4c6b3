"""Contests out of comparisons: who is new, what it is compared with, each pair seen from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from owpc_ltr.evaluation.comparing.figures import PoweredPair
from owpc_ltr.evaluation.comparing.result import ComparedPair, RankerComparison
from owpc_ltr_report.contest import Contest, Contestant, Measure
from owpc_ltr_report.names import short_names

_P = TypeVar("_P", ComparedPair, PoweredPair)


def contest_of_comparison(
    found: RankerComparison, in_words: Callable[[str], str], new: str | None = None
) -> Contest:
    """The `new` ranker against the baseline; by default, the pair of the comparison's headline."""
    names = short_names([one.name for one in found.rankers])
    first, baseline = found.headline
    if new is not None:
        first, baseline = new, found.baseline or baseline
    # The new one stands first, the baseline last.
    rankers = sorted(found.rankers, key=lambda one: (one.name == baseline, one.name != first))
    order = [one.name for one in rankers]
    return Contest(
        measures=tuple(
            Measure(str(one), one.convention, one.higher_is_better, one.value_range)
            for one in found.metrics
        ),
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
        pairs=tuple(_seen_from_first(pair, order, names) for pair in found.pairs),
        baseline=names[baseline],
        query_ids=tuple(found.query_ids.to_pylist()),
        query_texts=() if found.query_texts is None else tuple(found.query_texts.to_pylist()),
        queries_in_words=f"{found.n_queries:,} queries ({in_words(found.side)})",
        weighted=found.weighted,
        warnings=tuple(found.warnings),
        notes=tuple(found.notes),
        powered=tuple(_seen_from_first(pair, order, names) for pair in found.powered),
    )


def _seen_from_first(pair: _P, order: Sequence[str], names: Mapping[str, str]) -> _P:
    """The pair as the ranker sees it that stands before the other, with short names."""
    if order.index(pair.a) > order.index(pair.b):
        pair = pair.reversed()
    return replace(pair, a=names[pair.a], b=names[pair.b])
