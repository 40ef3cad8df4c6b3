"""Ridge regression on the grades, within queries: an example of an optimizer.

Minimise Σ_q Σ_i (w·(x_i − x̄_q) − (y_i − ȳ_q))² + l2 |D w|², D the spread of each feature. What is
subtracted from a query's documents alike changes no ranking, so each query is centred by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import RankingDataset, hookimpl
from owpc_ltr.types import Certificate, Fit, LinearModel, Loss, Matrix, Optimizer, Run, Vector


@dataclass(frozen=True)
class Ridge:
    """A linear model by least squares on the grades; it has an objective of its own.

    `l2` is the weight of the penalty, as a share of the documents. A missing feature counts 0.
    """

    name: ClassVar[str] = "ridge"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False

    l2: float = 0.01

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Solve the normal equations, in float64; they have one solution, wherever one starts."""
        features = _centred(np.nan_to_num(data.features.astype(np.float64)), data)
        grades = _centred(data.labels.astype(np.float64)[:, None], data)[:, 0]
        spread = features.var(axis=0)
        spread[spread == 0.0] = 1.0
        penalty = np.diag(self.l2 * data.n_documents * spread)
        weights = np.linalg.solve(features.T @ features + penalty, features.T @ grades)
        model = LinearModel(data.feature_names, weights)
        objective = float(np.mean((features @ weights - grades) ** 2))
        certificate = Certificate(objective, passes=1, stop_reason="solved")
        return Fit(model, certificate, history=({"objective": objective},))


def _centred(columns: Matrix, data: RankingDataset) -> Matrix:
    """Each column less its mean over the documents of the query."""
    lengths = np.diff(data.offsets)
    sums = np.add.reduceat(columns, data.offsets[:-1], axis=0)
    return columns - np.repeat(sums / lengths[:, None], lengths, axis=0)


def grades_error(model: LinearModel, data: RankingDataset) -> Vector:
    """What is left of each grade, within its query: nothing where the grades are linear."""
    return _centred((model.score(data.features) - data.labels)[:, None], data)[:, 0]


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer ridge`."""
    return [Ridge]
