"""What the first command of an installation waits for: compiling.

    python benchmarks/first_minute.py

Each command is run twice, in processes of their own that begin with empty caches: seconds by the
clock and of processor time, and how many functions were compiled. The data are generated, in the
shape of one fold of OHSUMED.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.letor import write_letor

COMMANDS = (
    "--help",
    "train train.txt --validation validation.txt --loss owpc --optimizer larank --out model.json",
    "evaluate model.json --data validation.txt",
    "plugins check owpc",
)


class Took(NamedTuple):
    """Seconds by the clock and of processor time, and functions compiled."""

    wall: float
    cpu: float
    compiled: int


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        print("seconds, first (processor)   second (processor)   compiled")
        for command in COMMANDS:
            first, second = took(Path(folder), command), took(Path(folder), command)
            print(
                f"  {command.split(' --')[0]:18s} {first.wall:6.2f} ({first.cpu:5.2f})     "
                f"{second.wall:6.2f} ({second.cpu:5.2f})   {first.compiled:8d}",
                flush=True,
            )


def write_data(folder: Path) -> None:
    """Text of 63 and 21 queries of about 150 documents with 45 features."""
    rng = np.random.default_rng(0)
    for name, queries in (("train", 63), ("validation", 21)):
        ids = np.repeat(np.arange(queries), rng.integers(50, 250, queries))
        features = rng.random((len(ids), 45), dtype=np.float32) ** 3
        useful = features[:, :9].sum(axis=1) + rng.normal(size=len(ids))
        labels = np.digitize(useful, np.quantile(useful, [0.7, 0.9])).astype(np.float32)
        write_letor(make_dataset(features, labels, ids), folder / f"{name}.txt")


def took(folder: Path, command: str) -> Took:
    """One run of a command, in a process that finds nothing compiled but by runs before it."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environ = {**known, "NUMBA_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    earlier, before, start = kept(folder), os.times(), time.perf_counter()
    subprocess.run(  # noqa: S603 - this Python, with a command of this list
        [sys.executable, "-m", "owpc_ltr", *command.split()],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Took(wall, cpu, kept(folder) - earlier)


def kept(folder: Path) -> int:
    """How many compiled functions there are."""
    return len(list((folder / "cache").rglob("*.nbc")))


if __name__ == "__main__":
    main()
