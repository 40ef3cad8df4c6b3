"""Documents borrow score from those that are alike: an example of a reranker.

f_i = (1 − a) b_i + a · median of b over the documents of the list nearest to i (Jardine & van
Rijsbergen 1971: what is close to a relevant document tends to be relevant). A median does not
depend on the order of its terms, to the last bit, so that permuting a list permutes its scores.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from owpc_ltr import RankingDataset, hookimpl
from owpc_ltr.types import Fields, Loss, Matrix, Reordering, Reranker, Run, Vector

_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Neighbours:
    """How much to borrow is chosen by the loss on the training lists; borrowing nothing is one.

    `nearest` is how many documents each one is compared with.
    """

    name: ClassVar[str] = "neighbours"
    has_objective: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ()

    nearest: int = 5

    def fit(self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Reordering:
        """Try each share, and keep the one of the smallest loss (the smaller one of equal)."""
        candidates = [Borrowing(data.feature_names, self.nearest, share) for share in _SHARES]
        return min(candidates, key=lambda one: _risk(one, loss, data, base_scores))

    def load(self, content: dict[str, Any]) -> Reordering:
        """What `Borrowing.as_dict` wrote."""
        return Borrowing(tuple(content["features"]), content["nearest"], content["share"])


@dataclass(frozen=True)
class Borrowing:
    """A share of each score replaced by the median of the nearest documents' scores."""

    kind: ClassVar[str] = "neighbours"
    field_names: ClassVar[tuple[str, ...]] = ()

    feature_names: tuple[str, ...]
    nearest: int
    share: float

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: Any = None,
        fields: Fields | None = None,
    ) -> Vector:
        """New scores; lists do not look at each other."""
        cuts = [0, len(base_scores)] if offsets is None else offsets
        parts = [
            self._one(features[start:end], base_scores[start:end]) for start, end in pairwise(cuts)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def as_dict(self) -> dict[str, Any]:
        """The share, and of what."""
        return {"features": self.feature_names, "nearest": self.nearest, "share": self.share}

    def _one(self, features: Matrix, base: Vector) -> Vector:
        if len(base) < 2 or self.share == 0.0:
            return np.asarray(base, dtype=np.float64)
        rows = np.nan_to_num(features.astype(np.float64))
        apart = np.abs(rows[:, None, :] - rows[None, :, :]).max(axis=2)
        np.fill_diagonal(apart, np.inf)
        taken = min(self.nearest, len(base) - 1)
        borrowed = np.empty(len(base))
        for document, distances in enumerate(apart):
            # Equally near documents are taken by score, never by their place in the list.
            borrowed[document] = np.median(base[np.lexsort((base, distances))[:taken]])
        return (1 - self.share) * base + self.share * borrowed


def _risk(one: Borrowing, loss: Loss, data: RankingDataset, base_scores: Vector) -> float:
    scores = one.rerank(data.features, base_scores, data.offsets)
    ones = np.ones(len(scores))
    cuts = [slice(a, b) for a, b in pairwise(data.offsets)]
    labels = data.labels
    return sum(loss.value_and_gradient(scores[q], labels[q], ones[q])[0] for q in cuts)


@hookimpl
def ltr_rerankers() -> list[type[Reranker]]:
    """Offer `--reranker neighbours`."""
    return [Neighbours]
