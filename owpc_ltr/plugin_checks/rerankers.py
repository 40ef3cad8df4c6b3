"""The contract of a reranker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.plugin_checks.samples import Require, answer, requires, sample_dataset
from owpc_ltr.protocols import (
    DescendingReranker,
    ExplainingReordering,
    Loss,
    Reordering,
    Reranker,
    RerankObjective,
    Run,
)

_RADII = (0.03, 0.1, 0.3, 0.3, 1.0, 1.0)  # of the weights at which slopes are measured
_AXES = 24  # at most, of each of them
_ALIKE = 1e-3  # of a slope: slopes forward and backward that differ by more have a kink between


def check_reranker(reranker: Reranker, loss: Loss, seed: int = 0) -> tuple[str, ...]:
    """Check that a reranker learns an exchangeable function, and the same one every time.

    One finite score a document; permuting the documents of a query permutes their scores, to the
    last bit; all queries at once score as one by one; a query of one document works; no argument
    is changed; the same seed gives the same function whatever the number of threads; `as_dict`
    and `load` give back the same scores. Where its reordering explains lists, the terms add up to
    what it did to the scores. Where it has an objective: weights of zero give the
    base scores, the gradient is that of finite differences, and any weights are exchangeable.

    Raises AssertionError. Returns a sentence for each promise that the reranker declares not to
    make, and that was skipped: none where it has an objective.
    """
    require = requires(f"reranker '{reranker.name}'")
    declared = getattr(reranker, "has_objective", None)
    require(
        isinstance(declared, bool),
        "does not say whether it has an objective: declare has_objective: ClassVar[bool]",
    )
    has = "no method objective" if declared else "a method objective, which goes unchecked"
    require(
        declared == hasattr(reranker, "objective"),
        f"declares has_objective = {declared}, and has {has}",
    )
    data = sample_dataset(grades=2, seed=seed)
    rng = np.random.default_rng(seed)
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3]) + 0.1 * rng.normal(size=data.n_documents)
    run = Run(seed=seed, validation=sample_dataset(grades=2, seed=seed + 1))

    def fit(base: Vector, run: Run = run) -> Reordering:
        return reranker.fit(loss, data, base, run)

    reordering: Reordering = answer(require, fit, **{"base scores": base})
    require(
        reordering.feature_names == data.feature_names,
        f"learned from {data.feature_names} and expects {reordering.feature_names}",
    )
    _check_lists(require, reordering, data, base, rng)
    content = json.loads(json.dumps(reordering.as_dict(), allow_nan=False))
    one = reordering.rerank(data.features, base, data.offsets)
    for how, other in (
        ("loaded from its own JSON", reranker.load(content)),
        ("fitted again with the same seed", fit(base)),
        ("fitted with 2 threads", fit(base, replace(run, threads=2))),
    ):
        two = other.rerank(data.features, base, data.offsets)
        require(
            np.array_equal(one, two),
            f"{how}, scores {two[:5]} … where it scored {one[:5]} …",
        )
    if not declared:
        return (
            f"reranker '{reranker.name}' declares that it has no objective: its gradient and its "
            "weights of zero are not checked",
        )
    objective = cast("DescendingReranker", reranker).objective(loss, data, base.copy(), run)
    _check_zero(require, objective, data, base)
    _check_slopes(require, objective, rng)
    # As far from zero as a fit may end.
    moved = objective.reordering(rng.normal(size=objective.size))
    _check_lists(require, moved, data, base, rng)
    return ()


def _check_lists(
    require: Require,
    reordering: Reordering,
    data: RankingDataset,
    base: Vector,
    rng: np.random.Generator,
) -> None:
    """Each query alone: as among others, in any order, and explained by terms that add up."""

    def rerank(features: Matrix, own: Vector) -> Vector:
        scores: Vector = answer(
            require, reordering.rerank, **{"features": features, "base scores": own}
        )
        require(
            np.shape(scores) == own.shape,
            f"gave scores of shape {np.shape(scores)} for {len(own)} documents",
        )
        require(np.isfinite(scores).all(), f"gave the scores {scores}")
        return scores

    together = reordering.rerank(data.features, base, data.offsets)
    for index, (start, end) in enumerate(zip(data.offsets, data.offsets[1:], strict=False)):
        features, own = data.features[start:end], base[start:end]
        scores, among = rerank(features, own), together[start:end]
        require(
            np.allclose(scores, among, rtol=1e-9, atol=1e-12),
            f"scores query {index} as {scores} alone and as {among} among others",
        )
        order = rng.permutation(len(own))
        moved = rerank(features[order], own[order])
        require(
            np.array_equal(scores[order], moved),
            f"is not exchangeable: permuting the documents of query {index} changed their scores "
            f"from {scores[order]} to {moved}",
        )
        if isinstance(reordering, ExplainingReordering):
            _check_terms(require, reordering, features, own, scores - own)
    rerank(data.features[:1], base[:1])


def _check_terms(
    require: Require, reordering: ExplainingReordering, features: Matrix, own: Vector, moved: Vector
) -> None:
    total = np.zeros(len(own))
    for term in reordering.explain(features, own):
        require(
            np.shape(term.amounts) == own.shape,
            f"explains {len(own)} documents by amounts of shape {np.shape(term.amounts)}",
        )
        total += term.amounts
        require(
            term.by_document is None
            or (
                np.shape(term.by_document) == (len(own), len(own))
                and _close(np.sum(term.by_document, axis=1), term.amounts)
            ),
            f"says by its term '{term.name}' what each document added, and that does not add up "
            "to its amounts",
        )
    require(
        _close(total, moved),
        f"explains a query by terms that add up to {total}, and moved its scores by {moved}",
    )


def _close(found: Vector, expected: Vector) -> bool:
    allowed = 1e-6 * np.abs(expected).max(initial=1e-9)
    return bool((np.abs(found - expected) <= allowed).all())


def _price(require: Require, objective: RerankObjective, weights: Vector) -> tuple[float, Vector]:
    (value, gradient), (again, _) = (
        answer(require, objective.value_and_gradient, weights=weights) for _ in range(2)
    )
    require(
        np.shape(value) == () and np.shape(gradient) == weights.shape,
        f"gave a price of shape {np.shape(value)} with a gradient of shape {np.shape(gradient)} "
        f"for {len(weights)} weights",
    )
    require(
        np.array_equal(value, again, equal_nan=True),
        f"priced the same weights at {value}, then at {again}",
    )
    return float(value), np.asarray(gradient, dtype=np.float64)


def _check_zero(
    require: Require, objective: RerankObjective, data: RankingDataset, base: Vector
) -> None:
    require(objective.size >= 1, f"has an objective of {objective.size} weights")
    zero = np.zeros(objective.size)
    value, gradient = _price(require, objective, zero)
    require(
        np.isfinite(value) and np.isfinite(gradient).all(),
        f"prices weights of zero at {value}, with the gradient {{}}",
        gradient,
    )
    scores = objective.reordering(zero).rerank(data.features, base.copy(), data.offsets)
    require(
        np.array_equal(scores, base),
        "must leave the base scores as they are where its weights are zero: it made {} … of {} …",
        scores[:5],
        base[:5],
    )


def _check_slopes(
    require: Require, objective: RerankObjective, rng: np.random.Generator, step: float = 1e-6
) -> None:
    """The gradient is that of the price, weight by weight, at weights of several sizes."""
    probes = measured = 0
    for radius in _RADII:
        at = radius * rng.normal(size=objective.size)
        value, gradient = _price(require, objective, at)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            continue
        # Of a sum of prices some ten digits are exact: a step of 1e-6 leaves a few.
        noise = 1e-8 * (1.0 + abs(value))
        for axis in rng.permutation(objective.size)[:_AXES]:
            move = step * (np.arange(objective.size) == axis)
            above, below = (_price(require, objective, at + way * move)[0] for way in (1, -1))
            slope = (above - below) / (2 * step)
            kink = abs(above - 2 * value + below) / step > _ALIKE * abs(slope) + noise
            probes, measured = probes + 1, measured + (not kink)
            require(
                kink or abs(gradient[axis] - slope) <= _ALIKE * abs(slope) + noise,
                f"has a wrong gradient: {gradient[axis]:.6g} along weight {axis}, where its price "
                f"rises by {slope:.6g}, at the weights {{}}",
                at,
            )
    require(
        2 * measured >= probes > 0,
        f"has a gradient that cannot be checked: {probes - measured} of {probes} slopes are at a "
        "kink or not finite",
    )
