"""The risk of weights: over parts what it is in memory, and solved by passes to the same gap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.bundle import Bundle

from owpc_ltr import RankingDataset
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import PluginError, Refused
from owpc_ltr.kernels.risk import RiskOfWeights
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Fit, Loss, Run
from tests.datasets import in_parts, learnable
from tests.plugins.oracles import Dented, Distance

quick = settings(max_examples=12)
LOSSES: list[Loss] = [OWPC(), Pairwise(), Pairwise(inner="logistic"), Distance()]


@quick
@given(
    seed=st.integers(0, 5),
    loss=st.sampled_from(LOSSES),
    threads=st.integers(1, 3),
    memory=st.sampled_from([0, 3000, 1 << 20]),
)
def test_the_risk_over_parts_is_that_in_memory(
    seed: int, loss: Loss, threads: int, memory: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = learnable(40, seed)
    parts = in_parts(data, tmp_path_factory.mktemp("risk") / "a", memory)
    assert len(parts.pieces) > 5
    rng = np.random.default_rng(seed)
    w, step = rng.normal(size=(2, data.n_features))
    whole, streamed = (
        RiskOfWeights(loss, data.without_missing()),
        RiskOfWeights(loss, parts, threads),
    )
    for _ in range(2):
        risk, gradient = streamed.value_and_gradient(w)
        expected, slope = whole.value_and_gradient(w)
        assert risk == pytest.approx(expected, rel=1e-12)
        assert gradient == pytest.approx(slope, rel=1e-10, abs=1e-10 * np.abs(slope).max())
        again = RiskOfWeights(loss, parts, 1).value_and_gradient(w)
        assert (again[0], again[1].tolist()) == (risk, gradient.tolist())
    shares = np.array([0.0, 0.3, 1.0, 2.5])
    risks, slopes = streamed.along(w, step, shares)
    for k, risk_of_share, along in zip(shares, risks, slopes, strict=True):
        expected, slope = whole.value_and_gradient(w + k * step)
        assert risk_of_share == pytest.approx(expected, rel=1e-12)
        assert along == pytest.approx(float(slope @ step), rel=1e-7, abs=1e-7)


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_the_gap_over_parts_bounds_what_is_best_in_memory(
    seed: int, loss: Loss, C: float, tmp_path: Path
) -> None:
    data = learnable(40, seed)
    parts = in_parts(data, tmp_path / "a")
    bundle = Bundle(C=C, tolerance=1e-4)
    whole, streamed = bundle.minimise(loss, data, Run()), bundle.minimise(loss, parts, Run())
    certificate, other = whole.certificate, streamed.certificate
    assert other.stop_reason == certificate.stop_reason
    assert other.relative_gap <= 1e-4 * (1 + 1e-9)
    assert other.risk_at_zero == pytest.approx(certificate.risk_at_zero, rel=1e-12)
    # Each lower bound is below each value.
    assert certificate.objective - certificate.gap <= other.objective + 1e-9 * abs(other.objective)
    assert other.objective - other.gap <= certificate.objective + 1e-9 * abs(certificate.objective)
    assert isinstance(streamed.model, LinearModel)
    assert objective(streamed, loss, data, C) == pytest.approx(other.objective, rel=1e-6)


def objective(fit: Fit, loss: Loss, data: RankingDataset, C: float) -> float:
    """P at the weights of the model, from nothing but the data in memory."""
    assert isinstance(fit.model, LinearModel)
    weights = np.divide(
        fit.model.weights, data.scales, out=np.zeros(data.n_features), where=data.scales > 0
    )
    risk, _ = RiskOfWeights(loss, data.without_missing()).value_and_gradient(weights)
    return 0.5 * float(weights @ weights) + C * risk


def test_threads_and_memory_change_nothing(tmp_path: Path) -> None:
    data = learnable()
    fits = [
        Bundle().minimise(OWPC(), in_parts(data, tmp_path / f"{n}", memory), Run(threads=n))
        for n, memory in ((1, 0), (2, 5000), (3, 1 << 30))
    ]
    assert len({str(fit.model.as_dict()) for fit in fits}) == 1
    assert len({fit.certificate for fit in fits}) == 1


def test_a_warm_start_takes_fewer_passes(tmp_path: Path) -> None:
    parts, bundle = in_parts(learnable(), tmp_path / "a"), Bundle(C=10.0, tolerance=1e-5)
    cold = bundle.minimise(OWPC(), parts, Run())
    before = Bundle(C=5.0, tolerance=1e-5).minimise(OWPC(), parts, Run())
    warm = bundle.minimise(OWPC(), parts, Run(), before)
    assert warm.certificate.objective == pytest.approx(cold.certificate.objective, rel=1e-5)
    assert warm.certificate.passes < cold.certificate.passes


def test_few_passes_are_needed_beside_the_search_in_memory() -> None:
    data = learnable(200).without_missing()
    for C in (0.1, 10.0):
        bundle = Bundle(C=C)
        exact = bundle.minimise(OWPC(), data, Run()).certificate.passes
        by_passes = Bundle(C, 1e-3, 500).minimise_by_passes(OWPC(), data, Run())
        assert by_passes.certificate.passes <= 1.5 * exact + 5


def test_a_loss_that_is_not_convex_is_caught_over_parts(tmp_path: Path) -> None:
    parts = in_parts(learnable(), tmp_path / "a")
    with pytest.raises(PluginError, match="'dented' claims to be convex"):
        Bundle(C=0.1).minimise(Dented(), parts, Run())


class Exploding(Distance):
    """Infinite beyond a point."""

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(scores, labels, weights)
        return (float("inf") if scores.any() else value), gradient


def test_a_loss_that_is_not_finite_is_refused_over_parts(tmp_path: Path) -> None:
    with pytest.raises((Refused, PluginError), match="inf"):
        Bundle().minimise(Exploding(), in_parts(learnable(), tmp_path / "a"), Run())


def test_a_fault_in_a_loss_travels_out_of_the_parts(tmp_path: Path) -> None:
    class Broken(Distance):
        def value_and_gradient(
            self, scores: Vector, labels: Labels, weights: Labels
        ) -> tuple[float, Vector]:
            raise ZeroDivisionError("mine")

    parts = in_parts(learnable(), tmp_path / "a")
    for threads in (1, 2):
        with pytest.raises(ZeroDivisionError, match="mine"):
            Bundle().minimise(Broken(), parts, Run(threads=threads))
