"""Contract checks of losses, optimizers, metrics: honest ones pass, liars are caught."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

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
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks import check_loss, check_metric, check_optimizer
from owpc_ltr.plugin_checks.learners import least_objective
from owpc_ltr.plugin_checks.promises import sample_dataset
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


class NoReason(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return replace(fit, certificate=replace(fit.certificate, stop_reason=""))


class FakeRiskAtZero(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return replace(fit, certificate=replace(fit.certificate, risk_at_zero=99.0))


class NoScores(LinearModel):
    def score(self, features: Matrix) -> Vector:
        return math.nan * super().score(features)


class ScoresNothing(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        assert isinstance(fit.model, LinearModel)
        return replace(fit, model=NoScores(fit.model.feature_names, fit.model.weights))


class WrongFeatures(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        model = LinearModel(("a", "b", "c", "d"), fit.model.weights)  # type: ignore[attr-defined]
        return dataclasses.replace(fit, model=model)


class ReturnsTheModel(Wrapped):
    def twist(self, fit: Fit, _run: Run) -> Fit:
        return fit.model  # type: ignore[return-value]


class ChangesData(Wrapped):
    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        data.labels[0] += 1
        return super().minimise(loss, data, run, start)


class ForgetsScales(Wrapped):
    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        fit = super().minimise(loss, data, run, start)
        weights = cast("LinearModel", fit.model).weights / data.scales
        return dataclasses.replace(fit, model=LinearModel(fit.model.feature_names, weights))


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
        (NoReason(), "does not say why it stopped"),
        (FakeRiskAtZero(), "reports the risk at zero"),
        (ScoresNothing(), "gave scores that are not finite"),
        (WrongFeatures(), "features"),
        (ReturnsTheModel(), "returned a LinearModel: return a Fit"),
        (ChangesData(), "changed the data that it was given"),
        (ForgetsScales(), "reports the risk"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Wrapped) else None,
)
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


class WrongGradient(Honest):
    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return value, 1.01 * gradient


class NotConvex(Honest):
    # What it does not claim is not measured.
    conservative: ClassVar[bool] = False

    def value_and_gradient(self, *query: Any) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(*query)
        return float(np.log1p(value)), gradient / (1 + value)


class NotSmooth(Pairwise):
    smooth: ClassVar[bool] = True


@dataclass(frozen=True)
class NotConservative(LambdaRank):
    conservative: ClassVar[bool] = True
    normalise: Literal["none", "pairs", "queries", "both"] = "none"


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
        (Restless(), "two answers"),
        (Undefined(), "nan in place of 0"),
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


class ForgetsAQuery(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries)[1:]


def test_a_metric_that_forgets_a_query_is_refused_where_it_is_used() -> None:
    told = "metric 'mean-rank' gave values of shape \\(1,\\) for 2 queries"
    with pytest.raises(PluginError, match=told):
        ForgetsAQuery().per_query(np.arange(4.0), np.array([0, 1, 1, 0]), np.array([0, 2, 4]))


class ReadsScores(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        mean = float(np.clip(queries.scores.mean(), 0, 1))
        return super().values(queries) + mean


class ReadsOtherQueries(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + queries.n_queries


class CountsQueries(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + np.arange(queries.n_queries)


class TooHigh(NDCG):
    def values(self, queries: RankedQueries) -> Vector:
        return 1.5 * super().values(queries)


class Infinite(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        values = super().values(queries)
        return np.where(values > 4, np.inf, values)


class Backwards(AveragePrecision):
    higher_is_better: ClassVar[bool] = False


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


class TellsNothing(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return np.where(np.isnan(super().values(queries)), np.nan, 2.0)


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


class LooksBelow(AveragePrecision):
    def values(self, queries: RankedQueries) -> Vector:
        return AveragePrecision(ties=self.ties).values(queries)

    def rank_sum(self, queries: RankedQueries) -> Any:
        return None


class HiddenCutoff(AveragePrecision):
    def values(self, queries: RankedQueries) -> Vector:
        return AveragePrecision(self.cutoff or 3, ties=self.ties).values(queries)

    def rank_sum(self, queries: RankedQueries) -> Any:
        return None


class LeavesNaN(HonestMetric):
    def of(self, queries: RankedQueries) -> Vector:
        return self.values(queries)


class FillsAsItLikes(NDCG):
    def of(self, queries: RankedQueries) -> Vector:
        values = super().of(queries)
        return values if self.empty != "one" else np.minimum(values, 0.9)


class ForgetsShort(NDCG):
    def of(self, queries: RankedQueries) -> Vector:
        return NDCG(self.cutoff, ties=self.ties, empty=self.empty).of(queries)


class CountsNothing(NDCG):
    def values(self, queries: RankedQueries) -> Vector:
        return np.nan_to_num(super().values(queries))


class ChangesLabels(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        values = super().values(queries)
        queries.labels[:] = 0
        return values


class Wavers(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + np.random.default_rng().random()


class OneValue(HonestMetric):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries)[:1]


class SinglePrecision(HonestMetric):
    def of(self, queries: RankedQueries) -> Any:
        return super().of(queries).astype(np.float32)


class HalfACompiledSum(NDCG):
    def rank_sum(self, queries: RankedQueries) -> RankSum:
        found = super().rank_sum(queries)
        return replace(found, whole=2 * found.whole)


class HidesAnOption(HonestMetric):
    meaning = "mean rank of relevant documents"


class HidesItsGain(NDCG):
    meaning = "discounted gain"


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


class BadName(HonestMetric):
    name: ClassVar[str] = "Mean Rank"


class BadVariant(HonestMetric):
    variants: ClassVar[Mapping[str, Any]] = {"Of One": {"relevant_above": 1.0}}


class TwinVariants(HonestMetric):
    variants: ClassVar[Mapping[str, Any]] = {
        "a": {"relevant_above": 1.0},
        "b": {"relevant_above": 1.0},
    }


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


class NoRange(HonestMetric):
    value_range: ClassVar[tuple[float, float]] = (1.0, 1.0)


@pytest.mark.parametrize("ties", ["expected", "file-order"])
@pytest.mark.parametrize("make", [HonestMetric, NDCG, Precision], ids=lambda make: make.name)
def test_an_honest_metric_passes(make: Any, ties: str) -> None:
    check_metric(make(ties=ties))
    check_metric(make(ties=ties), seed=1, top_grade=1)


@pytest.mark.parametrize(
    ("liar", "promise"),
    [
        (ReadsTheFile(), "depends on the order of the documents in the file"),
        (ReadsScores(), "depends on more of the scores than their order"),
        (ReadsOtherQueries(), "differs for a query alone and among others"),
        (CountsQueries(), "depends on the order of the queries"),
        (TooHigh(), "declares that it lies between 0 and 1, and goes from .* to 1.5"),
        (Infinite(), "gave values that are not finite"),
        (Backwards(), "what must be the best order"),
        (SwapsHarm(ties="file-order"), "claims that swaps help, but moving label"),
        (TellsNothing(), "gives the best and the worst order the same value"),
        (Flatters(), "does not count the 24 orders of tied documents by ties=expected"),
        (PolicyIgnored(), "orders of tied documents by ties=file-order"),
        (LooksBelow(), "depends on the order of the documents below rank 1"),
        (HiddenCutoff(), "is not 'map' on lists that are shorter"),
        (LeavesNaN(), "does not count 0 by empty=zero"),
        (FillsAsItLikes(), "does not count 1 by empty=one"),
        (ForgetsShort(3), "does not count 0 by short=zero"),
        (CountsNothing(), "for a query without documents: it must be undefined"),
        (ChangesLabels(), "changed the labels"),
        (Wavers(), "gave two answers"),
        (OneValue(), r"gave values of shape \(1,\) for 6 queries: return one number a query"),
        (SinglePrecision(), "float32 values"),
        (HalfACompiledSum(), "claims to be a sum over ranks"),
        (
            HidesAnOption(),
            "says the same in the convention of 'mean-rank' and 'mean-rank,relevant-above=1'",
        ),
        (HidesItsGain(), "says the same in the convention of 'ndcg' and 'ndcg,gain=linear'"),
        (HidesItsCutoff(), "says the same in the convention of 'map@3' and 'map@4'"),
        (HidesTies(), "does not say in its convention that tied scores count their expected"),
        (TwoLines(), "must say its convention in one line"),
        (OnPaper(), "has the option deep only on paper"),
        (NoDefault(depth=1), "has no default for its setting 'depth'"),
        (BadName(), "needs a class attribute `name` in lower case, not 'Mean Rank'"),
        (BadVariant(), "cannot be read from its text: there is no metric 'mean-rank-of one'"),
        (TwinVariants(), "calls itself 'mean-rank-a' where it was read from 'mean-rank-b'"),
        (WrongText(), "calls itself 'mean-rank', which is read as another"),
        (NeedsACutoff(3), "declares its cutoff optional, and refuses None"),
        (TakesACutoff(), "declares its cutoff none, and takes 3"),
        (NoRange(), "declares that it lies between 1.0 and 1.0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Metric) else "",
)
def test_each_liar_is_caught_by_name(liar: Metric, promise: str) -> None:
    with pytest.raises(AssertionError, match=rf"^metric .*{promise}"):
        check_metric(liar)
