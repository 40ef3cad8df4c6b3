"""Names of rankers on a page: of files the last part, for nobody needs the folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_KINDS = ("feature:", "live:")


def short_name(name: str) -> str:
    """A ranker's name without the folders of whose machine it is from.

    >>> short_name("/home/me/models/new.json"), short_name("feature:a/b")
    ('new.json', 'feature:a/b')
    """
    if name.startswith(_KINDS):
        return name
    return name.rpartition("/")[2].rpartition("\\")[2] or name


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The short name of each; two that would be one keep their folders.

    >>> short_names(["a/m.json", "b/m.json", "c/n.json"])
    {'a/m.json': 'a/m.json', 'b/m.json': 'b/m.json', 'c/n.json': 'n.json'}
    """
    count = Counter(short_name(name) for name in names)
    return {name: short_name(name) if count[short_name(name)] == 1 else name for name in names}
