"""The data sets in a folder, and their folds: the training, validation and test files of each.

A data set is recognised by its files: `Fold1/train.txt` (or `trainingset.txt`), or the parts S1 …
S5, which make five folds by rotation. Text may be compressed. Where pieces are missing, folds are
cut within the others. The path and the number of features say what the papers call the data set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import read_letor
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import open_bytes
from owpc_ltr.training.cross_validation import Fold, cut_folds

Reader = Callable[[], Fold[RankingDataset]]

N_FOLDS = 5
_SIDES = ("training", "validation", "test")
_SIDE_OF = {
    **dict.fromkeys(("train", "trainingset", "training"), "training"),
    **dict.fromkeys(("vali", "valid", "validation", "validationset"), "validation"),
    **dict.fromkeys(("test", "testset"), "test"),
}
_PARTS = tuple(f"S{number}" for number in range(1, N_FOLDS + 1))
_PART_OF = {part.lower(): part for part in _PARTS}
_FOLD = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE)
_TEXT = {"txt", "dat", "letor"}
_PACKED = {"gz", "xz", "zst"}
_DEEPEST = 6
_HEAD = 1 << 20


@dataclass(frozen=True)
class FoldFiles:
    """The files of one fold's three sides."""

    name: str
    training: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]

    def read(self) -> Fold[RankingDataset]:
        """The three sides. Raises BadInput for a file that cannot be read."""
        paths = (*self.training, *self.validation, *self.test)
        parts = {path: read_letor(path) for path in paths}
        most = max(part.n_features for part in parts.values())
        # Sparse text leaves out the last features where they are 0.
        parts = {
            path: part if part.n_features == most else read_letor(path, n_features=most)
            for path, part in parts.items()
        }
        sides = (self.training, self.validation, self.test)
        return Fold(self.name, *(_joined(side, parts) for side in sides))


@dataclass(frozen=True)
class Collection:
    """A data set: the folds that are whole, or the pieces of which no fold can be made.

    `missing` says in words what is not there of the published folds.
    """

    name: str
    folder: Path
    folds: tuple[FoldFiles, ...]
    pieces: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every fold is there, so that figures can be held against published ones."""
        return bool(self.folds) and not self.missing

    @property
    def label(self) -> str:
        """What its figures are called: the published name, and what is not as published."""
        if not self.folds:
            pieces = " and ".join(path.name.split(".")[0] for path in self.pieces)
            return f"{self.name}, within {pieces}"
        folds = ", ".join(files.name for files in self.folds)
        return self.name if self.whole else f"{self.name}, {folds} only"

    def readers(self) -> Mapping[str, Reader]:
        """What reads each fold: its queries are in memory only while it is worked on.

        Where no fold is whole, these are five within the pieces. Raises BadInput where the pieces
        have too few queries to be cut.
        """
        if self.folds:
            return {files.name: files.read for files in self.folds}
        data = _joined(self.pieces, {path: read_letor(path) for path in self.pieces})
        if data.n_queries < N_FOLDS:
            raise BadInput(
                f"{self.folder} has {data.n_queries} queries of {self.name}, too few to cut into "
                f"{N_FOLDS} folds: bring the missing files"
            )
        folds = {fold.name: fold for fold in cut_folds(data, N_FOLDS)}
        return {name: partial(folds.__getitem__, name) for name in folds}


def find_collections(letor: Path) -> tuple[list[Collection], list[str]]:
    """Every data set in the folder, sorted by name, and notes on duplicates that are ignored.

    Raises BadInput where there is none.
    """
    if not letor.is_dir():
        raise BadInput(f"{letor} is not a folder: name the one that holds LETOR's data sets")
    by_name: dict[str, list[Collection]] = {}
    for folder in _folders(letor):
        for collection in _collection_in(folder, name_of(folder, letor)):
            by_name.setdefault(collection.name, []).append(collection)
    if not by_name:
        raise BadInput(
            f"{letor} holds no data set: there is no Fold1/train.txt and no S1.txt in it, nor in "
            "the folders below"
        )
    chosen, notes = [], []
    for name in sorted(by_name):
        best, *duplicates = sorted(by_name[name], key=_preference)
        chosen.append(best)
        notes += [f"{name}: {copy.folder} is left; {best.folder} is taken" for copy in duplicates]
    return chosen, notes


def _preference(collection: Collection) -> tuple[bool, bool, str]:
    """Whole ones first, then the features that the papers used, then by name."""
    normalised = "querylevelnorm" in str(collection.folder).lower()
    return not collection.whole, not normalised, str(collection.folder)


def _folders(root: Path) -> Iterator[Path]:
    """The folder and those below it, except folders of folds, which belong to the one above.

    Links are followed; a folder with several links is visited once.
    """
    seen = {os.path.realpath(root)}
    for name, children, _ in os.walk(root, followlinks=True):
        depth = len(Path(name).relative_to(root).parts)
        selected = []
        for child in sorted(children):
            real = os.path.realpath(Path(name) / child)
            hidden = child.startswith(".") or _FOLD.fullmatch(child)
            if depth < _DEEPEST and not hidden and real not in seen:
                seen.add(real)
                selected.append(child)
        children[:] = selected
        yield Path(name)


def _collection_in(folder: Path, name: str) -> list[Collection]:
    """The data set whose files are in this folder itself, if any: of folds, or else of parts."""
    collections = [*_of_folds(folder, name), *_of_parts(folder, name)]
    if not collections:
        return []
    best = max(collections, key=lambda collection: collection.whole)
    # The number of features tells the edition of LETOR.
    files = best.folds[0].test if best.folds else best.pieces
    editions = _EDITIONS.get(name, {})
    edition = editions.get(_features_in(files[0]), "") if editions else ""
    return [replace(best, name=f"{edition} {name}".lstrip())]


def _of_folds(folder: Path, name: str) -> list[Collection]:
    numbered = {
        int(match[1]): child
        for child in sorted(folder.iterdir())
        if child.is_dir() and (match := _FOLD.fullmatch(child.name))
    }
    files_by_fold = {k: _files(numbered[k], _SIDE_OF, "two {} files") for k in sorted(numbered)}
    sides = {
        k: {side: of[side] for side in _SIDES if side in of}
        for k, of in files_by_fold.items()
        if of
    }
    if not sides:
        return []
    missing, folds = [], []
    for k, files in sides.items():
        absent = [side for side in _SIDES if side not in files]
        if absent:
            missing.append(f"Fold{k} has no {' and no '.join(absent)} file")
        else:
            folds.append(FoldFiles(f"Fold{k}", *((files[side],) for side in _SIDES)))
    absent = [f"Fold{k}" for k in range(1, N_FOLDS + 1) if k not in sides]
    if absent:
        missing.append(f"{_listed(absent)} not there")
    # The pieces of one fold share no query; those of two folds may.
    pieces = () if folds else tuple(next(iter(sides.values())).values())
    return [Collection(name, folder, tuple(folds), pieces, tuple(missing))]


def _of_parts(folder: Path, name: str) -> list[Collection]:
    parts = _files(folder, _PART_OF, "part {} twice")
    absent = [part for part in _PARTS if part not in parts]
    if not absent:
        return [Collection(name, folder, rotation(parts))]
    missing = (
        f"{_listed(absent)} not there: none of Fold1 to Fold5 can be made, for each takes all five "
        "parts"
    )
    pieces = tuple(parts[part] for part in sorted(parts))
    return [Collection(name, folder, (), pieces, (missing,))] if parts else []


def rotation(parts: Mapping[str, Path]) -> tuple[FoldFiles, ...]:
    """LETOR's five folds: fold k trains on parts k to k + 2, chooses on k + 3, tests on k + 4.

    They go round: part 1 follows part 5.
    """
    ring = [parts[part] for part in _PARTS] * 2
    return tuple(
        FoldFiles(f"Fold{k + 1}", tuple(ring[k : k + 3]), (ring[k + 3],), (ring[k + 4],))
        for k in range(N_FOLDS)
    )


def _files(folder: Path, known: Mapping[str, str], twice: str) -> dict[str, Path]:
    """The text files of a folder whose names are known, by what they are.

    `twice` says in words that two are the same, which raises BadInput.
    """
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        words = path.name.lower().split(".")
        if words[-1] in _PACKED:
            words.pop()
        key = known.get(".".join(words[:-1]))
        if key is None or words[-1] not in _TEXT or not path.is_file():
            continue
        if key in files:
            raise BadInput(
                f"{folder} has {twice.format(key)}, {files[key].name} and {path.name}: leave one"
            )
        files[key] = path
    return files


def _listed(names: list[str]) -> str:
    """`S1, S2 and S3 are`, as a sentence goes on."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def _joined(paths: Sequence[Path], parts: Mapping[Path, RankingDataset]) -> RankingDataset:
    return join_datasets([parts[path] for path in paths], list(map(str, paths)))


_GOV = [f"{task}{year}" for task in ("TD", "HP", "NP") for year in ("2003", "2004")]
_KNOWN = {
    **{name: re.compile(name.lower()) for name in ("OHSUMED", "MQ2007", "MQ2008")},
    **{
        name: re.compile(f"{name[:2]}[-_ ]?{name[2:]}|{name[2:]}[-_ ]?{name[:2]}".lower())
        for name in _GOV
    },
}
_EDITIONS = {
    "OHSUMED": {25: "LETOR 2.0", 45: "LETOR 3.0"},
    **{name: {64: "LETOR 3.0"} for name in _GOV},
    **{name: {44: "LETOR 2.0", 64: "LETOR 3.0"} for name in ("TD2003", "TD2004")},
    **{name: {46: "LETOR 4.0"} for name in ("MQ2007", "MQ2008")},
}
_OF_NO_MEANING = {"data", "querylevelnorm", "feature-min", "feature-null", "folds", "letor"}


def name_of(folder: Path, root: Path) -> str:
    """What the papers call the data set in a folder, else the folder's own name.

    The path below `root` is asked first, from its end; then the root's own.
    """
    words = [*folder.absolute().relative_to(root.absolute()).parts[::-1], root.absolute().name]
    for word in words:
        for name, pattern in _KNOWN.items():
            if pattern.search(word.lower()):
                return name
    return next((word for word in words if word.lower() not in _OF_NO_MEANING), folder.name)


def _features_in(path: Path) -> int:
    """The largest feature index of a file's first line; 0 where there is none."""
    head = bytearray(_HEAD)
    with open_bytes(path) as source:
        read = source.readinto(memoryview(head))
    for line in bytes(head[:read]).split(b"\n"):
        text = line.split(b"#", 1)[0]
        numbers = [int(number) for number in re.findall(rb"\s(\d+):", text)]
        if numbers:
            return max(numbers)
    return 0
