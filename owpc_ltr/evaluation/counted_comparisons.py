"""The comparisons that count against the next one on the same queries, and how many are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.evaluation.attempts import CountedComparison, Sketch, corrected_for, new_queries
from owpc_ltr.evaluation.comparison import MOST_RESAMPLES
from owpc_ltr.evaluation.significance import LEVEL

_UNKNOWN = "before these were recorded"
_SETS = 20
"""Sets of queries that are listed."""


@dataclass(frozen=True, repr=False)
class CountedOnQueries(BlockResult):
    """The comparisons on queries, or on most of them, the oldest first.

    `queries` is the sketch of the queries, `place` is where they are counted.
    """

    queries: Sketch
    comparisons: tuple[CountedComparison, ...]
    place: str

    @property
    def earlier(self) -> int:
        """How many comparisons count against the next one."""
        return len(self.comparisons)

    @property
    def factor(self) -> float:
        """What p of the next comparison, of one pair by one metric, is multiplied by."""
        return corrected_for(self.earlier)

    @property
    def left(self) -> int:
        """How many more comparisons are possible before no p is small enough."""
        least = 1 / (MOST_RESAMPLES + 1)
        most = next(k for k in count() if least * corrected_for(k) >= LEVEL)
        return max(0, most - self.earlier)

    def as_dict(self) -> dict[str, Any]:
        """The comparisons, and what they mean for the next one, as JSON."""
        n_queries = int(self.queries["n"])
        return {
            "n_queries": n_queries,
            "earlier_comparisons": self.earlier,
            "counts": self.factor,
            "p_below": LEVEL / self.factor,
            "left": self.left,
            "new_queries": new_queries(n_queries) if self.earlier else 0,
            "counted_in": self.place,
            "comparisons": [
                {
                    "time": each.time or None,
                    "rankers": list(each.rankers),
                    "metric": each.metric or None,
                    "counted": corrected_for(each.earlier),
                }
                for each in self.comparisons
            ],
        }

    def _blocks(self) -> Iterator[Block]:
        n_queries, number = int(self.queries["n"]), self.earlier
        words = f"{number:,} comparison{'s' * (number != 1)}" if number else "no comparison"
        yield f"{words} counted on these {n_queries:,} queries ({self.place})"
        if number:
            yield Table(
                ["TIME", "RANKERS", "METRIC", "COUNTED"],
                [
                    (
                        each.time or "–",
                        " against ".join(each.rankers) or _UNKNOWN,
                        each.metric or "–",
                        f"{corrected_for(each.earlier):,.0f} ×",
                    )
                    for each in self.comparisons
                ],
            )
        times = "once" if self.factor == 1 else f"{self.factor:,.0f} times"
        yield (
            f"the next comparison of one pair by one metric counts {times}: its p must be below "
            f"{LEVEL / self.factor:.2g}"
        )
        yield f"{self.left:,} more are possible before no p is small enough"
        if number:
            yield (
                f"of {n_queries:,} queries, {new_queries(n_queries):,} must be new to start anew"
            )


@dataclass(frozen=True, repr=False)
class CountedComparisons(BlockResult):
    """The comparisons that were counted, by the queries that they were made on, the newest first.

    A comparison on queries that are most of those of two sets stands in both.
    """

    sets: tuple[CountedOnQueries, ...]
    place: str

    def as_dict(self) -> dict[str, Any]:
        """The sets of queries as JSON."""
        return {"counted_in": self.place, "queries": [each.as_dict() for each in self.sets]}

    def _blocks(self) -> Iterator[Block]:
        if not self.sets:
            yield f"no comparison is counted ({self.place})"
        for number, each in enumerate(self.sets):
            yield from [""] * bool(number)
            yield from each.blocks


def counted_on(
    made: Sequence[CountedComparison], place: str, queries: Sketch | None = None
) -> CountedComparisons:
    """The comparisons that count on these queries; without any, on each of the newest sets."""
    tests = list({each.test: each for each in reversed(made)}.values())  # the first of each

    def on(lead: Sketch) -> CountedOnQueries:
        return CountedOnQueries(lead, tuple(t for t in tests[::-1] if t.counts_on(lead)), place)

    sets = [] if queries is None else [on(queries)]
    seen: set[str] = set()
    for each in () if sets else tests:
        if each.queries is not None and each.test not in seen and len(sets) < _SETS:
            sets.append(on(each.queries))
            seen.update(other.test for other in sets[-1].comparisons)
    return CountedComparisons(tuple(sets), place)
