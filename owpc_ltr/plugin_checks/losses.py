"""The contract of a loss: what it always promises, and measures of what it claims."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.kernels.kernel import bind, evaluate_query
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.plugin_checks.samples import Require, Sample, answer, requires, sample_queries
from owpc_ltr.protocols import Loss

_EXACT = 1e-9


def check_loss(loss: Loss, seed: int = 0) -> None:
    """Check everything that a loss promises, and what it claims of itself.

    Always: finite values and gradients of the right shape, no argument changed, the same answer
    twice, permuting the documents permutes the gradient, and no price where nothing is relevant.
    Where claimed: `conservative`, `convex`, `smooth`, `weights_are_copies`, a curvature. Raises
    AssertionError.
    """
    require = requires(f"loss '{loss.name}'")
    samples = sample_queries(seed)
    rng = np.random.default_rng(seed)
    for sample in (*samples, *_DEGENERATE):
        for scores in sample.points:
            _check_answer(require, loss, scores, sample)
            n = len(scores)
            # Of equal scores a loss with kinks has more than one right gradient.
            if len(np.unique(scores)) == n:
                _check_rows(
                    require, loss, scores, sample.labels, rng.permutation(n),
                    "depends on the order of the documents",
                )  # fmt: skip
            if getattr(loss, "weights_are_copies", False):
                copies = rng.integers(0, 4, n) + (np.arange(n) == 0)
                _check_rows(
                    require, loss, scores, sample.labels, np.repeat(np.arange(n), copies),
                    "claims that a document of weight k counts as k copies",
                )  # fmt: skip
    for claim, measure, limits in _CLAIMS:
        if getattr(loss, claim):
            figures = measure(loss, samples, seed)
            for figure, most, words in limits:
                require(
                    figures[figure] < most,
                    f"claims to be {claim}, but {words} by {figures[figure]:.3g} ({figure})",
                )


def _sample(labels: ArrayLike, scores: ArrayLike) -> Sample:
    return Sample(np.array(labels, np.float32), np.array([scores], np.float64))


_DEGENERATE = (
    _sample([0], [0.5]),
    _sample([1], [0.5]),
    _sample([0, 0, 0], [0.3, -0.3, 0.1]),
    _sample([2, 2, 2], [0.3, -0.3, 0.1]),
    _sample([1, 0, 2, 0], [0.2, 0.2, 0.2, 0.2]),
    _sample([1, 0, 2, 0], [1e6, -1e6, 0.0, 1e6]),
)


def _check_answer(require: Require, loss: Loss, scores: Vector, sample: Sample) -> None:
    given = {"scores": scores, "labels": sample.labels, "weights": sample.weights}
    (value, gradient), (again, same) = (
        answer(require, loss.value_and_gradient, **given) for _ in range(2)
    )
    require(
        np.ndim(value) == 0 and np.shape(gradient) == scores.shape,
        f"gave a value of shape {np.shape(value)} with a gradient of shape {np.shape(gradient)} "
        f"for {len(scores)} documents",
    )
    require(gradient.dtype == np.float64, f"gave a gradient of {gradient.dtype}, not float64")
    require(
        np.isfinite(value) and np.isfinite(gradient).all(),
        f"is {value}, with gradient {{}}, at scores {{}}, labels {{}}",
        gradient, scores, sample.labels,
    )  # fmt: skip
    require(value == again and np.array_equal(gradient, same), "gave two answers for one query")
    require(
        sample.labels.any() or (value == 0 and not gradient.any()),
        f"must be 0, with gradient 0, where no document is relevant; it is {value}",
    )
    compiled, slope, curvature = evaluate_query(bind(loss), scores, sample.labels, sample.weights)
    require(
        np.isclose(value, compiled, rtol=_EXACT) and np.allclose(gradient, slope, rtol=_EXACT),
        f"is {value} in Python and {compiled} where it is compiled, with gradients {{}} and {{}}",
        gradient, slope,
    )  # fmt: skip
    require(
        (curvature >= 0).all(), "has the curvature {}, which may not be negative, at scores {}",
        curvature, scores,
    )  # fmt: skip


def _check_rows(
    require: Require, loss: Loss, scores: Vector, labels: Labels, rows: Any, broken: str
) -> None:
    """Documents moved or repeated by `rows` are priced as documents weighted by their number."""
    counts = np.bincount(rows, minlength=len(scores))
    value, gradient = loss.value_and_gradient(scores, labels, counts.astype(np.float32))
    other, slopes = loss.value_and_gradient(
        scores[rows], labels[rows], np.ones(len(rows), np.float32)
    )
    require(
        np.isfinite(other), f"is {other} at scores {{}}, labels {{}}", scores[rows], labels[rows]
    )
    summed = np.bincount(rows, slopes, len(scores))
    size = 1.0 + np.abs(gradient).max()
    require(
        np.isclose(value, other, rtol=_EXACT)
        and np.allclose(gradient, summed, rtol=1e-7, atol=_EXACT * size),
        f"{broken}: {value} with gradient {{}} became {other} with {{}}, rows {{}}",
        gradient, summed, rows,
    )  # fmt: skip


@dataclass(frozen=True)
class LossReport:
    """What was measured of a loss, beside what it claims.

    `asymmetry` is the largest |J − Jᵀ| over the largest |J|, with J = ∂λ/∂s: a cost exists, on
    stretches without a rank swap, where it is 0 (Poincaré; Burges 2006, eq. 11). `loop` is the
    integral of the gradient around closed walks across rank swaps, `side` the mismatch of its
    integral with the value, both as shares of the walk's effort. `smallest_eigenvalue` is that
    of −J: the cost is convex where it is not negative. `tangent_excess` is how far a tangent
    lies above the loss, `jump` how much the gradient jumps (relative to its changes), and
    `shift` the largest |Σ gradient| over Σ |gradient|: 0 where only score differences count.
    """

    name: str
    convex: bool
    conservative: bool
    smooth: bool
    slope_error: float
    asymmetry: float
    loop: float
    side: float
    smallest_eigenvalue: float
    tangent_excess: float
    jump: float
    shift: float

    @property
    def cost_exists(self) -> bool:
        """Whether the gradient is the gradient of something, as far as was seen."""
        return self.asymmetry < 1e-3 and self.loop < 5e-3

    @property
    def shift_invariant(self) -> bool:
        """Whether adding a number to all scores changes nothing, as far as was seen."""
        return self.shift < 1e-9

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        more = {"cost_exists": self.cost_exists, "shift_invariant": self.shift_invariant}
        return asdict(self) | more


def describe_loss(loss: Loss, seed: int = 0) -> LossReport:
    """Measure a loss; claims are shown, not checked."""
    samples = sample_queries(seed)
    figures: dict[str, float] = {}
    for measure in (_slopes, _hessians, _walks, _tangents, _jumps, _shifts):
        figures |= measure(loss, samples, seed)
    return LossReport(loss.name, loss.convex, loss.conservative, loss.smooth, **figures)


def _evaluate(loss: Loss, labels: Labels, points: Vector) -> tuple[Vector, Vector]:
    """Values (…) and gradients (…, m) of a query's loss at score vectors (…, m)."""
    k, m = points.size // len(labels), len(labels)
    data = make_dataset(
        np.zeros((k * m, 1), np.float32), np.tile(labels, k), np.repeat(np.arange(k), m)
    )
    values, gradients, _ = losses_of_scores(data, bind(loss), points.ravel())
    return values.reshape(points.shape[:-1]), gradients.reshape(points.shape)


def _slopes(loss: Loss, samples: list[Sample], seed: int) -> dict[str, float]:
    """|gradient · u − difference quotient| for random directions u, relative to the slope.

    Points within a step of a kink, where no slope exists, are left out; where nearly every point
    is one, the error is infinite.
    """
    errors, step = [], 1e-6
    for sample in samples:
        points = sample.points[:6]
        directions = np.random.default_rng(seed).normal(size=points.shape)
        moves = step * np.array([0.0, 1.0, -1.0])[:, None, None] * directions
        (at, above, below), gradients = _evaluate(loss, sample.labels, points + moves)
        slopes = (gradients[0] * directions).sum(axis=1)
        size = 1.0 + np.abs(slopes) + 1e-3 * np.abs(at)
        forward, backward = (above - at) / step, (at - below) / step
        no_kink = np.abs(forward - backward) <= 1e-3 * size
        errors.extend((np.abs((forward + backward) / 2 - slopes) / size)[no_kink])
    return {"slope_error": float(max(errors)) if len(errors) >= len(samples) else np.inf}


def _hessians(loss: Loss, samples: list[Sample], _seed: int) -> dict[str, float]:
    """∂gradient_i / ∂s_j by central differences, (m, m): minus Burges's Jacobian of the λ."""
    asymmetry, smallest = 0.0, np.inf
    for sample in samples:
        step = 1e-5 * np.eye(len(sample.labels))
        for point in sample.points[:6]:
            _, (above, below) = _evaluate(
                loss, sample.labels, np.array([point + step, point - step])
            )
            matrix = (above - below) / 2e-5
            size = float(np.abs(matrix).max()) or 1.0
            asymmetry = max(asymmetry, float(np.abs(matrix - matrix.T).max()) / size)
            smallest = min(smallest, float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]))
    return {"asymmetry": asymmetry, "smallest_eigenvalue": smallest}


def _walks(loss: Loss, samples: list[Sample], _seed: int) -> dict[str, float]:
    """Closed walks through score vectors, on which the slopes are summed.

    `loop` is the integral of the gradient around a walk (0 where a cost exists: Poincaré), `side`
    the largest difference between its integral along one side and the rise of the value; both
    relative to the integral of |slope|.
    """
    loop, side, middles = 0.0, 0.0, (np.arange(800) + 0.5) / 800
    for sample in samples:
        for corners in (sample.points[[2, 3, 4]], sample.points[[3, 4, 5, 2]]):
            ways = np.roll(corners, -1, axis=0) - corners
            values, _ = _evaluate(loss, sample.labels, corners)
            rises = np.roll(values, -1) - values
            path = corners[:, None] + middles[:, None] * ways[:, None]
            slopes = (_evaluate(loss, sample.labels, path)[1] * ways[:, None]).sum(axis=2)
            climbed, effort = slopes.mean(axis=1), np.abs(slopes).mean(axis=1).sum() or 1.0
            loop = max(loop, float(abs(climbed.sum()) / effort))
            side = max(side, float(np.abs(climbed - rises).max() / effort))
    return {"loop": loop, "side": side}


def _tangents(loss: Loss, samples: list[Sample], _seed: int) -> dict[str, float]:
    """How far a tangent lies above the loss at another point, relative to both."""
    worst = -np.inf
    for sample in samples:
        points = sample.points
        values, gradients = _evaluate(loss, sample.labels, points)
        rises = gradients @ points.T - (gradients * points).sum(axis=1)[:, None]
        size = 1.0 + np.abs(values)[:, None] + np.abs(values)[None, :] + np.abs(rises)
        worst = max(worst, float(((values[:, None] + rises - values[None, :]) / size).max()))
    return {"tangent_excess": worst}


def _jumps(loss: Loss, samples: list[Sample], _seed: int) -> dict[str, float]:
    """How much the gradient jumps between two score vectors, relative to how much it changes.

    The steepest parts of the way are cut finer and finer: what is left at 1e-9 is a jump.
    """
    jump = 0.0
    for sample in samples:
        for start, end in sample.points[[[2, 3], [4, 5], [4, 6], [2, 7]]]:
            worst, whole = 0.0, 0.0
            edges = np.linspace(0.0, 1.0, 257)[:, None]
            for _ in range(9):
                # Each column is a stretch that is cut: neighbours share an edge.
                _, slopes = _evaluate(loss, sample.labels, start + edges[..., None] * (end - start))
                change = np.linalg.norm(np.diff(slopes, axis=0), axis=2)
                whole, worst = max(whole, float(change.sum())), float(change.max())
                cut, column = np.unravel_index(np.argsort(change, axis=None)[-4:], change.shape)
                edges = np.linspace(edges[cut, column], edges[cut + 1, column], 9)
            jump = max(jump, worst / (whole or 1.0))
    return {"jump": jump}


def _shifts(loss: Loss, samples: list[Sample], _seed: int) -> dict[str, float]:
    worst = 0.0
    for sample in samples:
        _, gradients = _evaluate(loss, sample.labels, sample.points)
        sizes = np.abs(gradients).sum(axis=1)
        sums = np.abs(gradients.sum(axis=1))
        worst = max(worst, float((sums / np.where(sizes > 0, sizes, 1.0)).max()))
    return {"shift": worst}


_CLAIMS = (
    ("conservative", _slopes, (
        ("slope_error", 1e-4, "its gradient is off the slope of its value"),
    )),
    ("conservative", _walks, (
        ("loop", 5e-3, "its gradient is the gradient of nothing: a closed walk climbs"),
        ("side", 5e-3, "along a walk its value and the sum of its slopes differ"),
    )),
    ("convex", _tangents, (("tangent_excess", 1e-8, "a tangent lies above it"),)),
    ("smooth", _jumps, (("jump", 1e-3, "its gradient jumps"),)),
)  # fmt: skip
"""Claims: what is measured, the limit of each figure, and what a loss does that is beyond it."""
