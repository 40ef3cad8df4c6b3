"""A pass over a folder of parts by Dask workers: seconds by how many there are, and trees.

    python benchmarks/workers.py [--rows 1000000] [--columns 136] [--workers 1 2] [--trees 5]

The data are those of `scale.py`. A pass is the risk of OWPC and its gradient at some weights, each
worker a process of one thread that keeps its parts in memory; the median of nine, after one that
reads. `plain` is how much faster so many processes are than one without any cluster, each with its
share of the parts: what the cores of this machine allow. `here` is the same in this process,
without a cluster. `trees` are seconds a tree of depth 6, by LambdaRank, once bins are cut; `peer`
the same by `xgboost.dask` with its own rank:ndcg, on the same workers. Every result of ours must be
the same, to the last bit, or this fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from owpc_ltr_dask import use_workers
from owpc_ltr_dask.connection import DaskWorkers
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.boosting import Boosting
from scale import generated

from owpc_ltr.data.partitioned import PartitionedDataset, open_partitioned, write_partitioned
from owpc_ltr.kernels.risk import RiskOfWeights, part_sums
from owpc_ltr.protocols import Run

_MEMORY = 1 << 50


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds a pass and a tree, by workers.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=136)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--trees", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_partitioned(generated(arguments.rows, arguments.columns), f"{folder}/parts")
        data = open_partitioned(f"{folder}/parts", _MEMORY)
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{data!r}; {os.cpu_count()} cores, load {load}")
        heads = (
            f"{'workers':>8} {'start':>7} {'first':>7} {'s a pass':>9} {'faster':>7} {'plain':>6}"
        )
        print(f"{heads} {'trees':>6} {'peer':>6}")
        expected = told(0, 0.0, data, 0, None)
        base: Any = None
        alone = seconds_of_plain(f"{folder}/parts", 1)
        for number in arguments.workers:
            plain = alone / seconds_of_plain(f"{folder}/parts", number)
            begin = time.perf_counter()
            with use_workers(f"local:{number}") as workers:
                started = time.perf_counter() - begin
                parts = workers.parts(data)
                found = told(
                    number, started, parts, arguments.trees, base=base, plain=plain, workers=workers
                )
            assert found["sums"] == expected["sums"], "the risk depends on who reckons"
            if base is not None:
                assert found["trees"] == base["trees"], "the trees depend on how many grow them"
            base = base or found


def told(
    number: int,
    started: float,
    data: PartitionedDataset,
    trees: int,
    base: Any,
    plain: float = float("nan"),
    workers: DaskWorkers | None = None,
) -> dict[str, Any]:
    """A line of the table, and what came out."""
    risk = RiskOfWeights(OWPC(), data)
    weights = np.random.default_rng(1).normal(size=data.n_features)
    sums, first = timed(lambda: risk.value_and_gradient(weights))
    seconds = median(timed(lambda: risk.value_and_gradient(weights))[1] for _ in range(9))
    fit, per_tree, of_peer = None, float("nan"), float("nan")
    if trees and workers is not None:
        short = Boosting(trees=1)
        short.minimise(LambdaRank(), data, Run())
        begun = timed(lambda: short.minimise(LambdaRank(), data, Run()))[1]
        grow = replace(short, trees=1 + trees)
        fit, whole = timed(lambda: grow.minimise(LambdaRank(), data, Run()))
        per_tree = (whole - begun) / trees
        of_peer = peer_per_tree(workers, data, trees)
    faster = base["seconds"] / seconds if base else float("nan")
    line = f"{number or 'here':>8} {started:7.2f} {first:7.2f} {seconds:9.3f}"
    print(f"{line} {faster:7.2f} {plain:6.2f} {per_tree:6.2f} {of_peer:6.2f}", flush=True)
    model = None if fit is None else str(fit.model.as_dict())
    return {"seconds": seconds, "sums": (sums[0], sums[1].tolist()), "trees": model}


def seconds_of_plain(path: str, processes: int) -> float:
    """A pass by so many processes that know nothing of each other, each over its own parts."""
    spawn = multiprocessing.get_context("spawn")
    barrier, queue = spawn.Barrier(processes), spawn.Queue()
    running = [
        spawn.Process(target=passes_of_plain, args=(path, number, processes, barrier, queue))
        for number in range(processes)
    ]
    for process in running:
        process.start()
    found = [queue.get() for _ in running]
    for process in running:
        process.join()
    together: list[float] = [max(each) for each in zip(*found, strict=True)]
    return median(together)


def passes_of_plain(path: str, number: int, processes: int, barrier: Any, queue: Any) -> None:
    """Tell the seconds of nine passes over every so manieth part, begun together."""
    data = open_partitioned(path, _MEMORY)
    parts = [data.files.read(piece, "filled") for piece in data.pieces[number::processes]]
    weights = np.random.default_rng(1).normal(size=data.n_features)
    seconds = []
    for _ in range(10):
        barrier.wait()
        begin = time.perf_counter()
        for part in parts:
            part_sums(part, OWPC(), weights)
        seconds.append(time.perf_counter() - begin)
    queue.put(seconds[1:])


def peer_per_tree(workers: DaskWorkers, data: PartitionedDataset, trees: int) -> float:
    """Seconds a tree by XGBoost's own Dask interface, one block of whole parts a worker."""
    import dask.array as da
    from dask import delayed
    from xgboost import dask as xgboost_dask

    blocks = np.array_split(np.arange(len(data.pieces)), len(workers.calls.workers()))
    shapes = [sum(data.pieces[number].documents for number in block) for block in blocks]
    loaded = [delayed(block_of)(str(data.files.folder), block.tolist()) for block in blocks]

    def column(place: int, kind: type, *columns: int) -> Any:
        return da.concatenate([
            da.from_delayed(block[place], (rows, *columns), kind)
            for block, rows in zip(loaded, shapes, strict=True)
        ])  # fmt: skip

    features, labels, queries = (
        workers.client.persist(one)
        for one in (column(0, np.float32, data.n_features), column(1, np.float32), column(2, int))
    )
    matrix = xgboost_dask.DaskQuantileDMatrix(workers.client, features, labels, qid=queries)
    settings = {"objective": "rank:ndcg", "max_depth": 6, "nthread": 1, "tree_method": "hist"}
    grow = partial(xgboost_dask.train, workers.client, settings, matrix)
    grow(1)
    begun = timed(lambda: grow(1))[1]
    return (timed(lambda: grow(1 + trees))[1] - begun) / trees


def block_of(folder: str, numbers: list[int]) -> tuple[Any, Any, Any]:
    """Features, labels and numbers of queries of some parts."""
    data = open_partitioned(folder)
    parts = [data.files.read(data.pieces[number], "learnable") for number in numbers]
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    # Ids of other blocks are others: no query is in two parts.
    queries = np.repeat(np.arange(len(sizes)) + numbers[0] * 1_000_000, sizes)
    features = np.concatenate([part.features for part in parts])
    return features, np.concatenate([part.labels for part in parts]), queries


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its seconds."""
    begin = time.perf_counter()
    return call(), time.perf_counter() - begin


if __name__ == "__main__":
    main()
