"""What exchangeable reranking gains on LETOR 3.0's OHSUMED, by the protocol of its paper.

    python benchmarks/reranking.py FOLDS

FOLDS holds Fold1 … Fold5 with train.txt, vali.txt and test.txt. Prints Markdown: for each base
ranker, NDCG@1/2/5/10 on the test queries of all folds (LETOR's discount; a query without relevant
documents counts 0), then the same reranked with each loss (Pareek & Ravikumar 2014), and a paired
test of NDCG@10 against the base. The penalty is chosen on the validation queries of each fold.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from owpc_ltr_losses.bregman import Bregman
from owpc_ltr_losses.cosine import Cosine
from owpc_ltr_losses.listnet import ListNet
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.coordinate_ascent import CoordinateAscent
from owpc_ltr_optimizers.larank import LaRank
from owpc_ltr_optimizers.rankboost import RankBoost
from owpc_ltr_rerankers.exchangeable import Exchangeable

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import read_letor
from owpc_ltr.evaluation.significance import compare_paired
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import model_plan
from owpc_ltr.training.rerankers import RerankingPlan, fit_reranker, reranking_plan

METRICS = [parse_metric(f"ndcg-letor@{k}") for k in (1, 2, 5, 10)]
SELECT = "ndcg-letor@10"
LOSSES: Mapping[str, tuple[type[Any], Mapping[str, Any]]] = {
    "cross-entropy": (Bregman, {"loss.psi": "cross-entropy"}),
    "square": (Bregman, {"loss.psi": "square"}),
    "q-norm": (Bregman, {"loss.psi": "q-norm"}),
    "ListNet": (ListNet, {}),
    "cosine": (Cosine, {}),
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "as above": {},
    "raw sums, as in the paper": {"reranker.kernel_sums": "raw"},
    "softplus": {"reranker.positive": "softplus"},
    "rbf in place of cosine": {"reranker.kernels": "rbf"},
    "cosine and rbf": {"reranker.kernels": "cosine,rbf"},
    "two terms": {"reranker.terms": 2},
}
PAPER = {"RankBoost": ((0.5104, 0.4798, 0.4547, 0.4356), (0.5421, 0.4901, 0.4615, 0.4445))}
Fold = Mapping[str, RankingDataset]
BaseRanker = Callable[[Fold], Model]


@dataclass(frozen=True)
class Regression:
    """mean (s − label)²: what MART's trees descend."""

    name: ClassVar[str] = "regression"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        """Value and gradient of one query."""
        away = scores - labels
        return float(weights @ away**2), 2 * weights * away


def main() -> None:
    parser = argparse.ArgumentParser(description="Gains of exchangeable reranking on OHSUMED.")
    parser.add_argument("folds", type=Path, help="The folder of Fold1 … Fold5.")
    arguments = parser.parse_args()
    folds = [read_fold(arguments.folds / f"Fold{k}") for k in range(1, 6)]
    bases = {name: [rank(fold) for fold in folds] for name, rank in timed(BASES)}
    print_gains(folds, bases)
    print_variants(folds, bases)


def read_fold(folder: Path) -> Fold:
    return {side: read_letor(folder / f"{side}.txt") for side in ("train", "vali", "test")}


def timed(rankers: Mapping[str, BaseRanker]) -> Iterator[tuple[str, BaseRanker]]:
    for name, ranker in rankers.items():
        started = time.perf_counter()
        yield name, ranker
        print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)


def linear_regression(fold: Fold) -> Model:
    data = fold["train"]
    columns = np.column_stack((data.features.astype(np.float64), np.ones(data.n_documents)))
    solution = np.linalg.lstsq(columns, data.labels.astype(np.float64), rcond=None)[0]
    return LinearModel(data.feature_names, solution[:-1].astype(np.float64))


def trained(loss: type[Any], optimizer: type[Any], select: str, **settings: Any) -> BaseRanker:
    """A base ranker of ours, chosen and stopped on the validation queries."""
    given = {f"optimizer.{name}": value for name, value in settings.items()}
    plan = model_plan(loss, optimizer, given, metric=select)
    return lambda fold: train_plan(fold["train"], plan, Run(), fold["vali"]).model


BASES: Mapping[str, BaseRanker] = {
    "linear regression": linear_regression,
    "OWPC": trained(OWPC, LaRank, "map"),
    "RankBoost": trained(OWPC, RankBoost, SELECT),
    "MART": trained(Regression, Boosting, SELECT, trees=1000, depth=4, patience=100),
    "coordinate ascent": trained(OWPC, CoordinateAscent, SELECT),
}


def base_values(folds: Sequence[Fold], models: Sequence[Model]) -> list[Vector]:
    """Each metric's values of the test queries, fold after fold."""
    return [
        np.concatenate([
            metric.per_query(model.score(test.features), test.labels, test.offsets)
            for test, model in zip((fold["test"] for fold in folds), models, strict=True)
        ])
        for metric in METRICS
    ]  # fmt: skip


def reranked_values(
    folds: Sequence[Fold], models: Sequence[Model], plan: RerankingPlan
) -> tuple[list[Vector], int]:
    """The same, reranked, and in how many folds something was better than the base."""
    parts, changed = [], 0
    for fold, model in zip(folds, models, strict=True):
        reranked = fit_reranker(fold["train"], model, plan, Run(), fold["vali"])
        changed += reranked.record["chosen"] is not None
        test = fold["test"]
        scores = reranked.rerank_dataset(test)
        parts.append([metric.per_query(scores, test.labels, test.offsets) for metric in METRICS])
    return [np.concatenate(values) for values in zip(*parts, strict=True)], changed


def print_gains(folds: Sequence[Fold], bases: Mapping[str, Sequence[Model]]) -> None:
    print("| base | reranked with | @1 | @2 | @5 | @10 | Δ@10 [95 %] | p | folds changed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, models in bases.items():
        own = base_values(folds, models)
        print(row(name, "–", own))
        for label, (loss, settings) in LOSSES.items():
            plan = reranking_plan(loss, Exchangeable, settings, metric=SELECT)
            values, changed = reranked_values(folds, models, plan)
            print(row("", label, values, own, changed))
        if name in PAPER:
            before, after = (" | ".join(f"{value:.4f}" for value in row) for row in PAPER[name])
            print(f"| paper: {name} | – | {before} | | | |")
            print(f"| | cross-entropy | {after} | +.0089 | | |")


def print_variants(folds: Sequence[Fold], bases: Mapping[str, Sequence[Model]]) -> None:
    print("\n| base | cross-entropy, | @1 | @2 | @5 | @10 | Δ@10 [95 %] | p | folds changed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, models in bases.items():
        own = base_values(folds, models)
        for label, settings in VARIANTS.items():
            plan = reranking_plan(Bregman, Exchangeable, settings, metric=SELECT)
            values, changed = reranked_values(folds, models, plan)
            print(row(name if label == "as above" else "", label, values, own, changed))


def row(
    name: str,
    label: str,
    values: Sequence[Vector],
    own: Sequence[Vector] | None = None,
    changed: int = 0,
) -> str:
    means = " | ".join(f"{value.mean():.4f}" for value in values)
    if own is None:
        return f"| {name} | {label} | {means} | | | |"
    if np.array_equal(values[-1], own[-1]):
        return f"| {name} | {label} | {means} | 0 | | {changed} |"
    test = compare_paired(values[-1], own[-1], seed=0)
    return (
        f"| {name} | {label} | {means} | {test.mean_difference:+.4f} "
        f"[{test.low:+.4f}, {test.high:+.4f}] | {test.p_permutation:.2f} | {changed} |"
    )


if __name__ == "__main__":
    main()
