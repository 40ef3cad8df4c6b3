"""Measures of one ranked list, compiled, exact under ties (McSherry & Najork 2008).

`ranked` are the documents, best first, `runs` the places where those of one score begin, and the
end. `worth` is a document's gain, or 1 where it is relevant. What the metrics say of each formula
is not said again.
"""

from __future__ import annotations

from typing import Any

from owpc_ltr.compiling import compiled
from owpc_ltr.kernels.sorting import sort_ascending


@compiled
def order_ties(keys: Any, by: Any, ranked: Any) -> None:
    """Sort the documents of each tied run by another number, lowest first."""
    first = 0
    for place in range(1, len(ranked) + 1):
        if place == len(ranked) or keys[ranked[place]] != keys[ranked[first]]:
            if place - first > 1:
                sort_ascending(by, ranked[first:place])
            first = place


@compiled
def cut_into_runs(merge: bool, keys: Any, ranked: Any, runs: Any) -> int:
    """Write the place where each run begins, and the end of the last; how many were written.

    A run is the documents of one score where tied ones are to be merged, else one document.
    """
    written = 0
    for place in range(len(ranked)):
        if not (merge and place > 0 and keys[ranked[place]] == keys[ranked[place - 1]]):
            runs[written] = place
            written += 1
    runs[written] = len(ranked)
    return written + 1


@compiled
def _run_sum(worth: Any, ranked: Any, first: int, last: int) -> float:
    total = 0.0
    for place in range(first, last):
        total += worth[ranked[place]]
    return total


@compiled
def discounted_gain(gain: Any, ranked: Any, runs: Any, cutoff: int, tables: Any) -> float:
    """DCG; `tables` are the discounts of the places, and their running sums from 0."""
    discount, running = tables
    total = 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        if size == 1:
            total += gain[ranked[above]] * discount[above]
            continue
        end = min(above + size, cutoff)
        mean = _run_sum(gain, ranked, above, above + size) / size
        total += mean * (running[end] - running[above])
    return total


@compiled
def relevant_found(relevant: Any, ranked: Any, runs: Any, cutoff: int) -> float:
    """How many relevant documents are expected within the cutoff."""
    total = 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        share = min(size, cutoff - above) / size
        total += _run_sum(relevant, ranked, above, above + size) * share
    return total


@compiled
def sum_of_precisions(relevant: Any, ranked: Any, runs: Any, cutoff: int, tables: Any) -> float:
    """Precision summed over relevant documents; `tables` are 1/rank, and its running sums."""
    reciprocal, running = tables
    total, before = 0.0, 0.0
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        hits = _run_sum(relevant, ranked, above, above + size)
        if hits == 0.0:
            continue
        within = min(size, cutoff - above)
        reciprocals = reciprocal[above] if within == 1 else running[above + within] - running[above]
        others = (hits - 1.0) / max(size - 1, 1) * (within - (above + 1) * reciprocals)
        total += hits / size * ((before + 1.0) * reciprocals + others)
        before += hits
    return total


@compiled
def reciprocal_of_first(relevant: Any, ranked: Any, runs: Any, cutoff: int) -> float:
    """1/rank of the first relevant document, 0 beyond the cutoff."""
    for r in range(len(runs) - 1):
        above, size = runs[r], runs[r + 1] - runs[r]
        if above >= cutoff:
            break
        hits = _run_sum(relevant, ranked, above, above + size)
        if hits > 0.0:
            expected: float = _expected_reciprocal(hits, size, above, cutoff)
            return expected
    return 0.0


@compiled
def _expected_reciprocal(hits: float, size: int, above: int, cutoff: int) -> float:
    """The mean over all orders of a run of 1/rank of its first relevant document."""
    if hits == size:
        return 1.0 / (above + 1)
    total, before = 0.0, 1.0
    for j in range(min(size, cutoff - above)):
        left = size - j
        total += before * (hits / left) / (above + j + 1)
        before *= max(left - hits, 0.0) / left
    return total
