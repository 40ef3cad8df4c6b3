"""Growth: XGBoost's booster, which gets one tree after another, and the loss that it follows."""

from __future__ import annotations

import json
from typing import Any, Protocol

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.metrics.during_training import Judge
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Run
from owpc_ltr_optimizers.boosting.matrices import Matrices
from owpc_ltr_optimizers.boosting.newton import Newton


class Settings(Protocol):
    """What the growth of trees asks of an optimizer's settings."""

    @property
    def objective(self) -> str:
        """One of XGBoost's own, or `loss`."""
        ...

    @property
    def bins(self) -> int:
        """The most bins of a feature."""
        ...

    @property
    def patience(self) -> int:
        """Trees without a better validation metric after which there are no more."""
        ...

    def parameters(self, run: Run) -> dict[str, Any]:
        """The settings as XGBoost calls them."""
        ...

    def grown(self, growth: Growth, run: Run, judge: Judge[int]) -> Fit:
        """The fit, once all its trees are grown."""
        ...


class Growth:
    """XGBoost's booster, its binned matrices, and the loss that it follows."""

    def __init__(
        self,
        settings: Settings,
        loss: Loss,
        data: RankingDataset | PartitionedDataset,
        run: Run,
        matrices: Matrices,
        pairs: list[tuple[int, int]] | None = None,
        newton: Newton | None = None,
    ) -> None:
        import xgboost

        self.data, self.conservative = data, loss.conservative
        self.newton = None
        if settings.objective == "loss":
            self.newton = newton or Newton(loss, data, run.threads)
        self.matrix, self.validation = matrices
        # XGBoost keeps the scores of the matrices it knows: each tree is added to them once.
        cached = [matrix for matrix in matrices if matrix is not None]
        parameters = settings.parameters(run)
        if pairs is not None:
            # A list of none would be no constraint at all.
            alone = [[column] for column in range(data.n_features)]
            parameters["interaction_constraints"] = json.dumps(pairs or alone)
        self.booster = xgboost.Booster(parameters, cached)

    def add_tree(self) -> dict[str, float]:
        """Grow one more tree; the risk that it started from."""
        self.booster.update(self.matrix, self.booster.num_boosted_rounds(), self.newton)
        return {} if self.newton is None else {"risk_before": self.newton.risks[-1]}

    def score_validation(self, _features: Matrix) -> Vector:
        """The scores of the validation queries, from XGBoost's own bins of their features."""
        scores: Vector = self.booster.predict(self.validation, output_margin=True)
        return scores

    def content(self, trees: int) -> dict[str, Any]:
        """The first trees, as XGBoost writes them."""
        written: dict[str, Any] = json.loads(self.booster[:trees].save_raw("json"))
        return written

    def certificate(self, model: TreeModel, trees: int, reason: str) -> Certificate:
        """The risk, where the loss is the gradient's own; trees have no gap."""
        if self.newton is None or not self.conservative:
            return Certificate(float("nan"), passes=trees, stop_reason=reason)
        risk = self.newton.risk_of(model.score)
        at_zero = self.newton.risks[0]
        return Certificate(risk, passes=trees, risk=risk, risk_at_zero=at_zero, stop_reason=reason)
