"""LaRank: its certificate against a general solver, and the dual's own invariants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.errors import Refused
from owpc_ltr.protocols import Fit, Run
from tests.plugins.oracles import binary_problem, optimum_of, owa_of_hinges


def fit(data: RankingDataset, C: float = 1.0, **options: Any) -> Fit:
    generator = options.pop("generator", "inverse")
    return LaRank(C=C, **options).minimise(OWPC(generator=generator), data, Run())


def test_a_warm_start_begins_with_the_bound_and_the_point_of_the_fit_it_comes_from() -> None:
    data, loss, run = binary_problem(3, queries=20), OWPC(), Run()
    start = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run)
    cold, end = start.history[0], start.history[-1]
    assert cold["gap"] > 100 * end["gap"]
    warm = LaRank(C=10.0, tolerance=1e-5).minimise(loss, data, run, start).history
    assert len(warm) == 1
    assert warm[0]["dual"] >= end["dual"] - 1e-12
    assert warm[0]["objective"] <= end["objective"] + 1e-12
    # With another budget the point stays, and what bounds the losses still bounds the optimum.
    other = LaRank(C=20.0, tolerance=1e-5).minimise(loss, data, run, start).history
    there = end["objective"] + (20.0 - 10.0) * start.certificate.risk
    assert other[0]["objective"] <= there + 1e-12
    first = LaRank(C=20.0, tolerance=1e-5).minimise(loss, data, run).history[0]
    assert other[0]["gap"] < 0.1 * first["gap"]


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_however_queries_are_grouped_the_optimum_is_the_same(
    C: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from owpc_ltr_optimizers import larank

    weights = np.linspace(0, 2, 10)
    data = replace(binary_problem(9, queries=10, features=3), query_weights=weights)
    truth = optimum_of(data, C, owa_of_hinges)
    for groups in (1, 2, 1000):
        monkeypatch.setattr(larank, "_GROUPS", groups)
        assert len(larank.groups_of(data)) == min(3 * groups, 10) + 1
        certificate = fit(data, C, tolerance=1e-6).certificate
        assert certificate.objective == pytest.approx(truth, rel=1e-5)
        assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)


def test_the_fit_that_a_warm_start_comes_from_keeps_its_own_state() -> None:
    loss, run, data = OWPC(), Run(), binary_problem(3, queries=20)
    start = LaRank(C=1.0).minimise(loss, data, run)
    twice = [LaRank(C=10.0).minimise(loss, data, run, start) for _ in range(2)]
    assert twice[0].certificate == twice[1].certificate
    assert twice[0].history == twice[1].history


def test_full_blocks_are_merged_without_losing_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from owpc_ltr_optimizers import _larank_dual as larank_dual

    monkeypatch.setattr(larank_dual, "_PATTERNS", 2)
    data = binary_problem(6, queries=3, documents=12)
    certificate = fit(data, 100.0, passes=300).certificate
    truth = optimum_of(data, 100.0, owa_of_hinges)
    assert certificate.objective - certificate.gap <= truth * (1 + 1e-6)
    assert truth <= certificate.objective * (1 + 1e-6)


def test_a_collapsed_optimum_is_told() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(400, 3)).astype(np.float32)
    labels = generator.integers(0, 2, 400).astype(np.float32)
    data = make_dataset(noise, labels, np.repeat(np.arange(4), 100))
    certificate = fit(data, 100.0, generator="top").certificate
    assert certificate.collapsed
    assert not fit(binary_problem(1)).certificate.collapsed


def test_constant_weights_are_the_pairwise_hinge() -> None:
    data = binary_problem(8, queries=10)
    pairs = LaRank(tolerance=1e-6).minimise(Pairwise(), data, Run()).certificate.objective
    assert fit(data, generator="constant", tolerance=1e-6).certificate.objective == pytest.approx(
        pairs, rel=1e-5
    )


@dataclass(frozen=True)
class Negative:
    """A convex loss below zero, which the bound of 0 does not fit."""

    name: ClassVar[str] = "negative"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        return float((scores**2).sum()) - 1.0, 2 * scores


def test_a_negative_loss_is_refused_in_a_line() -> None:
    with pytest.raises(Refused, match="nowhere negative"):
        LaRank().minimise(Negative(), binary_problem(0), Run())
