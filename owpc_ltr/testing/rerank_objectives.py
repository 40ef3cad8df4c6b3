"""The contract of a reranker's objective: its slopes, and what weights of zero stand for."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.protocols import RerankObjective
from owpc_ltr.testing.promises import require

_RADII = (0.03, 0.1, 0.3, 0.3, 1.0, 1.0)  # of the weights at which slopes are measured
_AXES = 24  # at most, of each of them
_ALIKE = 1e-3  # of a slope: slopes forward and backward that differ by more have a kink between


def check_zero(name: str, objective: RerankObjective, data: RankingDataset, base: Vector) -> None:
    """Weights of zero are priced, and give the base scores to the last bit."""
    zero = np.zeros(_size(name, objective))
    value, gradient = _price(name, objective, zero)
    require(
        np.isfinite(value) and np.isfinite(gradient).all(),
        f"reranker '{name}' prices weights of zero at {value}, with the gradient {{}}",
        gradient,
    )
    scores = objective.reordering(zero).rerank(data.features, base.copy(), data.offsets)
    require(
        np.array_equal(scores, base),
        f"reranker '{name}' must leave the base scores as they are where its weights are zero: it "
        "made {} … of {} …",
        scores[:5],
        base[:5],
    )


def check_slopes(name: str, objective: RerankObjective, seed: int) -> None:
    """The gradient is that of the price, weight by weight, at weights of several sizes."""
    rng = np.random.default_rng(seed)
    size = _size(name, objective)
    probes = measured = 0
    for radius in _RADII:
        at = radius * rng.normal(size=size)
        value, gradient = _price(name, objective, at)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            continue
        for axis in rng.permutation(size)[:_AXES]:
            probes += 1
            slope = _slope(name, objective, at, value, int(axis))
            if slope is None:
                continue
            measured += 1
            # Of a sum of prices some ten digits are exact: a step of 1e-6 leaves a few.
            allowed = _ALIKE * abs(slope) + 1e-8 * (1.0 + abs(value))
            require(
                abs(gradient[axis] - slope) <= allowed,
                f"reranker '{name}' has a wrong gradient: {gradient[axis]:.6g} along weight "
                f"{axis}, where its price rises by {slope:.6g}, at the weights {{}}",
                at,
            )
    require(
        2 * measured >= probes > 0,
        f"reranker '{name}' has a gradient that cannot be checked: of {probes} slopes at weights "
        f"of size {_RADII[0]} to {_RADII[-1]}, {probes - measured} are at a kink or not finite",
    )


def random_weights(objective: RerankObjective, rng: np.random.Generator) -> Vector:
    """Weights that reorder, as far from zero as a fit may end."""
    weights: Vector = rng.normal(size=objective.size)
    return weights


def _size(name: str, objective: RerankObjective) -> int:
    require(objective.size >= 1, f"reranker '{name}' has an objective of {objective.size} weights")
    return objective.size


def _price(name: str, objective: RerankObjective, weights: Vector) -> tuple[float, Vector]:
    given = weights.copy()
    value, gradient = objective.value_and_gradient(given)
    require(
        np.shape(value) == () and np.shape(gradient) == weights.shape,
        f"reranker '{name}' gave a price of shape {np.shape(value)} with a gradient of shape "
        f"{np.shape(gradient)} for {len(weights)} weights",
    )
    require(np.array_equal(given, weights), f"reranker '{name}' changed the weights it priced")
    again = objective.value_and_gradient(given)[0]
    require(
        np.array_equal(value, again, equal_nan=True),
        f"reranker '{name}' priced the same weights at {value}, then at {again}",
    )
    return float(value), np.asarray(gradient, dtype=np.float64)


def _slope(
    name: str, objective: RerankObjective, at: Vector, value: float, axis: int
) -> float | None:
    """The difference quotient along one weight; None at a kink, where there are two."""
    step = np.zeros(len(at))
    step[axis] = 1e-6
    above, _ = _price(name, objective, at + step)
    below, _ = _price(name, objective, at - step)
    forward, backward = (above - value) / 1e-6, (value - below) / 1e-6
    middle = (above - below) / 2e-6
    noise = 1e-8 * (1.0 + abs(value))
    return middle if abs(forward - backward) <= _ALIKE * abs(middle) + noise else None
