"""How often cross-validated evidence (`train --folds`) is wrong, in worlds whose truth is known.

    python benchmarks/cross_validated.py --worlds 200

In each world the default linear model, or boosted trees, is trained with five folds on few queries,
and compared with a baseline whose true mean over new queries is known: that of the very model that
would be uploaded (`equal`), .03 below (`gain`), or the one feature that labels depend on
(`nothing`). `two` compares two such models that read other features. A verdict is false where it
claims the wrong sign, or any difference of equal rankers. At most 2.5 % of false claims are wanted
on either side: MISSED is what lies further off than two standard errors. `hold-out` is the same
training with the default shares, measured on its test queries.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from owpc_ltr_metrics.ndcg import NDCG
from verdict_paths import fewer_resamples, no_earlier_comparisons

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.data_comparison import by_folds
from owpc_ltr.evaluation.judged_data import choose_queries, compared_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan, results_of_scores
from owpc_ltr.metrics import RankedQueries
from owpc_ltr.models.combined import dataset_scores
from owpc_ltr.protocols import Model

FOLDS = 5
GAIN = 0.03
LIMIT = 0.025
DOCUMENTS = 15
NEW_QUERIES = 4_000
RESAMPLES = 500
SIZES = (100, 300)
METRIC = NDCG(cutoff=10)
MODELS: Mapping[str, dict[str, Any]] = {
    "linear": {},
    "trees": {"loss": "lambdarank", "optimizer": "boosting", "settings": {"trees": 40}},
}
KINDS = ("equal", "nothing", "two", "gain", "gain, hold-out")


def world(rng: np.random.Generator, n_features: int, queries: int, *, nothing: bool) -> Any:
    """Draw datasets of one world: features, some of which interact, and graded labels."""
    weights = rng.normal(size=n_features) * (rng.random(n_features) < 0.6)
    if nothing:
        weights = np.eye(n_features)[0] * 1.5
    pair = rng.choice(n_features, 2, replace=False)
    cross = 0.0 if nothing else rng.normal()
    noise = rng.choice([0.7, 1.5, 3.0])
    levels = rng.choice([0.4, 1.0, 1.7])

    def draw(count: int) -> tuple[ltr.RankingDataset, Vector]:
        rows = count * DOCUMENTS
        features = rng.normal(size=(rows, n_features)).astype(np.float32)
        truth = features @ weights + cross * features[:, pair[0]] * features[:, pair[1]]
        scale = max(float(truth.std()), 1e-9)
        wish = truth / scale + noise * rng.normal(size=rows) / 2
        labels = np.digitize(wish, np.array([0.5, 1.2, 2.0]) * levels)
        ids = np.repeat([f"q{n}" for n in range(count)], DOCUMENTS)
        return ltr.make_dataset(features, labels, ids), wish

    return draw(queries), draw(NEW_QUERIES)


def mean_of(scores: Vector, data: ltr.RankingDataset) -> float:
    """The mean of the metric."""
    return float(np.nanmean(METRIC.of(RankedQueries(scores, data.labels, data.offsets))))


def noise_of(target: float, wish: Vector, noise: Vector, data: ltr.RankingDataset) -> float:
    """How noisy a ranker that knows the labels must be, for its mean to be this."""
    low, high = 0.0, 200.0
    for _ in range(40):
        middle = (low * high) ** 0.5 if low > 0 else high / 2 if high > 1e-3 else high
        if mean_of(wish + middle * noise, data) > target:
            low = middle
        else:
            high = middle
    return high


def outcome(rankers: Mapping[str, tuple[Any, ltr.RankingDataset] | Vector]) -> str:
    """What is said of `new` against `old`: models on their data, or scores of its documents."""
    models = {name: one[0] for name, one in rankers.items() if isinstance(one, tuple)}
    data = next(one[1] for one in rankers.values() if isinstance(one, tuple))
    chosen = choose_queries({name: one.record for name, one in models.items()}, data)
    measured, part = by_folds(models, chosen), data.select(chosen.queries)
    rows = np.repeat(np.isin(np.arange(data.n_queries), chosen.queries), np.diff(data.offsets))
    scores = {
        name: dataset_scores(measured[name], one[1].select(chosen.queries))
        if isinstance(one, tuple)
        else one[rows]
        for name, one in rankers.items()
    }
    how = ComparisonPlan((METRIC,), baseline="old")
    results = results_of_scores(scores, part, compared_queries(part, chosen), how)
    return str(compare_results(results).verdict("new", "old").outcome)


def answers(name: str, queries: int, number: int) -> dict[str, tuple[str, float]]:
    """Of each kind the verdict in one world, and the true difference."""
    rng = np.random.default_rng([number, queries, *name.encode()])
    n_features = int(rng.integers(5, 26))

    def train(judged: ltr.RankingDataset, folds: int | None = None) -> Model:
        return ltr.train(judged, metric="ndcg@10", folds=folds, **MODELS[name])

    found: dict[str, tuple[str, float]] = {}
    with warnings.catch_warnings(), fewer_resamples(RESAMPLES), no_earlier_comparisons():
        warnings.simplefilter("ignore")
        (data, wish), (new, new_wish) = world(rng, n_features, queries, nothing=False)
        model, held_out = train(data, folds=FOLDS), train(data)
        own_noise, new_noise = rng.normal(size=len(wish)), rng.normal(size=len(new_wish))
        for kind, one, gain in (
            ("equal", model, 0.0),
            ("gain", model, GAIN),
            ("gain, hold-out", held_out, GAIN),
        ):
            target = mean_of(one.score(new.features), new) - gain
            spread = noise_of(target, new_wish, new_noise, new)
            baseline = wish + spread * own_noise
            found[kind] = outcome({"new": (one, data), "old": baseline}), gain
        half = np.arange(n_features) < 2
        keep = [np.flatnonzero(half | (rng.random(n_features) < 0.7)) for _ in range(2)]
        both = [masked(data, places) for places in keep]
        models = [(train(one, folds=FOLDS), one) for one in both]
        means = [
            mean_of(model.score(masked(new, places).features), new)
            for (model, _), places in zip(models, keep, strict=True)
        ]
        found["two"] = outcome(dict(zip(("new", "old"), models, strict=True))), means[0] - means[1]
        (data, _), (new, _) = world(rng, n_features, queries, nothing=True)
        model = train(data, folds=FOLDS)
        truth = mean_of(model.score(new.features), new)
        alone = mean_of(new.features[:, 0].astype(np.float64), new)
        baseline = data.features[:, 0].astype(np.float64)
        found["nothing"] = outcome({"new": (model, data), "old": baseline}), min(truth - alone, 0.0)
    return found


def masked(data: ltr.RankingDataset, keep: np.ndarray) -> ltr.RankingDataset:
    """The data, where the other features are 0."""
    features = np.zeros_like(data.features)
    features[:, keep] = data.features[:, keep]
    return replace(data, features=features)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cross-validated verdicts against the truth.")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    start = time.monotonic()
    print(f"{'model':7s} {'queries':>7s}  {'kind':15s} better  worse   none  false")
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as pool:
        for name, queries in product(asked.models, SIZES):
            job = partial(answers, name, queries)
            rows = list(pool.map(job, range(asked.worlds), chunksize=4))
            for kind in KINDS:
                told = [row[kind] for row in rows]
                shares = [np.mean([one == side for one, _ in told]) for side in ("better", "worse")]
                wrong = [
                    np.mean([one == side and sign * truth <= 0 for one, truth in told])
                    for side, sign in (("better", 1), ("worse", -1))
                ]
                most = LIMIT + 2 * (LIMIT * (1 - LIMIT) / len(told)) ** 0.5
                missed = "  MISSED" if max(wrong) > most else ""
                print(
                    f"{name:7s} {queries:7d}  {kind:15s} {100 * shares[0]:6.1f} "
                    f"{100 * shares[1]:6.1f} {100 * (1 - sum(shares)):6.1f}  "
                    f"{100 * wrong[0]:.1f}/{100 * wrong[1]:.1f}{missed}",
                    flush=True,
                )
    print(f"\n{asked.worlds} worlds each, {time.monotonic() - start:,.0f} seconds")


if __name__ == "__main__":
    main()
