"""How fast one pass is: scores, losses and the gradient in the weights, over a whole dataset.

    python benchmarks/losses.py [--loss owpc] [--threads 1] [--repeats 20]

Million rows a second, best of the repeats, on seeded data of the shape of three LETOR sets (the
last one a part), at weights of zero (all scores tied), at random weights (nearly every pair is
violated, the worst case of the sort) and at good ones (as in most passes of a training). Beside
it, in the same process: the two float32 products of a linear model alone, by BLAS, which read
the matrix twice as well but never sort; and the same OWPC loss in NumPy, query by query.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.host import registry
from owpc_ltr.kernels.kernel import bind, linear_risk, linear_scores, losses_of_scores
from owpc_ltr.protocols import Loss

# Queries, documents of each, features, relevant documents, wanted million rows a second.
SHAPES = {
    "TD2003": (50, 1000, 64, 8, 20),
    "MQ2007": (1700, 41, 46, 8, 20),
    "MSLR/5": (2000, 120, 136, 30, 9),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of one pass of a loss.")
    parser.add_argument("--loss", default="owpc")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    cls = registry.load().find("loss", arguments.loss)
    losses = [cls()]
    if arguments.loss == "owpc":
        losses = [
            cls(generator=generator)
            for generator in ("constant", "top", "inverse", "exponential", "logarithmic")
        ]
    print(f"million rows/s, {arguments.threads} thread(s), best of {arguments.repeats}")
    for name, (queries, documents, features, relevant, wanted) in SHAPES.items():
        data, good = make(queries, documents, features, relevant)
        rng = np.random.default_rng(1)
        weights = {
            "zero": np.zeros(features),
            "random": rng.normal(size=features),
            "good": good,
        }
        products = two_products(data, good, arguments.repeats)
        print(
            f"\n{name}: {queries} × {documents} × {features}; two products by BLAS {products:.1f}"
        )
        if wanted and arguments.loss == "owpc":
            print(
                f"  numpy, query by query, inverse, random weights: {numpy_rate(data, weights):.2f}"
            )
        for loss in losses:
            rates = {where: rate(data, loss, w, arguments) for where, w in weights.items()}
            alone = losses_alone(data, loss, weights["random"], arguments.repeats)
            label = getattr(loss, "generator", loss.name)
            cells = "  ".join(f"{where} {value:5.1f}" for where, value in rates.items())
            print(
                f"  {label:12s} {cells}   of BLAS, good: {rates['good'] / products:.2f}   "
                f"loss alone, random: {alone:5.1f}   wanted {wanted}"
            )


def make(
    queries: int, documents: int, features: int, relevant: int
) -> tuple[RankingDataset, Vector]:
    """A dataset, and weights that rank it well but not perfectly."""
    rng = np.random.default_rng(0)
    matrix = rng.random((queries * documents, features), dtype=np.float32)
    truth = rng.normal(size=features)
    utility = matrix @ truth.astype(np.float32) + 0.3 * rng.normal(size=len(matrix))
    place = np.argsort(np.argsort(-utility.reshape(queries, documents), axis=1), axis=1)
    labels = (place < relevant).astype(np.float32).ravel()
    return make_dataset(matrix, labels, np.repeat(np.arange(queries), documents)), 3 * truth


def rate(data: RankingDataset, loss: Loss, w: Vector, arguments: Any) -> float:
    bound = bind(loss)
    seconds = best(lambda: linear_risk(data, bound, w, arguments.threads), arguments.repeats)
    return data.n_documents / seconds / 1e6


def losses_alone(data: RankingDataset, loss: Loss, w: Vector, repeats: int) -> float:
    bound, scores = bind(loss), linear_scores(data.features, w)
    return data.n_documents / best(lambda: losses_of_scores(data, bound, scores), repeats) / 1e6


def two_products(data: RankingDataset, w: Vector, repeats: int) -> float:
    small = w.astype(np.float32)

    def products() -> None:
        scores = data.features @ small
        scores @ data.features

    return data.n_documents / best(products, repeats) / 1e6


def numpy_rate(data: RankingDataset, weights: dict[str, Vector]) -> float:
    """OWPC with inverse weights as one would first write it."""
    w = weights["random"].astype(np.float32)

    def risk() -> Vector:
        total = np.zeros(data.n_features)
        for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            rows, labels = data.features[start:end], data.labels[start:end]
            total += numpy_owpc(rows @ w, labels) @ rows
        return total

    return data.n_documents / best(risk, 3) / 1e6


def numpy_owpc(scores: Any, labels: Any) -> Any:
    upper, lower = np.flatnonzero(labels > 0), np.flatnonzero(labels <= 0)
    lower = lower[np.argsort(-scores[lower], kind="stable")]
    alpha = 1 / np.arange(1, len(lower) + 1)
    alpha /= alpha.sum()
    violated = scores[lower][None, :] > scores[upper][:, None] - 1
    gradient = np.zeros(len(scores), dtype=np.float32)
    gradient[upper] = -(violated @ alpha) / len(upper)
    gradient[lower] = alpha * violated.mean(axis=0)
    return gradient


def best(call: Callable[[], Any], repeats: int) -> float:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
