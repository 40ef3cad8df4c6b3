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
know, and tangents there say little. The gap is P(best) − D(β).

Of data in a folder a sample of whole queries is solved so, as much as fits in little memory. Its
weights are where cutting planes of the whole risk begin (see `bundle`), whose gap is that of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.cutting_planes import (
    NOTHING_TO_GAIN,
    Point,
    Risk,
    RiskOrigin,
    certificate,
    check_below,
    reason_to_stop,
    row,
    search,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run
from owpc_ltr_optimizers.larank.dual import (
    Dual,
    at_budget,
    empty_dual,
    groups_of,
    pass_over,
    refresh,
)

_TOWARDS = 0.5  # where tangents touch: this share of the way from the best point to w
_LINE = 0.1  # of the gap: how exact the line search is (below _TOWARDS, for tangents to separate)
_SAMPLE = 1 << 25  # values of features, 128 MiB, of a sample; the same on every machine
_OF_A_SAMPLE = 1e-2  # how exact it is solved
_TARGET = 0.1  # of the gap: what re-balancing leaves before new patterns are looked for


@dataclass(frozen=True)
class LaRank:
    """A dual solver for convex losses: few passes, a sparse dual, and a certificate."""

    name: ClassVar[str] = "larank"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True

    C: float = 1.0
    tolerance: float = 1e-3
    passes: int = 500

    def __post_init__(self) -> None:
        check_settings(self)
        if not (self.C > 0 and self.tolerance > 0 and self.passes > 0):
            raise ValueError("C, tolerance and passes must be positive")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Visit groups in random order until gap ≤ tolerance · (P(0) − P(w))."""
        risk = Risk(loss, data.without_missing(), self.C, run.threads)
        zero = risk.at_zero()
        origin = RiskOrigin(loss, zero.risk, risk.slope(zero.gradient))
        groups = groups_of(risk.data)
        dual, best = _start(start, risk, origin, zero, len(groups) - 1)
        random = run.random()
        history: list[dict[str, float]] = []
        reason, gap = "", zero.objective
        while not reason:
            order = random.permutation(len(groups) - 1)
            pass_over(risk.data, risk.bound, groups, order, dual, best.w, _TOWARDS, _TARGET * gap)
            lower = refresh(dual)
            best = search(risk, best, dual.w, risk.scores(dual.w), _LINE * gap)
            _check_not_negative(best)
            gap = best.objective - lower
            check_below(loss, gap, best.objective)
            history.append(row(len(history) + 1, lower, best, dual.beta))
            run.progress(f"larank pass {len(history)}, gap {gap:.3g}", None)
            reason = reason_to_stop(gap, zero, best, self.tolerance)
            if not reason and len(history) == self.passes:
                reason = f"stopped after {self.passes} passes"
        if reason == NOTHING_TO_GAIN:
            best = zero
        # Scores were moved along lines: what is certified is measured afresh.
        best = risk.at(best.w, risk.scores(best.w))
        model = LinearModel(data.feature_names, best.w * data.scales)
        found = certificate(zero, best, history, reason)
        return Fit(model, found, tuple(history), state=_State(origin, dual, best.w))

    def streams(self, loss: Loss) -> bool:
        """Every convex loss is a sum over parts."""
        return loss.convex

    def minimise_parts(
        self, loss: Loss, data: PartitionedDataset, run: Run, start: Fit | None = None
    ) -> Fit:
        """Solve a sample, then the whole from there; all of it at once where it is small."""
        from owpc_ltr.kernels.risk import OverParts
        from owpc_ltr_optimizers.bundle import PassLimits, solve_by_passes

        sample = data.sample(_SAMPLE // max(data.n_features, 1))
        if sample is data:
            return self.minimise(loss, data.load(), run, start)
        near = None
        if start is None:
            # The sample stands for the whole: each query of it for several.
            more = data.n_queries / sample.n_queries
            rough = replace(
                self, C=self.C * more, tolerance=max(self.tolerance, _OF_A_SAMPLE), passes=50
            )
            near = rough.minimise(loss, sample.load(), run).state
        limits = PassLimits(self.C, self.tolerance, self.passes)
        risk = OverParts(loss, data, run.threads)
        w = near.w if isinstance(near, _State) else None
        found = solve_by_passes(limits, loss, risk, run, start, w)
        model = LinearModel(data.feature_names, found.state.w * data.scales)
        return Fit(model, found.certificate, found.history, found.state)


class _State(NamedTuple):
    """What a fit leaves for the next one: patterns bound the losses whatever C is."""

    origin: RiskOrigin
    dual: Dual
    w: Vector


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
            "--optimizer gradient"
        )


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer larank`."""
    return [LaRank]
