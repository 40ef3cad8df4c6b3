"""The folds of a data set, read one after another; of pieces alone, folds within them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.letor import read_letor
from owpc_ltr.errors import BadInput
from owpc_ltr.training.cross_validation import Fold, cut_folds
from owpc_ltr_papers.folders import N_FOLDS, Collection, FoldFiles
from owpc_ltr_papers.text_files import SIDES


@dataclass(frozen=True)
class Reader:
    """One fold that can be read; its queries are in memory only while it is worked on."""

    name: str
    read: Callable[[], Fold[RankingDataset]]


@dataclass(frozen=True)
class Cut:
    """A data set as it is measured: what to call it, its folds, and whether these are the paper's.

    `data_set` is the published name, `label` says as well what is not as published.
    """

    data_set: str
    label: str
    readers: tuple[Reader, ...]
    as_published: bool


def cut_of(collection: Collection) -> Cut:
    """The folds that there are; where none is whole, five within the pieces, and called so.

    Raises BadInput where the pieces have too few queries to be cut.
    """
    name = collection.name
    if not collection.folds:
        pieces = " and ".join(path.name.split(".")[0] for path in collection.pieces)
        return Cut(name, f"{name}, within {pieces}", _within(collection), as_published=False)
    readers = tuple(Reader(files.name, _reading(files)) for files in collection.folds)
    if collection.whole:
        return Cut(name, name, readers, as_published=True)
    folds = ", ".join(files.name for files in collection.folds)
    return Cut(name, f"{name}, {folds} only", readers, as_published=False)


def read_fold(files: FoldFiles) -> Fold[RankingDataset]:
    """The three sides of a fold. Raises BadInput for a file that cannot be read."""
    sides = {side: getattr(files, side) for side in SIDES}
    parts = {path: read_letor(path) for paths in sides.values() for path in paths}
    most = max(part.n_features for part in parts.values())
    # Sparse text leaves out the last features where they are 0.
    parts = {
        path: part if part.n_features == most else read_letor(path, n_features=most)
        for path, part in parts.items()
    }
    return Fold(files.name, *(_joined(sides[side], parts) for side in SIDES))


def _reading(files: FoldFiles) -> Callable[[], Fold[RankingDataset]]:
    return lambda: read_fold(files)


def _within(collection: Collection) -> tuple[Reader, ...]:
    parts = {path: read_letor(path) for path in collection.pieces}
    data = _joined(collection.pieces, parts)
    if data.n_queries < N_FOLDS:
        raise BadInput(
            f"{collection.folder} has {data.n_queries} queries of {collection.name}, too few to "
            f"cut into {N_FOLDS} folds: bring the missing files"
        )
    return tuple(Reader(fold.name, lambda fold=fold: fold) for fold in cut_folds(data, N_FOLDS))  # type: ignore[misc]


def _joined(paths: tuple[Path, ...], parts: dict[Path, RankingDataset]) -> RankingDataset:
    return join_datasets([parts[path] for path in paths], [str(path) for path in paths])
