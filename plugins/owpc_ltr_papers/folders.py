"""The data sets in a folder, and their folds: the training, validation and test files of each.

A data set is recognised by its files: `Fold1/train.txt` (or `trainingset.txt`), the parts S1 … S5
that make five folds by rotation, or `set1.train.txt` as Yahoo's. Text may be compressed. Where
pieces are missing, folds are cut within the others. The path and the number of features say what
the papers call the data set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.joining import join_datasets
from owpc_ltr.data.letor import read_letor
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import open_bytes
from owpc_ltr.training.cross_validation import Fold, cut_folds

K = TypeVar("K")
N_FOLDS = 5
_DEEPEST = 6
_FOLD = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE)
_SET = re.compile(r"(set\d+)\.(?:train|valid|vali|test)")


@dataclass(frozen=True)
class FoldFiles:
    """The files of one fold's three sides."""

    name: str
    training: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]


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

    def readers(self) -> Mapping[str, Callable[[], Fold[RankingDataset]]]:
        """What reads each fold: its queries are in memory only while it is worked on.

        Where no fold is whole, these are five within the pieces. Raises BadInput where the pieces
        have too few queries to be cut.
        """
        if not self.folds:
            return _within(self)
        return {files.name: partial(read_fold, files) for files in self.folds}


def find_collections(letor: Path) -> tuple[list[Collection], list[str]]:
    """Every data set in the folder, sorted by name, and notes on duplicates that are ignored.

    Raises BadInput where there is none.
    """
    if not letor.is_dir():
        raise BadInput(f"{letor} is no folder: name the one that holds LETOR's data sets")
    by_name: dict[str, list[Collection]] = {}
    for folder in _folders(letor):
        for collection in _collections_in(folder, letor):
            by_name.setdefault(collection.name, []).append(collection)
    if not by_name:
        raise BadInput(
            f"{letor} holds no data set: there is no Fold1/train.txt, no S1.txt and no "
            "set1.train.txt in it, nor in the folders below"
        )
    chosen, notes = [], []
    for name in sorted(by_name):
        best, *duplicates = sorted(by_name[name], key=_preference)
        chosen.append(best)
        notes += [f"{name}: {copy.folder} is left; {best.folder} is taken" for copy in duplicates]
    return chosen, notes


def rotation(parts: dict[int, Path]) -> tuple[FoldFiles, ...]:
    """LETOR's five folds: fold k trains on parts k to k + 2, chooses on k + 3, tests on k + 4.

    They go round: part 1 follows part 5.
    """

    def part(number: int) -> Path:
        return parts[(number - 1) % N_FOLDS + 1]

    return tuple(
        FoldFiles(f"Fold{k}", (part(k), part(k + 1), part(k + 2)), (part(k + 3),), (part(k + 4),))
        for k in range(1, N_FOLDS + 1)
    )


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


def _collections_in(folder: Path, root: Path) -> Iterator[Collection]:
    """The data sets whose files are in this folder itself, named by its path."""
    texts = list(text_files(folder))
    name = name_of(folder, root)
    candidates = [
        _of_fold_folders(folder, name),
        _of_parts(_by_number(folder, texts), folder, name),
        _of_sides(folder, name, by_side(folder, texts)),
    ]
    collections = [collection for collection in candidates if collection is not None]
    if collections:
        yield _with_edition(max(collections, key=lambda collection: collection.whole))
    for prefix in sorted({match[1] for stem, _ in texts if (match := _SET.fullmatch(stem))}):
        files = [
            (stem.partition(".")[2], path) for stem, path in texts if stem.startswith(f"{prefix}.")
        ]
        collection = _of_sides(folder, f"Yahoo {prefix}", by_side(folder, files))
        if collection is not None:
            yield collection


def _of_fold_folders(folder: Path, name: str) -> Collection | None:
    numbered = {
        int(match[1]): child
        for child in sorted(folder.iterdir())
        if child.is_dir() and (match := _FOLD.fullmatch(child.name))
    }
    sides = {k: by_side(child, list(text_files(child))) for k, child in sorted(numbered.items())}
    sides = {k: files for k, files in sides.items() if files}
    if not sides:
        return None
    whole = {k: files for k, files in sides.items() if set(files) == set(SIDES)}
    missing = [
        f"Fold{k} has no {' and no '.join(side for side in SIDES if side not in files)} file"
        for k, files in sides.items()
        if k not in whole
    ]
    absent = [k for k in range(1, N_FOLDS + 1) if k not in sides]
    if absent:
        missing.append(f"{_listed([f'Fold{k}' for k in absent])} not there")
    folds = tuple(_fold(f"Fold{k}", files) for k, files in whole.items())
    # The pieces of one fold share no query; those of two folds may.
    pieces = () if folds else tuple(next(iter(sides.values())).values())
    return Collection(name, folder, folds, pieces, tuple(missing))


def _of_parts(parts: dict[int, Path], folder: Path, name: str) -> Collection | None:
    if not parts:
        return None
    absent = [f"S{k}" for k in range(1, N_FOLDS + 1) if k not in parts]
    if not absent:
        return Collection(name, folder, rotation(parts))
    missing = (
        f"{_listed(absent)} not there: none of Fold1 to Fold5 can be made, for each takes all five "
        "parts"
    )
    return Collection(name, folder, (), tuple(parts.values()), (missing,))


def _of_sides(folder: Path, name: str, files: dict[str, Path]) -> Collection | None:
    """One fold of files that are not cut into folds."""
    if not files:
        return None
    if set(files) == set(SIDES):
        return Collection(name, folder, (_fold("the one split", files),))
    absent = " and no ".join(side for side in SIDES if side not in files)
    return Collection(name, folder, (), tuple(files.values()), (f"there is no {absent} file",))


def _fold(name: str, files: dict[str, Path]) -> FoldFiles:
    return FoldFiles(name, *((files[side],) for side in SIDES))


def _with_edition(collection: Collection) -> Collection:
    """The collection, with the edition of LETOR in its name, which the number of features tells."""
    files = collection.folds[0].test if collection.folds else collection.pieces
    editions = _EDITIONS.get(collection.name, {})
    edition = editions.get(_features_in(files[0]), "") if editions else ""
    return replace(collection, name=f"{edition} {collection.name}" if edition else collection.name)


def _listed(names: list[str]) -> str:
    """`S1, S2 and S3 are`, as a sentence goes on."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


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


def _within(collection: Collection) -> dict[str, Callable[[], Fold[RankingDataset]]]:
    """Five folds cut within the pieces."""
    parts = {path: read_letor(path) for path in collection.pieces}
    data = _joined(collection.pieces, parts)
    if data.n_queries < N_FOLDS:
        raise BadInput(
            f"{collection.folder} has {data.n_queries} queries of {collection.name}, too few to "
            f"cut into {N_FOLDS} folds: bring the missing files"
        )
    folds = {fold.name: fold for fold in cut_folds(data, N_FOLDS)}
    return {name: partial(folds.__getitem__, name) for name in folds}


def _joined(paths: tuple[Path, ...], parts: dict[Path, RankingDataset]) -> RankingDataset:
    return join_datasets([parts[path] for path in paths], [str(path) for path in paths])


SIDES = ("training", "validation", "test")
_NAMES = {
    **dict.fromkeys(("train", "trainingset", "training"), "training"),
    **dict.fromkeys(("vali", "valid", "validation", "validationset"), "validation"),
    **dict.fromkeys(("test", "testset"), "test"),
}
_TEXT = {"txt", "dat", "letor"}
_PACKED = {"gz", "xz", "zst"}


def text_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The text files of a folder, each with its name but for the endings."""
    for path in sorted(folder.iterdir()):
        words = path.name.split(".")
        if words[-1] in _PACKED:
            words.pop()
        if len(words) > 1 and words[-1].lower() in _TEXT and path.is_file():
            yield ".".join(words[:-1]), path


def by_side(folder: Path, texts: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    """The files by the side that they are. Raises BadInput for two of one side."""
    sides = _by_key(folder, texts, lambda stem: _NAMES.get(stem.lower()), "two {} files")
    return {side: sides[side] for side in SIDES if side in sides}


def _by_number(folder: Path, texts: Iterable[tuple[str, Path]]) -> dict[int, Path]:
    """The files S1 to S5 by their numbers. Raises BadInput for two of one number."""
    numbers = {f"s{number}": number for number in range(1, N_FOLDS + 1)}
    parts = _by_key(folder, texts, lambda stem: numbers.get(stem.lower()), "part {} twice")
    return dict(sorted(parts.items()))


def _by_key(
    folder: Path, texts: Iterable[tuple[str, Path]], key_of: Callable[[str], K | None], twice: str
) -> dict[K, Path]:
    """The files that have a key; `twice` says in words that two have the same one."""
    files: dict[K, Path] = {}
    for stem, path in texts:
        key = key_of(stem)
        if key is None:
            continue
        if key in files:
            raise BadInput(
                f"{folder} has {twice.format(key)}, {files[key].name} and {path.name}: leave one"
            )
        files[key] = path
    return files


_GOV = {
    f"{task.upper()}{year}": re.compile(rf"{task}[-_ ]?{year}|{year}[-_ ]?{task}")
    for task in ("td", "hp", "np")
    for year in ("2003", "2004")
}
_KNOWN = {
    "OHSUMED": re.compile("ohsumed"),
    **_GOV,
    "MQ2007": re.compile("mq2007"),
    "MQ2008": re.compile("mq2008"),
    "MSLR-WEB30K": re.compile("mslr.*30k"),
    "MSLR-WEB10K": re.compile("mslr.*10k"),
}
_EDITIONS = {
    "OHSUMED": {25: "LETOR 2.0", 45: "LETOR 3.0"},
    "TD2003": {44: "LETOR 2.0", 64: "LETOR 3.0"},
    "TD2004": {44: "LETOR 2.0", 64: "LETOR 3.0"},
    **{f"{task}{year}": {64: "LETOR 3.0"} for task in ("HP", "NP") for year in ("2003", "2004")},
    "MQ2007": {46: "LETOR 4.0"},
    "MQ2008": {46: "LETOR 4.0"},
}
_OF_NO_MEANING = {"data", "querylevelnorm", "feature-min", "feature-null", "folds", "letor"}
_HEAD = 1 << 20


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
