"""Small data sets in the layouts of LETOR, with a relation between features and labels to learn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from owpc_ltr_papers.folders import rotation

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.letor import write_letor

PARTS = range(1, 6)
_ENDINGS = ("txt", "txt.gz", "txt.xz")


def part(number: int, queries: int = 4, documents: int = 8, features: int = 4) -> RankingDataset:
    """One fifth of a data set: queries that no other part has."""
    rng = np.random.default_rng(number)
    rows = queries * documents
    matrix = rng.uniform(size=(rows, features)).astype(np.float32)
    noise = rng.normal(scale=0.3, size=rows)
    labels = np.digitize(matrix[:, 0] + noise, [0.6, 0.9])
    # A query without two different labels is of no use to anybody.
    labels[::documents], labels[1::documents] = 2, 0
    ids = np.repeat([f"q{number}{k}" for k in range(queries)], documents)
    return make_dataset(matrix, labels, ids)


def write_parts(folder: Path, numbers: Sequence[int] = PARTS, ending: str = "txt") -> Path:
    """`S1.txt` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        write_letor(part(number), folder / f"S{number}.{ending}")
    return folder


def write_folds(folder: Path, ending: str = "txt", names: Sequence[str] = ()) -> Path:
    """`Fold1/train.txt` and so on, of the same parts, by other names where these are given."""
    train, vali, test = names or ("train", "vali", "test")
    for fold in rotation({k: Path(str(k)) for k in PARTS}):
        own = folder / fold.name
        own.mkdir(parents=True, exist_ok=True)
        for name, paths in ((train, fold.training), (vali, fold.validation), (test, fold.test)):
            numbers = [int(path.name) for path in paths]
            joined = join_datasets([part(k) for k in numbers], [str(k) for k in numbers])
            write_letor(joined, own / f"{name}.{ending}")
    return folder
