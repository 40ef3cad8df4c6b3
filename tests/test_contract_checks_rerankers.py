"""The contract check of rerankers: honest ones pass, each liar is caught."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr import RankingDataset
from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import losses_of_scores
from owpc_ltr.plugin_checks import check_reranker
from owpc_ltr.protocols import DescendingReranker, ListTerm, Loss, Reranker, Run


@dataclass(frozen=True)
class Above:
    """Base score plus a learned share of how far a document is above the means of its list."""

    kind: ClassVar[str] = "above"
    field_names: ClassVar[tuple[str, ...]] = ()
    feature_names: tuple[str, ...]
    shares: tuple[float, ...]

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: Any = None,
        _fields: Fields | None = None,
    ) -> Vector:
        scores = base_scores.copy()
        offsets = np.array([0, len(scores)]) if offsets is None else offsets
        for column, share in enumerate(self.shares):
            scores += share * above_mean(features[:, column], offsets)
        return scores

    def as_dict(self) -> dict[str, Any]:
        return {"feature_names": list(self.feature_names), "shares": list(self.shares)}


def above_mean(column: Any, offsets: Any) -> Vector:
    above: Vector = column.astype(np.float64)
    for start, end in pairwise(offsets.tolist()):
        above[start:end] -= above[start:end].mean()
    return above


@dataclass(frozen=True)
class Centred:
    """An honest reranker, which solves for its share: there is nothing to descend."""

    name: ClassVar[str] = "centred"
    has_objective: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ()
    result: ClassVar[type[Above]] = Above

    def fit(self, _loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Above:
        share = float(np.cov(data.features[:, 0], data.labels - base_scores)[0, 1])
        return self.result(data.feature_names, (share + self.whim(run),))

    def whim(self, _run: Run) -> float:
        return 0.0

    def load(self, content: dict[str, Any]) -> Above:
        return self.result(tuple(content["feature_names"]), tuple(content["shares"]))


@dataclass(frozen=True, eq=False)
class Price:
    """The loss of the scores that two shares give, plus their squares."""

    loss: Loss
    data: RankingDataset
    base: Vector
    size: ClassVar[int] = 2

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        X = np.stack([above_mean(self.data.features[:, k], self.data.offsets) for k in (0, 1)])
        scores = self.base + weights @ X
        values, slopes, _ = losses_of_scores(self.data, bind(self.loss), scores)
        return float(values.sum() + weights @ weights), X @ slopes + 2 * weights

    def reordering(self, weights: Vector) -> Above:
        return Above(self.data.feature_names, tuple(weights.tolist()))


class Descends(Centred):
    """An honest reranker, which takes steps down its objective."""

    name: ClassVar[str] = "descends"
    has_objective: ClassVar[bool] = True
    price: ClassVar[type[Price]] = Price

    def objective(self, loss: Loss, data: RankingDataset, base_scores: Vector, _run: Run) -> Price:
        return self.price(loss, data, base_scores)

    def fit(self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Above:
        objective = Price(loss, data, base_scores)
        weights = np.zeros(objective.size)
        for _ in range(5):
            weights -= 0.01 * objective.value_and_gradient(weights)[1]
        return objective.reordering(weights)


class FirstWins(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *rest: Any) -> Vector:
        scores = super().rerank(features, base_scores, *rest)
        scores[0 if not rest else rest[0][:-1]] += 1e-3
        return scores


class InPlace(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *rest: Any) -> Vector:
        base_scores[:] = super().rerank(features, base_scores, *rest)
        return base_scores.copy()


class Divides(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *rest: Any) -> Vector:
        if len(base_scores) == 1:
            return np.array([np.nan])
        return super().rerank(features, base_scores, *rest)


class ForgetsCuts(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *_rest: Any) -> Vector:
        return super().rerank(features, base_scores)


class Explains(Above):
    """One that says of each feature what it did, and whose differences to the others."""

    share: ClassVar[float] = 1.0
    by_document: ClassVar[float] = 1.0
    width: ClassVar[int | None] = None

    def explain(
        self, features: Matrix, base_scores: Vector, _fields: Fields | None = None
    ) -> list[ListTerm]:
        terms = []
        for column, share in enumerate(self.shares):
            values = features[:, column].astype(np.float64)
            pairs = share * (values[:, None] - values[None, :]) / len(values)
            told = self.share * pairs.sum(axis=1)[: self.width]
            terms.append(ListTerm(f"{column}", told, None, self.by_document * pairs))
        return terms


class ExplainsHalf(Explains):
    share: ClassVar[float] = 0.5
    by_document: ClassVar[float] = 0.5


class BlamesOthers(Explains):
    by_document: ClassVar[float] = 1.5


class ExplainsTheFirst(Explains):
    width: ClassVar[int | None] = 1


def explaining(kind: type[Explains]) -> Reranker:
    made: type[Centred] = type(kind.__name__, (Centred,), {"result": kind})
    return made()


class MixesQueries(Centred):
    result: ClassVar[type[Above]] = ForgetsCuts


class NotExchangeable(Centred):
    result: ClassVar[type[Above]] = FirstWins


class Overwrites(Centred):
    result: ClassVar[type[Above]] = InPlace


class NeedsTwo(Centred):
    result: ClassVar[type[Above]] = Divides


class LoadsAnother(Centred):
    def load(self, content: dict[str, Any]) -> Above:
        return Above(tuple(content["feature_names"]), (0.0,))


class NamesNoFeature(Centred):
    def fit(self, *given: Any) -> Above:
        return Above(("a", "b", "c", "d"), super().fit(*given).shares)


class Whimsical(Centred):
    def whim(self, _run: Run) -> float:
        return float(np.random.default_rng().random())


class CountsThreads(Centred):
    def whim(self, run: Run) -> float:
        return 0.1 * run.threads


class WrongGradient(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return value, gradient * np.array([1.0, 1.01])


class ForgetsPenalty(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return value, gradient - 2 * weights


class NeverAtRest(Price):
    def reordering(self, weights: Vector) -> Above:
        return super().reordering(weights + 0.1)


class Doubles(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *rest: Any) -> Vector:
        return 2.0 * super().rerank(features, base_scores, *rest)


class OtherUnits(Price):
    def reordering(self, weights: Vector) -> Above:
        return Doubles(self.data.feature_names, tuple(weights.tolist()))


class FavoursFirst(Price):
    """Exchangeable where its fit ends, and at zero, not elsewhere."""

    def reordering(self, weights: Vector) -> Above:
        kind = FirstWins if np.abs(weights).max() > 0.1 else Above
        return kind(self.data.feature_names, tuple(weights.tolist()))


class Moody(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return value + float(np.random.default_rng().random()), gradient


class Jagged(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return value + 1e-3 * float(np.sin(1e9 * weights.sum())), gradient


class EndlessAtZero(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return (value if weights.any() else np.inf), gradient


class ShortGradient(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        value, gradient = super().value_and_gradient(weights)
        return value, gradient[:1]


class Tidies(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        weights -= weights.mean()
        return super().value_and_gradient(weights)


def descending(kind: type[Price]) -> DescendingReranker:
    made: type[Descends] = type(kind.__name__, (Descends,), {"price": kind})
    return made()


class SaysNothing(Descends):
    has_objective = None  # type: ignore[assignment]


class Hides(Descends):
    has_objective: ClassVar[bool] = False


class Boasts(Centred):
    has_objective: ClassVar[bool] = True


def test_a_reranker_that_explains_its_lists_passes() -> None:
    (skipped,) = check_reranker(explaining(Explains), Pairwise())
    assert "objective" in skipped


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ExplainsHalf, "by terms that do not add up to what it did"),
        (BlamesOthers, "what each document added, which does not add up"),
        (ExplainsTheFirst, r"by amounts of shape \(1,\)"),
    ],
)
def test_terms_that_are_not_all_of_what_a_list_did_are_caught(
    kind: type[Explains], said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        check_reranker(explaining(kind), Pairwise())


def test_an_honest_reranker_passes_and_nothing_is_skipped() -> None:
    assert check_reranker(Descends(), Pairwise(inner="logistic")) == ()
    assert check_reranker(Descends(), Pairwise()) == ()


def test_a_reranker_without_an_objective_passes_and_what_is_skipped_is_said() -> None:
    (skipped,) = check_reranker(Centred(), Pairwise())
    assert "'centred' declares that it has no objective" in skipped
    assert "not checked" in skipped


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (WrongGradient, "a wrong gradient along weight 1"),
        (ForgetsPenalty, "a wrong gradient"),
        (NeverAtRest, "changes the base scores by weights of zero"),
        (OtherUnits, "changes the base scores by weights of zero"),
        (FavoursFirst, "not exchangeable"),
        (Moody, "two answers for the same weights"),
        (Jagged, "cannot be checked"),
        (EndlessAtZero, "at weights of zero that are not finite"),
        (ShortGradient, r"shapes \[\(\), \(1,\)\] in place of \[\(\), \(2,\)\]"),
        (Tidies, "changed the weights"),
    ],
)
def test_each_liar_of_an_objective_is_caught(liar: type[Price], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(descending(liar), Pairwise(inner="logistic"))


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (SaysNothing(), "has has_objective = None, which must be bool"),
        (Hides(), "has a method objective, which goes unchecked"),
        (Boasts(), "has no method objective"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Centred) else None,
)
def test_an_objective_cannot_be_hidden(liar: Reranker, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(liar, Pairwise())


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (NotExchangeable(), "not exchangeable"),
        (Overwrites(), "changed the base scores"),
        (MixesQueries(), "among others"),
        (NeedsTwo(), "nan"),
        (LoadsAnother(), "its own JSON"),
        (NamesNoFeature(), "has the features"),
        (Whimsical(), "the same seed"),
        (CountsThreads(), "2 threads"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Centred) else None,
)
def test_each_liar_of_a_reranker_is_caught(liar: Reranker, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(liar, Pairwise())


def test_a_reordering_without_a_kind_is_refused() -> None:
    class Nameless(Above):
        kind = property(lambda self: self.missing)

    made: type[Centred] = type("Nameless", (Centred,), {"result": Nameless})
    with pytest.raises(AssertionError, match="gave a reordering that has no kind"):
        check_reranker(made(), Pairwise())
