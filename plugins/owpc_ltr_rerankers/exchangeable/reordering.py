"""What the reranker learns: f_i = b(x_i) · Σ_t p_t Π_{j≠i} exp(Σ_k w_tk S_k(x_i, x_j))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ListTerm
from owpc_ltr_rerankers.exchangeable.explaining import Gains, slopes_of
from owpc_ltr_rerankers.exchangeable.kernels import Kernel, kernel_sums, parse_kernels
from owpc_ltr_rerankers.exchangeable.lists import Lists
from owpc_ltr_rerankers.exchangeable.positive import Positive, positive_base

KernelSums = Literal["raw", "mean"]
Normalise = Literal["query", "none"]


_MOST_DOCUMENTS = 1_000_000_000
"""More than any list has, and what compiled code can count to."""
_MOST_PAIRED = 1000
"""Documents of a list up to which all pairs are looked at, to explain it."""


@dataclass(frozen=True)
class Shape:
    """What is summed over a list, and how the base is made positive: all but the weights."""

    kernels: str = "cosine"
    kernel_sums: KernelSums = "mean"
    normalise: Normalise = "query"
    positive: Positive = "exp"
    gamma: float = 1.0
    rbf_documents: int = 1000

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.gamma < math.inf:
            raise ValueError(f"gamma must be positive and finite, not {self.gamma}")
        if not 2 <= self.rbf_documents <= _MOST_DOCUMENTS:
            raise ValueError(
                f"rbf_documents must be 2 to {_MOST_DOCUMENTS}, not {self.rbf_documents}"
            )
        self.parsed()

    def parsed(self) -> tuple[Kernel, ...]:
        """The kernels S_k."""
        return parse_kernels(self.kernels, self.gamma, self.rbf_documents)

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that the kernels read, sorted."""
        return tuple(sorted({name for kernel in self.parsed() for name in kernel.field_names}))

    def sums(
        self,
        features: Matrix,
        feature_names: tuple[str, ...],
        offsets: NDArray[np.int64],
        fields: Fields | None = None,
        threads: int = 1,
    ) -> Vector:
        """Σ_{j≠i} S_k(x_i, x_j), raw or divided by m − 1, (n_documents, n_kernels)."""
        normalise = self.normalise == "query"
        lists = Lists(features, feature_names, offsets, fields or {}, normalise, threads)
        return kernel_sums(self.parsed(), lists, self.kernel_sums == "mean")

    def pairs(
        self, features: Matrix, feature_names: tuple[str, ...], fields: Fields | None = None
    ) -> list[Vector] | None:
        """What each document (column) of one list adds to each sum (row); None of long lists."""
        if len(features) > min(self.rbf_documents, _MOST_PAIRED):
            return None
        offsets = np.array([0, len(features)], dtype=np.int64)
        lists = Lists(features, feature_names, offsets, fields or {}, self.normalise == "query")
        others = max(len(features) - 1, 1) if self.kernel_sums == "mean" else 1
        return [kernel.pairs(lists) / others for kernel in self.parsed()]


@dataclass(frozen=True, eq=False)
class ExchangeableReordering:
    """Terms with `weights` w (n_terms, n_kernels) and `shares` p (n_terms,), which sum to 1."""

    kind: ClassVar[str] = "exchangeable"

    feature_names: tuple[str, ...]
    shape: Shape
    weights: Vector
    shares: Vector

    def __post_init__(self) -> None:
        kernels = len(self.shape.parsed())
        if self.weights.shape != (len(self.shares), kernels) or not len(self.shares):
            raise BadInput(
                f"{len(self.shares)} terms of {kernels} kernels have weights of shape "
                f"{self.weights.shape}"
            )
        if not (np.isfinite(self.weights).all() and np.isfinite(self.shares).all()):
            raise BadInput("a weight of the reordering is not a finite number")
        if (self.shares < 0).any() or not self.shares.any():
            raise BadInput("the shares of the terms must be positive")

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that the kernels read."""
        return self.shape.field_names

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: NDArray[np.int64] | None = None,
        fields: Fields | None = None,
    ) -> Vector:
        """Scores in the units of the base: with weights 0 they are the base scores, bit for bit.

        Permuting the documents of a list permutes its scores, bit for bit.
        """
        if features.ndim != 2 or features.shape[1] != len(self.feature_names):
            raise BadInput(
                f"the reordering was learned on {len(self.feature_names)} features, the data has "
                f"{features.shape[-1]}"
            )
        if len(base_scores) != len(features):
            raise BadInput(f"{len(features)} documents came with {len(base_scores)} base scores")
        if np.isinf(features).any():
            raise BadInput("a feature is infinite: mend it, or leave the document out")
        if offsets is None:
            offsets = np.array([0, len(features)], dtype=np.int64)
        base = positive_base(self.shape.positive, base_scores, offsets)
        sums = self.shape.sums(features, self.feature_names, offsets, fields)
        return base.times_exp(log_factors(sums, self.weights, self.shares))

    def explain(
        self, features: Matrix, base_scores: Vector, fields: Fields | None = None
    ) -> list[ListTerm]:
        """One term a kernel: what its sum over the list added to each score, and who in the list.

        Who it was is not said of long lists, in which not all pairs were compared.
        """
        offsets = np.array([0, len(features)], dtype=np.int64)
        sums = self.shape.sums(features, self.feature_names, offsets, fields)
        moved = self.rerank(features, base_scores, None, fields) - base_scores
        gains = Gains(sums, slopes_of(sums, self.weights, self.shares), moved)
        pairs = self.shape.pairs(features, self.feature_names, fields)
        names = [part.strip() for part in self.shape.kernels.split(",")]
        return [
            gains.term(kernel, f"the list by {name}", pairs[kernel] if pairs else None)
            for kernel, name in enumerate(names)
        ]

    def as_dict(self) -> dict[str, Any]:
        """The shape and the terms as JSON."""
        return {
            "feature_names": list(self.feature_names),
            **vars(self.shape),
            "weights": self.weights.tolist(),
            "shares": self.shares.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ExchangeableReordering:
        """The reordering whose `as_dict` gave `content`. Raises BadInput."""
        try:
            shape = Shape(**{name: content[name] for name in Shape.__dataclass_fields__})
            names = tuple(str(name) for name in content["feature_names"])
            weights = np.array(content["weights"], dtype=np.float64)
            return cls(names, shape, weights, np.array(content["shares"], dtype=np.float64))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"the reordering is damaged: {type(error).__name__} {error}") from error
        except UsageError as error:
            raise BadInput(f"the reordering is damaged: {error}") from error


def log_factors(sums: Vector, weights: Vector, shares: Vector) -> Vector:
    """The log of Σ_t p_t exp(Σ_k w_tk K_ik) for each document; 0 where all exponents are."""
    factors = np.empty(len(sums))
    _log_factors(np.ascontiguousarray(sums), weights, shares, factors)
    return factors


@compiled
def _log_factors(sums: Any, weights: Any, shares: Any, factors: Any) -> None:
    terms, kernels = weights.shape
    exponents = np.empty(terms)
    # Document by document, so that no result depends on a document's place.
    for i in range(len(sums)):
        largest, moved = -np.inf, False
        for t in range(terms):
            exponents[t] = 0.0
            for k in range(kernels):
                exponents[t] += weights[t, k] * sums[i, k]
            moved |= exponents[t] != 0.0
            largest = max(largest, exponents[t])
        total, whole = 0.0, 0.0
        for t in range(terms):
            total += shares[t] * math.exp(exponents[t] - largest)
            whole += shares[t]
        factors[i] = largest + math.log(total / whole) if moved else 0.0
