"""What a list did to each score: one term a kernel, and which documents it was.

The log of a factor is G = log Σ_t p_t exp(Σ_k w_tk K_k), with K_k = Σ_{j≠i} S_k(x_i, x_j).
Kernel k is given what it adds on the straight way from K = 0, where a list does nothing:
K_k Σ_t w_tk ∫ π_t(τ) dτ, with π_t the share of term t at τK (Aumann & Shapley 1974). With one term
that is w_k K_k. The score moves with G alone, so that its terms are in proportion to those of G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.protocols import ListTerm

_POINTS = 32
"""Of the quadrature: shares that change within the way as exponents do are smooth."""


@dataclass(frozen=True, eq=False)
class Gains:
    """What the kernels did to the documents of a list.

    `sums` and `slopes` (n_documents, n_kernels): each kernel added their product to the log of a
    document's factor. `moved` is what that did to the scores.
    """

    sums: Vector
    slopes: Vector
    moved: Vector

    def term(self, kernel: int, name: str, pairs: Vector | None) -> ListTerm:
        """The term of a kernel; `pairs` are what the documents add to its sums, if known."""
        rates = self._rates()
        logarithms = self.slopes[:, kernel] * self.sums[:, kernel]
        by_document = None
        if pairs is not None:
            by_document = (rates * self.slopes[:, kernel])[:, None] * pairs
        return ListTerm(name, rates * logarithms, logarithms, by_document)

    def _rates(self) -> Vector:
        """By what a score moved for each unit of its log factor."""
        gains = (self.slopes * self.sums).sum(axis=1)
        still = gains == 0
        return np.where(still, 0.0, self.moved / np.where(still, 1.0, gains))


def slopes_of(sums: Vector, weights: Vector, shares: Vector) -> Vector:
    """What a unit of each kernel's sum adds to the log of a factor, in the mean on the way."""
    points, steps = np.polynomial.legendre.leggauss(_POINTS)
    exponents = sums @ weights.T
    with np.errstate(divide="ignore"):
        priors = np.log(shares)
    mixed = np.zeros_like(exponents)
    for point, step in zip((points + 1) / 2, steps / 2, strict=True):
        raised = point * exponents + priors
        raised = np.exp(raised - raised.max(axis=1, keepdims=True))
        mixed += step * raised / raised.sum(axis=1, keepdims=True)
    return np.asarray(mixed @ weights)
