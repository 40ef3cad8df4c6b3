"""Fits: what plugins return is checked, BLAS has one thread, the ending is reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.larank import LaRank
from owpc_ltr_rerankers.exchangeable import Exchangeable
from threadpoolctl import threadpool_info, threadpool_limits

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.errors import PluginError
from owpc_ltr.host.registry import load
from owpc_ltr.kernels.kernel import bind, evaluate_query, linear_risk
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks.promises import sample_dataset
from owpc_ltr.protocols import Certificate, Fit, Loss, Reordering, Run
from owpc_ltr.training.cross_validation import Fold, cross_validate, cut_folds
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import model_plan
from owpc_ltr.training.rerankers import fit_reranker, reranking_plan
from owpc_ltr.training.train import _ending
from tests.datasets import crowded, weights
from tests.liars import lying

DATA = sample_dataset()


@dataclass(frozen=True)
class Lying(LaRank):
    """LaRank, but for what it returns."""

    name: ClassVar[str] = "lying"
    C: float = 1.0
    lie: int = 0

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Any:
        fit = LaRank(self.C).minimise(loss, data, run, None)
        return FIT_LIES[self.lie][0](fit)


class Scoreless:
    kind = "none"
    feature_names = DATA.feature_names


def renamed(fit: Fit) -> Fit:
    return replace(fit, model=replace(fit.model, feature_names=fit.model.feature_names[::-1]))  # type: ignore[type-var]


@dataclass(frozen=True)
class OneScore:
    kind: ClassVar[str] = "one"
    feature_names: tuple[str, ...] = DATA.feature_names
    record: Any = None

    def score(self, features: Any) -> Any:
        return 1.0

    def as_dict(self) -> dict[str, Any]:
        return {}


FIT_LIES: list[tuple[Any, str]] = [
    (lambda fit: fit.model.weights, r"'lying' returned array\(\[.*\(ndarray\): return an owpc_lt"),
    (lambda fit: None, r"'lying' returned None \(NoneType\): return an owpc_ltr.protocols.Fit"),
    (lambda fit: replace(fit, model=Scoreless()), "where a model belongs, which has n"),
    (lambda fit: replace(fit, certificate=0.5), r"the certificate 0.5 \(float\)"),
    (renamed, "returned a model of the features"),
    (lambda fit: replace(fit, model=OneScore()), r"gives scores of shape \(\) for"),
]  # fmt: skip


@pytest.mark.parametrize("lie", range(len(FIT_LIES)))
def test_what_no_optimizer_may_return_is_refused_by_its_name(lie: int) -> None:
    plan = model_plan(Pairwise, Lying, {"optimizer.lie": lie, "optimizer.C": 1.0})
    with pytest.raises(PluginError, match=FIT_LIES[lie][1]):
        train_plan(DATA, plan, Run())
    with pytest.raises(PluginError, match=FIT_LIES[lie][1]):
        cross_validate([Fold("1", DATA, DATA, DATA)], [plan], [parse_metric("map")], Run())


@dataclass(frozen=True)
class Priced:
    """A loss that returns whatever it is told to."""

    name: ClassVar[str] = "priced"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    lie: int = 0

    def value_and_gradient(self, scores: Any, labels: Any, weights: Any) -> Any:
        return PRICE_LIES[self.lie][0](scores)


PRICE_LIES: list[tuple[Any, str]] = [
    (lambda s: 0.0, r"returned 0.0 for a query of 3 documents: return \(value, gradient\)"),
    (lambda s: None, "returned None for a query of 3 documents"),
    (lambda s: (0.0, s, s), "return .value, gradient."),
    (lambda s: (s, s), "returned the value array.*return one finite number"),
    (lambda s: (np.nan, s), "returned the value nan"),
    (lambda s: ("much", s), "returned the value 'much'"),
    (lambda s: (0.0, None), "returned the gradient None"),
    (lambda s: (0.0, s[:2]), r"gave a gradient of shape \(2,\) for 3 documents"),
    (lambda s: (0.0, s * np.inf), "a gradient that is not finite"),
]


@pytest.mark.parametrize("lie", range(len(PRICE_LIES)))
def test_what_no_loss_may_return_is_refused_by_its_name(lie: int) -> None:
    with pytest.raises(PluginError, match=PRICE_LIES[lie][1]) as caught:
        evaluate_query(bind(Priced(lie)), np.ones(3), np.array([1, 0, 0], np.float32))
    assert str(caught.value).startswith("loss 'priced' ")
    with pytest.raises(PluginError, match="loss 'priced'"):
        linear_risk(DATA, bind(Priced(lie)), np.ones(4))


def test_a_loss_is_looked_at_once_and_not_at_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr("owpc_ltr.kernels.kernel.check_price", lambda *given: looked.append(given))
    bound = bind(lying(Priced, "Flat", value_and_gradient=lambda _, scores, *__: (0.0, 0 * scores)))
    for _ in range(2):
        linear_risk(DATA, bound, np.zeros(4))
    assert len(looked) == 1


@dataclass(frozen=True)
class Unfit(Exchangeable):
    """A reranker that returns its weights, or a reordering of other features."""

    name: ClassVar[str] = "unfit"
    lie: int = 0

    def fit(self, loss: Loss, data: Any, base_scores: Any, run: Run) -> Any:
        reordering: Reordering = Exchangeable(iterations=1).fit(loss, data, base_scores, run)
        return np.zeros(3) if self.lie == 0 else replace(reordering, feature_names=("x",))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("lie", "words"),
    [(0, "'unfit' returned array.*no kind, feature_names"), (1, r"of the features \('x',\)")],
)
def test_what_no_reranker_may_return_is_refused_by_its_name(lie: int, words: str) -> None:
    settings = {"reranker.lie": lie, "reranker.penalty": 1.0, "loss.inner": "logistic"}
    plan = reranking_plan(Pairwise, Unfit, settings)
    with pytest.raises(PluginError, match=words):
        fit_reranker(crowded(), weights(1, 0, 0), plan, Run())


OWPC = load().find("loss", "owpc")
SEEN: list[int] = []


def blas_threads() -> int:
    return max(int(p["num_threads"]) for p in threadpool_info() if p["user_api"] == "blas")


@dataclass(frozen=True)
class Spy:
    """An optimizer that notes how many threads BLAS has."""

    name: ClassVar[str] = "spy"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = True

    C: float = 1.0

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        SEEN.append(blas_threads())
        return Fit(LinearModel(data.feature_names, np.ones(data.n_features)), Certificate(0.0))


@pytest.mark.parametrize("way", ["train", "select"])
def test_fits_have_one_thread_of_blas(way: str, rng: np.random.Generator) -> None:
    data = make_dataset(
        rng.random((60, 3), dtype=np.float32), np.tile([0.0, 1.0], 30), np.repeat(np.arange(12), 5)
    )
    plan = model_plan(OWPC, Spy, {"optimizer.C": "1"}, {}, "map", "none")
    SEEN.clear()
    with threadpool_limits(2, "blas"):
        if way == "train":
            train_plan(data, plan, Run())
        else:
            list(cross_validate(cut_folds(data, 3), [plan], [parse_metric("map")], Run(), jobs=2))
        assert blas_threads() == 2
    assert SEEN
    assert set(SEEN) == {1}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"stop_reason": "gap within 0.001", "passes": 4, "nonzero_duals": 318},
            "; gap within 0.001 (4 passes, 318 non-zero duals)",
        ),
        ({"stop_reason": "no gain", "passes": 200}, "; no gain (200 passes)"),
        ({"passes": 200}, "; 200 passes"),
        ({"stop_reason": "solved"}, "; solved"),
        ({}, ""),
    ],
)
def test_only_what_is_known_is_said(known: dict[str, Any], said: str) -> None:
    assert _ending(Certificate(1.0, **known).as_dict()) == said
