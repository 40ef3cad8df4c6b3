"""Exchangeable reranking: each document's score times a product over the others of its list.

f_i = b(x_i) · Π_{j≠i} exp(Σ_k w_k S_k(x_i, x_j))  (Pareek & Ravikumar 2014, equation 14), with b
the base ranker and S_k kernels. The sums over j do not depend on w: they are computed once, and a
step of training costs as little as that of a pointwise ranker. Several terms,
Σ_t p_t Π_j g_t(x_i, x_j), are fitted one after the other (forward stagewise, Friedman 2001): each
to the loss of the sum so far and itself.

Any conservative loss serves; the paper's are `bregman`, `listnet` and `cosine`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.document_fields import fields_of
from owpc_ltr.errors import UsageError
from owpc_ltr.protocols import Loss, Reordering, Reranker, Run
from owpc_ltr_rerankers.exchangeable.objective import Objective
from owpc_ltr_rerankers.exchangeable.positive import positive_base
from owpc_ltr_rerankers.exchangeable.reordering import ExchangeableReordering, Shape


@dataclass(frozen=True)
class Exchangeable(Shape):
    """f_i = b(x_i) Π_{j≠i} exp(Σ_k w_k S_k(x_i, x_j)), w by L-BFGS with an L2 penalty.

    `kernels`, joined by commas: cosine, dot, rbf of all features or of some (cosine:title*+bm25);
    similarity:FIELD of texts or vectors; same:FIELD (a site); link:FIELD (ids pointed to).
    `kernel_sums`: raw as in the paper, or mean, divided by m − 1. `normalise`: query maps each
    feature to [0, 1] within its list first. `positive` makes b of base scores: exp or softplus of
    their z-scores, or as-is. `gamma` and `rbf_documents` are the rbf kernel's. `penalty` is the
    paper's C: penalty · ‖w‖² is added to the loss. `iterations` bounds each term's descent.
    """

    name: ClassVar[str] = "exchangeable"
    has_objective: ClassVar[bool] = True

    penalty: float = 0.0
    terms: int = 1
    iterations: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be 0 or more and finite, not {self.penalty}")
        if self.terms < 1 or self.iterations < 1:
            raise ValueError("terms and iterations must be 1 or more")

    def fit(self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Reordering:
        """Add term after term, each by descent on the loss of the sum with it.

        Raises UsageError for a loss that is not conservative: it has no value to descend.
        """
        objective = self.objective(loss, data, base_scores, run)
        found = objective.descend(self.iterations)
        for term in range(1, self.terms):
            run.progress(f"term {term + 1} of {self.terms}", term / self.terms)
            objective = objective.after(found.weights)
            found = objective.descend(self.iterations)
        return objective.reordering(found.weights)

    def objective(
        self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run
    ) -> Objective:
        """The price of a first term, ready to be descended: sums and base are computed here.

        Raises UsageError for a loss that is not conservative.
        """
        if not loss.conservative:
            raise UsageError(
                f"reranker '{self.name}' descends the value of its loss, and '{loss.name}' is the "
                "gradient of none: use bregman, listnet or cosine"
            )
        base = positive_base(self.positive, base_scores, data.offsets)
        sums = self.sums(
            data.features, data.feature_names, data.offsets, fields_of(data), run.threads
        )
        return Objective(
            loss, data, self._shape(), base.logarithms, sums, self.penalty, threads=run.threads
        )

    def load(self, content: dict[str, Any]) -> Reordering:
        """The reordering whose `as_dict` gave `content`."""
        return ExchangeableReordering.from_dict(content)

    def _shape(self) -> Shape:
        return Shape(**{field.name: getattr(self, field.name) for field in fields(Shape)})


@hookimpl
def ltr_rerankers() -> list[type[Reranker]]:
    """Offer `--reranker exchangeable`."""
    return [Exchangeable]
