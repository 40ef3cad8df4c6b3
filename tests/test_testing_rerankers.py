"""The check of rerankers passes an honest one and catches each liar."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_losses.pairwise import Pairwise

from owpc_ltr.data import RankingDataset
from owpc_ltr.interfaces import Fields, Loss, Matrix, Reranker, Run, Vector
from owpc_ltr.testing import check_reranker


@dataclass(frozen=True)
class Above:
    """Base score plus a learned share of how far a document is above the mean of its list."""

    kind: ClassVar[str] = "above"
    field_names: ClassVar[tuple[str, ...]] = ()
    feature_names: tuple[str, ...]
    share: float

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: Any = None,
        _fields: Fields | None = None,
    ) -> Vector:
        scores = base_scores.copy()
        cuts = [0, len(scores)] if offsets is None else offsets.tolist()
        for start, end in pairwise(cuts):
            column = features[start:end, 0].astype(np.float64)
            scores[start:end] += self.share * (column - column.mean())
        return scores

    def as_dict(self) -> dict[str, Any]:
        return {"feature_names": list(self.feature_names), "share": self.share}


@dataclass(frozen=True)
class Centred:
    """An honest reranker."""

    name: ClassVar[str] = "centred"
    field_names: ClassVar[tuple[str, ...]] = ()
    result: ClassVar[type[Above]] = Above

    def fit(self, _loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Above:
        share = float(np.cov(data.features[:, 0], data.labels - base_scores)[0, 1])
        return self.result(data.feature_names, share + self.whim(run))

    def whim(self, _run: Run) -> float:
        return 0.0

    def load(self, content: dict[str, Any]) -> Above:
        return self.result(tuple(content["feature_names"]), content["share"])


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
        return Above(tuple(content["feature_names"]), 0.0)


class Whimsical(Centred):
    def whim(self, _run: Run) -> float:
        return float(np.random.default_rng().random())


class CountsThreads(Centred):
    def whim(self, run: Run) -> float:
        return 0.1 * run.threads


def test_an_honest_reranker_passes() -> None:
    check_reranker(Centred(), Pairwise())


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (NotExchangeable(), "not exchangeable"),
        (Overwrites(), "changed the base scores"),
        (MixesQueries(), "among others"),
        (NeedsTwo(), "nan"),
        (LoadsAnother(), "its own JSON"),
        (Whimsical(), "the same seed"),
        (CountsThreads(), "2 threads"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Centred) else None,
)
def test_each_liar_of_a_reranker_is_caught(liar: Reranker, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_reranker(liar, Pairwise())
