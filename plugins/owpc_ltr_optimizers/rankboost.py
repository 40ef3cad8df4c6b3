"""RankBoost (Freund, Iyer, Schapire & Singer, JMLR 2003): boosting of thresholds on pairs.

D weighs the pairs of documents of one query, i better than j. Each round adds α h to the scores,
h(x) = 1 where a feature reaches a threshold, chosen for the largest |r|,
r = Σ D(i, j) (h(x_i) − h(x_j)), with α = ½ log (1 + r) / (1 − r) (their third method), and D is
multiplied by exp(−α (h(x_i) − h(x_j))). Pairs are never listed: D(i, j) ∝ exp(s_j − s_i) factors,
so that r = Σ_i π_i h(x_i), where π takes two passes over the documents of a query in the order
of their labels (their RankBoost.B, for any number of grades).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.host.settings import check_settings
from owpc_ltr.kernels.kernel import run_blocks
from owpc_ltr.metrics.training_metrics import Judge
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.protocols import Certificate, Fit, Loss, Optimizer, Run

_CUTS = 254  # thresholds of a feature at most: with the missing values, a code is one byte
_MISSING = 255


@dataclass(frozen=True)
class RankBoost:
    """A sum of thresholds on single features, boosted on pairs of documents; exports as trees.

    A missing value counts as above or below a threshold, whichever separates more pairs. The
    certificate's objective is the weighted mean over pairs of exp(s_j − s_i). There is no gap.
    """

    name: ClassVar[str] = "rankboost"
    needs_convex: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False

    rounds: int = 500
    patience: int = 100

    def __post_init__(self) -> None:
        check_settings(self)
        if min(self.rounds, self.patience) < 1:
            raise ValueError("rounds and patience must be 1 or more")

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Add thresholds; those up to the best validation metric are kept. No loss is used."""
        del loss, start
        pairs, stumps = _Pairs(data, run.threads), list[_Stump]()
        judge: Judge[int] = Judge(run, self.patience)
        unseen = None if run.validation is None else run.validation.load().features
        scores = np.zeros(0 if unseen is None else len(unseen))
        objectives, history = [pairs.objective], list[dict[str, float]]()
        reason = f"stopped after {self.rounds} rounds"
        for number in range(1, self.rounds + 1):
            stump = pairs.best_stump()
            pairs.add(stump)
            stumps.append(stump)
            objectives.append(pairs.objective)
            if unseen is not None:
                np.add(scores, stump.score(unseen), out=scores)
            row = {"pass": number, "objective": objectives[-1], "step": stump.alpha}
            history.append(row | judge.see(number, lambda _: scores))
            run.progress(f"rankboost round {number}", number / self.rounds)
            if stump.alpha == 0.0:
                reason = "no threshold separates the pairs any further"
                break
            if judge.lost_patience:
                reason = f"{judge.verdict} round {judge.best_number}"
                break
        assert judge.best is not None  # noqa: S101 - there is one round at least
        certificate = Certificate(objectives[judge.best], passes=judge.best, stop_reason=reason)
        return Fit(_model(data.feature_names, stumps[: judge.best]), certificate, tuple(history))


class _Stump(NamedTuple):
    """α where the feature is at or above the threshold (or missing, if that counts), else 0."""

    feature: int
    threshold: np.float32
    missing: bool
    alpha: float

    def score(self, features: Matrix) -> Vector:
        """What it adds to each document's score."""
        column = features[:, self.feature]
        reached = (column >= self.threshold) | (np.isnan(column) & self.missing)
        return np.where(reached, self.alpha, 0.0)


class _Pairs:
    """The features as bytes, the scores so far, and what they leave of each pair."""

    def __init__(self, data: RankingDataset, threads: int) -> None:
        self.data, self.threads = data, threads
        self.cuts, self.codes = _encode(data.features)
        self.counts = np.array([len(cuts) for cuts in self.cuts])
        queries = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
        self.by_label = np.lexsort((data.labels, queries))
        self.scores, self.force = np.zeros(data.n_documents), np.zeros(data.n_documents)
        self.at_zero = 1.0
        self.at_zero = self._weigh()
        if self.at_zero == 0.0:
            raise Refused(
                "no query has two documents with different labels (and weight): there is no order "
                "to learn"
            )
        self.objective = 1.0

    def best_stump(self) -> _Stump:
        """The threshold that separates most of the weight, with its α."""
        blocks = np.array_split(np.arange(self.data.n_features), min(16, self.data.n_features))
        best_cuts = np.zeros((self.data.n_features, 3))

        def search(index: int) -> None:
            features = blocks[index]
            _best_cuts(
                self.codes, self.counts, self.force, features[0], features[-1] + 1, best_cuts
            )

        run_blocks(search, len(blocks), self.threads)
        feature = int(np.argmax(np.abs(best_cuts[:, 0])))
        r, cut, missing = best_cuts[feature]
        r = float(np.clip(r / (self.at_zero * self.objective), -1 + 1e-9, 1 - 1e-9))
        alpha = 0.5 * np.log((1 + r) / (1 - r)) if abs(r) > 1e-12 else 0.0
        cuts = self.cuts[feature]
        threshold = cuts[int(cut)] if len(cuts) else np.float32(0)
        return _Stump(feature, threshold, bool(missing), float(alpha))

    def add(self, stump: _Stump) -> None:
        """Add a stump to the scores, and weigh the pairs anew."""
        self.scores += stump.score(self.data.features)
        self.objective = self._weigh() / self.at_zero

    def _weigh(self) -> float:
        """Write π to `force`; the sum of exp(s_j − s_i) over all pairs, with their weights."""
        data = self.data
        of_documents = data.labels, data.weights, data.query_importance, data.offsets
        return float(_weigh_pairs(self.scores, *of_documents, self.by_label, self.force))


def _encode(features: Matrix) -> tuple[list[NDArray[np.float32]], NDArray[np.uint8]]:
    """Thresholds of each feature, and for each value how many it reaches (a column a row)."""
    codes = np.empty(features.shape[::-1], dtype=np.uint8)
    cuts = []
    for feature in range(features.shape[1]):
        column = np.ascontiguousarray(features[:, feature])
        missing = np.isnan(column)
        known = np.sort(column[np.isfinite(column)])
        # Every known value reaches the lowest one, which only tells them from missing ones.
        values = np.unique(known)[0 if missing.any() else 1 :]
        if len(values) > _CUTS:
            places = np.linspace(0, len(known) - 1, _CUTS + 2).astype(np.int64)[1:-1]
            values = np.unique(known[places])
        cuts.append(values)
        codes[feature] = np.searchsorted(values, column, side="right")
        codes[feature, missing] = _MISSING
    return cuts, codes


@compiled
def _weigh_pairs(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    importance: Vector,
    offsets: IntVector,
    by_label: IntVector,
    force: Vector,
) -> float:
    """force_i = Σ_{j worse} D(i, j) − Σ_{j better} D(j, i), D(i, j) = weights · exp(s_j − s_i)."""
    total = 0.0
    for query in range(len(offsets) - 1):
        order = by_label[offsets[query] : offsets[query + 1]]
        # Any shift of a query's scores cancels: this one keeps exp within bounds.
        low, high = np.inf, -np.inf
        for i in order:
            low, high = min(low, scores[i]), max(high, scores[i])
        middle = 0.5 * (low + high)
        below, group = 0.0, 0.0
        for k in range(len(order)):
            i = order[k]
            if k > 0 and labels[i] > labels[order[k - 1]]:
                below, group = below + group, 0.0
            shifted = min(max(scores[i] - middle, -300.0), 300.0)
            group += weights[i] * np.exp(shifted)
            force[i] = importance[query] * weights[i] * np.exp(-shifted) * below
            total += force[i]
        above, group = 0.0, 0.0
        for k in range(len(order) - 1, -1, -1):
            i = order[k]
            if k < len(order) - 1 and labels[i] < labels[order[k + 1]]:
                above, group = above + group, 0.0
            shifted = min(max(scores[i] - middle, -300.0), 300.0)
            group += weights[i] * np.exp(-shifted)
            force[i] -= importance[query] * weights[i] * np.exp(shifted) * above
    return total


@compiled
def _best_cuts(
    codes: NDArray[np.uint8],
    counts: IntVector,
    force: Vector,
    first: int,
    last: int,
    cuts: NDArray[np.float64],
) -> None:
    """For each feature the largest |r|, its threshold, and whether missing values reach it."""
    sums = np.empty(256)
    for feature in range(first, last):
        sums[:] = 0.0
        for i in range(len(force)):
            sums[codes[feature, i]] += force[i]
        cuts[feature] = 0.0
        r = 0.0
        for code in range(counts[feature], 0, -1):
            r += sums[code]
            for missing in range(2):
                candidate = r + missing * sums[_MISSING]
                if abs(candidate) > abs(cuts[feature, 0]) * (1 + 1e-12):
                    cuts[feature, 0] = candidate
                    cuts[feature, 1] = code - 1
                    cuts[feature, 2] = missing


def _model(names: tuple[str, ...], stumps: list[_Stump]) -> TreeModel:
    """One tree a threshold; the same threshold taken again adds to its tree."""
    alphas: dict[tuple[int, np.float32, bool], float] = {}
    for stump in stumps:
        alphas[stump[:3]] = alphas.get(stump[:3], 0.0) + stump.alpha
    count = len(alphas)
    kept = np.array([(feature, missing) for feature, _, missing in alphas])
    thresholds = np.array([threshold for _, threshold, _ in alphas], dtype=np.float32)
    roots = np.arange(0, 3 * count, 3, dtype=np.int32)

    def nodes(of_root: ArrayLike, of_left: ArrayLike, of_right: ArrayLike, kind: DTypeLike) -> Any:
        parts = (np.broadcast_to(part, count) for part in (of_root, of_left, of_right))
        return np.column_stack(list(parts)).ravel().astype(kind)

    forest = Forest(
        roots=roots,
        feature=nodes(kept[:, 0], LEAF, LEAF, np.int32),
        threshold=nodes(thresholds, 0, 0, np.float32),
        left=nodes(roots + 1, 0, 0, np.int32),
        default_left=nodes(kept[:, 1] == 0, 0, 0, np.bool_),
        value=nodes(0.0, 0.0, list(alphas.values()), np.float64),
    )
    return TreeModel(names, forest)


@hookimpl
def ltr_optimizers() -> list[type[Optimizer]]:
    """Offer `--optimizer rankboost`."""
    return [RankBoost]
