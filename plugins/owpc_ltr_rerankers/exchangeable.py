"""What the reranker learns: f_i = b(x_i) · Σ_t p_t Π_{j≠i} exp(Σ_k w_tk S_k(x_i, x_j))."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Fields, IntVector, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import fields_of
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import BoundLoss, bind, losses_of_scores
from owpc_ltr.protocols import ListTerm, Loss, Reordering, Reranker, Run
from owpc_ltr_rerankers._exchangeable_kernels import ListBatch, ListKernel, exact_sum, parse_kernels

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
def _make_positive(
    kind: int, scores: Vector, offsets: IntVector, logarithms: Vector, spreads: Vector
) -> None:
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
    kind: int, scores: Vector, logarithms: Vector, spreads: Vector, gains: Vector, changed: Vector
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
def _mean_and_deviation(values: Vector) -> tuple[float, float]:
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
            features,
            feature_names,
            offsets,
            fields or {},
            normalise=self.normalise == "query",
            threads=threads,
        )
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
def _log_factors(
    sums: NDArray[np.float64], weights: NDArray[np.float64], shares: Vector, factors: Vector
) -> None:
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
