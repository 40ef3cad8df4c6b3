"""The text files of a folder: which side of a split each is, or which part of the data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from owpc_ltr.errors import BadInput

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
    sides: dict[str, Path] = {}
    for stem, path in texts:
        side = _NAMES.get(stem.lower())
        if side is None:
            continue
        if side in sides:
            raise BadInput(
                f"{folder} has two {side} files, {sides[side].name} and {path.name}: leave one"
            )
        sides[side] = path
    return {side: sides[side] for side in SIDES if side in sides}


def by_number(
    folder: Path, texts: Iterable[tuple[str, Path]], pattern: re.Pattern[str]
) -> dict[int, Path]:
    """The files by the number in their name. Raises BadInput for two of one number."""
    parts: dict[int, Path] = {}
    for stem, path in texts:
        match = pattern.fullmatch(stem)
        if match is None:
            continue
        number = int(match[1])
        if number in parts:
            raise BadInput(
                f"{folder} has part {number} twice, {parts[number].name} and {path.name}: leave one"
            )
        parts[number] = path
    return dict(sorted(parts.items()))
