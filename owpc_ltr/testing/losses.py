"""The contract of a loss."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.kernels.kernel import bind, evaluate_query
from owpc_ltr.protocols import Loss
from owpc_ltr.testing import calculus
from owpc_ltr.testing.promises import require
from owpc_ltr.testing.samples import Sample, sample_queries

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
        errors = calculus.slope_errors(loss, sample.labels, sample.points[:6], seed)
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
            loop, side = calculus.walk(loss, sample.labels, corners)
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
        above = calculus.tangent_violations(loss, sample.labels, sample.points)
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
            jump = calculus.largest_jump(
                loss, sample.labels, sample.points[start], sample.points[end]
            )
            require(
                jump < _JUMP,
                f"loss '{loss.name}' claims to be smooth, but its gradient jumps by {jump:.3g} of "
                "its whole change between {} and {}",
                sample.points[start],
                sample.points[end],
            )
