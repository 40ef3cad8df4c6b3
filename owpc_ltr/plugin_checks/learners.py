"""The contracts of an optimizer and of a reranker, with a loss that suits them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import bind, linear_risk, losses_of_scores
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks.promises import Require, sample_dataset, slope_errors
from owpc_ltr.protocols import (
    DescendingReranker,
    ExplainingReordering,
    Fit,
    Loss,
    Optimizer,
    Reordering,
    Reranker,
    RerankObjective,
    Run,
)

_SCALES = np.array([2.0, 0.5, 1.0, 4.0])
"""Of the features: a model must be for features as they are."""


def check_optimizer(optimizer: Optimizer, loss: Loss, seed: int = 0) -> None:
    """Check what an optimizer promises of its fits of one loss, on small datasets.

    A finite model of the data's features; a history; the same fit for the same seed, bit for
    bit, whatever the number of threads; a model no worse than the one that scores everything 0
    (of a conservative loss); risk and objective ½‖w‖² + C risk equal to those recomputed from
    the model (where there is a setting C); a gap that is not negative and holds the optimum
    that a general solver finds (of a convex loss). Raises AssertionError, and ValueError where
    the optimizer needs a convex loss and this one is not.
    """
    if optimizer.needs_convex and not loss.convex:
        raise ValueError(f"optimizer '{optimizer.name}' needs a convex loss, not '{loss.name}'")
    require = Require("optimizer", optimizer, f"with loss '{loss.name}'")
    for grades, how, threads in ((1, "the same seed", 1), (2, "2 threads", 2)):
        data = replace(sample_dataset(grades, seed), feature_scales=_SCALES)
        run = Run(seed=seed, validation=sample_dataset(grades, seed + 1))
        arrays = (data.features.copy(), data.labels.copy())
        fit = optimizer.minimise(loss, data, run)
        require(isinstance(fit, Fit), f"returned a {type(fit).__name__}: return a Fit")
        same = all(map(np.array_equal, (data.features, data.labels), arrays))
        require(same, "changed the data that it was given: copy what is changed")
        names, scores = fit.model.feature_names, fit.model.score(data.features)
        require(names == data.feature_names, f"has the features {names}, not {data.feature_names}")
        require.equal(np.shape(scores), (data.n_documents,), "gives scores of another shape")
        require.finite(scores, "scores")
        require(fit.history, "gave an empty history: add one row a pass")
        require(fit.certificate.stop_reason, "does not say why it stopped")
        again = optimizer.minimise(loss, data, replace(run, threads=threads))
        same = json.dumps(again.model.as_dict()) == json.dumps(fit.model.as_dict())
        require(same, f"is not repeatable: {how} gave another model")
        if optimizer.uses_loss:
            _check_certificate(require, loss, data, fit, getattr(optimizer, "C", None))


def _check_certificate(
    require: Require, loss: Loss, data: RankingDataset, fit: Fit, C: float | None
) -> None:
    """What was reached is what is reported, and is no worse than scoring everything 0."""
    certificate, bound = fit.certificate, bind(loss)

    def risk_of(scores: Vector) -> float:
        return float(losses_of_scores(data, bound, scores)[0] @ data.query_importance)

    zero, risk = risk_of(np.zeros(data.n_documents)), risk_of(fit.model.score(data.features))
    for name, reported, measured in (
        ("risk", certificate.risk, risk),
        ("risk at zero", certificate.risk_at_zero, zero),
    ):
        if not np.isnan(reported):
            require.equal(reported, measured, f"reports the {name}", rtol=1e-4, atol=1e-6)
    require(
        not loss.conservative or risk <= zero * (1 + 1e-6) + 1e-9,
        f"ends at the risk {risk}, worse than {zero} of scoring everything 0",
    )
    no_cost = not loss.conservative and np.isnan(certificate.objective)
    if C is None or no_cost or not isinstance(fit.model, LinearModel):
        return
    w = fit.model.weights / _SCALES
    objective = 0.5 * float(w @ w) + C * risk
    require.equal(certificate.objective, objective, "reports the objective", rtol=1e-4, atol=1e-4)
    if loss.convex and not np.isnan(certificate.gap):
        require(certificate.gap >= 0, f"reports the negative gap {certificate.gap}")
        _, least = least_objective(loss, data, C, w)
        claimed = certificate.objective - certificate.gap
        require(
            least >= claimed - 1e-6 * (1 + abs(objective)),
            f"claims that no model has an objective below {claimed}, but one has {least}",
        )


def least_objective(
    loss: Loss, data: RankingDataset, C: float, start: Vector
) -> tuple[float, float]:
    """Bounds on min ½‖w‖² + C risk(w) of a convex loss, from below and from above.

    Cutting planes (Kelley 1960): the risk lies above all its tangents, so the least objective
    over the tangents alone (SLSQP's) is a lower bound.
    """
    from scipy.optimize import minimize

    bound = bind(loss)
    offsets, slopes = np.empty(0), np.empty((0, data.n_features))
    w, lower, upper = start, -np.inf, np.inf
    for _ in range(200):
        risk, slope = linear_risk(data, bound, w)
        upper = min(upper, 0.5 * float(w @ w) + C * risk)
        if upper - lower <= 1e-6 * (1 + abs(upper)):
            break
        offsets = np.append(offsets, risk - slope @ w)
        slopes = np.vstack((slopes, slope))
        rows = np.hstack((-slopes, np.ones((len(offsets), 1))))
        solution = minimize(
            lambda x: 0.5 * x[:-1] @ x[:-1] + C * x[-1],
            np.append(w, (offsets + slopes @ w).max()),
            jac=lambda x: np.append(x[:-1], C),
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda x, o=offsets, r=rows: r @ x - o,
                "jac": lambda _x, r=rows: r,
            },
            options={"maxiter": 100, "ftol": 1e-12},
        )
        w = solution.x[:-1]
        lower = max(lower, 0.5 * float(w @ w) + C * float((offsets + slopes @ w).max()))
    return min(lower, upper), upper


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
    for how, same in (
        ("loaded from its own JSON", reranker.load(content)),
        ("fitted again with the same seed", fit(base)),
        ("fitted with 2 threads", fit(base, replace(run, threads=2))),
    ):
        again = same.rerank(data.features, base, data.offsets)
        require.equal(again, scores, f"{how}, gives other scores", rtol=0, atol=0)
    if not declared:
        return (
            f"reranker '{reranker.name}' declares that it has no objective: its gradient and its "
            "weights of zero are not checked",
        )
    objective = cast("DescendingReranker", reranker).objective(loss, data, base.copy(), run)
    _check_descent(require, objective, data, base, rng)
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

    def rerank(features: Matrix, base_scores: Vector) -> Vector:
        arguments = {"features": features, "base scores": base_scores}
        scores: Vector = require.answer(reordering.rerank, arguments, base_scores.shape)
        require.finite(scores, "scores")
        return scores

    together = reordering.rerank(data.features, base, data.offsets)
    for index, (start, end) in enumerate(pairwise(data.offsets)):
        features, base_scores = data.features[start:end], base[start:end]
        scores, order = rerank(features, base_scores), rng.permutation(len(base_scores))
        what = f"scores query {index} otherwise alone than among others"
        require.equal(scores, together[start:end], what)
        what = f"is not exchangeable: its scores of query {index} depend on the documents' order"
        moved = rerank(features[order], base_scores[order])
        require.equal(moved, scores[order], what, rtol=0, atol=0)
        if isinstance(reordering, ExplainingReordering):
            _check_terms(require, reordering, features, base_scores, scores - base_scores)
    rerank(data.features[:1], base[:1])
    return together


def _check_terms(
    require: Require,
    reordering: ExplainingReordering,
    features: Matrix,
    base: Vector,
    moved: Vector,
) -> None:
    terms = reordering.explain(features, base)
    sums = []
    for term in terms:
        shape = np.shape(term.amounts)
        require(shape == base.shape, f"explains {len(base)} documents by amounts of shape {shape}")
        if term.by_document is not None:
            what = f"says by its term '{term.name}' what each document added, which does not add up"
            sums.append((np.sum(term.by_document, axis=1), term.amounts, what))
    total = np.sum([term.amounts for term in terms], axis=0)
    sums.append((total, moved, "explains a query by terms that do not add up to what it did"))
    for actual, expected, what in sums:
        most = np.abs(expected).max(initial=1e-9)
        require.equal(actual, expected, what, rtol=0, atol=1e-6 * most)


def _check_descent(
    require: Require,
    objective: RerankObjective,
    data: RankingDataset,
    base: Vector,
    rng: np.random.Generator,
) -> None:
    """Weights of zero change nothing; the gradient is that of the price, weight by weight."""
    require(objective.size >= 1, f"has an objective of {objective.size} weights")

    def price_at(w: Vector) -> tuple[float, Vector]:
        answer: tuple[float, Vector] = require.answer(
            objective.value_and_gradient, {"weights": w}, (), w.shape, twice=True
        )
        return answer

    zero = np.zeros(objective.size)
    value, gradient = price_at(zero)
    require.finite([value, *gradient], "a value and a gradient at weights of zero")
    scores = objective.reordering(zero).rerank(data.features, base.copy(), data.offsets)
    require.equal(scores, base, "changes the base scores by weights of zero", rtol=0, atol=0)

    def price(points: Vector) -> tuple[Vector, Vector]:
        pairs = [objective.value_and_gradient(w) for w in points.reshape(-1, objective.size)]
        values, gradients = (np.array(column) for column in zip(*pairs, strict=True))
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
