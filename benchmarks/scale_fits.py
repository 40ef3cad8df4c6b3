"""Whole fits of data that grow: in memory and over a folder of parts, beside those of peers.

    python benchmarks/scale_fits.py [--rows 500000] [--columns 136] [--trees 10]

The data are those of `scale.py`, split as ever. Each fit has one thread and a process of its own,
reading included: seconds by the clock and of the processor, peak memory, and NDCG@10 of held-out
queries. Linear: OWPC to a gap of .1 % of the gain, and scikit-learn's SGD on a million of random
pairs. Trees of depth 6: rank:ndcg of ours and of XGBoost, in memory and external; LightGBM.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.larank import LaRank
from scale import generated

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset, open_partitioned, write_partitioned
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import model_plan

C = 0.01
PAIRS = 1_000_000
Score = Callable[[Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits of data that grow, beside peers.")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=136)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(Path(arguments.child[0]), arguments.child[1], arguments.trees)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_partitioned(generated(arguments.rows, arguments.columns), f"{folder}/parts")
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{open_partitioned(f'{folder}/parts')!r}; {os.cpu_count()} cores, load {load}")
        print(f"{'fit':34} {'s':>8} {'cpu s':>8} {'peak MiB':>9} {'ndcg@10':>8}")
        for name in FITS:
            words = [sys.executable, __file__, "--child", f"{folder}/parts", name]
            words += ["--trees", str(arguments.trees)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
            if done.returncode:
                print(f"{name:34} {done.stderr.strip().splitlines()[-1]}")
                continue
            told = json.loads(done.stdout)
            line = f"{name:34} {told['seconds']:8.1f} {told['cpu']:8.1f}"
            print(f"{line} {told['peak']:9.0f} {told['ndcg']:8.4f}")


def child(folder: Path, name: str, trees: int) -> dict[str, float]:
    """One fit: what it took, and how good it is."""
    begin = time.perf_counter(), time.process_time()
    sides = open_partitioned(folder).split()
    score = FITS[name](sides.training, trees)
    end = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    metric = parse_metric("ndcg@10")
    values = [
        metric.per_query(score(part.features), part.labels, part.offsets) for part in sides.test
    ]
    ndcg = float(np.concatenate(values).mean())
    return {"seconds": end[0] - begin[0], "cpu": end[1] - begin[1], "peak": peak, "ndcg": ndcg}


def ours(optimizer: type[Any], parts: bool, data: PartitionedDataset, trees: int) -> Score:
    """Our own training, as the command does it, with settings that are fixed."""
    settings: dict[str, Any] = {"optimizer.C": C}
    if optimizer is Boosting:
        settings = {"optimizer.trees": trees, "optimizer.objective": "rank:ndcg"}
    plan = model_plan(
        OWPC, optimizer, settings, normalise="none" if optimizer is Boosting else "scale"
    )
    made = train_plan(data if parts else data.load(), plan, Run())
    score: Score = made.model.score
    return score


def sgd_on_pairs(data: PartitionedDataset, _trees: int) -> Score:
    """Differences of two documents of a query with other labels, a share of them from each part."""
    from sklearn.linear_model import SGDClassifier

    rng, model = np.random.default_rng(0), SGDClassifier(loss="hinge", alpha=1e-4, random_state=0)
    scales = 1 / data.head.features.std(axis=0)
    for part in data:
        better, worse = _pairs(part, rng, PAIRS * part.n_documents // data.n_documents)
        sign = rng.choice((-1, 1), len(better))
        differences = (part.features[better] - part.features[worse]) * sign[:, None] * scales
        model.partial_fit(differences, sign, classes=[-1, 1])
    return lambda features: features @ (scales * model.coef_[0])


def _pairs(part: RankingDataset, rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    one = rng.integers(0, part.n_documents, 3 * count)
    query = np.searchsorted(part.offsets, one, side="right") - 1
    first, last = part.offsets[query], part.offsets[query + 1]
    other = first + (rng.random(len(one)) * (last - first)).astype(np.int64)
    better = part.labels[one] > part.labels[other]
    return one[better][:count], other[better][:count]


def xgboost_in_memory(data: PartitionedDataset, trees: int) -> Score:
    import xgboost

    whole = data.load()
    sizes = np.diff(whole.offsets)
    matrix = xgboost.QuantileDMatrix(whole.features, whole.labels, group=sizes, nthread=1)
    return _xgboost(matrix, trees)


def xgboost_external(data: PartitionedDataset, trees: int) -> Score:
    import xgboost

    class XgboostParts(xgboost.DataIter):  # type: ignore[misc]
        def __init__(self, prefix: str) -> None:
            super().__init__(cache_prefix=prefix)
            self.reset()

        def next(self, input_data: Callable[..., Any]) -> bool:
            part = next(self.parts, None)
            if part is None:
                return False
            first = self.queries
            self.queries += part.n_queries
            numbers = np.repeat(np.arange(first, self.queries), np.diff(part.offsets))
            input_data(data=part.features, label=part.labels, qid=numbers)
            return True

        def reset(self) -> None:
            self.parts, self.queries = iter(data), 0

    with tempfile.TemporaryDirectory() as folder:
        matrix = xgboost.ExtMemQuantileDMatrix(XgboostParts(f"{folder}/cache"), nthread=1)
        return _xgboost(matrix, trees)


def _xgboost(matrix: Any, trees: int) -> Score:
    import xgboost

    settings = {"objective": "rank:ndcg", "max_depth": 6, "eta": 0.1, "nthread": 1}
    model = xgboost.train(settings, matrix, trees)
    score: Score = model.inplace_predict
    return score


def lightgbm_in_memory(data: PartitionedDataset, trees: int) -> Score:
    import lightgbm

    whole = data.load()
    made = lightgbm.Dataset(whole.features, whole.labels, group=np.diff(whole.offsets))
    settings = {"objective": "lambdarank", "num_threads": 1, "verbose": -1, "num_leaves": 63}
    model = lightgbm.train(settings, made, trees)
    return lambda features: model.predict(features, num_threads=1)


FITS: dict[str, Callable[[PartitionedDataset, int], Score]] = {
    "owpc, bundle, in memory": partial(ours, Bundle, False),
    "owpc, bundle, by parts": partial(ours, Bundle, True),
    "owpc, larank, in memory": partial(ours, LaRank, False),
    "owpc, larank, by parts": partial(ours, LaRank, True),
    "scikit-learn SGD on pairs": sgd_on_pairs,
    "rank:ndcg, ours, in memory": partial(ours, Boosting, False),
    "rank:ndcg, ours, by parts": partial(ours, Boosting, True),
    "rank:ndcg, XGBoost, in memory": xgboost_in_memory,
    "rank:ndcg, XGBoost, external": xgboost_external,
    "lambdarank, LightGBM, in memory": lightgbm_in_memory,
}

if __name__ == "__main__":
    main()
