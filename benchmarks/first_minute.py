"""What the first command of an installation waits for: compiling, unless a wheel brought the code.

    python benchmarks/first_minute.py [--nothing-compiled]

Each command is run twice, in processes of their own that begin with empty caches: seconds by the
clock and of processor time, and how many functions were compiled, or came with the package. The
data are generated, in the shape of one fold of OHSUMED. With --nothing-compiled it fails where
anything was compiled, as releases ask of their wheels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.data.letor import write_letor

COMMANDS = (
    "--help",
    "train train.txt --validation validation.txt --loss owpc --optimizer larank --out model.json",
    "evaluate model.json validation.txt",
    "check owpc",
)
RUN = """
import atexit, json, sys
from owpc_ltr.compiling.work import WORK, Listener

made = []
WORK._listeners.append(Listener(made=made.append))
told = open(sys.argv.pop(), "w")
atexit.register(lambda: json.dump([len(made), WORK.shipped], told))
from owpc_ltr.cli import main
main()
"""


class Took(NamedTuple):
    """Seconds by the clock and of processor time, and functions compiled and shipped."""

    wall: float
    cpu: float
    compiled: int
    shipped: int


def main() -> None:
    parser = argparse.ArgumentParser(description="The first commands of an installation.")
    parser.add_argument("--nothing-compiled", action="store_true", help="fail where it was")
    arguments = parser.parse_args()
    compiled = 0
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        print("seconds, first (processor)   second (processor)   compiled   shipped")
        for command in COMMANDS:
            first, second = took(Path(folder), command), took(Path(folder), command)
            compiled += first.compiled
            print(
                f"  {command.split()[0]:12s} {first.wall:6.2f} ({first.cpu:5.2f})     "
                f"{second.wall:6.2f} ({second.cpu:5.2f})   {first.compiled:8d}  {first.shipped:8d}",
                flush=True,
            )
    if compiled and arguments.nothing_compiled:
        sys.exit(f"{compiled} functions were compiled: they did not come with the package")


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
    """One run of a command, in a process that finds nothing compiled but what was shipped."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environ = {**known, "NUMBA_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    before, start = os.times(), time.perf_counter()
    subprocess.run(  # noqa: S603 - this Python, with a command of this list
        [sys.executable, "-c", RUN, *command.split(), "told.json"],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Took(wall, cpu, *json.loads((folder / "told.json").read_text()))


if __name__ == "__main__":
    main()
