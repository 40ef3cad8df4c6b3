"""The contract of a reranker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.plugin_checks.samples import require, sample_dataset
from owpc_ltr.protocols import (
    DescendingReranker,
    ExplainingReordering,
    Loss,
    Reordering,
    Reranker,
    RerankObjective,
    Run,
)


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
    skipped = _declared(reranker)
    data = sample_dataset(grades=2, seed=seed)
    rng = np.random.default_rng(seed)
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3]) + 0.1 * rng.normal(size=data.n_documents)
    run = Run(seed=seed, validation=sample_dataset(grades=2, seed=seed + 1))
    given = base.copy()
    reordering = reranker.fit(loss, data, given, run)
    require(np.array_equal(base, given), f"reranker '{reranker.name}' changed the base scores")
    require(
        reordering.feature_names == data.feature_names,
        f"reranker '{reranker.name}' learned from {data.feature_names} and expects "
        f"{reordering.feature_names}",
    )
    _check_exchangeable(reranker.name, reordering, data, base, rng)
    check_terms(reranker.name, reordering, data, base)
    content = json.dumps(reordering.as_dict(), allow_nan=False)
    for how, other in (
        ("loaded from its own JSON", reranker.load(json.loads(content))),
        ("fitted again with the same seed", reranker.fit(loss, data, base, run)),
        ("fitted with 2 threads", reranker.fit(loss, data, base, replace(run, threads=2))),
    ):
        one = reordering.rerank(data.features, base, data.offsets)
        two = other.rerank(data.features, base, data.offsets)
        require(
            np.array_equal(one, two),
            f"reranker '{reranker.name}', {how}, scores {two[:5]} … where it scored {one[:5]} …",
        )
    if not skipped:
        descending = cast("DescendingReranker", reranker)
        objective = descending.objective(loss, data, base.copy(), run)
        check_zero(reranker.name, objective, data, base)
        check_slopes(reranker.name, objective, seed)
        moved = objective.reordering(random_weights(objective, rng))
        _check_exchangeable(reranker.name, moved, data, base, rng)
        check_terms(reranker.name, moved, data, base)
    return skipped


def _declared(reranker: Reranker) -> tuple[str, ...]:
    """What is skipped because the reranker says that it has no objective."""
    declared = getattr(reranker, "has_objective", None)
    require(
        isinstance(declared, bool),
        f"reranker '{reranker.name}' does not say whether it has an objective: declare "
        "has_objective: ClassVar[bool]",
    )
    require(
        declared == hasattr(reranker, "objective"),
        f"reranker '{reranker.name}' declares has_objective = {declared}, and "
        + (
            "has no method objective"
            if declared
            else "has a method objective, which goes unchecked"
        ),
    )
    if declared:
        return ()
    return (
        f"reranker '{reranker.name}' declares that it has no objective: its gradient and its "
        "weights of zero are not checked",
    )


def _rerank(name: str, reordering: Reordering, features: Matrix, base: Vector) -> Vector:
    given = features.copy(), base.copy()
    scores = reordering.rerank(*given)
    require(
        np.shape(scores) == base.shape,
        f"reranker '{name}' gave scores of shape {np.shape(scores)} for {len(base)} documents",
    )
    require(np.isfinite(scores).all(), f"reranker '{name}' gave the scores {scores}")
    require(
        np.array_equal(features, given[0], equal_nan=True),
        f"reranker '{name}' changed the features it read",
    )
    require(np.array_equal(base, given[1]), f"reranker '{name}' changed the base scores it read")
    return scores


def _check_exchangeable(
    name: str,
    reordering: Reordering,
    data: RankingDataset,
    base: Vector,
    rng: np.random.Generator,
) -> None:
    together = reordering.rerank(data.features, base, data.offsets)
    for index in range(data.n_queries):
        rows = slice(int(data.offsets[index]), int(data.offsets[index + 1]))
        features, own = data.features[rows], base[rows]
        scores = _rerank(name, reordering, features, own)
        require(
            np.allclose(scores, together[rows], rtol=1e-9, atol=1e-12),
            f"reranker '{name}' scores query {index} as {scores} alone and as {together[rows]} "
            "among others",
        )
        order = rng.permutation(len(own))
        moved = _rerank(name, reordering, features[order], own[order])
        require(
            np.array_equal(scores[order], moved),
            f"reranker '{name}' is not exchangeable: permuting the documents of query {index} "
            f"changed their scores from {scores[order]} to {moved}",
        )
    _rerank(name, reordering, data.features[:1], base[:1])


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


_TOLERANCE = 1e-6


def check_terms(name: str, reordering: Reordering, data: RankingDataset, base: Vector) -> None:
    """Check query by query that the terms' amounts add up, and what documents add to each.

    Nothing is checked of a reordering without `explain`. Raises AssertionError.
    """
    if not isinstance(reordering, ExplainingReordering):
        return
    for index in range(data.n_queries):
        rows = slice(int(data.offsets[index]), int(data.offsets[index + 1]))
        features, own = data.features[rows], base[rows]
        moved = reordering.rerank(features, own) - own
        terms = reordering.explain(features, own)
        total = np.zeros(len(own))
        for term in terms:
            require(
                np.shape(term.amounts) == own.shape,
                f"reranker '{name}' explains {len(own)} documents by amounts of shape "
                f"{np.shape(term.amounts)}",
            )
            total += term.amounts
            if term.by_document is not None:
                require(
                    np.shape(term.by_document) == (len(own), len(own))
                    and _close(np.sum(term.by_document, axis=1), term.amounts),
                    f"reranker '{name}' says by its term '{term.name}' what each document added, "
                    "and that does not add up to its amounts",
                )
        require(
            _close(total, moved),
            f"reranker '{name}' explains query {index} by terms that add up to {total}, and moved "
            f"its scores by {moved}",
        )


def _close(found: Vector, expected: Vector) -> bool:
    allowed = _TOLERANCE * max(float(np.abs(expected).max(initial=0.0)), 1e-9)
    return bool((np.abs(found - expected) <= allowed).all())
