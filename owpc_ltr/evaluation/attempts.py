"""The ledger of attempts: how often rankers were compared on the same queries before.

A test that is repeated finds a difference by chance, so p counts more often with each attempt. Live
comparisons of an alias are counted in its cluster (`engine/attempts.py`), all others in a file of
the user's state folder: a line for each pair of rankers has a sketch of the queries, a digest of
what was measured, by which the same comparison is recognised, when that was, the names of the
rankers and the metric. No text, id or figure is kept.

Queries are recognised by their normalised texts, whatever their ids are. Queries of which another
comparison had most, or all and some more, are the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, give_warning
from owpc_ltr.files.input import read_regular, state_folder
from owpc_ltr.files.output import open_to_append, sealed_line, unsealed, write_atomically
from owpc_ltr.text import cut, normalised_text, printable

Sketch = Mapping[str, Any]
"""A set of queries, as it is recognised again: its size `n`, its smallest hashes, that of `all`."""
Counted = Mapping[str, Any]
"""A comparison that was counted: the sketch of its queries, what was measured (`test`), how many
came `earlier`; `time`, `rankers` and `metric`, which older lines lack. A torn line has no sketch.
"""
Pairs = Mapping[tuple[str, str], tuple[Vector, Vector]]
"""Both rankers' values of each query, by the metric that decides, by their names."""
_HASHES = 64
_MOSTLY = 0.5
_LONGEST = 5_000
"""Older comparisons are forgotten."""
_LARGEST = 1 << 28
_DIGITS = 9
_NAME = 80
"""Characters of a ranker's name that are kept."""


class AttemptCounter(Protocol):
    """Counts the attempts on the same queries."""

    @property
    def place(self) -> str:
        """Where they are counted, in words."""
        ...

    def count(self, queries: Sketch, metric: str, pairs: Pairs, /) -> int:
        """How many other attempts on these queries came before; this one is written down.

        `metric` is the one that decides. A comparison that is made again says what it said the
        first time.
        """
        ...


def sketch_of(query_ids: pa.StringArray, texts: pa.StringArray | None = None) -> Sketch:
    """The sketch of queries by their texts; a query without one is known by its id."""
    ids = query_ids.to_pylist()
    names = {
        normalised_text(text or "") or name
        for name, text in zip(ids, ids if texts is None else texts.to_pylist(), strict=True)
    }
    hashes = sorted(map(_hash, names))
    return {"n": len(names), "sketch": hashes[:_HASHES], "all": _hash("".join(hashes))}


def same_queries(first: Sketch, other: Sketch) -> bool:
    """Whether most of the queries of the smaller one of two sets are in the other, too."""
    a, b = set(first["sketch"]), set(other["sketch"])
    union = sorted(a | b)[:_HASHES]
    shared = sum(each in a and each in b for each in union) / max(1, len(union))
    n, m = int(first["n"]), int(other["n"])
    return shared / (1.0 + shared) * (n + m) / max(1, min(n, m)) >= _MOSTLY


def is_sketch(content: object) -> bool:
    """Whether this is a sketch that is not damaged."""
    return (
        isinstance(content, dict)
        and type(content.get("n")) is int
        and isinstance(content.get("sketch"), list)
        and all(isinstance(each, str) for each in (*content["sketch"], content.get("all")))
    )


def corrected_for(earlier: int) -> float:
    """What p is multiplied by after so many comparisons on the same queries: 1, 3, 6, 10, ….

    Whoever goes on until there is a difference makes one comparison after another, and their errors
    add up. With (k + 1) (k + 2) / 2 after k comparisons the levels of the sides *better* add up to
    5 % (they are 2.5 % times 1, 1/3, 1/6, …), however long the series is and whatever the
    comparisons have in common. The first comparison loses nothing.
    """
    return (earlier + 1) * (earlier + 2) / 2


def earlier_words(earlier: int, place: str, n_queries: int) -> str:
    """How many comparisons came before, what that means for p, and which queries start anew."""
    return (
        f"{earlier} earlier {'comparison' if earlier == 1 else 'comparisons'} on these queries: "
        f"it counts {corrected_for(earlier):,.0f} times ({place}; of {n_queries:,} queries, "
        f"{new_queries(n_queries):,} must be new to start anew)"
    )


def new_queries(n_queries: int) -> int:
    """How many of so many queries must be new, so that no comparison on the others counts."""
    return n_queries // 2 + 1


def counted_on(queries: Sketch, made: Iterable[Counted]) -> dict[str, Counted]:
    """Which of the comparisons count on these queries, the same one once, by what was measured.

    What was compared when a line was torn is not known: it may be these queries.
    """
    counted: dict[str, Counted] = {}
    for each in made:
        if "sketch" not in each or same_queries(each, queries):
            counted.setdefault(each["test"], each)
    return counted


@dataclass(frozen=True)
class AttemptsFile:
    """All comparisons of this user but those that a cluster counts.

    Where a comparison cannot be written down, a warning says so. A line that was changed is an
    error: without it, fewer comparisons would count. One that is torn is an attempt on any queries.
    """

    @property
    def path(self) -> Path:
        """The file."""
        return state_folder() / "attempts.jsonl"

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def count(self, queries: Sketch, metric: str, pairs: Pairs, /) -> int:
        """How many other pairs of rankers were compared on these queries; these are added.

        Raises BadInput for a damaged line, or a file that cannot be read.
        """
        tests = {_digest(*values): names for names, values in pairs.items()}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Of commands that run at the same time, one alone is the first.
            with open_to_append(self.path) as file:
                made = self.made()
                known = counted_on(queries, made.values())
                # What was compared when a line was torn is not known: it may be these queries.
                torn = {_hash(repr(file.torn)): ()} if file.torn else {}
                before = len(known) + len(torn)
                time = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
                about = {**queries, "earlier": before, "time": time, "metric": metric}
                # A pair that was compared before must not hide that another one is new.
                new = [
                    sealed_line({**about, "test": test, "rankers": [*map(_short, names)]})
                    for test, names in sorted({**tests, **torn}.items())
                    if test not in known
                ]
                if len(made) + len(new) <= _LONGEST:
                    file.append(b"".join(new))
                else:
                    write_atomically(self.path, b"".join([*made, *new][-_LONGEST // 2 :]))
        except OSError as error:
            why = error.strerror or str(error)
            give_warning(f"this comparison is not counted: {self.path}: {why}")
            known = counted_on(queries, self.made().values())
            before = len(known)
        earlier = {test: int(each["earlier"]) for test, each in known.items()}
        return max((earlier.get(test, before) for test in tests), default=before)

    def made(self) -> dict[bytes, Counted]:
        """All comparisons that are counted by their lines, the oldest first.

        Raises BadInput as `count` does.
        """
        made: dict[bytes, Counted] = {}
        lines: list[bytes] = []
        if os.path.exists(self.path):  # noqa: PTH110 - False, too, where nobody may look
            lines = read_regular(self.path, _LARGEST).splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            content = unsealed(line)
            if content is None and not line.endswith(b"\n"):
                content = {"test": _hash(repr(line)), "earlier": 0}
            elif content is None or not is_sketch(content):
                raise BadInput(
                    f"cannot read {self.path}, line {number}: it was changed, and fewer "
                    "comparisons on the same queries would count: restore it"
                )
            made[line] = content
        return made


ATTEMPTS_FILE = AttemptsFile()


def _short(name: str) -> str:
    """A ranker's name as it is kept: on one line, without secrets."""
    return cut(printable(name), _NAME)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def _digest(first: Vector, other: Vector) -> str:
    """Of two rankers' values, whichever stands first."""
    parts = sorted(np.round(values, _DIGITS).tobytes() for values in (first, other))
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()
