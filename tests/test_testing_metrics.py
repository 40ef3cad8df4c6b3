"""The check of metrics passes an honest one and catches each liar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from owpc_ltr_metrics.average_precision import AveragePrecision
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_metrics.precision import Precision
from owpc_ltr_metrics.winner_takes_all import WinnerTakesAll

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.metrics import Metric, RankedQueries, RankSum
from owpc_ltr.plugin_checks import check_metric


@dataclass(frozen=True)
class Honest(Metric):
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


class ReadsScores(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        mean = float(np.clip(queries.scores.mean(), 0, 1))
        return super().values(queries) + mean


class ReadsOtherQueries(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + queries.n_queries


class CountsQueries(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + np.arange(queries.n_queries)


class TooHigh(NDCG):
    def values(self, queries: RankedQueries) -> Vector:
        return 1.5 * super().values(queries)


class Infinite(Honest):
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


class TellsNothing(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        return np.where(np.isnan(super().values(queries)), np.nan, 2.0)


class Flatters(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        ties = "optimistic" if self.ties == "expected" else self.ties
        return Honest(ties=ties).values(queries)


class PolicyIgnored(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        ties = "expected" if self.ties == "pessimistic" else self.ties
        return Honest(ties=ties).values(queries)


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


class LeavesNaN(Honest):
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


class ChangesLabels(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        values = super().values(queries)
        queries.labels[:] = 0
        return values


class Wavers(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries) + np.random.default_rng().random()


class OneValue(Honest):
    def values(self, queries: RankedQueries) -> Vector:
        return super().values(queries)[:1]


class SinglePrecision(Honest):
    def of(self, queries: RankedQueries) -> Any:
        return super().of(queries).astype(np.float32)


class HalfACompiledSum(NDCG):
    def rank_sum(self, queries: RankedQueries) -> RankSum:
        found = super().rank_sum(queries)
        return replace(found, whole=2 * found.whole)


class HidesAnOption(Honest):
    meaning = "mean rank of relevant documents"


class HidesItsGain(NDCG):
    meaning = "discounted gain"


class HidesItsCutoff(AveragePrecision):
    @property
    def meaning(self) -> str:
        return f"average precision of labels above {self.relevant_above}"


class HidesTies(Honest):
    @property
    def convention(self) -> str:
        return f"{self}: {self.meaning}"


class TwoLines(Honest):
    @property
    def meaning(self) -> str:
        return super().meaning + "\n"


class OnPaper(Honest):
    deep: bool = False


@dataclass(frozen=True)
class NoDefault(Honest):
    depth: int = field(kw_only=True)


class BadName(Honest):
    name: ClassVar[str] = "Mean Rank"


class BadVariant(Honest):
    variants: ClassVar[Mapping[str, Any]] = {"Of One": {"relevant_above": 1.0}}


class TwinVariants(Honest):
    variants: ClassVar[Mapping[str, Any]] = {
        "a": {"relevant_above": 1.0},
        "b": {"relevant_above": 1.0},
    }


class WrongText(Honest):
    def __str__(self) -> str:
        return self.name


class NeedsACutoff(AveragePrecision):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff is None:
            raise UsageError("'map' needs a cutoff")


class TakesACutoff(Honest):
    def __post_init__(self) -> None:
        """Refuse nothing."""


class NoRange(Honest):
    value_range: ClassVar[tuple[float, float]] = (1.0, 1.0)


@pytest.mark.parametrize("ties", ["expected", "file-order"])
@pytest.mark.parametrize("make", [Honest, NDCG, Precision], ids=lambda make: make.name)
def test_an_honest_metric_passes(make: Any, ties: str) -> None:
    check_metric(make(ties=ties))
    check_metric(make(ties=ties), seed=1, top_grade=1)


@pytest.mark.parametrize(
    ("liar", "promise"),
    [
        (ReadsTheFile(), "depends on the order of the documents in the file"),
        (ReadsScores(), "depends on more of the scores than their order"),
        (ReadsOtherQueries(), "alone and .* among others"),
        (CountsQueries(), "depends on the order of the queries"),
        (TooHigh(), "declares that it lies between 0 and 1, and goes from .* to 1.5"),
        (Infinite(), "is infinite"),
        (Backwards(), "what must be the best order"),
        (SwapsHarm(ties="file-order"), "claims that swaps help, but moving label"),
        (TellsNothing(), "gives the best and the worst order the same value"),
        (Flatters(), "where ties=expected, and the 24 orders"),
        (PolicyIgnored(), "where ties=pessimistic, and the"),
        (LooksBelow(), "depends on the order of the documents below rank 1"),
        (HiddenCutoff(), "is not 'map' on lists that are shorter"),
        (LeavesNaN(), "does not count 0 what is undefined, where empty=zero"),
        (FillsAsItLikes(), "does not count 1 what is undefined, where empty=one"),
        (ForgetsShort(3), "does not count 0 what is shorter than the cutoff"),
        (CountsNothing(), "for a query without documents: it must be undefined"),
        (ChangesLabels(), "changed the labels"),
        (Wavers(), "gave two answers"),
        (OneValue(), r"shape \(1,\) for 6 queries"),
        (SinglePrecision(), "float32 values"),
        (HalfACompiledSum(), "claims to be a sum over ranks"),
        (HidesAnOption(), "does not name relevant-above in its convention"),
        (HidesItsGain(), "does not name gain in its convention"),
        (HidesItsCutoff(), "does not name its cutoff"),
        (HidesTies(), "does not say in its convention that tied scores count their expected"),
        (TwoLines(), "must say its convention in one line"),
        (OnPaper(), "has the option deep only on paper"),
        (NoDefault(depth=1), "needs a default of its option depth"),
        (BadName(), "needs a name of lower-case words"),
        (BadVariant(), "has the variant 'mean-rank-Of One'"),
        (TwinVariants(), "calls itself 'mean-rank-a' where it was read from 'mean-rank-b'"),
        (WrongText(), "calls itself 'mean-rank', which is read as another"),
        (NeedsACutoff(3), "declares its cutoff optional, and refuses None"),
        (TakesACutoff(), "declares its cutoff none, and takes 3"),
        (NoRange(), "declares that it lies between 1.0 and 1.0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Metric) else "",
)
def test_each_liar_is_caught_by_name(liar: Metric, promise: str) -> None:
    with pytest.raises(AssertionError, match=rf"^metric '{liar.name}.*' .*{promise}"):
        check_metric(liar)
