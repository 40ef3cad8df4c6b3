"""Base score plus weighted places within the list's range: an example of a reranker.

A feature of 7 says little by itself; that nothing else in the list has more than 3 says much. So
each feature is read as its place between the least and the most of its list, and
f_i = base_i + Σ_k w_k (x_ik − min_k) / (max_k − min_k). The sum is linear in w: with a convex loss
its price is convex. Least and most do not depend on the order of the documents, to the last bit.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from owpc_ltr import BadInput, RankingDataset, hookimpl
from owpc_ltr.types import (
    Fields,
    Loss,
    Matrix,
    Reordering,
    Reranker,
    Run,
    Vector,
    bind,
    losses_of_scores,
)


@dataclass(frozen=True)
class RangeReordering:
    """What was learned: a weight for each feature's place within its list."""

    kind: ClassVar[str] = "list-range"
    field_names: ClassVar[tuple[str, ...]] = ()

    feature_names: tuple[str, ...]
    weights: tuple[float, ...]

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: NDArray[np.int64] | None = None,
        fields: Fields | None = None,
    ) -> Vector:
        """Scores of all documents; `offsets` cuts the rows into lists, without they are one."""
        cuts = np.array([0, len(features)]) if offsets is None else offsets
        return base_scores + (_places(features, cuts) * np.array(self.weights)).sum(axis=1)

    def as_dict(self) -> dict[str, Any]:
        """The weights as JSON."""
        return {"feature_names": list(self.feature_names), "weights": list(self.weights)}


@dataclass(frozen=True, eq=False)
class Objective:
    """The price of weights: the losses of all lists, and penalty · ‖w‖²."""

    loss: Loss
    data: RankingDataset
    base: Vector
    places: Vector
    penalty: float

    @property
    def size(self) -> int:
        """One weight a feature."""
        return self.data.n_features

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """Price and gradient of the weights."""
        scores = self.base + (self.places * weights).sum(axis=1)
        values, slopes, _ = losses_of_scores(self.data, bind(self.loss), scores)
        importance = self.data.query_importance
        slopes = slopes * np.repeat(importance, np.diff(self.data.offsets))
        price = float(values @ importance) + self.penalty * float(weights @ weights)
        return price, slopes @ self.places + 2 * self.penalty * weights

    def reordering(self, weights: Vector) -> RangeReordering:
        """What weights stand for; with weights of zero the base scores stay as they are."""
        return RangeReordering(self.data.feature_names, tuple(weights.tolist()))


@dataclass(frozen=True)
class ListRange:
    """f_i = base_i + Σ_k w_k · (place of x_ik in its list's range), w by L-BFGS."""

    name: ClassVar[str] = "list-range"
    has_objective: ClassVar[bool] = True
    field_names: ClassVar[tuple[str, ...]] = ()

    penalty: float = 0.1

    def fit(self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Reordering:
        """Descend from weights of zero."""
        objective = self.objective(loss, data, base_scores, run)
        start = np.zeros(objective.size)
        found = minimize(objective.value_and_gradient, start, jac=True, method="L-BFGS-B").x
        return objective.reordering(found)

    def objective(
        self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run
    ) -> Objective:
        """What `fit` descends."""
        places = _places(data.features, data.offsets)
        return Objective(loss, data, base_scores, places, self.penalty)

    def load(self, content: dict[str, Any]) -> Reordering:
        """The reordering whose `as_dict` gave `content`."""
        names, weights = content["feature_names"], content["weights"]
        if len(names) != len(weights):
            raise BadInput(f"there are {len(weights)} weights for {len(names)} features")
        return RangeReordering(tuple(names), tuple(map(float, weights)))


def _places(features: Matrix, offsets: NDArray[np.int64]) -> Vector:
    """Each value's place, from 0 to 1, in its list's range; 0 where missing or all are alike."""
    known: Vector = features.astype(np.float64)
    low = np.fmin.reduceat(known, offsets[:-1], axis=0)
    width = np.fmax.reduceat(known, offsets[:-1], axis=0) - low
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    apart = np.where(width > 0, width, np.inf)
    return np.nan_to_num((known - low[lists]) / apart[lists])


@hookimpl
def ltr_rerankers() -> list[type[Reranker]]:
    """Offer `--reranker list-range`."""
    return [ListRange]
