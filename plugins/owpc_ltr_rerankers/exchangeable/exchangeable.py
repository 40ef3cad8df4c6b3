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
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import fields_of
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.kernels.kernel import BoundLoss, bind
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.protocols import Loss, Reordering, Reranker, Run
from owpc_ltr_rerankers.exchangeable.reordering import (
    ExchangeableReordering,
    ReorderingShape,
    log_factors,
    positive_base,
)

_LARGEST = 100.0  # exponents beyond are cut: e^100 is far beyond any sensible score
_BARRIER = 1e6


@dataclass(frozen=True)
class DescentEnd:
    """Where the descent ended, and how many steps it took."""

    weights: Vector
    value: float
    steps: int


@dataclass(frozen=True, eq=False)
class Objective:
    """Σ_q v_q loss_q(α f + β) + penalty · ‖w‖², for one term; v_q is the weight of query q.

    `logarithms` are log b, `sums` K (n_documents, n_kernels) by `shape`, `earlier` the terms before
    this one. The weights are w (one a kernel), log v (where there are earlier terms), log α, β.
    """

    loss: Loss
    data: RankingDataset
    shape: ReorderingShape
    logarithms: Vector
    sums: Vector
    penalty: float = 0.0
    earlier: ExchangeableReordering | None = None
    threads: int = 1

    @property
    def size(self) -> int:
        """How many weights there are."""
        return self.n_kernels + (2 if self.earlier is None else 3)

    @property
    def n_kernels(self) -> int:
        """How many kernels there are: the length of w."""
        return int(self.sums.shape[1])

    @cached_property
    def _bound(self) -> BoundLoss:
        return bind(self.loss)

    @cached_property
    def _importance(self) -> Vector:
        """The weight of each document's query."""
        return np.repeat(self.data.query_importance, np.diff(self.data.offsets))

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """The price, and its gradient in the weights; not finite where a score overflows."""
        w, log_v, log_alpha, beta = self._parts(weights)
        with np.errstate(over="ignore", invalid="ignore"):
            exponents = self.logarithms + self.sums @ w + log_v
            term = np.exp(np.clip(exponents, -_LARGEST, _LARGEST))
            whole = term if self.earlier is None else term + self._earlier_scores
            alpha = np.exp(log_alpha)
            scores = alpha * whole + beta
            values, slopes, _ = losses_of_scores(self.data, self._bound, scores, self.threads)
            slopes *= self._importance
            along_term = alpha * slopes * term * (np.abs(exponents) < _LARGEST)
            own = [] if self.earlier is None else [along_term.sum()]
            line = [alpha * float(slopes @ whole), float(slopes.sum())]
            along_w = along_term @ self.sums + 2 * self.penalty * w
            value = float(values @ self.data.query_importance) + self.penalty * float(w @ w)
        return value, np.concatenate((along_w, own, line))

    def reordering(self, weights: Vector) -> ExchangeableReordering:
        """The terms so far and this one, as shares of 1; the line is forgotten."""
        w, log_v, _, _ = self._parts(weights)
        terms, shares = w[None, :], np.ones(1)
        if self.earlier is not None:
            v = float(np.exp(log_v))
            terms = np.vstack((self.earlier.weights, terms))
            shares = np.append(self.earlier.shares, v) / (1.0 + v)
        return ExchangeableReordering(self.data.feature_names, self.shape, terms, shares)

    def after(self, weights: Vector) -> Objective:
        """The objective of the next term, where these are the weights of this one."""
        return replace(self, earlier=self.reordering(weights))

    def start(self) -> Vector:
        """The place w = 0, v = 1, β = 0, with the α that suits the loss best.

        Raises Refused where the loss has no finite price at any.
        """
        best, value = None, np.inf
        for log_alpha in np.arange(-10.0, 5.0):
            weights = np.zeros(self.size)
            weights[-2] = log_alpha
            price, gradient = self.value_and_gradient(weights)
            if price < value and np.isfinite(gradient).all():
                best, value = weights, price
        if best is None:
            raise Refused(f"loss '{self.loss.name}' has no finite value on the base scores")
        return best

    def descend(self, iterations: int) -> DescentEnd:
        """L-BFGS (Liu & Nocedal 1989) from w = 0; a later term also from other places.

        A later term of the same w as an earlier one adds nothing, and w = 0 often leads there.
        """
        start = self.start()
        # In units of each kernel's size, so that raw sums are as easy as means.
        sizes = np.sqrt(np.mean(self.sums**2, axis=0))
        units = np.ones(len(start))
        units[: self.n_kernels] = np.where(sizes > 0, sizes, 1.0)
        starts = [start * units]
        if self.earlier is not None:
            # Two units up and down each kernel's axis.
            axes = 2.0 * np.eye(self.n_kernels, len(start))
            starts += [starts[0] + step for step in (*axes, *-axes)]
        ends = [self._descend_from(place, units, iterations) for place in starts]
        return min(ends, key=lambda end: end.value)

    def _descend_from(self, start: Vector, units: Vector, iterations: int) -> DescentEnd:
        from scipy.optimize import minimize

        barrier = _BARRIER * (1.0 + abs(self.value_and_gradient(start / units)[0]))

        def priced(scaled: Vector) -> tuple[float, Vector]:
            value, gradient = self.value_and_gradient(scaled / units)
            if np.isfinite(value) and np.isfinite(gradient).all():
                return value, gradient / units
            # A step too far: the line search turns back from a wall.
            return barrier, np.zeros(len(scaled))

        options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-9}
        end: Any = minimize(priced, start, jac=True, method="L-BFGS-B", options=options)
        return DescentEnd(end.x / units, float(end.fun), int(end.nit))

    @cached_property
    def _earlier_scores(self) -> Vector:
        base = np.exp(np.clip(self.logarithms, -_LARGEST, _LARGEST))
        if self.earlier is None:
            return base
        factors = log_factors(self.sums, self.earlier.weights, self.earlier.shares)
        return np.exp(factors) * base

    def _parts(self, weights: Vector) -> tuple[Vector, float, float, float]:
        k = self.n_kernels
        log_v = float(weights[k]) if self.earlier is not None else 0.0
        return weights[:k], log_v, float(weights[-2]), float(weights[-1])


@dataclass(frozen=True)
class Exchangeable(ReorderingShape):
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
        end = objective.descend(self.iterations)
        for term in range(1, self.terms):
            run.progress(f"term {term + 1} of {self.terms}", term / self.terms)
            objective = objective.after(end.weights)
            end = objective.descend(self.iterations)
        return objective.reordering(end.weights)

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
        names = [field.name for field in fields(ReorderingShape)]
        shape = ReorderingShape(**{name: getattr(self, name) for name in names})
        return Objective(
            loss, data, shape, base.logarithms, sums, penalty=self.penalty, threads=run.threads
        )

    def load(self, content: dict[str, Any]) -> Reordering:
        """The reordering whose `as_dict` gave `content`."""
        return ExchangeableReordering.from_dict(content)


@hookimpl
def ltr_rerankers() -> list[type[Reranker]]:
    """Offer `--reranker exchangeable`."""
    return [Exchangeable]
