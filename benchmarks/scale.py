"""How time and memory grow with rows: a pass over data in memory, and over a folder of parts.

    python benchmarks/scale.py [--rows 100000 1000000] [--columns 136] [--extrapolate 100000000]

Data are generated, seeded, about 120 documents a query as in MSLR. A pass is the risk of OWPC and
its gradient at some weights, one thread, best of three; each form runs in a process of its own,
whose peak memory is told. The streamed forms: all parts kept in memory after the first pass; what
fits in 512 MiB, as by default; none. What is not kept in memory is read from the files of the
folder by each pass. `ratio` is to the form that is named first. On a busy machine the processor's
seconds (`cpu s`) say more than the clock's.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from owpc_ltr_losses.owpc import OWPC

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.options import DEFAULT_MEMORY
from owpc_ltr.data.partitioned import open_partitioned, write_partitioned
from owpc_ltr.kernels.risk import RiskOfWeights

DOCUMENTS = 120
QUERIES = 500
FORMS = {
    "in memory": None,
    "all kept": 1 << 50,
    "512 MiB kept": DEFAULT_MEMORY,
    "none kept": 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds and memory of a pass, by rows.")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--columns", type=int, default=136)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--extrapolate", type=int, default=100_000_000)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(*arguments.child)))
        return
    columns = f"{'first':>9} {'s a pass':>9} {'ratio':>6} {'cpu s':>7} {'peak MiB':>9}"
    print(f"{'rows':>12} {'form':14} {columns}")
    last: dict[str, dict[str, float]] = {}
    for rows in sorted(arguments.rows):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/parts"
            written = in_child("write", path, f"{rows},{arguments.columns}")
            last = {form: in_child("pass", path, form) for form in arguments.forms}
        base = last[arguments.forms[0]]["seconds"]
        for form, told in last.items():
            line = f"{rows:12,} {form:14} {told['first']:9.2f} {told['seconds']:9.3f}"
            print(f"{line} {told['seconds'] / base:6.2f} {told['cpu']:7.3f} {told['peak']:9.0f}")
        line = f"{rows:12,} {'written':14} {written['first']:9.2f}"
        print(f"{line} {'':9} {'':6} {'':7} {written['peak']:9.0f}")
    tell_of_more(arguments.extrapolate, max(arguments.rows), arguments.columns, last)


def tell_of_more(rows: int, measured: int, columns: int, last: dict[str, dict[str, float]]) -> None:
    """What so many rows would take by the last line of each form: reckoned, not measured."""
    if rows <= measured:
        return
    print(f"extrapolated from {measured:,} rows, not measured:")
    for form, told in last.items():
        peak = told["peak"]
        if form in {"in memory", "all kept"}:
            peak += (rows - measured) * columns * 4 / 2**20
        elif form.startswith("512 MiB"):
            peak += max(0.0, DEFAULT_MEMORY - measured * columns * 4) / 2**20
        first, again = (told[name] * rows / measured for name in ("first", "seconds"))
        print(f"{rows:12,} {form:14} {first:9.0f} {again:9.1f} {'':6} {'':7} {peak:9.0f}")


def in_child(what: str, path: str, how: str) -> dict[str, float]:
    """What a process of its own tells."""
    words = [sys.executable, __file__, "--child", what, path, how]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - our own file
    told: dict[str, float] = json.loads(done.stdout)
    return told


def child(what: str, path: str, how: str) -> dict[str, Any]:
    begin = time.perf_counter()
    if what == "write":
        rows, columns = map(int, how.split(","))
        write_partitioned(generated(rows, columns), path)
        seconds = first = cpu = time.perf_counter() - begin
    else:
        first, seconds, cpu = seconds_of(Path(path), FORMS[how])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first": first, "seconds": seconds, "cpu": cpu, "peak": peak}


def risk_of(path: Path, memory: int | None) -> RiskOfWeights:
    if memory is None:
        return RiskOfWeights(OWPC(), open_partitioned(path).load())
    return RiskOfWeights(OWPC(), open_partitioned(path, memory))


def seconds_of(path: Path, memory: int | None) -> tuple[float, float, float]:
    """The first pass, reading included; the shortest of three after it, by clock and processor."""
    begin = time.perf_counter(), time.process_time()
    risk = risk_of(path, memory)
    weights = np.random.default_rng(1).normal(size=risk.n_features)
    passes = []
    for _ in range(4):
        risk.value_and_gradient(weights)
        end = time.perf_counter(), time.process_time()
        passes.append((end[0] - begin[0], end[1] - begin[1]))
        begin = end
    return passes[0][0], min(one[0] for one in passes[1:]), min(one[1] for one in passes[1:])


def generated(rows: int, columns: int) -> Iterator[RankingDataset]:
    """Counts, short decimals, full floats and mostly zeros, in queries of the same length."""
    rng = np.random.default_rng(0)
    queries = -(-rows // DOCUMENTS)
    for first in range(0, queries, QUERIES):
        count = min(QUERIES, queries - first)
        values = np.empty((count * DOCUMENTS, columns), np.float32)
        for column in range(columns):
            values[:, column] = (
                rng.integers(0, 20, len(values)),
                np.round(rng.gamma(2, 3, len(values)), 6),
                rng.random(len(values)),
                np.where(rng.random(len(values)) < 0.6, 0, np.round(rng.random(len(values)), 4)),
            )[column % 4]
        utility = values[:, 2] + values[:, 6] + rng.normal(size=len(values))
        ids = np.repeat([f"q{first + number}" for number in range(count)], DOCUMENTS)
        yield make_dataset(values, np.clip(np.floor(utility), 0, 4), ids)


if __name__ == "__main__":
    main()
