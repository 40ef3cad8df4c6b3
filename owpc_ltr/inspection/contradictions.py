"""Contradicting grades: one document that stands several times in a query, under several grades.

Where documents have ids, these tell. Where they have none, it is the features that tell: of two
rows with the same features that no other document of the query has, as many values of their own as
half of all single documents have, and more. Documents in which little of a query is found share
their features by chance, but then others have the same values too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.frames import numbers_in
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.identity import row_digests

_ADVICE = (
    "keep one of them: which grade is right its judges must say; a model learns both, and no order "
    "satisfies them"
)


def contradicting(data: RankingDataset) -> NDArray[np.int64]:
    """The documents whose id stands in their query before, with another grade."""
    if data.document_ids is None:
        return np.empty(0, np.int64)
    ids = data.document_ids.dictionary_encode()
    keys = _query(data) * len(ids.dictionary) + numbers_in(ids.indices).astype(np.int64)
    return _again(keys, data.labels)


def contradicting_grades(
    sample: RankingDataset, by_id: int, ids: list[str], documents: int
) -> Iterator[Finding]:
    """A finding on the documents told by their ids, `by_id` of all, or by the sample's features."""
    if sample.document_ids is None:
        rows = _copies(sample)
        if len(rows) <= thresholds.SAME_FEATURES * sample.n_documents:
            return
        first = sample.query_ids[int(_query(sample)[rows[0]])].as_py()
        told, queries = f"{len(rows):,} of {sample.n_documents:,}", [first]
        what = "have the features of another of their query, and another grade"
    elif by_id:
        told, queries = f"{by_id:,} of {documents:,}", ids
        what = "stand in their query before, with another grade"
    else:
        return
    yield Finding(
        "contradicting-grades",
        WARNING,
        "grades",
        f"{told} documents {what}, as in '{queries[0]}'",
        _ADVICE,
        (),
        tuple(queries),
    )


def _copies(data: RankingDataset) -> NDArray[np.int64]:
    """Documents with the features of one other of their query, told apart by chance from others."""
    keys = row_digests(data.features) + _query(data).astype(np.uint64)
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    pairs = sizes[group] == 2
    rows = _again(np.where(pairs, group, -1 - np.arange(len(group))), data.labels)
    if not len(rows):
        return rows
    own = np.zeros(data.n_documents, np.int64)
    for column in data.features.T:
        _, number, counts = np.unique(column, return_inverse=True, return_counts=True)
        own += counts[number] == sizes[group]
    single = own[sizes[group] == 1]
    return rows[own[rows] >= max(1.0, np.median(single) if len(single) else np.inf)]


def _again(keys: NDArray[np.int64], labels: NDArray[np.float32]) -> NDArray[np.int64]:
    """The rows whose key stands before, with another label."""
    order = np.argsort(keys, kind="stable")
    one, other = order[:-1], order[1:]
    again = other[(keys[one] == keys[other]) & (labels[one] != labels[other])]
    return np.sort(again)


def _query(data: RankingDataset) -> NDArray[np.int64]:
    return np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
