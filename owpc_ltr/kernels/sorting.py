"""Compiled sorting of a query's scores, for loss kernels: O(m) on scores that are spread out."""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.compiling import compiled

_SHORT = 8  # documents: up to here, insertion sort is the fastest
_MIDDLING = 64  # up to here, comparing each with each, many at once


@compiled
def sort_ascending(scores: Any, documents: Any) -> None:
    """Sort document numbers by their scores, lowest first; equal scores keep their order."""
    if _SHORT < len(documents) <= _MIDDLING:
        _sort_by_counting(scores, documents)
        return
    if len(documents) > _MIDDLING:
        _sort_roughly(scores, documents)
    # What is left unsorted lies within short runs.
    for k in range(1, len(documents)):
        document = documents[k]
        score = scores[document]
        place = k
        while place > 0 and scores[documents[place - 1]] > score:
            documents[place] = documents[place - 1]
            place -= 1
        documents[place] = document


@compiled
def _sort_by_counting(scores: Any, documents: Any) -> None:
    """Each document goes to the place that equals the number of those before it.

    The square of a small number of comparisons, none of which is a branch, is faster than a few
    that the processor cannot predict.
    """
    n = len(documents)
    keys, numbers = np.empty(n), np.zeros(2 * n, dtype=np.int64)
    for k in range(n):
        keys[k] = scores[documents[k]]
        numbers[k] = documents[k]
    for k in range(n):
        key, before = keys[k], 0
        for other in keys:
            before += int(other < key)
        documents[before + numbers[n + before]] = numbers[k]
        numbers[n + before] += 1


@compiled
def _sort_roughly(scores: Any, documents: Any) -> None:
    """Scatter the documents into as many buckets of equal width as there are documents.

    Where one bucket holds too much (an outlier makes all the others equal), it is merge-sorted.
    """
    n = len(documents)
    low = high = scores[documents[0]]
    sorted_already = True
    for k in range(1, n):
        score = scores[documents[k]]
        sorted_already &= score >= scores[documents[k - 1]]
        low, high = min(low, score), max(high, score)
    if sorted_already:
        return
    scale = (n - 1) / (high - low) if high > low else np.inf
    spread_out = scale < np.inf and high - low < np.inf
    # Counted two places on, so that where a bucket starts stays where the one before it ends.
    starts = np.zeros(n + 2, dtype=np.int64)
    buckets = np.zeros(n, dtype=np.int64)
    spare = np.empty(n, dtype=np.int64)
    for k in range(n):
        if spread_out:
            buckets[k] = max(0, min(int((scores[documents[k]] - low) * scale), n - 1))
        starts[buckets[k] + 2] += 1
        spare[k] = documents[k]
    for bucket in range(n):
        starts[bucket + 1] += starts[bucket]
    for k in range(n):
        documents[starts[buckets[k] + 1]] = spare[k]
        starts[buckets[k] + 1] += 1
    for bucket in range(n):
        if starts[bucket + 1] - starts[bucket] > _SHORT:
            _merge_sort(scores, documents, starts[bucket], starts[bucket + 1], spare)


@compiled
def _merge_sort(scores: Any, documents: Any, start: int, end: int, spare: Any) -> None:
    """Sort `documents[start:end]`; `spare` has room for as many."""
    width = 1
    while width < end - start:
        for low in range(start, end, 2 * width):
            middle, high = min(low + width, end), min(low + 2 * width, end)
            a, b = low, middle
            for k in range(low, high):
                if b >= high or (a < middle and scores[documents[a]] <= scores[documents[b]]):
                    spare[k] = documents[a]
                    a += 1
                else:
                    spare[k] = documents[b]
                    b += 1
        for k in range(start, end):
            documents[k] = spare[k]
        width *= 2
