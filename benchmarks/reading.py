"""How fast datasets are read and written, beside the libraries that researchers use.

    python benchmarks/reading.py [--queries 2500] [--documents 41]

MB/s of LETOR text, best of three, on one thread and on two, file in the cache; generated in the
shape of MQ2007 (46 features, comments). pandas, where it is installed, only cuts the text into
tokens, which favours it; XGBoost and scikit-learn keep no comments. Ratios are ours against theirs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import pyarrow as pa

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import read_letor, write_letor
from owpc_ltr.data.parquet import load_dataset, save_dataset

FEATURES = 46


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of reading datasets.")
    parser.add_argument("--queries", type=int, default=2500)
    parser.add_argument("--documents", type=int, default=41)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "mq2007.txt"
        generate(
            text, arguments.queries, arguments.documents, np.random.default_rng(arguments.seed)
        )
        size = text.stat().st_size / 1e6
        print(f"{size:.0f} MB of LETOR text, {FEATURES} features; MB/s of that text")
        ours = best(lambda: read_letor(text, threads=1))
        print(f"  owpc-ltr       {size / ours:7.0f}")
        two = best(lambda: read_letor(text, threads=2))
        print(f"  owpc-ltr, 2    {size / two:7.0f}")
        for name, read in (
            ("scikit-learn", scikit_learn),
            ("XGBoost", xgboost_text),
            ("pandas (tokens)", pandas_tokens),
        ):
            compare(name, read, text, size, ours)
        compare("XGBoost, 2", partial(xgboost_text, threads=2), text, size, two)
        print(f"first read in a fresh process, compiled code cached: {fresh_seconds(text):.2f} s")
        other_forms(read_letor(text), Path(folder), size)


def generate(path: Path, queries: int, documents: int, rng: np.random.Generator) -> None:
    """Text as MQ2007 has it: six decimals, many zeros, a comment with the document's id."""
    rows = queries * documents
    values = rng.random((rows, FEATURES))
    values[rng.random(values.shape) < 0.3] = 0
    labels = rng.choice(3, p=[0.74, 0.2, 0.06], size=rows)
    with path.open("w") as file:
        for row in range(rows):
            cells = " ".join(f"{i}:{value:.6f}" for i, value in enumerate(values[row], 1))
            file.write(
                f"{labels[row]} qid:{10 + row // documents} {cells} "
                f"#docid = GX{row % 999:03}-{row % 99:02}-{row:07} inc = 1 prob = 0.0246906\n"
            )


def compare(
    name: str, read: Callable[[Path], object], text: Path, size: float, ours: float
) -> None:
    try:
        seconds = best(lambda: read(text))
    except ImportError:
        print(f"  {name:14s} not installed")
        return
    print(f"  {name:14s} {size / seconds:7.0f}   ours is {seconds / ours:.1f} times as fast")


def scikit_learn(path: Path) -> Any:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), dtype=np.float32, query_id=True)


def xgboost_text(path: Path, threads: int = 1) -> Any:
    import xgboost

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xgboost.DMatrix(f"{path}?format=libsvm", nthread=threads)


def pandas_tokens(path: Path) -> Any:
    import pandas as pd

    return pd.read_csv(path, sep=" ", header=None, comment="#", engine="c", dtype=str)


def other_forms(data: RankingDataset, folder: Path, size: float) -> None:
    """Compressed text, writing, and Parquet."""
    for name in ("a.txt", "a.txt.gz"):
        wrote = best(lambda name=name: write_letor(data, folder / name))  # type: ignore[misc]
        read = best(lambda name=name: read_letor(folder / name))  # type: ignore[misc]
        print(f"{name:10s} written at {size / wrote:.0f} MB/s, read at {size / read:.0f} MB/s")
    parquet("same data", data, folder / "same.parquet")
    parquet("300,000 × 136", wide_dataset(), folder / "wide.parquet")


def parquet(what: str, data: RankingDataset, path: Path) -> None:
    matrix = data.features.nbytes / 1e6
    wrote = best(lambda: save_dataset(data, path))
    read = best(lambda: load_dataset(path))
    print(
        f"Parquet, {what}: {path.stat().st_size / 1e6:.0f} MB for a matrix of {matrix:.0f} MB, "
        f"written at {matrix / wrote:.0f} and read at {matrix / read:.0f} MB/s of matrix"
    )


def wide_dataset() -> RankingDataset:
    """Columns of four kinds: counts, short decimals, full floats, mostly zero."""
    rng = np.random.default_rng(0)
    rows = 300_000
    values = np.empty((rows, 136), np.float32)
    for column in range(136):
        values[:, column] = (
            rng.integers(0, 20, rows),
            np.round(rng.gamma(2, 3, rows), 6),
            rng.random(rows),
            np.where(rng.random(rows) < 0.6, 0, np.round(rng.random(rows), 4)),
        )[column % 4]
    queries = pa.array(np.arange(rows) // 120)
    return make_dataset(values, rng.integers(0, 5, rows), queries)


def fresh_seconds(path: Path) -> float:
    """Seconds of the first read in a new process, imports left out."""
    code = (
        "import sys, time; from owpc_ltr.data.letor import read_letor; "
        "begin = time.perf_counter(); read_letor(sys.argv[1]); print(time.perf_counter() - begin)"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def best(call: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few calls, in seconds, after one that is not counted."""
    call()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    main()
