"""The contract of a loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.kernels.kernel import bind, evaluate_query
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.plugin_checks.samples import Sample, require, sample_queries
from owpc_ltr.protocols import Loss

_EXACT = 1e-9
_WALK = 5e-3  # of the effort: the steps of a walk miss kinks by ten times less
_JUMP = 1e-3  # of the gradient's whole change


def check_loss(loss: Loss, seed: int = 0) -> None:
    """Check everything that a loss promises, and what it claims of itself.

    Always: finite values and gradients of the right shape, no argument changed, the same answer
    twice, permuting the documents permutes the gradient, and no price where nothing is relevant.
    Where claimed: `conservative`, `convex`, `smooth`, `weights_are_copies`, a curvature. Raises
    AssertionError.
    """
    samples = sample_queries(seed)
    for sample in samples:
        _check_answer(loss, sample)
        _check_permutations(loss, sample, seed)
    _check_degenerate(loss)
    if getattr(loss, "weights_are_copies", False):
        for sample in samples:
            _check_copies(loss, sample, seed)
    if loss.conservative:
        _check_conservative(loss, samples, seed)
    if loss.convex:
        _check_convex(loss, samples)
    if loss.smooth:
        _check_smooth(loss, samples)


def _price(loss: Loss, scores: Vector, labels: Labels, weights: Labels) -> tuple[float, Vector]:
    value, gradient = loss.value_and_gradient(scores, labels, weights)
    require(
        np.shape(gradient) == scores.shape,
        f"loss '{loss.name}' gave a gradient of shape {np.shape(gradient)} for {len(scores)} "
        "documents",
    )
    require(
        np.asarray(gradient).dtype == np.float64,
        f"loss '{loss.name}' gave a gradient of {np.asarray(gradient).dtype}, not float64",
    )
    require(np.ndim(value) == 0, f"loss '{loss.name}' gave a value of shape {np.shape(value)}")
    require(
        np.isfinite(value) and np.isfinite(gradient).all(),
        f"loss '{loss.name}' is {value}, with gradient {{}}, at scores {{}}, labels {{}}",
        gradient,
        scores,
        labels,
    )
    return float(value), gradient


def _check_answer(loss: Loss, sample: Sample) -> None:
    bound = bind(loss)
    for scores in sample.points:
        given = scores.copy(), sample.labels.copy(), sample.weights
        value, gradient = _price(loss, *given)
        gradient = gradient.copy()
        for name, before, after in zip(
            ("scores", "labels", "weights"), (scores, sample.labels, sample.weights), given,
            strict=True,
        ):  # fmt: skip
            require(np.array_equal(before, after), f"loss '{loss.name}' changed the {name} it read")
        again, same = _price(loss, *given)
        require(value == again, f"loss '{loss.name}' gave {value}, then {again}, for one query")
        require(
            np.array_equal(gradient, same), f"loss '{loss.name}' gave two gradients for one query"
        )
        compiled, slope, curvature = evaluate_query(bound, *given)
        require(
            np.isclose(value, compiled, rtol=_EXACT),
            f"loss '{loss.name}' is {value} in Python and {compiled} where it is compiled",
        )
        require(
            np.allclose(gradient, slope, rtol=_EXACT),
            f"loss '{loss.name}' has one gradient in Python and another where it is compiled",
        )
        require(
            (curvature >= 0).all(),
            f"loss '{loss.name}' has the curvature {{}}, which may not be negative, at scores {{}}",
            curvature,
            scores,
        )


def _check_permutations(loss: Loss, sample: Sample, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Equal scores are left out: there a loss with kinks has more than one right gradient.
    for scores in sample.points:
        if len(np.unique(scores)) < len(scores):
            continue
        value, gradient = _price(loss, scores, sample.labels, sample.weights)
        order = rng.permutation(len(scores))
        other, moved = _price(loss, scores[order], sample.labels[order], sample.weights)
        require(
            np.isclose(value, other, rtol=_EXACT),
            f"loss '{loss.name}' depends on the order of the documents: {value} became {other}",
        )
        size = np.abs(gradient).max()
        require(
            np.allclose(gradient[order], moved, rtol=1e-7, atol=_EXACT * size),
            f"loss '{loss.name}' depends on the order of the documents: the gradient {{}} became "
            "{}",
            gradient[order],
            moved,
        )


def _check_degenerate(loss: Loss) -> None:
    for labels, scores in (
        ([0], [0.5]),
        ([1], [0.5]),
        ([0, 0, 0], [0.3, -0.3, 0.1]),
        ([2, 2, 2], [0.3, -0.3, 0.1]),
        ([1, 0, 2, 0], [0.2, 0.2, 0.2, 0.2]),
        ([1, 0, 2, 0], [1e6, -1e6, 0.0, 1e6]),
    ):
        y, s = np.array(labels, np.float32), np.array(scores)
        value, gradient = _price(loss, s, y, np.ones_like(y))
        require(
            any(labels) or (value == 0 and not gradient.any()),
            f"loss '{loss.name}' must be 0, with gradient 0, where no document is relevant; it is "
            f"{value}, with gradient {{}}",
            gradient,
        )


def _check_copies(loss: Loss, sample: Sample, seed: int) -> None:
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, 4, len(sample.labels))
    owner = np.repeat(np.arange(len(copies)), copies)
    for scores in sample.points:
        value, gradient = _price(loss, scores, sample.labels, copies.astype(np.float32))
        many, slopes = _price(
            loss, scores[owner], sample.labels[owner], np.ones(len(owner), np.float32)
        )
        summed = np.bincount(owner, weights=slopes, minlength=len(copies))
        size = 1.0 + np.abs(gradient).max()
        require(
            np.isclose(value, many, rtol=1e-7, atol=1e-9),
            f"loss '{loss.name}' claims that a document of weight k counts as k copies: weights "
            f"{{}} give {value}, copies give {many}",
            copies,
        )
        require(
            np.allclose(gradient, summed, atol=1e-7 * size),
            f"loss '{loss.name}' claims that a document of weight k counts as k copies: weights "
            "{} give the gradient {}, copies give {}",
            copies,
            gradient,
            summed,
        )


def _check_conservative(loss: Loss, samples: list[Sample], seed: int) -> None:
    probes = 0
    for sample in samples:
        errors = slope_errors(loss, sample.labels, sample.points[:6], seed)
        probes += len(errors)
        require(
            (errors < 1e-4).all(),
            f"loss '{loss.name}' claims to be conservative, but its gradient is off the slope of "
            f"its value by {errors.max(initial=0.0):.3g} (relative), labels {sample.labels}",
        )
    require(
        probes >= len(samples),
        f"loss '{loss.name}' claims to be conservative, but has a kink at nearly every point",
    )
    for sample in samples:
        for corners in (sample.points[[2, 3, 4]], sample.points[[3, 4, 5, 2]]):
            loop, side = walk(loss, sample.labels, corners)
            require(
                loop < _WALK,
                f"loss '{loss.name}' claims to be conservative, but a closed walk across rank "
                f"swaps climbs {loop:.3g} of its length: its gradient is the gradient of nothing",
            )
            require(
                side < _WALK,
                f"loss '{loss.name}' claims to be conservative, but along a walk across rank "
                f"swaps its value and the sum of its slopes differ by {side:.3g} of the length",
            )


def _check_convex(loss: Loss, samples: list[Sample]) -> None:
    for sample in samples:
        above = tangent_violations(loss, sample.labels, sample.points)
        worst = float(above.max())
        if worst > 1e-8:
            i, j = np.unravel_index(int(above.argmax()), above.shape)
            raise AssertionError(
                f"loss '{loss.name}' claims to be convex, but its tangent at {sample.points[i]} "
                f"lies above it by {worst:.3g} (relative) at {sample.points[j]}, labels "
                f"{sample.labels}"
            )


def _check_smooth(loss: Loss, samples: list[Sample]) -> None:
    for sample in samples:
        for start, end in ((2, 3), (4, 5), (4, 6), (2, 7)):
            jump = largest_jump(loss, sample.labels, sample.points[start], sample.points[end])
            require(
                jump < _JUMP,
                f"loss '{loss.name}' claims to be smooth, but its gradient jumps by {jump:.3g} of "
                "its whole change between {} and {}",
                sample.points[start],
                sample.points[end],
            )


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
        return asdict(self) | {
            "cost_exists": self.cost_exists,
            "shift_invariant": self.shift_invariant,
        }


def describe_loss(loss: Loss, seed: int = 0) -> LossReport:
    """Measure a loss; claims are shown, not checked."""
    samples = sample_queries(seed)
    hessians = [_hessian_numbers(loss, sample) for sample in samples]
    walks = [
        walk(loss, sample.labels, sample.points[corners])
        for sample in samples
        for corners in ([2, 3, 4], [3, 4, 5, 2])
    ]
    slopes = [
        slope_errors(loss, sample.labels, sample.points[:6], seed).max(initial=0.0)
        for sample in samples
    ]
    return LossReport(
        name=loss.name,
        convex=loss.convex,
        conservative=loss.conservative,
        smooth=loss.smooth,
        slope_error=float(max(slopes)),
        asymmetry=max(asymmetry for asymmetry, _ in hessians),
        loop=max(loop for loop, _ in walks),
        side=max(side for _, side in walks),
        smallest_eigenvalue=min(smallest for _, smallest in hessians),
        tangent_excess=max(
            float(tangent_violations(loss, sample.labels, sample.points).max())
            for sample in samples
        ),
        jump=max(
            largest_jump(loss, sample.labels, sample.points[start], sample.points[end])
            for sample in samples
            for start, end in ((2, 3), (4, 5), (4, 6), (2, 7))
        ),
        shift=max(_shift(loss, sample) for sample in samples),
    )


def _hessian_numbers(loss: Loss, sample: Sample) -> tuple[float, float]:
    """Asymmetry and smallest eigenvalue at a few points."""
    asymmetry, smallest = 0.0, np.inf
    for point in sample.points[:6]:
        matrix = hessian(loss, sample.labels, point)
        size = np.abs(matrix).max()
        if size > 0:
            asymmetry = max(asymmetry, float(np.abs(matrix - matrix.T).max() / size))
        smallest = min(smallest, float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]))
    return asymmetry, smallest


def _shift(loss: Loss, sample: Sample) -> float:
    _, gradients = evaluate(loss, sample.labels, sample.points)
    sizes = np.abs(gradients).sum(axis=1)
    sums = np.abs(gradients.sum(axis=1))
    return float((sums / np.where(sizes > 0, sizes, 1.0)).max())


def evaluate(loss: Loss, labels: Labels, points: Vector) -> tuple[Vector, Vector]:
    """Values (k,) and gradients (k, m) of a query's loss at k score vectors (k, m)."""
    k, m = points.shape
    data = make_dataset(
        np.zeros((k * m, 1), np.float32), np.tile(labels, k), np.repeat(np.arange(k), m)
    )
    values, gradients, _ = losses_of_scores(data, bind(loss), points.ravel())
    return values, gradients.reshape(k, m)


def slope_errors(loss: Loss, labels: Labels, points: Vector, seed: int = 0) -> Vector:
    """|gradient · u − difference quotient| for random directions u, relative to the slope.

    Empty entries are left out: points within a step of a kink, where no slope exists.
    """
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=points.shape)
    _, gradients = evaluate(loss, labels, points)
    slopes = (gradients * directions).sum(axis=1)
    step = 1e-6
    at, _ = evaluate(loss, labels, points)
    above, _ = evaluate(loss, labels, points + step * directions)
    below, _ = evaluate(loss, labels, points - step * directions)
    size = 1.0 + np.abs(slopes) + 1e-3 * np.abs(at)
    forward, backward = (above - at) / step, (at - below) / step
    no_kink = np.abs(forward - backward) <= 1e-3 * size
    errors: Vector = (np.abs((forward + backward) / 2 - slopes) / size)[no_kink]
    return errors


def tangent_violations(loss: Loss, labels: Labels, points: Vector) -> Vector:
    """How far each tangent lies above the loss, at each other point, relative to both (k, k)."""
    values, gradients = evaluate(loss, labels, points)
    rises = gradients @ points.T - (gradients * points).sum(axis=1)[:, None]
    tangents = values[:, None] + rises
    size = 1.0 + np.abs(values)[:, None] + np.abs(values)[None, :] + np.abs(rises)
    return np.asarray((tangents - values[None, :]) / size)


def walk(loss: Loss, labels: Labels, corners: Vector, steps: int = 800) -> tuple[float, float]:
    """A closed walk through score vectors, on which the slopes are summed.

    Returns the integral of the gradient around the loop (0 where a cost exists: Poincaré), and
    the largest difference between its integral along one side and the rise of the value; both
    relative to the integral of |slope|.
    """
    ends = np.roll(corners, -1, axis=0)
    values, _ = evaluate(loss, labels, corners)
    rises = np.roll(values, -1) - values
    middles = (np.arange(steps) + 0.5) / steps
    climbed, effort = np.zeros(len(corners)), 0.0
    for side, (start, end) in enumerate(zip(corners, ends, strict=True)):
        path = start + middles[:, None] * (end - start)
        slopes = evaluate(loss, labels, path)[1] @ (end - start)
        climbed[side] = slopes.mean()
        effort += float(np.abs(slopes).mean())
    if effort == 0.0:
        return 0.0, float(np.abs(rises).max())
    return abs(float(climbed.sum())) / effort, float(np.abs(climbed - rises).max()) / effort


def largest_jump(loss: Loss, labels: Labels, start: Vector, end: Vector) -> float:
    """How much the gradient jumps between two score vectors, relative to how much it changes.

    The steepest parts of the way are cut finer and finer: what is left at 1e-9 is a jump.
    """
    worst, whole = 0.0, 0.0
    edges = np.linspace(0.0, 1.0, 257)[:, None]
    for _ in range(9):
        # Each column is a stretch that is cut: neighbours share an edge, which is looked at once.
        change = np.linalg.norm(
            np.diff(_gradients_at(loss, labels, start, end, edges), axis=0), axis=2
        )
        whole = max(whole, float(change.sum()))
        worst = float(change.max())
        cut, column = np.unravel_index(np.argsort(change, axis=None)[-4:], change.shape)
        edges = np.linspace(edges[cut, column], edges[cut + 1, column], 9)
    return worst / whole if whole > 0 else 0.0


def _gradients_at(loss: Loss, labels: Labels, start: Vector, end: Vector, places: Vector) -> Vector:
    """Gradients (…, m) at the places (…) between two score vectors, of which 0 is the start."""
    points = start + places[..., None] * (end - start)
    return evaluate(loss, labels, points.reshape(-1, len(start)))[1].reshape(points.shape)


def hessian(loss: Loss, labels: Labels, point: Vector) -> Vector:
    """∂gradient_i / ∂s_j by central differences, (m, m): minus Burges's Jacobian of the λ."""
    step = 1e-5 * np.eye(len(point))
    above = evaluate(loss, labels, point + step)[1]
    below = evaluate(loss, labels, point - step)[1]
    matrix: Vector = ((above - below) / 2e-5).T
    return matrix
