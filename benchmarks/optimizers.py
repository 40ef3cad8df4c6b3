"""How fast optimizers are, beside what anyone would use instead.

    python benchmarks/optimizers.py [--shapes TD2003 MQ2007] [--seed 0]

Seconds of processor time, one thread, second of two runs (the first one compiles), on seeded
data of the shape of known sets: queries × documents × features, relevant documents a query. A
ratio below 1 says that ours is faster. LaRank and the bundle stop at a gap of 1e-3.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import peers
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.adarank import AdaRank
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.coordinate_ascent import CoordinateAscent
from owpc_ltr_optimizers.gradient import Gradient
from owpc_ltr_optimizers.larank import LaRank
from owpc_ltr_optimizers.rankboost import RankBoost

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Loss, Optimizer, Run
from owpc_ltr.training.plan import with_scales

SHAPES = {
    "TD2003": (50, 1000, 64, 8),
    "MQ2007": (1700, 41, 46, 8),
    "MSLR-WEB10K": (10_000, 120, 136, 20),
}
LINEAR: list[tuple[str, Optimizer, Loss]] = [
    *((f"larank OWPC C={C:g}", LaRank(C=C), OWPC()) for C in (0.1, 1.0, 10.0)),
    *((f"bundle OWPC C={C:g}", Bundle(C=C), OWPC()) for C in (0.1, 1.0, 10.0)),
    ("gradient logistic pairs C=1", Gradient(C=1.0), Pairwise(inner="logistic")),
    ("gradient LambdaRank, 50 epochs", Gradient(), LambdaRank()),
    ("network LambdaRank, 50 epochs", Gradient(model="network"), LambdaRank()),
    ("adarank, 200 rounds", AdaRank(repeats="allowed"), OWPC()),
    ("rankboost, 500 rounds", RankBoost(), OWPC()),
    ("coordinate ascent, one climb", CoordinateAscent(restarts=1), OWPC()),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of optimizers.")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["TD2003", "MQ2007"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranklib", action="store_true", help="also RankLib, which takes minutes")
    arguments = parser.parse_args()
    for name in arguments.shapes:
        data = generate(*SHAPES[name], arguments.seed)
        print(f"{name} shape: {data.n_documents:,} documents, {data.n_features} features")
        compare_linear(data, arguments.ranklib)
        compare_trees(data, arguments.ranklib)


def generate(
    queries: int, documents: int, features: int, relevant: int, seed: int
) -> RankingDataset:
    """Skewed features, of which a noisy sum decides the relevant documents of each query."""
    rng = np.random.default_rng(seed)
    X = rng.random((queries * documents, features), dtype=np.float32) ** 3
    utility = X @ rng.normal(size=features) + rng.normal(size=len(X))
    worst_first = np.argsort(utility.reshape(queries, documents), axis=1)
    labels = np.zeros((queries, documents), dtype=np.float32)
    np.put_along_axis(labels, worst_first[:, -relevant:], 1.0, axis=1)
    data = make_dataset(X, labels.ravel(), np.repeat(np.arange(queries), documents))
    return with_scales(data, "scale")


def compare_linear(data: RankingDataset, with_ranklib: bool) -> None:
    peer, w = seconds(lambda: linear_svc(data))
    print(f"  {'scikit-learn LinearSVC on pairs':36s} {peer:8.2f} s  MAP {quality(data, w):.4f}")
    report_peer(data, "XGBoost gblinear rank:pairwise", peers.xgboost_linear, peer)
    if with_ranklib:
        report_peer(data, "RankLib coordinate ascent", lambda d: peers.ranklib(d, "4"), peer)
    for name, optimizer, loss in LINEAR:
        took, fit = seconds(lambda o=optimizer, lo=loss: o.minimise(lo, data, Run()))  # type: ignore[misc]
        reached = quality(data, fit.model.score(data.features))
        passes = f"{fit.certificate.passes} passes"
        print(f"  {name:36s} {took:8.2f} s  MAP {reached:.4f}  ×{took / peer:.2f}  {passes}")


def compare_trees(data: RankingDataset, with_ranklib: bool) -> None:
    """100 trees of depth 6 on 256 bins: our LambdaRank in XGBoost, and what peers have inside."""
    run, took = Run(), {}
    shared: dict[str, Any] = {"trees": 100, "leaf": 1.0}
    cases: dict[str, Callable[[], Any]] = {
        "XGBoost rank:ndcg": lambda: Boosting(objective="rank:ndcg", **shared).minimise(
            LambdaRank(), data, run
        ),
        "boosting LambdaRank": lambda: Boosting(**shared).minimise(LambdaRank(), data, run),
        "boosting OWPC": lambda: Boosting(**shared).minimise(OWPC(), data, run),
    }
    for name, case in cases.items():
        took[name], fit = seconds(case)
        ratio = took[name] / took["XGBoost rank:ndcg"]
        reached = quality(data, fit.model.score(data.features))
        print(f"  {name:36s} {took[name]:8.2f} s  MAP {reached:.4f}  ×{ratio:.2f}")
    own = took["XGBoost rank:ndcg"]
    report_peer(data, "LightGBM lambdarank", peers.lightgbm_lambdarank, own)
    if with_ranklib:
        report_peer(data, "RankLib LambdaMART", lambda d: peers.ranklib(d, "6"), own)


def report_peer(
    data: RankingDataset, name: str, fit: Callable[[RankingDataset], tuple[float, Any]], own: float
) -> None:
    took, scores = fit(data)
    reached = quality(data, scores)
    print(f"  {name:36s} {took:8.2f} s  MAP {reached:.4f}  ×{took / own:.2f}", flush=True)


def linear_svc(data: RankingDataset) -> Any:
    """Scores of the usual RankSVM: a linear classifier of differences, 100,000 of them at most."""
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    differences = []
    for query in data:
        better, worse = query.features[query.labels > 0], query.features[query.labels == 0]
        share = max(1, 100_000 // data.n_queries // max(len(better), 1))
        chosen = rng.permutation(len(worse))[:share]
        differences.append((better[:, None] - worse[chosen][None]).reshape(-1, data.n_features))
    X = np.concatenate(differences)
    sign = np.where(np.arange(len(X)) % 2, 1.0, -1.0).astype(np.float32)
    model = LinearSVC(loss="hinge", fit_intercept=False, C=0.01, max_iter=2000)
    model.fit(X * sign[:, None], sign)
    return data.features @ model.coef_[0]


def quality(data: RankingDataset, scores: Any) -> float:
    return parse_metric("map").mean(scores, data.labels, data.offsets)


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of the second call, and what it gave."""
    function()
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
