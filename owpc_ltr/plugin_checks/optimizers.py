"""The contract of an optimizer, with a loss that suits it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import linear_risk, losses_of_scores
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.plugin_checks.samples import sample_dataset
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run

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
        given = (data.features.copy(), data.labels.copy())
        fit = optimizer.minimise(loss, data, run)
        require(isinstance(fit, Fit), f"returned a {type(fit).__name__}: return a Fit")
        same = all(map(np.array_equal, (data.features, data.labels), given))
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
            risk = _check_risk(require, loss, data, fit)
            C = getattr(optimizer, "C", None)
            no_cost = not loss.conservative and np.isnan(fit.certificate.objective)
            if C is not None and not no_cost and isinstance(fit.model, LinearModel):
                w = fit.model.weights / _SCALES
                _check_objective(require, loss, data, fit, C=C, w=w, risk=risk)


def _check_risk(require: Require, loss: Loss, data: RankingDataset, fit: Fit) -> float:
    zero, reached = (
        float(losses_of_scores(data, bind(loss), scores)[0] @ data.query_importance)
        for scores in (np.zeros(data.n_documents), fit.model.score(data.features))
    )
    for name, reported, measured in (
        ("risk", fit.certificate.risk, reached),
        ("risk at zero", fit.certificate.risk_at_zero, zero),
    ):
        if not np.isnan(reported):
            require.equal(reported, measured, f"reports the {name}", rtol=1e-4, atol=1e-6)
    require(
        not loss.conservative or reached <= zero * (1 + 1e-6) + 1e-9,
        f"ends at the risk {reached}, worse than {zero} of scoring everything 0",
    )
    return reached


def _check_objective(
    require: Require, loss: Loss, data: RankingDataset, fit: Fit, C: float, w: Vector, risk: float
) -> None:
    claimed, gap = fit.certificate.objective, fit.certificate.gap
    objective = 0.5 * float(w @ w) + C * risk
    require.equal(claimed, objective, "reports the objective", rtol=1e-4, atol=1e-4)
    if loss.convex and not np.isnan(gap):
        require(gap >= 0, f"reports the negative gap {gap}")
        _, least = least_objective(loss, data, C, w)
        require(
            least >= claimed - gap - 1e-6 * (1 + abs(objective)),
            f"claims that no model has an objective below {claimed - gap}, but one has {least}",
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
        found = minimize(
            lambda x: 0.5 * x[:-1] @ x[:-1] + C * x[-1],
            np.append(w, (offsets + slopes @ w).max()),
            jac=lambda x: np.append(x[:-1], C),
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda x, o=offsets, r=rows: r @ x - o,
                         "jac": lambda _x, r=rows: r},
            options={"maxiter": 100, "ftol": 1e-12},
        )  # fmt: skip
        w = found.x[:-1]
        lower = max(lower, 0.5 * float(w @ w) + C * float((offsets + slopes @ w).max()))
    return min(lower, upper), upper
