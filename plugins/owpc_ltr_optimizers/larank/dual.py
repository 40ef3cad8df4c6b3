"""The dual of a max-margin problem with a few patterns an example, kept sparse.

Bordes, Bottou, Gallinari & Weston (ICML 2007): ProcessNew meets an example's most violated
pattern, ProcessOld and Optimize re-balance the dual variables of those that are kept. An example
is a group of queries. See `larank`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import BoundLoss, call_kernel
from owpc_ltr.kernels.linear import add_rows, query_blocks, score_rows
from owpc_ltr_optimizers.larank.interior_point import balance
from owpc_ltr_optimizers.larank.patterns import Dual, dot, keep, prune, refresh

_GROUPS = 4  # of queries for each feature at most: more say little of w, and cost much
_SWEEPS = 40  # over the kept patterns, before they are balanced all at once
_TIGHT = 0.01  # of the gap asked for: near a vertex the dual is sparse


def groups_of(data: RankingDataset) -> NDArray[np.int64]:
    """The queries at which groups start and the last one ends: one query a group if few."""
    if data.n_queries <= _GROUPS * data.n_features:
        return np.arange(data.n_queries + 1)
    return np.array(query_blocks(data.offsets, _GROUPS * data.n_features))


def pass_over(
    data: RankingDataset,
    bound: BoundLoss,
    groups: NDArray[np.int64],
    order: NDArray[np.int64],
    dual: Dual,
    best: Vector,
    towards: float,
    target: float,
) -> None:
    """One pass of ProcessNew over the groups, then ProcessOld until `target` is its gap.

    Tangents touch the loss at best + towards · (w − best).
    """
    rows = (data.features, data.labels, data.weights, data.offsets, data.scales)
    gap = _process(
        bound.address,
        bound.parameters,
        rows,
        data.query_importance,
        groups,
        order,
        best,
        towards,
        target,
        dual,
    )
    bound.raise_failure()
    if gap > target:
        _finish(dual, target)
    prune(dual)


def _finish(dual: Dual, target: float) -> None:
    """Solve for all β at once, where coordinate steps are slow."""
    owned = dual.owned[dual.owned > 0]
    if not len(owned):
        return
    kept = np.nonzero(np.arange(dual.beta.shape[1]) < dual.owned[:, None])
    before, beta = refresh(dual), dual.beta[kept]
    dual.beta[kept] = balance(
        dual.slopes[kept],
        dual.offset[kept],
        beta,
        np.cumsum(owned) - owned,
        dual.budget,
        _TIGHT * target,
    )
    if refresh(dual) < before:
        dual.beta[kept] = beta
        refresh(dual)


@compiled
def _process(
    address: int,
    parameters: Any,
    rows: Any,
    importance: Any,
    groups: Any,
    order: Any,
    best: Any,
    towards: float,
    target: float,
    dual: Any,
) -> float:
    """Visit each group: its tangent becomes a pattern if the current w violates it; `_re_balance`.

    Returns the gap that is left.
    """
    slope, touch = np.empty(len(dual.w)), np.empty(len(dual.w))
    for group in order:
        for j in range(len(touch)):
            touch[j] = best[j] + towards * (dual.w[j] - best[j])
        first, last = groups[group], groups[group + 1]
        value = _tangent(address, parameters, rows, importance, first, last, touch, slope)
        offset = value - dot(slope, touch)
        if offset + dot(slope, dual.w) > _slack_and_support(group, dual)[0]:
            keep(group, slope, offset, dual)
        _optimize(group, dual, 0.0)
    gap: float = _re_balance(order, target, dual)
    return gap


@compiled
def _tangent(
    address: int,
    parameters: Any,
    rows: Any,
    importance: Any,
    first: int,
    last: int,
    touch: Any,
    slope: Any,
) -> float:
    """The weighted loss of queries first … last − 1 at the weights `touch`, and its slope."""
    features, labels, weights, offsets, scales = rows
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    all_scores, all_gradients, no_curvature = np.empty(longest), np.empty(longest), np.empty(0)
    scaled, total = np.empty(len(touch)), 0.0
    for j in range(len(touch)):
        scaled[j], slope[j] = touch[j] * scales[j], 0.0
    for query in range(first, last):
        if importance[query] == 0.0:
            continue
        start, end = offsets[query], offsets[query + 1]
        scores, gradient = all_scores[: end - start], all_gradients[: end - start]
        score_rows(features[start:end], scaled, scores)
        total += importance[query] * call_kernel(
            address,
            scores,
            labels[start:end],
            weights[start:end],
            parameters,
            gradient,
            no_curvature,
        )
        if importance[query] != 1.0:
            for i in range(end - start):
                gradient[i] *= importance[query]
        add_rows(features[start:end], gradient, slope)
    for j in range(len(touch)):
        slope[j] *= scales[j]
    return total


@compiled
def _re_balance(order: Any, target: float, dual: Any) -> float:
    """Re-balance kept patterns, group after group, down to the target; returns the gap left."""
    negligible = 0.3 * target / len(order)
    gap = 0.0
    for _ in range(_SWEEPS):
        gap = 0.0
        for group in order:
            gap += _optimize(group, dual, negligible)
        if gap <= target:
            break
    return gap


@compiled
def _slack_and_support(group: int, dual: Any) -> tuple[float, float]:
    """The largest value of a group's patterns (0 is one of them), and Σ β value."""
    slack, support = 0.0, 0.0
    for k in range(dual.owned[group]):
        value = dual.offset[group, k] + dot(dual.slopes[group, k], dual.w)
        slack = max(slack, value)
        support += dual.beta[group, k] * value
    return slack, support


@compiled
def _optimize(group: int, dual: Any, negligible: float) -> float:
    """Maximise D over one group's β by steps between two patterns; the gap found there."""
    slack, support = _slack_and_support(group, dual)
    gap: float = dual.budget * slack - support
    if gap <= negligible:
        return gap
    n = dual.owned[group]
    gram = dual.gram[group]
    # The last entry is the loss's lower bound 0: the pattern with slope and offset zero.
    value, beta = np.zeros(n + 1), np.zeros(n + 1)
    beta[n] = dual.budget
    for k in range(n):
        value[k] = dual.offset[group, k] + dot(dual.slopes[group, k], dual.w)
        beta[k] = dual.beta[group, k]
        beta[n] -= beta[k]
    beta[n] = max(beta[n], 0.0)
    for _ in range(10 * (n + 1)):
        up, down = _most_violating(value, beta)
        difference = value[up] - value[down]
        if difference * dual.budget <= 0.05 * gap:
            break
        curvature = 0.0
        if up < n:
            curvature += gram[up, up]
        if down < n:
            curvature += gram[down, down]
        if up < n and down < n:
            curvature -= 2 * gram[up, down]
        whole = curvature * beta[down] <= difference
        step = beta[down] if whole else difference / curvature
        beta[up] += step
        beta[down] = 0.0 if whole else beta[down] - step
        for k in range(n):
            if up < n:
                value[k] -= step * gram[k, up]
            if down < n:
                value[k] += step * gram[k, down]
    for k in range(n):
        change = beta[k] - dual.beta[group, k]
        if change != 0.0:
            dual.beta[group, k] = beta[k]
            for j in range(len(dual.w)):
                dual.w[j] -= change * dual.slopes[group, k, j]
    return gap


@compiled
def _most_violating(value: Any, beta: Any) -> tuple[int, int]:
    """Where β should grow, and where it can shrink."""
    up, down = 0, -1
    for k in range(len(value)):
        if value[k] > value[up]:
            up = k
        if beta[k] > 0 and (down < 0 or value[k] < value[down]):
            down = k
    return up, max(down, 0)
