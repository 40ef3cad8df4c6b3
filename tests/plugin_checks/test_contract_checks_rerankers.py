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
from owpc_ltr.kernels.kernel import bind, losses_of_scores
from owpc_ltr.plugin_checks import check_reranker
from owpc_ltr.protocols import DescendingReranker, ListTerm, Loss, Reranker, Run
from tests.liars import lying, lying_class, named


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


def first_wins(scores: Vector, _features: Matrix, _base: Vector, *rest: Any) -> Vector:
    scores[0 if not rest else rest[0][:-1]] += 1e-3
    return scores


def in_place(scores: Vector, _features: Matrix, base_scores: Vector, *_rest: Any) -> Vector:
    base_scores[:] = scores
    return scores


class ForgetsCuts(Above):
    def rerank(self, features: Matrix, base_scores: Vector, *_rest: Any) -> Vector:
        return super().rerank(features, base_scores)


def divides(scores: Vector, *_: Any) -> Vector:
    return scores if len(scores) > 1 else np.array([np.nan])


FirstWins = lying_class(Above, "FirstWins", rerank=first_wins)


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
            amounts = self.share * pairs.sum(axis=1)[: self.width]
            terms.append(ListTerm(f"{column}", amounts, None, self.by_document * pairs))
        return terms


def giving(name: str, result: type[Above] = Above, **members: Any) -> Reranker:
    """A reranker with this reordering."""
    return lying(Centred, name, result=result, **members)  # type: ignore[no-any-return]


def explaining(name: str, **members: Any) -> Reranker:
    return giving(name, lying_class(Explains, name, **members))


def pricing(name: str, price: type[Price] | None = None, **members: Any) -> DescendingReranker:
    """A descending reranker whose objective does another thing."""
    made = lying_class(price or Price, name, **members)
    return lying(Descends, name, price=made)  # type: ignore[no-any-return]


class NeverAtRest(Price):
    def reordering(self, weights: Vector) -> Above:
        return super().reordering(weights + 0.1)


def in_other_units(_made: Above, weights: Vector) -> Above:
    doubles = lying_class(Above, "Doubles", rerank=lambda scores, *_: 2.0 * scores)
    return doubles(tuple("1234"), tuple(weights.tolist()))  # type: ignore[no-any-return]


def favours_first(made: Above, weights: Vector) -> Above:
    """Exchangeable where its fit ends, and at zero, not elsewhere."""
    far = np.abs(weights).max() > 0.1
    return FirstWins(made.feature_names, made.shares) if far else made


def moody(value_and_gradient: tuple[float, Vector], _weights: Vector) -> tuple[float, Vector]:
    return value_and_gradient[0] + np.random.default_rng().random(), value_and_gradient[1]


class Tidies(Price):
    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        weights -= weights.mean()
        return super().value_and_gradient(weights)


def test_a_reranker_that_explains_its_lists_passes() -> None:
    (skipped,) = check_reranker(explaining("Explains"), Pairwise())
    assert "objective" in skipped


def test_an_honest_reranker_passes_and_nothing_is_skipped() -> None:
    assert check_reranker(Descends(), Pairwise(inner="logistic")) == ()
    assert check_reranker(Descends(), Pairwise()) == ()


def test_a_reranker_without_an_objective_passes_and_what_is_skipped_is_said() -> None:
    (skipped,) = check_reranker(Centred(), Pairwise())
    assert "'centred' declares that it has no objective" in skipped
    assert "not checked" in skipped


OBJECTIVES = [
    (pricing("WrongGradient", value_and_gradient=lambda t, _: (t[0], t[1] * np.array([1, 1.01]))),
     "a wrong gradient along weight 1"),
    (pricing("ForgetsPenalty", value_and_gradient=lambda t, w: (t[0], t[1] - 2 * w)),
     "a wrong gradient"),
    (pricing("NeverAtRest", NeverAtRest), "changes the base scores by weights of zero"),
    (pricing("OtherUnits", reordering=in_other_units),
     "changes the base scores by weights of zero"),
    (pricing("FavoursFirst", reordering=favours_first), "not exchangeable"),
    (pricing("Moody", value_and_gradient=moody),
     "two answers for the same weights"),
    (pricing("Jagged", value_and_gradient=lambda t, w: (t[0] + 1e-3 * np.sin(1e9 * w.sum()), t[1])),
     "cannot be checked"),
    (pricing("EndlessAtZero", value_and_gradient=lambda t, w: (t[0] if w.any() else np.inf, t[1])),
     "at weights of zero that are not finite"),
    (pricing("ShortGradient", value_and_gradient=lambda t, _: (t[0], t[1][:1])),
     r"shapes \[\(\), \(1,\)\] in place of \[\(\), \(2,\)\]"),
    (pricing("Tidies", Tidies), "changed the weights"),
]  # fmt: skip


@pytest.mark.parametrize(("liar", "sentence"), OBJECTIVES, ids=named)
def test_each_liar_of_an_objective_is_caught(liar: Reranker, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(liar, Pairwise(inner="logistic"))


LIARS = [
    (giving("NotExchangeable", FirstWins), "not exchangeable"),
    (giving("Overwrites", lying_class(Above, "InPlace", rerank=in_place)),
     "changed the base scores"),
    (giving("MixesQueries", ForgetsCuts), "among others"),
    (giving("NeedsTwo", lying_class(Above, "Divides", rerank=divides)), "nan"),
    (giving("LoadsAnother", load=lambda made, _: Above(made.feature_names, (0.0,))),
     "its own JSON"),
    (giving("NamesNoFeature", fit=lambda made, *_: Above(tuple("abcd"), made.shares)),
     "has the features"),
    (giving("Whimsical", whim=lambda _, __: float(np.random.default_rng().random())),
     "the same seed"),
    (giving("CountsThreads", whim=lambda _, run: 0.1 * run.threads), "2 threads"),
    (explaining("ExplainsHalf", share=0.5, by_document=0.5),
     "by terms that do not add up to what it did"),
    (explaining("BlamesOthers", by_document=1.5),
     "what each document added, which does not add up"),
    (explaining("ExplainsTheFirst", width=1), r"by amounts of shape \(1,\)"),
    (lying(Descends, "SaysNothing", has_objective=None),
     "has has_objective = None, which must be bool"),
    (lying(Descends, "Hides", has_objective=False),
     "has a method objective, which goes unchecked"),
    (lying(Centred, "Boasts", has_objective=True), "has no method objective"),
    (giving("Nameless", lying_class(Above, "Nameless", kind=property(lambda self: self.missing))),
     "gave a reordering that has no kind"),
]  # fmt: skip


@pytest.mark.parametrize(("liar", "sentence"), LIARS, ids=named)
def test_each_liar_of_a_reranker_is_caught(liar: Reranker, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(liar, Pairwise())
