"""The ledger of attempts: how often rankers were compared on the same queries before.

A test that is repeated finds a difference by chance, so p counts more often with each attempt. Live
comparisons of an alias are counted in its cluster (`engine/attempts.py`), all others in a file of
the user's state folder: a line for each pair of rankers has a sketch of the queries and a digest of
what was measured, by which the same comparison is recognised. No text, id or figure is kept.

Queries are recognised by their normalised texts, whatever their ids are. Queries of which another
comparison had most, or all and some more, are the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import give_warnings
from owpc_ltr.files.folders import state_folder
from owpc_ltr.files.output import write_atomically
from owpc_ltr.text import normalised_text

Sketch = Mapping[str, Any]
"""A set of queries, as it is recognised again: its size `n`, its smallest hashes, that of `all`."""
Pairs = Sequence[tuple[Vector, Vector]]
"""Both rankers' values of each query, by the metric that decides."""
_HASHES = 64
_MOSTLY = 0.5
_LONGEST = 5_000
"""Older comparisons are forgotten."""
_DIGITS = 9


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


def same_queries(one: Sketch, other: Sketch) -> bool:
    """Whether most of the queries of the smaller one of two sets are in the other, too."""
    a, b = set(one["sketch"]), set(other["sketch"])
    union = sorted(a | b)[:_HASHES]
    shared = sum(each in a and each in b for each in union) / max(1, len(union))
    n, m = int(one["n"]), int(other["n"])
    return shared / (1.0 + shared) * (n + m) / max(1, min(n, m)) >= _MOSTLY


def is_sketch(content: Any) -> bool:
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
        f"{n_queries // 2 + 1:,} must be new to start anew)"
    )


@dataclass(frozen=True)
class AttemptsFile:
    """All comparisons of this user but those that a cluster counts.

    Where the file cannot be read or written, nothing is known of others, and a warning says so.
    """

    @property
    def path(self) -> Path:
        """The file."""
        return state_folder() / "attempts.jsonl"

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def count(self, queries: Sketch, _metric: str, pairs: Pairs, /) -> int:
        """How many other pairs of rankers were compared on these queries; these are added."""
        tests = {_digest(*pair) for pair in pairs}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+", errors="replace") as file:
                # Of commands that run at the same time, one alone is the first.
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                lines = file.read().splitlines()
                known = _tests_on(queries, lines)
                before = len(known)
                # A pair that was compared before must not hide that another one is new.
                new = [
                    {**queries, "test": one, "earlier": before} for one in tests.difference(known)
                ]
                if len(lines) + len(new) <= _LONGEST:
                    file.write("".join(f"{json.dumps(one)}\n" for one in new))
                else:
                    newest = [*lines, *map(json.dumps, new)][-_LONGEST // 2 :]
                    write_atomically(self.path, "".join(f"{one}\n" for one in newest).encode())
        except OSError as error:
            why = error.strerror or str(error)
            give_warnings([f"comparisons on the same queries are not counted: {self.path}: {why}"])
            return 0
        return max((known.get(test, before) for test in tests), default=before)


ATTEMPTS_FILE = AttemptsFile()


def _tests_on(queries: Sketch, lines: Sequence[str]) -> dict[str, int]:
    """The tests on these queries, and how many had come before each. Damaged lines are skipped."""
    tests: dict[str, int] = {}
    for line in lines:
        try:
            made = json.loads(line)
        except ValueError:
            continue
        if is_sketch(made) and type(made.get("earlier")) is int and same_queries(made, queries):
            tests.setdefault(str(made.get("test")), made["earlier"])
    return tests


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def _digest(one: Vector, other: Vector) -> str:
    """Of two rankers' values, whichever stands first."""
    parts = sorted(np.round(values, _DIGITS).tobytes() for values in (one, other))
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()
