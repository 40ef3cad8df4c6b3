"""What the reranker learns: f_i = b(x_i) · Σ_t p_t Π_{j≠i} exp(Σ_k w_tk S_k(x_i, x_j))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ListTerm
from owpc_ltr_rerankers.exchangeable.kernels import ListKernel, parse_kernels
from owpc_ltr_rerankers.exchangeable.lists import ListBatch, exact_sum

Positive = Literal["exp", "softplus", "as-is"]

_EXP, _SOFTPLUS, _AS_IS = range(3)
_LOW = -30.0  # below, softplus(z) is e^z to the last bit


@dataclass(frozen=True, eq=False)
class PositiveBase:
    """The base scores of some lists, log b of each, and the way back."""

    scores: Vector
    logarithms: Vector
    spreads: Vector
    kind: int

    def times_exp(self, gains: Vector) -> Vector:
        """The scores of b · e^gain, in the base's units; where the gain is 0, the base's own.

        Raises Refused where a score is too large for a number.
        """
        changed = np.empty_like(self.scores)
        _map_back(self.kind, self.scores, self.logarithms, self.spreads, gains, changed)
        if not np.isfinite(changed).all():
            raise Refused(
                f"a reranked score overflows (gain {np.abs(gains).max():.3g}): use bounded "
                "kernels, kernel_sums=mean, or a larger penalty"
            )
        return changed


def positive_base(kind: Positive, scores: Vector, offsets: NDArray[np.int64]) -> PositiveBase:
    """The positive function of these base scores, list by list.

    Raises BadInput for a base score that is not a finite number, or not positive as it is.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise BadInput(
            f"a base score is {scores[~np.isfinite(scores)][0]}: nothing can be reranked"
        )
    code = get_args(Positive).index(kind)
    if code == _AS_IS and not (scores > 0).all():
        raise BadInput(
            f"the base score {scores[scores <= 0][0]} is not positive: use "
            "reranker.positive=exp or softplus"
        )
    logarithms, spreads = np.empty_like(scores), np.empty_like(scores)
    _make_positive(code, scores, offsets, logarithms, spreads)
    return PositiveBase(scores, logarithms, spreads, code)


@compiled
def _make_positive(kind: int, scores: Any, offsets: Any, logarithms: Any, spreads: Any) -> None:
    for query in range(len(offsets) - 1):
        own = scores[offsets[query] : offsets[query + 1]]
        mean, spread = _mean_and_deviation(own)
        for i in range(len(own)):
            row = offsets[query] + i
            spreads[row] = spread
            if kind == _AS_IS:
                logarithms[row] = math.log(own[i])
                continue
            z = (own[i] - mean) / spread
            logarithms[row] = z if kind == _EXP or z < _LOW else math.log(_softplus(z))


@compiled
def _map_back(
    kind: int, scores: Any, logarithms: Any, spreads: Any, gains: Any, changed: Any
) -> None:
    for i in range(len(scores)):
        if gains[i] == 0.0:
            changed[i] = scores[i]
        elif kind == _EXP:
            changed[i] = scores[i] + spreads[i] * gains[i]
        elif kind == _SOFTPLUS:
            # The mean is not needed: only the way from the old z to the new one.
            step = _softplus_inverse(logarithms[i] + gains[i]) - _softplus_inverse(logarithms[i])
            changed[i] = scores[i] + spreads[i] * step
        else:
            changed[i] = scores[i] * math.exp(gains[i])


@compiled
def _mean_and_deviation(values: Any) -> tuple[float, float]:
    """Mean and standard deviation of a list, in any order; the deviation of equal values is 1."""
    count = len(values)
    if values.min() == values.max():
        return values[0], 1.0
    mean = exact_sum(values) / count
    away = values - mean
    largest = 0.0
    for step in away:
        largest = max(largest, abs(step))
    away /= largest
    return mean, largest * math.sqrt(exact_sum(away * away) / count)


@compiled
def _softplus(z: float) -> float:
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@compiled
def _softplus_inverse(logarithm: float) -> float:
    """The z of log softplus(z)."""
    if logarithm < _LOW:
        return logarithm
    if logarithm > 709.0:
        return np.inf
    value = math.exp(logarithm)
    return value + math.log(-math.expm1(-value))


_POINTS = 32
"""Of the quadrature: shares that change within the way as exponents do are smooth."""


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


KernelSums = Literal["raw", "mean"]
Normalise = Literal["query", "none"]


_MOST_DOCUMENTS = 1_000_000_000
"""More than any list has, and what compiled code can count to."""
_MOST_PAIRED = 1000
"""Documents of a list up to which all pairs are looked at, to explain it."""


@dataclass(frozen=True)
class ReorderingShape:
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

    def parsed(self) -> tuple[ListKernel, ...]:
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
        lists = ListBatch(
            features, feature_names, offsets, fields or {},
            normalise=self.normalise == "query", threads=threads,
        )  # fmt: skip
        sums = np.column_stack([kernel.sums(lists) for kernel in self.parsed()])
        if self.kernel_sums == "mean":
            # A document alone in its list has a sum of 0.
            sizes = np.diff(offsets)
            sums /= np.repeat(np.maximum(sizes - 1, 1), sizes)[:, None]
        return sums

    def pairs(
        self, features: Matrix, feature_names: tuple[str, ...], fields: Fields | None = None
    ) -> list[Vector] | None:
        """What each document (column) of one list adds to each sum (row); None of long lists."""
        if len(features) > min(self.rbf_documents, _MOST_PAIRED):
            return None
        offsets = np.array([0, len(features)], dtype=np.int64)
        lists = ListBatch(features, feature_names, offsets, fields or {}, self.normalise == "query")
        others = max(len(features) - 1, 1) if self.kernel_sums == "mean" else 1
        return [kernel.pairs(lists) / others for kernel in self.parsed()]


@dataclass(frozen=True, eq=False)
class ExchangeableReordering:
    """Terms with `weights` w (n_terms, n_kernels) and `shares` p (n_terms,), which sum to 1."""

    kind: ClassVar[str] = "exchangeable"

    feature_names: tuple[str, ...]
    shape: ReorderingShape
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
            raise BadInput("a feature is infinite: fix it, or leave the document out")
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
        slopes = slopes_of(sums, self.weights, self.shares)
        # What each kernel added to the log of a document's factor, and what a unit of it moved.
        logarithms = slopes * sums
        gains = logarithms.sum(axis=1)
        still = gains == 0
        rates = np.where(still, 0.0, moved / np.where(still, 1.0, gains))
        pairs = self.shape.pairs(features, self.feature_names, fields)
        terms = []
        for kernel, name in enumerate(self.shape.kernels.split(",")):
            by_document = None
            if pairs is not None:
                by_document = (rates * slopes[:, kernel])[:, None] * pairs[kernel]
            own = logarithms[:, kernel]
            terms.append(ListTerm(f"the list by {name.strip()}", rates * own, own, by_document))
        return terms

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
            shape = ReorderingShape(
                **{name: content[name] for name in ReorderingShape.__dataclass_fields__}
            )
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
