"""What a metric makes of all orders of a few documents."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.ranking import Ties
from owpc_ltr.testing.promises import require
from owpc_ltr.testing.rankings import all_orders, lists_of, same_values, small_lists

Rows = NDArray[np.float32]
"""Labels of one query, an order a row."""

_SLACK = 1e-9


def check_ties(metric: Metric, top_grade: int, seed: int) -> None:
    """Check that tied scores count what all orders of the documents give, one by one."""
    metric = replace(metric, empty="skip")
    for lists in small_lists(top_grade, seed):
        orders = lists_of(all_orders(lists)).values(metric)
        worst, best = orders.min(), orders.max()
        if not metric.higher_is_better:
            worst, best = best, worst
        wanted: dict[Ties, float] = {"expected": orders.mean(), "file-order": orders[0]}
        if metric.swaps_help:
            # Else which order of tied documents is best need not be that of their labels.
            wanted |= {"pessimistic": worst, "optimistic": best}
        for ties, value in wanted.items():
            found = lists.values(replace(metric, ties=ties))
            require(
                same_values(found, np.array([value])),
                f"metric '{metric.name}' gives {found[0]} where ties={ties}, and the "
                f"{len(orders)} orders of the documents give {value}, scores {{}}, labels {{}}",
                lists.scores,
                lists.labels,
            )


def check_best_and_worst(metric: Metric, top_grade: int, seed: int) -> None:
    """Check that the order by labels is best, its reverse worst, and that swaps help if claimed."""
    metric = replace(metric, empty="skip")
    sign, told = (1.0 if metric.higher_is_better else -1.0), False
    for lists in small_lists(top_grade, seed):
        rows = all_orders(lists.scored(np.zeros(len(lists.labels))))
        goodness = sign * lists_of(rows).values(metric)
        if np.isnan(goodness).all():
            continue
        _check_ends(metric, rows, goodness)
        if metric.swaps_help:
            _check_swaps(metric, rows, goodness)
        told = told or bool(np.ptp(goodness) > _SLACK)
    require(told, f"metric '{metric.name}' gives the best and the worst order the same value")


def _check_ends(metric: Metric, rows: Rows, goodness: Vector) -> None:
    sign = 1.0 if metric.higher_is_better else -1.0
    by_label = np.sort(rows[0])
    best, worst = sign * lists_of([by_label[::-1], by_label]).values(metric)
    for end, which, beyond in (
        (best, "best", goodness > best + _SLACK),
        (worst, "worst", goodness < worst - _SLACK),
    ):
        require(
            not beyond.any(),
            f"metric '{metric.name}' gives {sign * end} to what must be the {which} order, and "
            f"{sign * goodness[beyond.argmax()]} to {{}}",
            rows[beyond.argmax()],
        )


def _check_swaps(metric: Metric, rows: Rows, goodness: Vector) -> None:
    sign = 1.0 if metric.higher_is_better else -1.0
    for i, j in itertools.combinations(range(rows.shape[1]), 2):
        swapped = rows.copy()
        swapped[:, [i, j]] = rows[:, [j, i]]
        gain = sign * lists_of(swapped).values(metric) - goodness
        harmed = (rows[:, i] < rows[:, j]) & (gain < -_SLACK)
        which = harmed.argmax()
        require(
            not harmed.any(),
            f"metric '{metric.name}' claims that swaps help, but moving label {rows[which, j]:g} "
            f"from rank {j + 1} to {i + 1} of {{}} costs {-gain[which]:.3g}",
            rows[which],
        )
