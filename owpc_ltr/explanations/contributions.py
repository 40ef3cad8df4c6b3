"""Contributions: scores shared out among the features that they were made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Contributions:
    """`baseline` plus a document's row of `amounts` (n_documents, n_features) is its score.

    `method` says in words how the scores were shared out.
    """

    amounts: Vector
    baseline: float
    method: str

    @property
    def scores(self) -> Vector:
        """What they add up to."""
        return np.asarray(self.baseline + self.amounts.sum(axis=1))

    def times(self, share: float) -> Contributions:
        """Those of the scores times a number."""
        return Contributions(share * self.amounts, share * self.baseline, self.method)


def known(features: Matrix) -> Vector:
    """The features in float64, a missing one as 0."""
    return np.nan_to_num(features.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
