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
from owpc_ltr.plugin_checks.samples import require, sample_dataset
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run


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
    for grades in (1, 2):
        data = sample_dataset(grades, seed)
        run = Run(seed=seed, validation=sample_dataset(grades, seed + 1))
        fit = optimizer.minimise(loss, data, run)
        _check_model(optimizer, loss, data, fit)
        _check_repeatable(optimizer, loss, data, run, fit)
        if optimizer.uses_loss:
            _check_risk(optimizer, loss, data, fit)
            _check_certificate(optimizer, loss, data, fit)


def _pair(optimizer: Optimizer, loss: Loss) -> str:
    return f"optimizer '{optimizer.name}' with loss '{loss.name}'"


def _check_model(optimizer: Optimizer, loss: Loss, data: RankingDataset, fit: Fit) -> None:
    pair = _pair(optimizer, loss)
    require(
        fit.model.feature_names == data.feature_names,
        f"{pair} learned from the features {data.feature_names} and expects "
        f"{fit.model.feature_names}",
    )
    scores = fit.model.score(data.features)
    require(
        np.shape(scores) == (data.n_documents,),
        f"{pair}: the model gives scores of shape {np.shape(scores)} for {data.n_documents} "
        "documents",
    )
    require(np.isfinite(scores).all(), f"{pair}: the model gives scores that are not finite")
    require(fit.history, f"{pair} gave an empty history: add one row a pass")
    require(fit.certificate.stop_reason, f"{pair} does not say why it stopped")


def _check_repeatable(
    optimizer: Optimizer, loss: Loss, data: RankingDataset, run: Run, fit: Fit
) -> None:
    first = json.dumps(fit.model.as_dict())
    for how, other in (
        ("the same seed", run),
        ("2 threads instead of 1", replace(run, threads=2)),
    ):
        again = optimizer.minimise(loss, data, other)
        require(
            json.dumps(again.model.as_dict()) == first,
            f"{_pair(optimizer, loss)} is not repeatable: {how} gave another model",
        )


def _risk(loss: Loss, data: RankingDataset, fit: Fit | None) -> float:
    scores = np.zeros(data.n_documents) if fit is None else fit.model.score(data.features)
    values, _, _ = losses_of_scores(data, bind(loss), scores)
    return float(values @ data.query_importance)


def _check_risk(optimizer: Optimizer, loss: Loss, data: RankingDataset, fit: Fit) -> None:
    pair, certificate = _pair(optimizer, loss), fit.certificate
    for name, reported, measured in (
        ("risk", certificate.risk, _risk(loss, data, fit)),
        ("risk at zero", certificate.risk_at_zero, _risk(loss, data, None)),
    ):
        require(
            np.isnan(reported) or np.isclose(reported, measured, rtol=1e-4, atol=1e-6),
            f"{pair} reports the {name} {reported}, which is {measured}",
        )
    if loss.conservative:
        zero, reached = _risk(loss, data, None), _risk(loss, data, fit)
        require(
            reached <= zero * (1 + 1e-6) + 1e-9,
            f"{pair} ends at the risk {reached}, worse than {zero} of scoring everything 0",
        )


def _check_certificate(optimizer: Optimizer, loss: Loss, data: RankingDataset, fit: Fit) -> None:
    pair, certificate = _pair(optimizer, loss), fit.certificate
    C = getattr(optimizer, "C", None)
    no_cost = not loss.conservative and np.isnan(certificate.objective)
    if C is None or no_cost or not isinstance(fit.model, LinearModel):
        return
    w = fit.model.weights
    objective = 0.5 * float(w @ w) + C * _risk(loss, data, fit)
    slack = 1e-4 * (1 + abs(objective))
    require(
        abs(objective - certificate.objective) <= slack,
        f"{pair} reports the objective {certificate.objective}, which is {objective}",
    )
    if not loss.convex:
        return
    lower, upper = least_objective(loss, data, C, w)
    require(
        certificate.objective >= lower - slack,
        f"{pair} reports the objective {certificate.objective}, below the optimum {lower}",
    )
    if np.isnan(certificate.gap):
        return
    require(certificate.gap >= 0, f"{pair} reports the negative gap {certificate.gap}")
    bound = certificate.objective - certificate.gap
    require(
        upper >= bound - 1e-6 * (1 + abs(objective)),
        f"{pair} claims that no model has an objective below {bound}, but one has {upper}",
    )


def least_objective(
    loss: Loss, data: RankingDataset, C: float, start: Vector, rounds: int = 200
) -> tuple[float, float]:
    """Bounds on min ½‖w‖² + C risk(w) of a convex loss, from below and from above.

    Cutting planes (Kelley 1960): the risk lies above all its tangents, so the least objective
    over the tangents alone is a lower bound.
    """
    bound = bind(loss)
    offsets, slopes = np.empty(0), np.empty((0, data.n_features))
    w, lower, upper = start, -np.inf, np.inf
    for _ in range(rounds):
        risk, slope = linear_risk(data, bound, w)
        upper = min(upper, 0.5 * float(w @ w) + C * risk)
        if upper - lower <= 1e-6 * (1 + abs(upper)):
            break
        offsets = np.append(offsets, risk - slope @ w)
        slopes = np.vstack((slopes, slope))
        w, value = _over_tangents(offsets, slopes, C)
        lower = max(lower, value)
    return min(lower, upper), upper


def _over_tangents(offsets: Vector, slopes: Vector, C: float) -> tuple[Vector, float]:
    """Minimise ½‖w‖² + C t with t ≥ offset + slope · w for each tangent; a lower bound of it.

    A barrier −μ Σ log(slack), by Newton steps, with μ falling (Boyd & Vandenberghe 2004, ch. 11).
    The multipliers μ / slack, scaled to sum to C, are feasible for the dual.
    """
    w, lower, mu = np.zeros(slopes.shape[1]), -np.inf, C
    x = np.append(w, offsets.max() + 1.0)
    for _ in range(60):
        x = _centre(x, offsets, slopes, C, mu)
        w = x[:-1]
        multipliers = 1.0 / (x[-1] - slopes @ w - offsets)
        multipliers *= C / multipliers.sum()
        pull = slopes.T @ multipliers
        lower = max(lower, float(multipliers @ offsets - 0.5 * pull @ pull))
        value = 0.5 * float(w @ w) + C * float((offsets + slopes @ w).max())
        if value - lower <= 1e-9 * (1 + abs(value)):
            break
        mu *= 0.2
    return w, lower


def _centre(x: Vector, offsets: Vector, slopes: Vector, C: float, mu: float) -> Vector:
    """Minimise ½‖w‖² + C t − μ Σ log(slack) over x = (w, t), from a point with slack."""
    rows = np.hstack((-slopes, np.ones((len(offsets), 1))))
    flat = np.append(np.ones(slopes.shape[1]), 0.0)
    linear = np.append(np.zeros(slopes.shape[1]), C)

    for _ in range(50):
        slack = rows @ x - offsets
        pull = flat * x + linear
        slope = pull - mu * (rows.T @ (1 / slack))
        bend = np.diag(flat) + mu * (rows.T / slack**2) @ rows
        step = -np.linalg.lstsq(bend, slope)[0]
        fall = float(slope @ step)
        if fall >= -1e-10 * mu:
            break
        # Within the slack from the first length on. Of the barrier the change is reckoned: near the
        # minimum its values are alike to the last digits.
        shares = rows @ step / slack
        length = 0.99 / max(-float(shares.min()), 0.99)
        along = float(pull @ step), float(0.5 * (flat * step) @ step)
        while (
            length * (along[0] + length * along[1]) - mu * float(np.log1p(length * shares).sum())
            > 0.1 * length * fall
        ) and length > 1e-12:
            length /= 2
        further = x + length * step
        if length <= 1e-12 or (rows @ further <= offsets).any():
            break
        x = further
    return x
