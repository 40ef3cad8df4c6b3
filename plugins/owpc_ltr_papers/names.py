"""What data sets are called in papers, as paths and numbers of features tell."""

from __future__ import annotations

import re
from pathlib import Path

from owpc_ltr.files.text import open_bytes

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


def edition_of(name: str, path: Path) -> str:
    """The edition of LETOR that a file is of, by its number of features; empty where unknown."""
    known = _EDITIONS.get(name)
    if known is None:
        return ""
    return known.get(_features_in(path), "")


def _features_in(path: Path) -> int:
    """The largest feature index of a file's first line; 0 where there is none."""
    head = bytearray(_HEAD)
    with open_bytes(path) as source:
        read = source.readinto(memoryview(head))
    for line in bytes(head[:read]).split(b"\n"):
        text = line.split(b"#", 1)[0]
        numbers = [int(found) for found in re.findall(rb"\s(\d+):", text)]
        if numbers:
            return max(numbers)
    return 0
