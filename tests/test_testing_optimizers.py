"""The check of optimizers passes an honest one and catches each liar."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.larank.larank import LaRank

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks import check_optimizer
from owpc_ltr.plugin_checks.optimizers import least_objective
from owpc_ltr.plugin_checks.samples import sample_dataset
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run


@pytest.mark.parametrize("loss", [OWPC("inverse"), OWPC(inner="logistic"), OWPC("top")], ids=str)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_reference_optimum_closes_its_own_gap(loss: Loss, C: float) -> None:
    data = sample_dataset(2)
    lower, upper = least_objective(loss, data, C, np.zeros(data.n_features))
    assert upper - lower <= 1e-5 * (1 + upper)


@dataclass(frozen=True)
class Wrapped:
    """An optimizer that does well, and then lies about it."""

    name: ClassVar[str] = "wrapped"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True
    C: float = 1.0

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        optimizer = LaRank(C=self.C, tolerance=0.05)
        return self.twist(optimizer.minimise(loss, data, run, start), run)

    def twist(self, fit: Fit, _run: Run) -> Fit:
        return fit


class FakeGap(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, gap=0.0))


class FakeObjective(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        better = 0.9 * fit.certificate.objective
        return dataclasses.replace(
            fit, certificate=dataclasses.replace(fit.certificate, objective=better)
        )


class FakeRisk(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, risk=0.1))


class NegativeGap(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, gap=-1.0))


class Twisted(Wrapped):
    """Another model: the weights times a factor."""

    factor: ClassVar[float] = -1.0

    def twist(self, fit: Fit, run: Run) -> Fit:
        model = LinearModel(fit.model.feature_names, self.weights(fit.model, run))
        nothing = dataclasses.replace(fit.certificate, risk=float("nan"))
        return dataclasses.replace(fit, model=model, certificate=nothing)

    def weights(self, model: Any, _run: Run) -> Vector:
        return np.asarray(self.factor * model.weights)


class ThreadsMatter(Twisted):
    def weights(self, model: Any, run: Run) -> Vector:
        return np.asarray(model.weights * (1 + 1e-5 * run.threads))


class Forgetful(Twisted):
    def weights(self, model: Any, _run: Run) -> Vector:
        return np.asarray(model.weights + 1e-4 * np.random.default_rng().random())


class NoHistory(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return dataclasses.replace(fit, history=())


class WrongFeatures(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        model = LinearModel(("a", "b", "c", "d"), fit.model.weights)  # type: ignore[attr-defined]
        return dataclasses.replace(fit, model=model)


def test_an_honest_optimizer_passes() -> None:
    check_optimizer(Wrapped(), OWPC("inverse"))


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (FakeGap(), "claims that no model"),
        (FakeObjective(), "reports the objective"),
        (FakeRisk(), "reports the risk"),
        (NegativeGap(), "negative gap"),
        (Twisted(), "worse than"),
        (ThreadsMatter(), "2 threads"),
        (Forgetful(), "same seed"),
        (NoHistory(), "empty history"),
        (WrongFeatures(), "features"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Wrapped) else None,
)
def test_each_liar_of_an_optimizer_is_caught(liar: Optimizer, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_optimizer(liar, OWPC("inverse"))


def test_an_optimizer_that_needs_a_convex_loss_is_not_checked_with_another() -> None:
    with pytest.raises(ValueError, match="needs a convex loss"):
        check_optimizer(Wrapped(), LambdaRank())
