"""The example projects: each keeps the promises of its kind, loaded as the file that it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from owpc_ltr.errors import BadInput
from owpc_ltr.host.registry import load
from owpc_ltr.plugin_checks import check_loss, check_optimizer, check_reranker
from owpc_ltr.plugin_checks.samples import sample_dataset
from owpc_ltr.protocols import Run

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
FILES = [
    EXAMPLES / "owpc-ltr-worst-pairs" / "worst_pairs.py",
    EXAMPLES / "owpc-ltr-subgradient" / "subgradient.py",
    EXAMPLES / "owpc-ltr-list-range" / "list_range.py",
]
REGISTRY = load(FILES)


def test_the_example_loss_is_what_it_claims() -> None:
    check_loss(REGISTRY.find("loss", "worst-pairs")())


@pytest.mark.parametrize("loss", ["owpc", "listnet", "worst-pairs"])
def test_the_example_optimizer_keeps_its_promises(loss: str) -> None:
    check_optimizer(REGISTRY.find("optimizer", "subgradient")(), REGISTRY.find("loss", loss)())


@pytest.mark.parametrize("loss", ["pairwise", "cosine"])
def test_the_example_reranker_keeps_its_promises(loss: str) -> None:
    reranker = REGISTRY.find("reranker", "list-range")()
    assert check_reranker(reranker, REGISTRY.find("loss", loss)()) == ()


def test_the_certificate_of_the_example_optimizer_holds_the_optimum_of_larank() -> None:
    data, loss = sample_dataset(2), REGISTRY.find("loss", "owpc")()
    larank = REGISTRY.find("optimizer", "larank")(C=0.01, tolerance=1e-6)
    optimum = larank.minimise(loss, data, Run()).certificate
    found = REGISTRY.find("optimizer", "subgradient")(C=0.01).minimise(loss, data, Run())
    certificate = found.certificate
    least = optimum.objective - optimum.gap
    assert certificate.objective - certificate.gap <= optimum.objective + 1e-9
    assert least - 1e-9 <= certificate.objective <= optimum.objective * 1.05


def test_the_example_reranker_refuses_weights_that_are_not_its_features() -> None:
    with pytest.raises(BadInput, match="2 weights for 1 features"):
        REGISTRY.find("reranker", "list-range")().load({"feature_names": ["a"], "weights": [1, 2]})
