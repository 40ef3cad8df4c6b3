"""The contract of a reranker."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.plugin_checks.samples import sample_dataset, slope_errors
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
    require = Require("reranker", reranker)
    declared = reranker.has_objective
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

    reordering: Reordering = require.answer(fit, {"base scores": base})
    for member in ("kind", "feature_names", "field_names"):
        require(hasattr(reordering, member), f"gave a reordering that has no {member}")
    names = reordering.feature_names
    require(names == data.feature_names, f"has the features {names}, not {data.feature_names}")
    scores = _check_lists(require, reordering, data, base, rng)
    content = json.loads(json.dumps(reordering.as_dict(), allow_nan=False))
    for how, other in (
        ("loaded from its own JSON", reranker.load(content)),
        ("fitted again with the same seed", fit(base)),
        ("fitted with 2 threads", fit(base, replace(run, threads=2))),
    ):
        again = other.rerank(data.features, base, data.offsets)
        require.equal(again, scores, f"{how}, gives other scores", rtol=0, atol=0)
    if not declared:
        return (
            f"reranker '{reranker.name}' declares that it has no objective: its gradient and its "
            "weights of zero are not checked",
        )
    objective = cast("DescendingReranker", reranker).objective(loss, data, base.copy(), run)
    _check_objective(require, objective, data, base, rng)
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
) -> Vector:
    """Each query alone: as among others, in any order, and explained by terms that add up."""

    def rerank(features: Matrix, own: Vector) -> Vector:
        given = {"features": features, "base scores": own}
        scores: Vector = require.answer(reordering.rerank, given, own.shape)
        require.finite(scores, "scores")
        return scores

    together = reordering.rerank(data.features, base, data.offsets)
    for index, (start, end) in enumerate(pairwise(data.offsets)):
        features, own = data.features[start:end], base[start:end]
        scores, order = rerank(features, own), rng.permutation(len(own))
        what = f"scores query {index} otherwise alone than among others"
        require.equal(scores, together[start:end], what)
        what = f"is not exchangeable: its scores of query {index} depend on the documents' order"
        moved = rerank(features[order], own[order])
        require.equal(moved, scores[order], what, rtol=0, atol=0)
        if isinstance(reordering, ExplainingReordering):
            _check_terms(require, reordering, features, own, scores - own)
    rerank(data.features[:1], base[:1])
    return together


def _check_terms(
    require: Require, reordering: ExplainingReordering, features: Matrix, own: Vector, moved: Vector
) -> None:
    terms = reordering.explain(features, own)
    for term in terms:
        shape = np.shape(term.amounts)
        require(shape == own.shape, f"explains {len(own)} documents by amounts of shape {shape}")
        if term.by_document is not None:
            what = f"says by its term '{term.name}' what each document added, which does not add up"
            _check_sum(require, np.sum(term.by_document, axis=1), term.amounts, what)
    total = np.sum([term.amounts for term in terms], axis=0)
    _check_sum(require, total, moved, "explains a query by terms that do not add up to what it did")


def _check_sum(require: Require, found: Vector, wanted: Vector, what: str) -> None:
    require.equal(found, wanted, what, rtol=0, atol=1e-6 * np.abs(wanted).max(initial=1e-9))


def _check_objective(
    require: Require,
    objective: RerankObjective,
    data: RankingDataset,
    base: Vector,
    rng: np.random.Generator,
) -> None:
    """Weights of zero change nothing; the gradient is that of the price, weight by weight."""
    require(objective.size >= 1, f"has an objective of {objective.size} weights")

    def price_at(w: Vector) -> tuple[float, Vector]:
        found: tuple[float, Vector] = require.answer(
            objective.value_and_gradient, {"weights": w}, (), w.shape, twice=True
        )
        return found

    zero = np.zeros(objective.size)
    value, gradient = price_at(zero)
    require.finite([value, *gradient], "a value and a gradient at weights of zero")
    scores = objective.reordering(zero).rerank(data.features, base.copy(), data.offsets)
    require.equal(scores, base, "changes the base scores by weights of zero", rtol=0, atol=0)

    def price(points: Vector) -> tuple[Vector, Vector]:
        pairs = [objective.value_and_gradient(w) for w in points.reshape(-1, objective.size)]
        values, gradients = (np.array(found) for found in zip(*pairs, strict=True))
        return values.reshape(points.shape[:-1]), gradients.reshape(points.shape)

    probes = unseen = 0
    for radius in _RADII:
        at = radius * rng.normal(size=objective.size)
        price_at(at)
        axes = np.eye(objective.size)[rng.permutation(objective.size)[:_AXES]]
        errors, kinks = slope_errors(price, np.tile(at, (len(axes), 1)), axes)
        wrong = ~kinks & (errors > 1e-3)
        axis = axes[wrong.argmax()].argmax()
        require(
            not wrong.any(), f"has a wrong gradient along weight {axis}, at the weights {{}}", at
        )
        probes, unseen = probes + len(kinks), unseen + kinks.sum()
    require(
        2 * unseen <= probes,
        f"has a gradient that cannot be checked: {unseen} of {probes} slopes are at a kink or not "
        "finite",
    )
