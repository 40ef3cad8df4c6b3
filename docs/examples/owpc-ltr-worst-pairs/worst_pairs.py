"""The mean hinge over a query's worst pairs: an example of a loss.

The mean of the largest values of convex functions is convex (Rockafellar & Uryasev 2000 call it
the conditional value at risk), so `larank` solves it to a duality gap. Plain NumPy is enough.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.types import Labels, Loss, Vector


@dataclass(frozen=True)
class WorstPairs:
    """Mean of the largest `share` per cent of max(0, margin − (s_i − s_j)) over pairs i above j."""

    name: ClassVar[str] = "worst-pairs"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = False

    share: float = 20.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 100:
            raise ValueError(f"share is a percentage above 0, not {self.share}")

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        """Value and subgradient of one query; a pair weighs as much as its two documents."""
        better, worse = np.nonzero(labels[:, None] > labels[None, :])
        gradient = np.zeros_like(scores)
        mass = (weights[better] * weights[worse]).astype(float)
        if not mass.any():
            return 0.0, gradient
        hinge = np.maximum(self.margin - (scores[better] - scores[worse]), 0.0)
        taken = mass * _shares(hinge, mass, self.share / 100 * mass.sum())
        pushed = taken * (hinge > 0)
        np.add.at(gradient, better, -pushed)
        np.add.at(gradient, worse, pushed)
        return float(taken @ hinge), gradient


def _shares(hinge: Vector, mass: Vector, budget: float) -> Vector:
    """What part of each pair is among the worst, over `budget`.

    Pairs of one value share what is left of the budget alike, so that the gradient does not depend
    on the order of the documents.
    """
    _, group = np.unique(-hinge, return_inverse=True)
    together = np.bincount(group, mass)
    before = np.cumsum(together) - together
    taken = np.clip(budget - before, 0.0, together)
    return (np.divide(taken, together, where=together > 0, out=taken) / budget)[group]


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss worst-pairs`."""
    return [WorstPairs]
