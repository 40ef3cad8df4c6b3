"""LaRank: a convex loss and a linear model, solved in the dual to a duality gap.

minimise P(w) = ½‖w‖² + C Σ_q v_q L_q(X_q w), with v_q the weight of query q and L_q ≥ 0 convex.

Bordes, Bottou, Gallinari & Weston (ICML 2007) solve max-margin problems with structured outputs
by visiting one example at a time: find its most violated output (ProcessNew), and re-balance the
dual variables of the outputs that are kept (ProcessOld, Optimize). For OWPC the outputs are the
pairs (σ, b) of Usunier, Buffoni & Gallinari (ICML 2009, eqs 4–7), and the most violated one comes
from one sort (their Prop. 3). Both are the tangent of the loss at the current scores: slope
d = Xᵀg and offset L(s) − g·s, so any convex loss is solved by the same lines.

An example is a query, or a group of them where queries are many times the features: their losses
are summed and share one slack variable (between the n-slack and the 1-slack form of Joachims,
Finley & Yu, 2009). With patterns p (tangents) of each group and dual variables β ≥ 0,
Σ_{p of a group} β_p ≤ C: w = −Σ β_p d_p and D(β) = Σ β_p offset_p − ½‖w‖².

After each pass the best point so far moves by a line search towards w, and tangents touch
half-way between the two (`_TOWARDS`): at large C, w alone runs far ahead of what the patterns
know, and tangents there say little. The gap is P(best) − D(β); it stops where this is at most
tolerance · (P(0) − P(best)), see `Passes` in owpc_ltr.kernels.risk.

Of data in a folder a sample of whole queries is solved so, as much as fits in little memory. Its
weights are where cutting planes of the whole risk begin (see `bundle`), whose gap is that of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import (
    BoundKernel,
    BoundLoss,
    add_rows,
    call_kernel,
    query_blocks,
    score_rows,
)
from owpc_ltr.kernels.risk import NOTHING_TO_GAIN, Passes, Point, Risk, RiskOrigin, search
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run
from owpc_ltr_optimizers._larank_dual import (
    Dual,
    at_budget,
    balance,
    dot,
    empty_dual,
    keep,
    prune,
    refresh,
)

_TOWARDS = 0.5  # where tangents touch: this share of the way from the best point to w
_LINE = 0.1  # of the gap: how exact the line search is (below _TOWARDS, for tangents to separate)
_SAMPLE = 1 << 25  # values of features, 128 MiB, of a sample; the same on every machine
_OF_A_SAMPLE = 1e-2  # how exact it is solved
_TARGET = 0.1  # of the gap: what re-balancing leaves before new patterns are looked for

_GROUPS = 4  # of queries for each feature at most: more say little of w, and cost much

_SWEEPS = 40  # over the kept patterns, before they are balanced all at once

_TIGHT = 0.01  # of the gap asked for: near a vertex the dual is sparse


@dataclass(frozen=True)
class LaRank:
    """A dual solver for convex losses: few passes, a sparse dual, and a certificate."""

    name: ClassVar[str] = "larank"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-4
    passes: int = 500

    def __post_init__(self) -> None:
        check_settings(self)
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        """Visit groups in random order until gap ≤ tolerance · (P(0) − P(w))."""
        if isinstance(data, PartitionedDataset):
            sample = data.sample(_SAMPLE // max(data.n_features, 1))
            if sample is not data:
                return self._from_sample(loss, data, sample.load(), run, start)
            data = data.load()
        risk = Risk(loss, data.without_missing(), self.C, run.threads)
        zero = risk.at_zero()
        origin = RiskOrigin(loss, zero.risk, risk.slope(zero.gradient))
        groups = groups_of(risk.data)
        dual, best = _start(start, risk, origin, zero, len(groups) - 1)
        random, passes = run.random(), Passes(self, loss, zero, run)
        while not passes.reason:
            order = random.permutation(len(groups) - 1)
            pass_over(
                risk.data,
                risk.bound,
                groups,
                order,
                dual,
                best=best.w,
                towards=_TOWARDS,
                target=_TARGET * passes.gap,
            )
            lower = refresh(dual)
            best = search(risk, best, dual.w, risk.scores(dual.w), _LINE * passes.gap)
            _check_not_negative(best)
            passes.add(lower, best, dual.beta)
        if passes.reason == NOTHING_TO_GAIN:
            best = zero
        # Scores were moved along lines: what is certified is measured afresh.
        best = risk.at(best.w, risk.scores(best.w))
        model = LinearModel(data.feature_names, best.w * data.scales)
        state = _State(origin, dual, best.w)
        return Fit(model, passes.certificate(best), tuple(passes.history), state)

    def streams(self, loss: Loss) -> bool:
        """Every convex loss is a sum over parts."""
        return loss.convex

    def _from_sample(
        self,
        loss: Loss,
        data: PartitionedDataset,
        sample: RankingDataset,
        run: Run,
        start: Fit | None,
    ) -> Fit:
        """Solve a sample, then the whole from there."""
        from owpc_ltr_optimizers.bundle import Bundle

        near = None
        if start is None:
            # The sample stands for the whole: each query of it for several.
            more = data.n_queries / sample.n_queries
            rough = replace(
                self, C=self.C * more, tolerance=max(self.tolerance, _OF_A_SAMPLE), passes=50
            )
            state = rough.minimise(loss, sample, run).state
            near = state.w if isinstance(state, _State) else None
        bundle = Bundle(self.C, self.tolerance, self.passes)
        return bundle.minimise_by_passes(loss, data, run, start, near)


class _State(NamedTuple):
    """What a fit leaves for the next one: patterns bound the losses whatever C is."""

    origin: RiskOrigin
    dual: Dual
    w: Vector


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
    rows = (
        data.features,
        data.labels,
        data.weights,
        data.query_importance,
        data.offsets,
        data.scales,
    )
    kernel = bound.address, bound.parameters
    gap = _process(kernel, rows, groups, order, (best, towards), target, dual)
    bound.raise_failure()
    if gap > target:
        _finish(dual, target)
    prune(dual)


def _start(
    start: Fit | None, risk: Risk, origin: RiskOrigin, zero: Point, groups: int
) -> tuple[Dual, Point]:
    """The dual and the point to begin with: those of a fit of the same risk, or of w = 0."""
    _check_not_negative(zero)
    state = start.state if start is not None else None
    if isinstance(state, _State) and state.origin.is_that_of(origin):
        other = risk.at(state.w, risk.scores(state.w))
        return at_budget(state.dual, risk.C), min(zero, other, key=lambda point: point.objective)
    return empty_dual(groups, risk.data.n_features, risk.C), zero


def _check_not_negative(point: Point) -> None:
    if point.lowest < 0:
        raise Refused(
            "larank needs a loss that is nowhere negative: add a constant to it, or use "
            "`optimizer='gradient'`"
        )


def _finish(dual: Dual, target: float) -> None:
    """Solve for all β at once, where coordinate steps are slow."""
    owned = dual.owned[dual.owned > 0]
    if not len(owned):
        return
    used = np.nonzero(np.arange(dual.beta.shape[1]) < dual.owned[:, None])
    before, beta = refresh(dual), dual.beta[used]
    patterns, cuts = (dual.slopes[used], dual.offset[used], beta), np.cumsum(owned) - owned
    dual.beta[used] = balance(*patterns, cuts, budget=dual.budget, target=_TIGHT * target)
    if refresh(dual) < before:
        dual.beta[used] = beta
        refresh(dual)


Rows = tuple[Matrix, Labels, Labels, Vector, IntVector, Vector]
"""Features, labels, document weights, query weights, offsets of queries, and scales."""


@compiled
def _process(
    kernel: BoundKernel,
    rows: Rows,
    groups: IntVector,
    order: IntVector,
    near: tuple[Vector, float],
    target: float,
    dual: Dual,
) -> float:
    """Visit each group: its tangent becomes a pattern if the current w violates it; `_re_balance`.

    Returns the gap that is left.
    """
    best, towards = near
    slope, touch = np.empty(len(dual.w)), np.empty(len(dual.w))
    for group in order:
        for j in range(len(touch)):
            touch[j] = best[j] + towards * (dual.w[j] - best[j])
        first, last = groups[group], groups[group + 1]
        value = _tangent(kernel, rows, first, last, touch, slope)
        offset = value - dot(slope, touch)
        if offset + dot(slope, dual.w) > _slack_and_support(group, dual)[0]:
            keep(group, slope, offset, dual)
        _optimize(group, dual, 0.0)
    gap: float = _re_balance(order, target, dual)
    return gap


@compiled
def _tangent(
    kernel: BoundKernel, rows: Rows, first: int, last: int, touch: Vector, slope: Vector
) -> float:
    """The weighted loss of queries first … last − 1 at the weights `touch`, and its slope."""
    address, parameters = kernel
    features, labels, weights, importance, offsets, scales = rows
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
def _re_balance(order: IntVector, target: float, dual: Dual) -> float:
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
def _slack_and_support(group: int, dual: Dual) -> tuple[float, float]:
    """The largest value of a group's patterns (0 is one of them), and Σ β value."""
    slack, support = 0.0, 0.0
    for k in range(dual.owned[group]):
        value = dual.offset[group, k] + dot(dual.slopes[group, k], dual.w)
        slack = max(slack, value)
        support += dual.beta[group, k] * value
    return slack, support


@compiled
def _optimize(group: int, dual: Dual, negligible: float) -> float:
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
def _most_violating(value: Vector, beta: Vector) -> tuple[int, int]:
    """Where β should grow, and where it can shrink."""
    up, down = 0, -1
    for k in range(len(value)):
        if value[k] > value[up]:
            up = k
        if beta[k] > 0 and (down < 0 or value[k] < value[down]):
            down = k
    return up, max(down, 0)


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer larank`."""
    return [LaRank]
