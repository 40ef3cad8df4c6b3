"""Contract checks of losses, optimizers, metrics: honest ones pass, liars are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_metrics.average_precision import AveragePrecision
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_metrics.precision import Precision
from owpc_ltr_metrics.winner_takes_all import WinnerTakesAll
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset
from owpc_ltr.arrays import Labels, Matrix, Vector
from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks import check_loss, check_metric, check_optimizer
from owpc_ltr.plugin_checks.learners import least_objective
from owpc_ltr.plugin_checks.promises import sample_dataset
from owpc_ltr.protocols import Fit, Loss, Optimizer, Run
from tests.liars import lying, named


@pytest.mark.parametrize("loss", [OWPC("inverse"), OWPC(inner="logistic"), OWPC("top")], ids=str)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_reference_optimum_closes_its_own_gap(loss: Loss, C: float) -> None:
    data = sample_dataset(2)
    lower, upper = least_objective(loss, data, C, np.zeros(data.n_features))
    assert upper - lower <= 1e-5 * (1 + upper)


@dataclass(frozen=True)
class Wrapped:
    """An optimizer that does well, and may then lie about it."""

    name: ClassVar[str] = "wrapped"
    needs_convex: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = True
    C: float = 1.0

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        return LaRank(C=self.C, tolerance=0.05).minimise(loss, data, run, start)


class NoScores(LinearModel):
    def score(self, features: Matrix) -> Vector:
        return math.nan * super().score(features)


class ChangesData(Wrapped):
    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        data.labels[0] += 1
        return super().minimise(loss, data, run, start)


def reporting(name: str, **figures: Any) -> Optimizer:
    """A liar whose certificate has another figure."""

    def report(fit: Fit, *_: Any) -> Fit:
        return replace(fit, certificate=replace(fit.certificate, **figures))

    return lying(Wrapped, name, minimise=report)  # type: ignore[no-any-return]


def weighing(name: str, weights: Callable[..., Any], model: Any = LinearModel) -> Optimizer:
    """A liar whose model has other weights, of whose risk it says nothing."""

    def fitted(fit: Any, _loss: Loss, _data: RankingDataset, run: Run, *_: Any) -> Any:
        made = model(fit.model.feature_names, np.asarray(weights(fit.model.weights, run)))
        return replace(fit, model=made, certificate=replace(fit.certificate, risk=math.nan))

    return lying(Wrapped, name, minimise=fitted)  # type: ignore[no-any-return]


def best_by_tenth(fit: Fit, *_: Any) -> Any:
    least = 0.9 * fit.certificate.objective
    return replace(fit, certificate=replace(fit.certificate, objective=least))


def of_other_features(fit: Any, *_: Any) -> Any:
    return replace(fit, model=LinearModel(("a", "b", "c", "d"), fit.model.weights))


def of_scaled_features(fit: Any, _loss: Loss, data: RankingDataset, *_: Any) -> Any:
    return replace(fit, model=LinearModel(data.feature_names, fit.model.weights / data.scales))


OPTIMIZERS = [
    (reporting("FakeGap", gap=0.0), "claims that no model"),
    (reporting("NegativeGap", gap=-1.0), "negative gap"),
    (lying(Wrapped, "FakeObjective", minimise=best_by_tenth), "reports the objective"),
    (reporting("FakeRisk", risk=0.1), "reports the risk"),
    (reporting("FakeRiskAtZero", risk_at_zero=99.0), "reports the risk at zero"),
    (reporting("NoReason", stop_reason=""), "does not say why it stopped"),
    (weighing("Backwards", lambda weights, _: -weights), "worse than"),
    (weighing("CountsThreads", lambda w, run: w * (1 + 1e-5 * run.threads)), "2 threads"),
    (weighing("Forgetful", lambda w, _: w + 1e-4 * np.random.default_rng().random()), "same seed"),
    (weighing("ScoresNothing", lambda w, _: w, NoScores), "gave scores that are not finite"),
    (lying(Wrapped, "WrongFeatures", minimise=of_other_features), "features"),
    (lying(Wrapped, "ForgetsScales", minimise=of_scaled_features), "reports the risk"),
    (lying(Wrapped, "NoHistory", minimise=lambda f, *_: replace(f, history=())), "empty history"),
    (lying(Wrapped, "ReturnsTheModel", minimise=lambda fit, *_: fit.model),
     "returned a LinearModel: return a Fit"),
    (ChangesData(), "changed the data that it was given"),
]  # fmt: skip


def test_an_honest_optimizer_passes() -> None:
    check_optimizer(Wrapped(), OWPC("inverse"))


@pytest.mark.parametrize(("liar", "sentence"), OPTIMIZERS, ids=named)
def test_each_liar_of_an_optimizer_is_caught(liar: Optimizer, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_optimizer(liar, OWPC("inverse"))


def test_an_optimizer_that_needs_a_convex_loss_is_not_checked_with_another() -> None:
    with pytest.raises(ValueError, match="needs a convex loss"):
        check_optimizer(Wrapped(), LambdaRank())


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
        n = len(scores)
        higher, lower = np.nonzero(labels[:, None] > labels)
        shares = (weights[higher] * weights[lower]).astype(float)
        total = shares.sum()
        if not total:
            return 0.0, np.zeros(n)
        rest = np.maximum(0.0, 1.0 - (scores[higher] - scores[lower]))
        slopes = 2 / total * shares * rest
        gradient = np.bincount(lower, slopes, n) - np.bincount(higher, slopes, n)
        return float(slopes @ rest) / 2, gradient.astype(np.float64)


class NotSmooth(Pairwise):
    smooth: ClassVar[bool] = True


@dataclass(frozen=True)
class NotConservative(LambdaRank):
    conservative: ClassVar[bool] = True
    normalise: Literal["none", "pairs", "queries", "both"] = "none"


class Mutates(Honest):
    def value_and_gradient(self, scores: Vector, *query: Any) -> tuple[float, Vector]:
        scores -= scores.mean()
        return super().value_and_gradient(scores, *query)


class NoCopies(LambdaRank):
    weights_are_copies: ClassVar[bool] = True


def answering(name: str, answer: Callable[..., Any], **claims: bool) -> Loss:
    """A liar that makes another value and gradient of the honest ones."""

    def lied(value_and_gradient: tuple[float, Vector], *query: Any) -> Any:
        return answer(*value_and_gradient, *query)

    return lying(Honest, name, value_and_gradient=lied, **claims)  # type: ignore[no-any-return]


LOSSES = [
    (answering("WrongGradient", lambda value, slopes, *_: (value, 1.01 * slopes)),
     "off the slope"),
    # What it does not claim is not measured.
    (answering("NotConvex", lambda v, g, *_: (float(np.log1p(v)), g / (1 + v)), conservative=False),
     "claims to be convex"),
    (answering("OrderMatters", lambda v, g, scores, *_: (v + 1e-3 * scores[0], g)),
     "order of the documents"),
    (answering("Restless", lambda v, g, *_: (v + 1e-9 * np.random.default_rng().random(), g)),
     "two answers"),
    (answering("Undefined", lambda v, g, _, labels, *__: (v if labels.any() else math.nan, g)),
     "nan in place of 0"),
    (answering("WrongShape", lambda value, slopes, *_: (value, slopes[None, :])), "shape"),
    (NotSmooth(), "claims to be smooth"),
    (NotConservative(), "the gradient of nothing"),
    (Mutates(), "changed the scores"),
    (NoCopies(), "copies"),
]  # fmt: skip


def test_an_honest_loss_in_plain_numpy_passes() -> None:
    check_loss(Honest())


@pytest.mark.parametrize(("liar", "sentence"), LOSSES, ids=named)
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


@dataclass(frozen=True)
class HonestMetric(Metric):
    """How far down the first documents of the top label are, on average: lower is better."""

    name: ClassVar[str] = "mean-rank"
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "none"
    higher_is_better: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (1.0, math.inf)

    relevant_above: float = 0.0

    def values(self, queries: RankedQueries) -> Vector:
        ranking = queries.ranking(self.ties)
        relevant = ranking.run_sums((ranking.labels > self.relevant_above).astype(float))
        middle = ranking.above + (ranking.size + 1) / 2
        summed = np.bincount(ranking.query, relevant * middle, queries.n_queries)
        count = queries.n_relevant(self.relevant_above)
        means: Vector = np.full(queries.n_queries, np.nan)
        np.divide(summed, count, out=means, where=count > 0)
        return means

    @property
    def meaning(self) -> str:
        return f"mean rank of documents with a label above {self.relevant_above:g}"


class ReadsTheFile(NDCG):
    def values(self, queries: RankedQueries) -> Vector:
        return replace(NDCG(), ties="file-order").values(queries)


class SwapsHarm(WinnerTakesAll):
    """Best and worst are where they must be; between them the last document counts."""

    def values(self, queries: RankedQueries) -> Vector:
        values = []
        for query in range(queries.n_queries):
            rows = slice(queries.offsets[query], queries.offsets[query + 1])
            order = np.argsort(-queries.scores[rows], kind="stable")
            steps = np.diff(queries.labels[rows][order])
            last = queries.labels[rows][order][-1:].sum() / 10
            ends = 1.0 if (steps <= 0).all() else 0.0 if (steps >= 0).all() else 0.5 + last
            values.append(ends if queries.lengths[query] else math.nan)
        return np.array(values)

    def rank_sum(self, queries: RankedQueries) -> Any:
        return None


class Flatters(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        if self.ties != "expected":
            return super().values(queries)
        best = np.empty(len(queries.labels))
        best[np.lexsort([queries.labels, queries.scores])] = np.arange(len(best))
        return super().values(RankedQueries(best, queries.labels, queries.offsets))


class PolicyIgnored(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return HonestMetric(ties="expected").values(queries)


class FillsAsItLikes(NDCG):
    def of(self, queries: RankedQueries) -> Vector:
        values = super().of(queries)
        return values if self.empty != "one" else np.minimum(values, 0.9)


class ForgetsShort(NDCG):
    def of(self, queries: RankedQueries) -> Vector:
        return NDCG(self.cutoff, ties=self.ties, empty=self.empty).of(queries)


class HidesItsCutoff(AveragePrecision):
    @property
    def meaning(self) -> str:
        return f"average precision of labels above {self.relevant_above}"


class HidesTies(HonestMetric):
    @property
    def convention(self) -> str:
        return f"{self}: {self.meaning}"


class TwoLines(HonestMetric):
    @property
    def meaning(self) -> str:
        return super().meaning + "\n"


class OnPaper(HonestMetric):
    deep: bool = False


@dataclass(frozen=True)
class NoDefault(HonestMetric):
    depth: int = field(kw_only=True)


class WrongText(HonestMetric):
    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class NeedsACutoff(AveragePrecision):
    cutoff: int | None = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff is None:
            raise UsageError("'map' needs a cutoff")


class TakesACutoff(HonestMetric):
    def __post_init__(self) -> None:
        """Refuse nothing."""


@pytest.mark.parametrize("ties", ["expected", "file-order"])
@pytest.mark.parametrize("make", [HonestMetric, NDCG, Precision], ids=lambda make: make.name)
def test_an_honest_metric_passes(make: Any, ties: str) -> None:
    check_metric(make(ties=ties))
    check_metric(make(ties=ties), seed=1, top_grade=1)


class LooksBelow(AveragePrecision):
    def values(self, queries: RankedQueries) -> Vector:
        return AveragePrecision(self.short_cutoff(), ties=self.ties).values(queries)

    def short_cutoff(self) -> int | None:
        return None

    def rank_sum(self, queries: RankedQueries) -> Any:
        return None


class HiddenCutoff(LooksBelow):
    def short_cutoff(self) -> int | None:
        return self.cutoff or 3


class LeavesNaN(HonestMetric):
    def of(self, queries: RankedQueries) -> Vector:
        return self.values(queries)


def forgets_labels(values: Vector, queries: RankedQueries) -> Vector:
    queries.labels[:] = 0
    return values


def measuring(name: str, values: Callable[..., Any], honest: type[Metric] = HonestMetric) -> Metric:
    """A liar that makes other values of the honest ones."""
    return lying(honest, name, values=values)  # type: ignore[no-any-return]


def declaring(label: str, honest: type[Metric] = HonestMetric, /, **claims: Any) -> Metric:
    """A liar that says another thing of itself."""
    return lying(honest, label, **claims)  # type: ignore[no-any-return]


METRICS = [
    (ReadsTheFile(), "depends on the order of the documents in the file"),
    (measuring("ReadsScores", lambda v, q: v + float(np.clip(q.scores.mean(), 0, 1))),
     "depends on more of the scores than their order"),
    (measuring("ReadsOtherQueries", lambda values, queries: values + queries.n_queries),
     "differs for a query alone and among others"),
    (measuring("CountsQueries", lambda v, queries: v + np.arange(queries.n_queries)),
     "depends on the order of the queries"),
    (measuring("TooHigh", lambda values, _: 1.5 * values, NDCG),
     "declares that it lies between 0 and 1, and goes from .* to 1.5"),
    (measuring("Infinite", lambda values, _: np.where(values > 4, np.inf, values)),
     "gave values that are not finite"),
    (declaring("Backwards", AveragePrecision, higher_is_better=False),
     "what must be the best order"),
    (SwapsHarm(ties="file-order"), "claims that swaps help, but moving label"),
    (measuring("TellsNothing", lambda values, _: np.where(np.isnan(values), np.nan, 2.0)),
     "gives the best and the worst order the same value"),
    (Flatters(), "does not count the 24 orders of tied documents by ties=expected"),
    (PolicyIgnored(), "orders of tied documents by ties=file-order"),
    (LooksBelow(), "depends on the order of the documents below rank 1"),
    (HiddenCutoff(), "is not 'map' on lists that are shorter"),
    (LeavesNaN(), "does not count 0 by empty=zero"),
    (FillsAsItLikes(), "does not count 1 by empty=one"),
    (ForgetsShort(3), "does not count 0 by short=zero"),
    (measuring("CountsNothing", lambda values, _: np.nan_to_num(values), NDCG),
     "for a query without documents: it must be undefined"),
    (measuring("ChangesLabels", forgets_labels), "changed the labels"),
    (measuring("Wavers", lambda v, _: v + np.random.default_rng().random()), "gave two answers"),
    (measuring("OneValue", lambda values, _: values[:1]),
     r"gave values of shape \(1,\) for 6 queries: return one number a query"),
    (lying(HonestMetric, "SinglePrecision", of=lambda values, _: values.astype(np.float32)),
     "float32 values"),
    (lying(NDCG, "HalfASum", rank_sum=lambda total, _: replace(total, whole=2 * total.whole)),
     "claims to be a sum over ranks"),
    (declaring("HidesAnOption", meaning="mean rank of relevant documents"),
     "says the same in the convention of 'mean-rank' and 'mean-rank,relevant-above=1'"),
    (declaring("HidesItsGain", NDCG, meaning="discounted gain"),
     "says the same in the convention of 'ndcg' and 'ndcg,gain=linear'"),
    (HidesItsCutoff(), "says the same in the convention of 'map@3' and 'map@4'"),
    (HidesTies(), "does not say in its convention that tied scores count their expected"),
    (TwoLines(), "must say its convention in one line"),
    (OnPaper(), "has the option deep only on paper"),
    (NoDefault(depth=1), "has no default for its setting 'depth'"),
    (declaring("BadName", name="Mean Rank"),
     "needs a class attribute 'name' in lower case, not 'Mean Rank'"),
    (declaring("BadVariant", variants={"Of One": {"relevant_above": 1.0}}),
     "cannot be read from its text: there is no metric 'mean-rank-of one'"),
    (declaring("TwinVariants", variants={name: {"relevant_above": 1.0} for name in "ab"}),
     "calls itself 'mean-rank-a' where it was read from 'mean-rank-b'"),
    (WrongText(), "calls itself 'mean-rank', which is read as another"),
    (NeedsACutoff(3), "declares its cutoff optional, and refuses None"),
    (TakesACutoff(), "declares its cutoff none, and takes 3"),
    (declaring("NoRange", value_range=(1.0, 1.0)), "declares that it lies between 1.0 and 1.0"),
]  # fmt: skip


def test_a_metric_that_forgets_a_query_is_refused_where_it_is_used() -> None:
    message = "metric 'mean-rank' gave values of shape \\(1,\\) for 2 queries"
    liar = lying(HonestMetric, "Forgets", values=lambda values, _: values[1:])
    with pytest.raises(PluginError, match=message):
        liar.per_query(np.arange(4.0), np.array([0, 1, 1, 0]), np.array([0, 2, 4]))


@pytest.mark.parametrize(("liar", "promise"), METRICS, ids=named)
def test_each_liar_is_caught_by_name(liar: Metric, promise: str) -> None:
    with pytest.raises(AssertionError, match=rf"^metric .*{promise}"):
        check_metric(liar)
