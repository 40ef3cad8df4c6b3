"""How LaRank's time and memory grow with C, on seeded data of the shape of known sets.

    python benchmarks/larank.py [--shapes TD2003 MQ2007 MSLR-WEB10K] [--generator inverse]

Seconds of processor time, one thread, after a first run that compiles. *skewed*: features of one
sign, of which a noisy sum decides; *two of many*: normal features of which two decide, the rest
being noise, which is harder. The gap asked for is 1e-3 of what training gains, 1e-2 on the shape
of MSLR-WEB10K. Memory is the peak of the process during the fit, less what it held before, as a
share of the features' (Linux only).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from optimizers import SHAPES, generate
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.protocols import Run

C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="LaRank's time and memory over C.")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--generator", default="inverse")
    arguments = parser.parse_args()
    for shape in arguments.shapes:
        for kind in ("skewed", "two of many"):
            measure(shape, kind, arguments.generator)


def measure(shape: str, kind: str, generator: Any) -> None:
    """Print one shape's table."""
    loss, tolerance = OWPC(generator=generator), 1e-2 if shape.startswith("MSLR") else 1e-3
    LaRank().minimise(loss, generate(10, 20, 5, 4, 0), Run())
    data = generate(*SHAPES[shape], 0) if kind == "skewed" else two_of_many(*SHAPES[shape])
    size = data.features.nbytes
    print(f"{shape} shape, {kind}: {data.n_documents:,} documents, {size / 2**20:.0f} MiB")
    for C in C_GRID:
        before = forget_peak()
        start = time.process_time()
        found = LaRank(C=C, tolerance=tolerance).minimise(loss, data, Run()).certificate
        took = time.process_time() - start
        more = (resident("VmHWM") - before) / size
        print(
            f"  C={C:<6g} {took:7.3f} s  {found.passes:3d} passes  gap {found.relative_gap:.1e} of "
            f"the gain  {found.nonzero_duals:6,d} non-zero duals  memory +{more:.2f}",
            flush=True,
        )


def forget_peak() -> int:
    """Start measuring the peak anew; the bytes held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(name: str) -> int:
    """A line of this process's memory status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def two_of_many(queries: int, documents: int, features: int, relevant: int) -> RankingDataset:
    """Normal features; the sum of the first two and as much noise decides what is relevant."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((queries * documents, features), dtype=np.float32)
    utility = (X[:, 0] + X[:, 1] + rng.standard_normal(len(X))).astype(np.float32)
    cut = np.quantile(utility, 1 - relevant / documents)
    return make_dataset(
        X, (utility > cut).astype(np.float32), np.repeat(np.arange(queries), documents)
    )


if __name__ == "__main__":
    main()
