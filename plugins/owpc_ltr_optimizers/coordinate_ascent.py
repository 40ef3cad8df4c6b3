"""Coordinate ascent on a metric itself (Metzler & Croft, Information Retrieval 2007).

A linear model's weights are changed one at a time, in random order, to what gives the best
metric on the training queries, until a pass over them gains next to nothing. Rankings do not
change when all weights are multiplied, so these are kept at Σ|w| = 1. The metric has many local
maxima: the climb is repeated from random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import linear_scores
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.training_metrics import Judge, MeanMetric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run

_STEPS = 2.0 ** np.arange(-4, 6)  # tried up and down, in units of the mean weight


@dataclass(frozen=True)
class CoordinateAscent:
    """A linear model that maximises the metric `select` on the training queries directly.

    The certificate's objective is that metric. There is no gap.
    """

    name: ClassVar[str] = "coordinate-ascent"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False

    restarts: int = 3
    passes: int = 25
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        check_settings(self)
        if min(self.restarts, self.passes) < 1 or self.tolerance < 0:
            raise ValueError("restarts and passes must be 1 or more, tolerance 0 or more")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Climb from equal weights, then from random ones; the loss is not looked at.

        The best climb is kept: by the validation queries where there are some.
        """
        del loss, start
        climb = _Climb(data.without_missing(), run.metric, run.threads)
        judge: Judge[tuple[Vector, float]] = Judge(run)
        random, history = run.random(), list[dict[str, float]]()
        for restart in range(self.restarts):
            climb.begin(random if restart else None)
            for _ in range(self.passes):
                before = climb.value
                climb.walk(random.permutation(data.n_features))
                row: dict[str, float] = {"pass": len(history) + 1, "metric": climb.value}
                history.append(row | {"restart": restart})
                run.progress(
                    f"coordinate ascent {restart + 1} of {self.restarts}, {run.metric} "
                    f"{climb.value:.4f}",
                    restart / self.restarts,
                )
                if climb.value - before <= self.tolerance:
                    break
            if run.validation is not None or judge.best is None or climb.value > judge.best[1]:
                candidate = (climb.w * data.scales, climb.value)
                history[-1] |= judge.see(
                    candidate, LinearModel(data.feature_names, candidate[0]).score
                )
        assert judge.best is not None  # noqa: S101 - restarts is 1 or more
        weights, reached = judge.best
        reason = f"no weight alone gains more than {self.tolerance:g}, {self.restarts} times"
        certificate = Certificate(reached, passes=len(history), stop_reason=reason)
        return Fit(LinearModel(data.feature_names, weights), certificate, tuple(history))


class _Climb:
    """Weights, their scores, and the metric there; all steps along a weight cost one pass."""

    def __init__(self, data: RankingDataset, metric: str | Metric, threads: int) -> None:
        self.data, self.measured, self.threads = data, MeanMetric(data, metric), threads
        self.w, self.scores = np.zeros(data.n_features), np.zeros(data.n_documents)
        self.value = self.measured.mean(self.scores)

    def begin(self, random: np.random.Generator | None) -> None:
        """Start from equal weights, or from random ones."""
        features = self.data.n_features
        w = np.ones(features) if random is None else random.normal(size=features)
        self.w = w / np.abs(w).sum()
        self._look()

    def walk(self, order: NDArray[np.int64]) -> None:
        """Set each weight once to the best of the values tried."""
        for feature in order:
            column = self.data.features[:, feature] * self.data.scales[feature]
            if not column.any():
                continue
            unit = 1.0 / self.data.n_features
            steps = np.concatenate((_STEPS * unit, -_STEPS * unit, [-self.w[feature]]))
            values = self.measured.along(self.scores, column, steps, self.threads)
            best = int(np.argmax(values))
            if values[best] > self.value:
                self.value = float(values[best])
                self.w[feature] += steps[best]
                self.scores += steps[best] * column
        self.w /= max(float(np.abs(self.w).sum()), np.finfo(float).tiny)
        self._look()

    def _look(self) -> None:
        """Scores and metric afresh, without the rounding of many steps."""
        self.scores = linear_scores(self.data.features, self.w * self.data.scales)
        # By the same sums as the steps, so that a step to the same ranking is never a gain.
        self.value = float(self.measured.along(self.scores, self.scores, np.zeros(1))[0])


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer coordinate-ascent`."""
    return [CoordinateAscent]
