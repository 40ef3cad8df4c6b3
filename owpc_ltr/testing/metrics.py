"""The contract of a metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.conventions import Empty
from owpc_ltr.metrics.line_search import SteppedMetric, is_compiled
from owpc_ltr.metrics.ranking import Ties
from owpc_ltr.testing.metric_orders import check_best_and_worst, check_ties
from owpc_ltr.testing.metric_words import check_words
from owpc_ltr.testing.promises import require
from owpc_ltr.testing.rankings import Lists, lists_of, ragged_lists, ranked_labels, same_values

_SLACK = 1e-9
_DEPTH = 3
_STEPS = np.array([0.0, 0.25, -0.5, 2.0])


def check_metric(metric: Metric, seed: int = 0, top_grade: int = 2) -> None:
    """Check everything that a metric promises, and what it claims of itself.

    Always: one finite value a query between its bounds, or NaN for `empty=skip`; no argument
    changed, the same answer twice; only the order that scores make counts, neither that of the
    file (except for ties in file order) nor that of the queries, nor the other queries, nor what
    is below the cutoff; tied scores count what all orders of the documents give, one by one; the
    order by labels is best, its reverse the worst; `empty` and `short` are kept; its text is read
    as itself, and its convention is a line that names every option. Where claimed: `swaps_help`,
    and a `rank_sum` that has the values of the metric. Labels go from 0 to `top_grade`. Raises
    AssertionError.
    """
    check_words(metric)
    # Short lists would hide what the others show; what they count is seen apart.
    plain = replace(metric, short="normal")
    _check_degenerate(metric, top_grade)
    for tied in (False, True):
        lists = ragged_lists(tied, top_grade, seed)
        _check_answer(plain, lists)
        _check_order_alone(plain, lists, seed)
        _check_queries_apart(plain, lists, seed)
        _check_compiled(metric, lists)
    _check_cutoff(plain, ragged_lists(False, top_grade, seed), seed)
    # All orders are taken of lists so short that a deep cutoff would tell nothing of them.
    shallow = replace(plain, cutoff=plain.cutoff and min(plain.cutoff, _DEPTH))
    check_best_and_worst(shallow, top_grade, seed)
    check_ties(shallow, top_grade, seed)


def _check_answer(metric: Metric, lists: Lists) -> None:
    given: dict[str, NDArray[Any]] = {
        name: getattr(lists, name).copy() for name in ("scores", "labels", "offsets")
    }
    values = metric.per_query(**given)
    require(
        np.shape(values) == (len(lists.offsets) - 1,) and values.dtype == np.float64,
        f"metric '{metric.name}' gave {values.dtype} values of shape {np.shape(values)} for "
        f"{len(lists.offsets) - 1} queries",
    )
    for name, after in given.items():
        require(
            np.array_equal(getattr(lists, name), after),
            f"metric '{metric.name}' changed the {name} it read",
        )
    require(
        np.array_equal(values, lists.values(metric), equal_nan=True),
        f"metric '{metric.name}' gave two answers for the same queries",
    )
    defined = lists.values(replace(metric, empty="skip"))
    low, high = metric.value_range
    counted = defined[~np.isnan(defined)]
    require(np.isfinite(counted).all(), f"metric '{metric.name}' is infinite for a query")
    require(
        (counted >= low - _SLACK).all() and (counted <= high + _SLACK).all(),
        f"metric '{metric.name}' declares that it lies between {low:g} and {high:g}, and goes "
        f"from {counted.min(initial=high):g} to {counted.max(initial=low):g}",
    )


def _check_order_alone(metric: Metric, lists: Lists, seed: int) -> None:
    values = lists.values(metric)
    for transformed in (3 * lists.scores - 100, np.exp(lists.scores)):
        require(
            same_values(values, lists.scored(transformed).values(metric)),
            f"metric '{metric.name}' depends on more of the scores than their order",
        )
    if metric.ties == "file-order" and len(np.unique(lists.scores)) < len(lists.scores):
        return
    query = np.repeat(np.arange(len(values)), np.diff(lists.offsets))
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(query)), query))
    moved = Lists(lists.scores[shuffled], lists.labels[shuffled], lists.offsets)
    require(
        same_values(values, moved.values(metric)),
        f"metric '{metric.name}' depends on the order of the documents in the file, where "
        f"ties={metric.ties}",
    )


def _check_queries_apart(metric: Metric, lists: Lists, seed: int) -> None:
    values = lists.values(metric)
    order = np.random.default_rng(seed).permutation(len(values))
    rows = np.concatenate([np.arange(*lists.offsets[[query, query + 1]]) for query in order])
    offsets = np.concatenate([[0], np.cumsum(np.diff(lists.offsets)[order])])
    moved = Lists(lists.scores[rows], lists.labels[rows], offsets).values(metric)
    require(
        same_values(values[order], moved),
        f"metric '{metric.name}' depends on the order of the queries",
    )
    for query in order[:10]:
        alone = lists.query(query).values(metric)
        require(
            same_values(alone, values[[query]]),
            f"metric '{metric.name}' gives a query {alone[0]} alone and {values[query]} among "
            "others",
        )


def _check_cutoff(metric: Metric, lists: Lists, seed: int) -> None:
    if metric.cutoff_use == "none":
        return
    rng = np.random.default_rng(seed)
    for cutoff in (1, 4):
        deep = replace(metric, cutoff=cutoff)
        one, other = [], []
        for query in range(len(lists.offsets) - 1):
            labels = ranked_labels(lists.query(query))
            one.append(labels)
            other.append(np.append(labels[:cutoff], rng.permutation(labels[cutoff:])))
        require(
            same_values(lists_of(one).values(deep), lists_of(other).values(deep)),
            f"metric '{deep}' depends on the order of the documents below rank {cutoff}",
        )
    if metric.cutoff_use == "optional":
        whole, beyond = (replace(metric, cutoff=cutoff) for cutoff in (None, 1000))
        require(
            same_values(lists.values(whole), lists.values(beyond)),
            f"metric '{beyond}' is not '{whole}' on lists that are shorter",
        )


def _check_degenerate(metric: Metric, top_grade: int) -> None:
    lists = lists_of([[], [0], [top_grade], [0] * 5, [top_grade] * 5, [0, 0, 0, 0, top_grade]])
    plain = replace(metric, empty="skip", short="normal")
    _check_answer(plain, lists)
    values = lists.values(plain)
    require(
        np.isnan(values[0]),
        f"metric '{metric.name}' is {values[0]} for a query without documents: it must be "
        "undefined (NaN), so that empty= says what it counts",
    )
    counts: dict[Empty, float] = {"zero": 0.0, "one": 1.0}
    for empty, count in counts.items():
        found = lists.values(replace(metric, empty=empty, short="normal"))
        require(
            same_values(found, np.where(np.isnan(values), count, values)),
            f"metric '{metric.name}' does not count {count:g} what is undefined, where "
            f"empty={empty}",
        )
    if metric.cutoff is not None:
        found = lists.values(replace(metric, empty="skip", short="zero"))
        short = (np.diff(lists.offsets) < metric.cutoff) & ~np.isnan(values)
        require(
            same_values(found, np.where(short, 0.0, values)),
            f"metric '{metric}' does not count 0 what is shorter than the cutoff, where short=zero",
        )


def _check_compiled(metric: Metric, lists: Lists) -> None:
    if not is_compiled(metric):
        return
    queries = np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))
    data = make_dataset(np.zeros((len(queries), 1)), lists.labels, queries)
    direction = np.roll(lists.scores, 7)
    for ties in get_args(Ties):
        one = replace(metric, ties=ties)
        at_rest = one.per_query(np.zeros(len(queries)), lists.labels, lists.offsets)
        along = SteppedMetric(one, data, at_rest).along(lists.scores, direction, _STEPS)
        for step, found in zip(_STEPS, along, strict=True):
            wanted = lists.scored(lists.scores + step * direction).values(one)
            require(
                same_values(found, wanted),
                f"metric '{one}' claims to be a sum over ranks, whose value differs from its own "
                f"by up to {np.nanmax(np.abs(found - wanted)):.3g}",
            )
