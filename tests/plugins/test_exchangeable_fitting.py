"""Fitting the exchangeable reranker: slopes, planted weights, terms, the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_rerankers.exchangeable.exchangeable import Exchangeable, Objective
from owpc_ltr_rerankers.exchangeable.reordering import ExchangeableReordering, ReorderingShape

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.host import registry
from owpc_ltr.plugin_checks import check_reranker
from owpc_ltr.plugin_checks.samples import sample_dataset
from owpc_ltr.protocols import Loss, Reranker, Run
from tests.plugins.reranker_oracles import SoftMax, slope_error

LOSSES = [plugin.cls() for plugin in registry.load().all("loss") if plugin.cls().conservative] + [
    SoftMax()
]


def objective_of(loss: Loss, kernels: str, data: RankingDataset, **settings: Any) -> Objective:
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3])
    return Exchangeable(kernels, **settings).objective(loss, data, base, Run())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("later", [False, True], ids=["first-term", "later-term"])
def test_the_gradient_is_that_of_finite_differences(
    loss: Loss, later: bool, rng: np.random.Generator
) -> None:
    objective = objective_of(loss, "cosine,rbf", sample_dataset(2), penalty=0.3)
    if later:
        objective = objective.after(rng.normal(size=4)).after(rng.normal(size=5))
    start = objective.start()
    errors = [
        slope_error(objective.value_and_gradient, start + 0.3 * rng.normal(size=len(start)))
        for _ in range(5)
    ]
    # Where a loss has kinks, a few points lie on one.
    assert np.median(errors) < 1e-5


def test_a_wrong_gradient_would_be_seen(rng: np.random.Generator) -> None:
    objective = objective_of(SoftMax(), "cosine", sample_dataset(2))

    def lie(parameters: Vector) -> tuple[float, Vector]:
        value, gradient = objective.value_and_gradient(parameters)
        return value, gradient * np.array([1.01, 1.0, 1.0])

    assert slope_error(lie, np.array([0.5, 0.1, 0.2])) > 1e-3


def test_a_planted_weight_is_found_and_a_large_penalty_takes_it_back(
    rng: np.random.Generator,
) -> None:
    """Labels follow how alone a document is in its list, which no pointwise score tells."""
    features = rng.normal(size=(600, 4)).astype(np.float32)
    offsets = np.arange(0, 601, 20)
    alone = -ReorderingShape("rbf").sums(features, tuple("1234"), offsets)[:, 0]
    cuts = np.array([np.quantile(part, 0.8) for part in alone.reshape(30, 20)])
    labels = (alone > np.repeat(cuts, 20)).astype(np.float32)
    data = make_dataset(features, labels, np.repeat(np.arange(30), 20))
    base = rng.normal(size=600)
    reranker = Exchangeable("rbf")
    learned = reranker.fit(SoftMax(), data, base, Run())
    assert isinstance(learned, ExchangeableReordering)
    assert learned.weights[0, 0] < -1
    held = replace(reranker, penalty=1e6).fit(SoftMax(), data, base, Run())
    assert isinstance(held, ExchangeableReordering)
    assert abs(held.weights[0, 0]) < 1e-4
    scores = learned.rerank(features, base, offsets)
    top = np.array([labels[20 * q + np.argmax(scores[20 * q : 20 * q + 20])] for q in range(30)])
    assert top.mean() > 0.6


def test_a_further_term_never_prices_higher(rng: np.random.Generator) -> None:
    data = sample_dataset(2)
    objective = objective_of(SoftMax(), "cosine,rbf", data)
    first = objective.descend(100)
    assert objective.after(first.weights).descend(100).value <= first.value + 1e-9


def test_the_scale_of_the_base_does_not_matter() -> None:
    data = sample_dataset(2)
    base = data.features @ np.array([0.7, -0.5, 0.0, 0.3])
    reranker = Exchangeable()
    one = reranker.fit(SoftMax(), data, base, Run())
    two = reranker.fit(SoftMax(), data, 1e6 * base - 3e5, Run())
    np.testing.assert_allclose(one.as_dict()["weights"], two.as_dict()["weights"], rtol=1e-4)


@pytest.mark.parametrize(
    "reranker",
    [
        Exchangeable(),
        Exchangeable("cosine,rbf,dot:1+2", kernel_sums="raw", normalise="none"),
        Exchangeable("rbf", positive="softplus", terms=2, penalty=0.1),
    ],
    ids=["default", "raw", "two-terms"],
)
def test_the_contract_holds(reranker: Reranker) -> None:
    check_reranker(reranker, SoftMax())


def test_a_smooth_loss_of_the_library_is_descended() -> None:
    data = sample_dataset(2)
    objective = objective_of(Pairwise(inner="logistic"), "cosine", data)
    start = objective.value_and_gradient(objective.start())[0]
    found = objective.descend(100)
    assert found.value < start
    assert found.steps < 60


def test_a_loss_that_is_no_cost_is_refused() -> None:
    data = sample_dataset(2)
    with pytest.raises(UsageError, match="lambdarank"):
        Exchangeable().fit(LambdaRank(), data, np.arange(data.n_documents, dtype=float), Run())
