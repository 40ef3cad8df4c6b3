"""Which worker has which part: each the same ones in every pass, and about as many documents."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 1.1
"""How much more than its share a worker may have before parts that it has read go to another."""


def placed(sizes: Mapping[K, int], workers: Sequence[str], before: Mapping[K, str]) -> dict[K, str]:
    """A worker for each part: the one it had before, unless that is gone or has far too many.

    >>> placed({"a": 3, "b": 2, "c": 1}, ["one", "two"], {})
    {'a': 'one', 'b': 'two', 'c': 'two'}
    """
    loads = dict.fromkeys(sorted(workers), 0)
    share = _SLACK * sum(sizes.values()) / len(loads)
    homes: dict[K, str] = {}
    for part, size in sizes.items():
        home = before.get(part)
        if home in loads and (loads[home] == 0 or loads[home] + size <= share):
            homes[part] = home
            loads[home] += size
    # The largest first: what comes last evens out.
    for part in sorted((one for one in sizes if one not in homes), key=lambda one: -sizes[one]):
        homes[part] = min(loads, key=loads.__getitem__)
        loads[homes[part]] += sizes[part]
    return homes
