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
    _insert(scores, documents, 0, len(documents))


@compiled
def _sort_by_counting(scores: Any, documents: Any) -> None:
    """Each document goes to the place that equals the number of those before it.

    The square of a small number of comparisons, none of which is a branch, is faster than a few
    that the processor cannot predict.
    """
    n = len(documents)
    keys, unsorted, ties = np.empty(n), documents.copy(), np.zeros(n, dtype=np.int64)
    for k in range(n):
        keys[k] = scores[unsorted[k]]
    for k in range(n):
        key, before = keys[k], 0
        for other in keys:
            before += int(other < key)
        documents[before + ties[before]] = unsorted[k]
        ties[before] += 1


@compiled
def _sort_roughly(scores: Any, documents: Any) -> None:
    """Scatter the documents into as many buckets of equal width as there are documents.

    What is left unsorted lies within short runs. Where one bucket holds too much (an outlier
    makes all the others equal), it is sorted by comparison.
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
    if not (scale < np.inf and high - low < np.inf):
        _sort_by_comparison(scores, documents, 0, n)
        return
    starts = np.zeros(n + 1, dtype=np.int64)
    buckets = np.empty(n, dtype=np.int64)
    for k in range(n):
        bucket: int = max(0, min(int((scores[documents[k]] - low) * scale), n - 1))
        buckets[k] = bucket
        starts[bucket + 1] += 1
    fullest = 0
    for bucket in range(n):
        fullest = max(fullest, starts[bucket + 1])
        starts[bucket + 1] += starts[bucket]
    unsorted = documents.copy()
    for k in range(n):
        documents[starts[buckets[k]]] = unsorted[k]
        starts[buckets[k]] += 1
    if fullest > _SHORT:
        start = 0
        for bucket in range(n):
            # The scatter has moved each start to the end of its bucket.
            if starts[bucket] - start > _SHORT:
                _sort_by_comparison(scores, documents, start, starts[bucket])
            start = starts[bucket]


@compiled
def _sort_by_comparison(scores: Any, documents: Any, start: int, end: int) -> None:
    part = documents[start:end].copy()
    order = np.argsort(scores[part], kind="mergesort")
    documents[start:end] = part[order]


@compiled
def _insert(scores: Any, documents: Any, start: int, end: int) -> None:
    for k in range(start + 1, end):
        document = documents[k]
        score = scores[document]
        place = k
        while place > start and scores[documents[place - 1]] > score:
            documents[place] = documents[place - 1]
            place -= 1
        documents[place] = document
