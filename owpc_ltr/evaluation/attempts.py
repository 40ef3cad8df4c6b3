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
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class CountedComparison:
    """A comparison that was counted after `earlier` ones; the same `test` counts once.

    What older lines lack is empty. Without `queries` it counts on any: its line was torn.
    """

    test: str
    earlier: int
    queries: Sketch | None
    time: str = ""
    rankers: tuple[str, ...] = ()
    metric: str = ""

    def counts_on(self, queries: Sketch) -> bool:
        """Whether the next comparison on these queries counts more often for it."""
        return self.queries is None or same_queries(self.queries, queries)


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
                lines = self._lines()
                known = _tests_on(queries, self._made(lines))
                # What was compared when a line was torn is not known: it may be these queries.
                torn = {_hash(repr(file.torn)): ()} if file.torn else {}
                before = len(known) + len(torn)
                time = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
                of_all = {"earlier": before, "time": time, "metric": metric}
                # A pair that was compared before must not hide that another one is new.
                new = [
                    sealed_line({**queries, "test": test, "rankers": short_names(names), **of_all})
                    for test, names in sorted({**tests, **torn}.items())
                    if test not in known
                ]
                if len(lines) + len(new) <= _LONGEST:
                    file.append(b"".join(new))
                else:
                    write_atomically(self.path, b"".join([*lines, *new][-_LONGEST // 2 :]))
        except OSError as error:
            why = error.strerror or str(error)
            give_warning(f"this comparison is not counted: {self.path}: {why}")
            known = _tests_on(queries, self.made())
            before = len(known)
        return max((known.get(test, before) for test in tests), default=before)

    def made(self) -> list[CountedComparison]:
        """All comparisons that are counted, the oldest first. Raises BadInput as `count` does."""
        return self._made(self._lines())

    def _lines(self) -> list[bytes]:
        if not os.path.exists(self.path):  # noqa: PTH110 - False, too, where nobody may look
            return []
        return read_regular(self.path, _LARGEST).splitlines(keepends=True)

    def _made(self, lines: Sequence[bytes]) -> list[CountedComparison]:
        made = []
        for number, line in enumerate(lines, 1):
            content = unsealed(line)
            if content is None and not line.endswith(b"\n"):
                made.append(CountedComparison(_hash(repr(line)), 0, None))
                continue
            if content is None or not is_sketch(content):
                raise BadInput(
                    f"cannot read {self.path}, line {number}: it was changed, and fewer "
                    "comparisons on the same queries would count: restore it"
                )
            made.append(
                CountedComparison(
                    content["test"],
                    content["earlier"],
                    {part: content[part] for part in ("n", "sketch", "all")},
                    content.get("time", ""),
                    rankers=tuple(content.get("rankers", ())),
                    metric=content.get("metric", ""),
                )
            )
        return made


ATTEMPTS_FILE = AttemptsFile()


def short_names(rankers: Sequence[str]) -> list[str]:
    """The names of rankers as they are kept: on one line, cut, without secrets."""
    return [cut(printable(name), _NAME) for name in rankers]


def _tests_on(queries: Sketch, made: Sequence[CountedComparison]) -> dict[str, int]:
    """The tests on these queries, with how many had come before each."""
    tests: dict[str, int] = {}
    for comparison in made:
        if comparison.counts_on(queries):
            tests.setdefault(comparison.test, comparison.earlier)
    return tests


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def _digest(first: Vector, other: Vector) -> str:
    """Of two rankers' values, whichever stands first."""
    parts = sorted(np.round(values, _DIGITS).tobytes() for values in (first, other))
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()
