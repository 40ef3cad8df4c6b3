"""Slow and obvious versions of losses, kernels and tensors, from the papers' formulas."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, ClassVar

import cvxpy
import numpy as np
from numpy.typing import NDArray

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Labels, Vector

Pair = Callable[[Any, Any], float]


def double_loop(documents: Any, pair: Pair) -> Vector:
    """Σ_{j≠i} S(x_i, x_j), pair by pair, as the paper writes it."""
    m = len(documents)
    return np.array(
        [sum(pair(documents[i], documents[j]) for j in range(m) if j != i) for i in range(m)],
        dtype=np.float64,
    )


def query_normalised(features: Any) -> Vector:
    """Each column mapped to [0, 1] within the list; constant ones to 0; NaN read as 0."""
    filled = np.nan_to_num(features.astype(np.float64), nan=0.0)
    low, span = filled.min(axis=0), np.ptp(filled, axis=0)
    normalised: Vector = np.divide(filled - low, span, out=np.zeros_like(filled), where=span > 0)
    return normalised


def cosine(x: Vector, z: Vector) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(z))
    return float(x @ z) / lengths if lengths > 0 else 0.0


def rbf(x: Vector, z: Vector) -> float:
    return math.exp(-float(((x - z) ** 2).sum()) / len(x))


def word_vectors(texts: list[str]) -> Vector:
    """tf · log((1 + m) / df) of every word of the list."""
    counts = [Counter(text.split()) for text in texts]
    words = sorted({word for count in counts for word in count})
    having = np.array([sum(word in count for count in counts) for word in words])
    return np.array([[count[word] for word in words] for count in counts]) * np.log(
        (1 + len(texts)) / having
    )


@dataclass(frozen=True)
class SoftMax:
    """−log of the share of e^score that relevant documents have: smooth, convex, plain NumPy."""

    name: ClassVar[str] = "soft-max"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        wanted = weights * labels.astype(np.float64)
        if not wanted.any():
            return 0.0, np.zeros(len(scores))
        wanted = wanted / wanted.sum()
        top = scores.max()
        shares = np.exp(scores - top)
        total = shares.sum()
        return float(top + np.log(total) - wanted @ scores), shares / total - wanted


def symmetric_tensor(values: int, order: int, rng: np.random.Generator) -> Vector:
    """A random symmetric tensor: its entries depend on the sorted indices alone."""
    tensor = np.empty((values,) * order)
    drawn: dict[tuple[int, ...], float] = {}
    for index in itertools.product(range(values), repeat=order):
        tensor[index] = drawn.setdefault(tuple(sorted(index)), float(rng.normal()))
    return tensor


def product_terms(tensor: Vector, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Coefficients c (T,) and positive g (T, values): tensor = Σ_t c_t g_t ⊗ … ⊗ g_t.

    Powers of as many generic vectors as there are sorted indices span the symmetric tensors
    (Comon et al. 2008), so that the coefficients solve a linear system.
    """
    values, order = tensor.shape[0], tensor.ndim
    entries = list(itertools.combinations_with_replacement(range(values), order))
    factors = np.exp(rng.normal(size=(len(entries), values)))
    products = np.array([[factors[t, list(index)].prod() for t in range(len(entries))]
                         for index in entries])  # fmt: skip
    coefficients = np.linalg.solve(products, np.array([tensor[index] for index in entries]))
    return coefficients, factors


def slope_error(price: Callable[[Vector], tuple[float, Vector]], at: Vector) -> float:
    """The largest difference between the gradient and central differences, relative."""
    _, gradient = price(at)
    steps = 1e-6 * np.eye(len(at))
    slopes = np.array([(price(at + step)[0] - price(at - step)[0]) / 2e-6 for step in steps])
    return float(np.abs(slopes - gradient).max() / (1e-3 + np.abs(gradient).max()))


def offsets_of(*sizes: int) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


ALL_KERNELS = "cosine,dot,rbf,cosine:1+2,similarity:text,similarity:vector,same:site,link:links"


def fields_of(m: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Texts, vectors, sites and links of m documents; some lack them."""
    words = np.array(["rank", "learn", "search", "engine", "top", "list"])
    ids = [f"d{i}" for i in range(m)]
    fields: dict[str, list[Any]] = {
        "_id": ids,
        "text": [" ".join(rng.choice(words, 5)) for _ in range(m)],
        "vector": [rng.normal(size=3).tolist() for _ in range(m)],
        "site": [str(rng.integers(0, 3)) for _ in range(m)],
        "links": [rng.choice(ids, 3).tolist() for _ in range(m)],
    }
    for name in ("text", "vector", "site", "links"):
        fields[name][int(rng.integers(m))] = None
    return fields


Array = NDArray[np.float64]


def inner_loss(inner: str, t: Any, margin: float = 1.0) -> Any:
    if inner == "hinge":
        return np.maximum(0.0, margin - t)
    if inner == "squared-hinge":
        return np.maximum(0.0, margin - t) ** 2
    return np.logaddexp(0.0, -t)


def generator_weights(generator: str, n: int, p: float = 10.0) -> Array:
    """α_1 … α_n, from g(j, n)."""
    j = np.arange(1, n + 1)
    g = {
        "constant": np.ones(n),
        "top": ((j * 100 <= p * n) | (j == 1)).astype(float),
        "inverse": 1 / j,
        "exponential": 2.0 ** (-(100 / p) * j / n),
        "logarithmic": 1 / np.log(j + 1),
    }[generator]
    return np.asarray(g / g.sum())


def owa(alpha: Array, t: Array) -> float:
    """Yager (1988): the weights meet the values in decreasing order."""
    return float(alpha @ np.sort(t)[::-1])


def owa_by_permutations(alpha: Array, t: Array) -> float:
    return max(float(alpha @ np.array(order)) for order in permutations(t))


def owpc(
    scores: Array, relevant: Any, alpha: Array, inner: str = "hinge", margin: float = 1.0
) -> float:
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    if not (len(R) and len(N)):
        return 0.0
    losses = [inner_loss(inner, scores[i] - scores[N], margin) for i in R]
    return float(np.mean([owa(alpha, t) for t in losses]))


def owpc_by_structures(scores: Array, relevant: Any, alpha: Array) -> float:
    """Usunier et al. (2009), eqs 4–6: max over (σ, b) of Δ(σ, b) − ⟨w, Ξ(σ, b)⟩."""
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    best = -np.inf
    for b in product((0, 1), repeat=len(R) * len(N)):
        chosen = np.reshape(b, (len(R), len(N)))
        for sigma in permutations(range(len(N))):
            delta = sum(
                alpha[j] * chosen[i, sigma[j]] for i in range(len(R)) for j in range(len(N))
            )
            xi = sum(
                alpha[j] * chosen[i, sigma[j]] * (scores[R[i]] - scores[N[sigma[j]]])
                for i in range(len(R))
                for j in range(len(N))
            )
            best = max(best, (delta - xi) / len(R))
    return float(best)


def ranking_error(scores: Array, relevant: Any, alpha: Array) -> float:
    """Mean over R of Φ(rank), rank = irrelevant documents scored at least as high."""
    R, N = np.flatnonzero(relevant), np.flatnonzero(~np.asarray(relevant))
    return float(np.mean([alpha[: np.sum(scores[N] >= scores[i])].sum() for i in R]))


def pairwise(scores: Array, labels: Any, inner: str, normalise: str, margin: float = 1.0) -> float:
    total, pairs, means = 0.0, 0, []
    for i in range(len(scores)):
        costs = [
            float(inner_loss(inner, scores[i] - scores[j], margin))
            for j in range(len(scores))
            if labels[i] > labels[j]
        ]
        total += sum(costs)
        pairs += len(costs)
        means += [float(np.mean(costs))] if costs else []
    if not pairs:
        return 0.0
    return {"none": total, "pairs": total / pairs, "relevant": sum(means) / len(means)}[normalise]


@dataclass(frozen=True)
class Distance:
    """Half the squared distance of the scores from the labels, less a constant: negative."""

    name: ClassVar[str] = "distance"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    constant: float = 10.0

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        error = scores - labels
        return 0.5 * float(weights @ error**2) - self.constant, weights * error


@dataclass(frozen=True)
class Dented:
    """A liar: log(1 + error²) is not convex, whatever it claims."""

    name: ClassVar[str] = "dented"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        error = scores - np.where(labels > 0, 10.0, -10.0)
        return float(weights @ np.log1p(error**2)), 2 * weights * error / (1 + error**2)


def binary_problem(
    seed: int, queries: int = 6, documents: int = 8, features: int = 4
) -> RankingDataset:
    """Queries whose relevant documents are told, with noise, by the first feature."""
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, features)).astype(np.float32)
    labels = (X[:, 0] + generator.normal(size=rows) > 0.7).astype(np.float32)
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents))


def optimum_of(data: RankingDataset, C: float, cost: Callable[[Any], Any]) -> float:
    """min ½‖w‖² + C Σ cost, by a general conic solver.

    The cost of a query is a function of the score differences of relevant (rows) and irrelevant
    (columns) documents.
    """
    w = cvxpy.Variable(data.n_features)
    objective = 0.5 * cvxpy.sum_squares(w)
    for query, importance in zip(data, data.query_importance, strict=True):
        scores, relevant = query.features @ w, query.labels > 0
        if relevant.any() and not relevant.all():
            above = cvxpy.reshape(scores[relevant], (int(relevant.sum()), 1), order="C")
            below = cvxpy.reshape(scores[~relevant], (1, int((~relevant).sum())), order="C")
            objective += C * importance * cost(above - below)
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL)
    return float(objective.value)


def mean_pair_hinge(differences: Any) -> Any:
    return cvxpy.sum(cvxpy.pos(1 - differences)) / differences.size


def mean_pair_logistic(differences: Any) -> Any:
    return cvxpy.sum(cvxpy.logistic(-differences)) / differences.size


def owa_of_hinges(differences: Any) -> Any:
    """OWPC of a query by the inverse generator: ordered averages as sums of the largest."""
    relevant, n = differences.shape
    alpha = np.append(generator_weights("inverse", n), 0.0)
    return (
        sum(
            (alpha[k - 1] - alpha[k]) * cvxpy.sum_largest(cvxpy.pos(1 - differences[row]), k)
            for row in range(relevant)
            for k in range(1, n + 1)
        )
        / relevant
    )
