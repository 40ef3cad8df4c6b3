"""The check of losses passes an honest one and catches each liar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.plugin_checks import check_loss, describe_loss
from owpc_ltr.protocols import Loss


@dataclass(frozen=True)
class Honest:
    """A plain NumPy loss: the mean of squared differences within pairs of different labels."""

    name: ClassVar[str] = "honest"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    weights_are_copies: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        higher = labels[:, None] > labels[None, :]
        shares = np.where(higher, weights[:, None] * weights[None, :], 0.0).astype(float)
        if not shares.any():
            return 0.0, np.zeros(len(scores))
        shares /= shares.sum()
        rest = np.maximum(0.0, 1.0 - (scores[:, None] - scores[None, :]))
        slopes = 2 * shares * rest
        return float((shares * rest**2).sum()), slopes.sum(axis=0) - slopes.sum(axis=1)


class WrongGradient(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value, 1.01 * gradient


class NotConvex(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return float(np.log1p(value)), gradient / (1 + value)


class NotSmooth(Pairwise):
    smooth: ClassVar[bool] = True


class NotConservative(LambdaRank):
    conservative: ClassVar[bool] = True


class OrderMatters(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value + 1e-3 * query[0][0], gradient


class Mutates(Honest):
    def value_and_gradient(self, scores: Vector, *query: Any) -> tuple[float, Vector]:
        scores -= scores.mean()
        return super().value_and_gradient(scores, *query)


class Restless(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value + 1e-9 * np.random.default_rng().random(), gradient


class Undefined(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value if query[1].any() else float("nan"), gradient


class WrongShape(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value, gradient[None, :]


class NoCopies(LambdaRank):
    weights_are_copies: ClassVar[bool] = True


def test_an_honest_loss_in_plain_numpy_passes() -> None:
    check_loss(Honest())


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (WrongGradient(), "off the slope"),
        (NotConvex(), "claims to be convex"),
        (NotSmooth(), "claims to be smooth"),
        (NotConservative(), "the gradient of nothing"),
        (OrderMatters(), "order of the documents"),
        (Mutates(), "changed the scores"),
        (Restless(), "for one query"),
        (Undefined(), "is nan"),
        (WrongShape(), "shape"),
        (NoCopies(), "copies"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Honest | LambdaRank) else None,
)
def test_each_liar_of_a_loss_is_caught(liar: Loss, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_loss(liar)


def test_a_negative_curvature_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def negative(*_: Any) -> tuple[float, Vector, Vector]:
        value, gradient = Honest().value_and_gradient(*_[1:])
        return value, gradient, -np.ones(len(gradient))

    monkeypatch.setattr("owpc_ltr.plugin_checks.losses.evaluate_query", negative)
    with pytest.raises(AssertionError, match="curvature"):
        check_loss(Honest())


def test_the_report_tells_a_cost_from_a_force() -> None:
    cost, force = describe_loss(OWPC(inner="logistic")), describe_loss(LambdaRank())
    assert cost.cost_exists
    assert cost.smallest_eigenvalue > -1e-6
    assert cost.tangent_excess < 1e-9
    # Without a rank swap the Jacobian of LambdaRank is symmetric: only the walk shows it.
    assert force.asymmetry < 1e-3
    assert not force.cost_exists
    assert force.shift_invariant
    assert not describe_loss(LambdaRank(alpha=0.1)).shift_invariant
    assert cost.as_dict()["cost_exists"]


def test_the_report_shows_what_the_spring_adds() -> None:
    """Burges (2006): λ + α s adds a constant to the diagonal."""
    free, held = describe_loss(LambdaRank()), describe_loss(LambdaRank(alpha=0.5))
    assert held.smallest_eigenvalue == pytest.approx(free.smallest_eigenvalue + 0.5, abs=1e-3)
