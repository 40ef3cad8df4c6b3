"""Compiled passes over a dataset for linear scores: one read of a query's rows serves two sums.

Queries are cut into blocks of equal numbers of documents, whose sums are added in order: the
result is the same bit for bit, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import BoundKernel, BoundLoss, call_kernel

T = TypeVar("T")
Queries = tuple[Matrix, Labels, Labels, Vector, IntVector]
"""Features, labels, document weights, query weights and offsets, as compiled loops read them."""
_BLOCKS = 16
_CELLS_FOR_THREADS = 8_000_000


@compiled(fastmath={"reassoc", "contract", "nsz"})
def score_rows(features: Matrix, weights: Vector, scores: Vector) -> None:
    """Write `features @ weights` (float32 rows, float64 sums) into `scores`."""
    for row in range(features.shape[0]):
        total = 0.0
        for column in range(features.shape[1]):
            total += features[row, column] * weights[column]
        scores[row] = total


@compiled(fastmath={"contract"})
def add_rows(features: Matrix, coefficients: Vector, total: Vector) -> None:
    """Add `coefficients @ features` to `total`; rows of coefficient zero are not read."""
    # Two rows at a time: half as many reads and writes of the total.
    first = -1
    for row in range(features.shape[0]):
        if coefficients[row] == 0.0:
            continue
        if first < 0:
            first = row
            continue
        a, b = coefficients[first], coefficients[row]
        for column in range(features.shape[1]):
            total[column] += a * features[first, column] + b * features[row, column]
        first = -1
    if first >= 0:
        for column in range(features.shape[1]):
            total[column] += coefficients[first] * features[first, column]


@compiled
def _risk_of_block(
    kernel: BoundKernel, queries: Queries, first: int, last: int, weights: Vector, gradient: Vector
) -> float:
    address, parameters = kernel
    features, labels, document_weights, query_weights, offsets = queries
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    scores = np.empty(longest)
    slopes = np.empty(longest)
    nothing = np.empty(0)
    risk = 0.0
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        rows = features[start:end]
        s, g = scores[: end - start], slopes[: end - start]
        score_rows(rows, weights, s)
        importance = query_weights[query]
        risk += importance * call_kernel(
            address, s, labels[start:end], document_weights[start:end], parameters, g, nothing
        )
        if importance != 1.0:
            g *= importance
        add_rows(rows, g, gradient)
    return risk


@compiled
def _loss_of_block(
    kernel: BoundKernel,
    queries: tuple[Labels, Labels, IntVector],
    first: int,
    last: int,
    scores: Vector,
    losses: tuple[Vector, Vector, Vector],
) -> None:
    address, parameters = kernel
    labels, weights, offsets = queries
    values, gradient, curvature = losses
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        curve = curvature[start:end] if len(curvature) else curvature
        values[query] = call_kernel(
            address,
            scores[start:end],
            labels[start:end],
            weights[start:end],
            parameters,
            gradient[start:end],
            curve,
        )


def linear_scores(features: Matrix, weights: Vector) -> Vector:
    """`features @ weights`: float32 features, float64 sums; (n_documents,)."""
    scores = np.empty(features.shape[0])
    score_rows(features, np.ascontiguousarray(weights, dtype=np.float64), scores)
    return scores


def linear_risk(
    data: RankingDataset, loss: BoundLoss, weights: Vector, threads: int = 1
) -> tuple[float, Vector]:
    """Weighted sum of the queries' losses of the linear scores, and its gradient in `weights`.

    `weights` multiplies the features times `data.scales`; both results are in that space.
    """
    cuts = query_blocks(data.offsets, _BLOCKS)
    gradients = np.zeros((len(cuts) - 1, data.n_features))
    scaled = weights * data.scales

    kernel = loss.address, loss.parameters
    queries = (data.features, data.labels, data.weights, data.query_importance, data.offsets)

    def block(index: int) -> float:
        first, last = cuts[index], cuts[index + 1]
        risk: float = _risk_of_block(kernel, queries, first, last, scaled, gradients[index])
        return risk

    risk = sum(run_blocks(block, len(cuts) - 1, threads_worthwhile(data, threads)))
    loss.raise_failure()
    return risk, gradients.sum(axis=0) * data.scales


def losses_of_scores(
    data: RankingDataset, loss: BoundLoss, scores: Vector, threads: int = 1
) -> tuple[Vector, Vector, Vector]:
    """Per-query losses (unweighted), and their gradient and curvature, one entry a document.

    The curvature is empty where the loss has none.
    """
    curvature = np.zeros(data.n_documents if loss.has_curvature else 0)
    losses = (np.empty(data.n_queries), np.zeros(data.n_documents), curvature)
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    cuts = query_blocks(data.offsets, _BLOCKS)
    kernel, queries = (loss.address, loss.parameters), (data.labels, data.weights, data.offsets)

    def block(index: int) -> None:
        _loss_of_block(kernel, queries, cuts[index], cuts[index + 1], scores, losses)

    run_blocks(block, len(cuts) - 1, threads_worthwhile(data, threads))
    loss.raise_failure()
    return losses


def threads_worthwhile(data: RankingDataset, threads: int) -> int:
    """One thread where a pass takes a millisecond: starting others would take longer."""
    return threads if data.features.size >= _CELLS_FOR_THREADS else 1


def query_blocks(offsets: NDArray[np.int64], blocks: int) -> list[int]:
    """Cuts between queries, so that each block has about as many documents as the others."""
    targets = np.linspace(0, offsets[-1], blocks + 1)
    cuts = np.searchsorted(offsets, targets)
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return [int(cut) for cut in np.unique(cuts)]


def run_blocks(block: Callable[[int], T], count: int, threads: int) -> list[T]:
    """Run `block(0) … block(count − 1)` on threads (the compiled loops hold no lock), in order."""
    if threads == 1 or count == 1:
        return [block(index) for index in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(block, range(count)))


def one_blas_thread() -> AbstractContextManager[object]:
    """A block of work on one thread of BLAS; the limits from before come back at its end.

    More BLAS threads than free cores wait for each other, and make the small products of a fit tens
    of times slower; and the number of threads changes the last bits of a sum. Only libraries that
    are loaded already are limited: plugins that call scipy's import it at their top.
    """
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
