"""AdaRank: boosting of single features on a metric (Xu & Li, SIGIR 2007).

P_t is a distribution over queries, E_t(q) the metric of query q. Each round takes the feature h,
or its opposite, of the largest Σ_q P_t(q) E(h, q), gives it the weight
α = ½ log Σ P_t (1 + E) / Σ P_t (1 − E), and looks harder at the queries that the sum f of all so
far ranks badly: P_{t+1}(q) ∝ exp(−E(f, q)). The model is linear.

A feature that f already follows leaves f's ranking, and so P, much as it was, and is the best
again: often one or two features are taken for ever, and the metric stands still. So each feature is
taken once here. `repeats=allowed` is the rule as published, except that a feature whose weight
changed no query's metric is passed over until another has been taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.host.settings import check_settings
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.training_metrics import Judge, MeanMetric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run

Repeats = Literal["never", "allowed"]


@dataclass(frozen=True)
class AdaRank:
    """Boosting of single features on the metric `select`, queries weighted by their failure.

    `repeats`: whether a feature may be taken again. The certificate's objective is that metric.
    There is no gap.
    """

    name: ClassVar[str] = "adarank"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False

    rounds: int = 200
    patience: int = 50
    repeats: Repeats = "never"

    def __post_init__(self) -> None:
        check_settings(self)
        if min(self.rounds, self.patience) < 1:
            raise ValueError("rounds and patience must be 1 or more")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Add features, one a round; the round of the best metric is kept.

        The metric is that of the validation queries where there are some, else of the training
        queries. The loss is not looked at.
        """
        del loss, start
        boosted = _Sum(data.without_missing(), run.metric, self.repeats)
        judge: Judge[tuple[Vector, float]] = Judge(run, self.patience)
        history: list[dict[str, float]] = []
        reason = f"stopped after {self.rounds} rounds"
        for number in range(1, self.rounds + 1):
            feature = boosted.add_feature()
            weights = boosted.w * data.scales
            row = {"pass": number, "metric": boosted.value, "feature": float(feature)}
            if run.validation is not None or judge.best is None or boosted.value > judge.best[1]:
                model = LinearModel(data.feature_names, weights)
                row |= judge.see((weights, boosted.value), model.score)
            history.append(row)
            shown = f"adarank round {number}, {run.metric} {boosted.value:.4f}"
            run.progress(shown, number / self.rounds)
            if judge.lost_patience:
                reason = f"{judge.verdict} round {judge.best_number}"
                break
            if boosted.passed_over.all():
                reason = "no feature is left"
                if self.repeats == "allowed":
                    reason = "no feature changes any query's metric"
                break
        assert judge.best is not None  # noqa: S101 - there is one round at least
        weights, reached = judge.best
        certificate = Certificate(reached, passes=number, stop_reason=reason)
        return Fit(LinearModel(data.feature_names, weights), certificate, tuple(history))


class _Sum:
    """The features taken so far with their weights, and the queries that they leave."""

    def __init__(self, data: RankingDataset, metric: str | Metric, repeats: Repeats) -> None:
        self.data, self.measured, self.repeats = data, MeanMetric(data, metric), repeats
        self.weak = _weak_values(data, self.measured)
        self.passed_over = np.zeros(self.weak.shape[:2], dtype=bool)
        self.w, self.scores = np.zeros(data.n_features), np.zeros(data.n_documents)
        self.values: Vector = self.measured.per_query(self.scores)
        self.chances: Vector = self.measured.importance

    @property
    def value(self) -> float:
        """The metric of the sum."""
        return float(self.measured.importance @ self.values)

    def add_feature(self) -> int:
        """Add the feature, or its opposite, that does best where the sum does badly."""
        expected = np.where(self.passed_over, -np.inf, self.weak @ self.chances)
        sign, feature = np.unravel_index(int(np.argmax(expected)), expected.shape)
        value = float(expected[sign, feature])
        step = 0.5 * np.log((1 + value) / max(1 - value, 1e-9)) * (-1.0 if sign else 1.0)
        self.w[feature] += step
        self.scores += step * (self.data.features[:, feature] * self.data.scales[feature])
        values = self.measured.per_query(self.scores)
        if self.repeats == "never":
            self.passed_over[:, feature] = True
        elif np.array_equal(values, self.values):
            self.passed_over[sign, feature] = True
        else:
            self.passed_over[:] = False
        self.values = values
        chances = self.measured.importance * np.exp(-values)
        self.chances = chances / chances.sum()
        return int(feature)


def _weak_values(data: RankingDataset, measured: MeanMetric) -> NDArray[np.float64]:
    """The metric of each feature, as it is and turned round: (2, n_features, queries)."""
    values = np.empty((2, data.n_features, len(measured.importance)))
    for feature in range(data.n_features):
        column = data.features[:, feature] * data.scales[feature]
        values[0, feature] = measured.per_query(column)
        values[1, feature] = measured.per_query(-column)
    return values


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer adarank`."""
    return [AdaRank]
