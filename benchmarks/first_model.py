"""Kinds of models by their defaults beside LightGBM and XGBoost tuned on small grids, and times.

    python benchmarks/first_model.py [FOLDER …] [--losses]

Besides the datasets (all files of a folder are one), two synthetic ones are measured. Each query is
ranked by a model that never saw it (five folds); a fifth of the other queries stops the training,
and chooses C, and each peer's setting of its grid. Exponential gains.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from owpc_ltr_optimizers.boosting import Boosting

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.evaluation.significance import compare_paired
from owpc_ltr.metrics import RankedQueries, parse_metric

FOLDS, TREES, PATIENCE = 5, 300, 50
METRIC = parse_metric("ndcg@10")
Fitted = Callable[[RankingDataset, RankingDataset, RankingDataset], Vector]
"""Training, validation and test queries to the scores of the last."""

PEER_GRID = ((3, 0.05), (3, 0.1), (6, 0.05), (6, 0.1))
"""Depth and learning rate; LightGBM grows as many leaves as trees of the depth have."""
BOOSTING: dict[str, Any] = {"loss": "lambdarank", "optimizer": "boosting"}
KINDS: dict[str, dict[str, Any]] = {
    "boosted trees": BOOSTING,
    "linear": {},
    "piecewise-linear": {"piecewise_linear": True},
    "interaction trees": {**BOOSTING, "settings": {"depth": 2, "bins": 64, "interactions": 20}},
}
LOSSES: dict[str, dict[str, Any]] = {
    **{
        f"lambdarank {normalise}, {rank}": {
            **BOOSTING,
            "settings": {"loss.normalise": normalise, "loss.truncation": rank},
        }
        for normalise in ("none", "queries", "both")
        for rank in (10, 30)
    },
    "query-rmse": {**BOOSTING, "loss": "query-rmse"},
    "rank:ndcg": {**BOOSTING, "settings": {"objective": "rank:ndcg"}},
}


def main() -> None:
    """Print a table for each data set, then the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--losses", action="store_true", help="other losses of trees too")
    options = parser.parse_args()
    named = {one.name: read_dataset(sorted(one.iterdir())) for one in options.folders}
    ours = {**KINDS, **(LOSSES if options.losses else {})}
    fitters = {name: _ours(given) for name, given in ours.items()}
    fitters |= {"LightGBM, tuned": _lightgbm, "XGBoost, tuned": _xgboost}
    for name, data in {**named, **_synthetic()}.items():
        for line in _table(name, data, fitters):
            print(line, flush=True)
    for line in _times(_synthetic()["graded"]):
        print(line, flush=True)


def _synthetic() -> dict[str, RankingDataset]:
    """2,000 queries of graded labels with interactions; 600 of binary ones, mostly linear."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000 * 30, 40)).astype(np.float32)
    value = x[:, 0] * x[:, 1] + np.abs(x[:, 2]) + x[:, 3] + 0.7 * (x[:, 4] > 0.5) * x[:, 5]
    value += rng.normal(scale=1.0, size=len(x))
    grades = np.digitize(value, np.quantile(value, [0.6, 0.8, 0.9, 0.97]))
    graded = ltr.make_dataset(x, grades, np.repeat(np.arange(2000), 30))
    x = rng.lognormal(size=(600 * 20, 15)).astype(np.float32)
    value = np.log(x[:, 0]) + 0.5 * np.log(x[:, 1]) - np.log(x[:, 2]) + rng.gumbel(size=len(x))
    relevant = (value > np.quantile(value, 0.9)).astype(int)
    return {
        "graded": graded,
        "binary": ltr.make_dataset(x, relevant, np.repeat(np.arange(600), 20)),
    }


def _ours(given: dict[str, Any]) -> Fitted:
    def fitted(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Vector:
        # With no loss named, train would compare kinds of models.
        chosen = {"loss": "owpc", "metric": "ndcg@10", **given}
        return np.asarray(ltr.train(train, validation=validation, **chosen).score(test.features))

    return fitted


def _lightgbm(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Vector:
    made = lightgbm.Dataset(train.features, train.labels, group=np.diff(train.offsets))
    sizes = np.diff(validation.offsets)
    watched = made.create_valid(validation.features, validation.labels, group=sizes)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    tried = []
    for depth, rate in PEER_GRID:
        settings = {
            "objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbose": -1,
            "num_leaves": 2**depth - 1, "learning_rate": rate, "num_threads": 1, "seed": 0,
        }  # fmt: skip
        model = lightgbm.train(settings, made, TREES, [watched], callbacks=[stop])
        reached = _mean(model.predict(validation.features), validation)
        tried.append((reached, model.predict(test.features)))
    scores: Vector = max(tried, key=_first)[1]
    return scores


def _xgboost(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Vector:
    made, watched, last = (
        xgboost.DMatrix(one.features, one.labels, group=np.diff(one.offsets))
        for one in (train, validation, test)
    )
    tried = []
    for depth, rate in PEER_GRID:
        settings = {
            "objective": "rank:ndcg", "eval_metric": "ndcg@10", "max_depth": depth, "eta": rate,
            "nthread": 1, "seed": 0,
        }  # fmt: skip
        model = xgboost.train(
            settings, made, TREES, [(watched, "validation")],
            early_stopping_rounds=PATIENCE, verbose_eval=False,
        )  # fmt: skip
        best = (0, model.best_iteration + 1)
        reached = _mean(model.predict(watched, iteration_range=best), validation)
        tried.append((reached, model.predict(last, iteration_range=best)))
    scores: Vector = max(tried, key=_first)[1]
    return scores


def _first(one: tuple[float, Vector]) -> float:
    return one[0]


def _values(scores: Any, data: RankingDataset) -> Vector:
    return METRIC.of(RankedQueries(np.asarray(scores, np.float64), data.labels, data.offsets))


def _mean(scores: Any, data: RankingDataset) -> float:
    return float(np.nanmean(_values(scores, data)))


def _table(name: str, data: RankingDataset, fitters: dict[str, Fitted]) -> Iterator[str]:
    fold = fold_of_queries(data, FOLDS, "benchmark")
    size = f"{data.n_queries:,} queries × {data.n_documents / data.n_queries:.0f} documents"
    yield f"\n## {name}: {size}, {data.n_features} features\n"
    yield "| ranker | NDCG@10 | boosted trees − it | 95 % interval | p | s |"
    yield "|---|---|---|---|---|---|"
    ours: Vector | None = None
    for shown, fit in fitters.items():
        values, started = np.empty(data.n_queries), time.process_time()
        for turn in range(FOLDS):
            rest, test = np.flatnonzero(fold != turn), np.flatnonzero(fold == turn)
            kept = rest[np.arange(len(rest)) % 5 > 0]
            part, chooses = data.select(kept), data.select(rest[::5])
            held_out = data.select(test)
            values[test] = _values(fit(part, chooses, held_out), held_out)
        took = time.process_time() - started
        if ours is None:
            ours = values
        found = compare_paired(ours, values, seed=0)
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        yield (
            f"| {shown} | {values.mean():.4f} | {found.mean_difference:+.4f} | {interval} "
            f"| {found.p_permutation:.3f} | {took:.0f} |"
        )


def _times(data: RankingDataset) -> Iterator[str]:
    """Processor time of 300 trees on one thread, checks of the data too: the median of turns."""
    depth, eta = 4, Boosting().eta
    sizes = np.diff(data.offsets)

    def ours() -> None:
        ltr.train(
            data, validation=data.select(np.arange(1)), **BOOSTING, metric="ndcg@10",
            settings={"trees": TREES, "patience": TREES, "depth": depth},
        )  # fmt: skip

    def theirs() -> None:
        made = xgboost.QuantileDMatrix(data.features, data.labels, group=sizes)
        settings = {
            "objective": "rank:ndcg", "max_depth": depth, "eta": eta,
            "min_child_weight": 50, "nthread": 1,
        }  # fmt: skip
        xgboost.train(settings, made, TREES)

    def light() -> None:
        settings = {"objective": "lambdarank", "num_threads": 1, "verbose": -1}
        settings |= {"num_leaves": 2**depth - 1}
        made = lightgbm.Dataset(data.features, data.labels, group=sizes)
        lightgbm.train(settings, made, TREES)

    seconds = {"owpc-ltr": ours, "XGBoost rank:ndcg": theirs, "LightGBM lambdarank": light}
    turns: dict[str, list[float]] = {name: [] for name in seconds}
    for _ in range(4):
        for name, run in seconds.items():
            started = time.process_time()
            run()
            turns[name].append(time.process_time() - started)
    yield f"\n## Processor time of {TREES} trees of depth {depth}\n"
    yield "| trees of | ms a tree | ratio to XGBoost |\n|---|---|---|"
    base = np.array(turns["XGBoost rank:ndcg"][1:])
    for name, took in turns.items():
        ratio = np.median(np.array(took[1:]) / base)
        yield f"| {name} | {1000 / TREES * np.median(took[1:]):.1f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
