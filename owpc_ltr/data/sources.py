"""Where a model's queries are from: written into its record, and found again in other data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import HashSplit, Origin

Data = RankingDataset | PartitionedDataset
_CELLS = 1 << 20
Digests = NDArray[np.uint64]


def source_of(training: Data, validation: Data | None) -> dict[str, Any]:
    """What a record says of the queries where nobody said where they are from.

    The split, where they are sides of one; else who they are: eight bytes a query.
    """
    origin = training.origin
    if origin is not None and origin.side == "train" and _same_split(origin, validation):
        return origin.source()
    queries = {"train": _text(query_digests(training))}
    if validation is not None:
        queries["validation"] = _text(query_digests(validation))
    return {"queries": queries}


def known_sides(record: Mapping[str, Any], data: Data) -> NDArray[np.str_] | None:
    """The side that each query was on when a model was trained, by its record; None if on none.

    `test` are the queries that the model neither learned from nor was chosen on.
    """
    source = record.get("source") or {}
    split = source.get("split")
    if split is not None and source.get("fingerprint") in _wholes(data):
        return HashSplit(**split).sides(data)
    for known, side in (
        (source.get("fingerprint"), "train"),
        (record.get("fingerprint"), "train"),
        (source.get("validation_fingerprint"), "validation"),
    ):
        if known and known == data.fingerprint:
            return np.full(data.n_queries, side)
    return _known_queries(source.get("queries"), data)


def query_digests(data: RankingDataset | PartitionedDataset) -> Digests:
    """A number for each query, from its id and its documents' features, in whatever order."""
    if isinstance(data, PartitionedDataset):
        return np.concatenate(list(replace(data, filled=False).each(query_digests)))
    sums = np.add.reduceat(_row_digests(data.features), data.offsets[:-1])
    digests = (
        hashlib.blake2b(f"{query}\0{content}".encode(), digest_size=8).digest()
        for query, content in zip(data.query_ids.to_pylist(), sums.tolist(), strict=True)
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def content_digests(data: RankingDataset) -> tuple[Digests, Digests]:
    """Numbers for each query, from its documents' features, and from these and their grades.

    The order of the documents is all one. 0 where no document differs from another.
    """
    rows, starts = _row_digests(data.features), data.offsets[:-1]
    graded = _mixed(rows ^ (data.labels + np.float32(0)).view(np.uint32).astype(np.uint64))
    differ = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    sums = (np.add.reduceat(each, starts) for each in (rows, graded))
    plain, with_grades = (np.where(differ, each, np.uint64(0)) for each in sums)
    return plain, with_grades


def _same_split(origin: Origin, validation: Data | None) -> bool:
    if validation is None:
        return True
    other = validation.origin
    return other is not None and other == Origin(origin.fingerprint, origin.split, "validation")


def _wholes(data: Data) -> tuple[str, ...]:
    """The fingerprints of the data, and of what it is a side of."""
    whole = () if data.origin is None else (data.origin.fingerprint,)
    return (*whole, data.fingerprint)


def _known_queries(queries: Any, data: Data) -> NDArray[np.str_] | None:
    if not isinstance(queries, Mapping):
        return None
    digests = query_digests(data)
    on = {side: np.isin(digests, _digests(text)) for side, text in queries.items()}
    if not any(seen.any() for seen in on.values()):
        return None
    nowhere = np.zeros(data.n_queries, dtype=bool)
    return np.where(
        on.get("train", nowhere),
        "train",
        np.where(on.get("validation", nowhere), "validation", "test"),
    )


def _row_digests(features: NDArray[np.float32]) -> Digests:
    """A number for each row, from the bits of its values; all NaN are one, and so are the zeros."""
    rows, columns = features.shape
    factors = _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)
    step = max(1, _CELLS // max(columns, 1))
    digests = np.empty(rows, np.uint64)
    for first in range(0, rows, step):
        values = features[first : first + step] + np.float32(0)
        values[np.isnan(values)] = np.nan
        digests[first : first + step] = values.view(np.uint32).astype(np.uint64) @ factors
    # Rows are summed: each must be mixed first, or a change could move from one to another.
    return _mixed(digests)


def _mixed(numbers: Digests) -> Digests:
    """Numbers scrambled, different ones staying different (SplitMix64; Steele et al. 2014)."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _text(digests: Digests) -> str:
    return base64.b64encode(np.sort(digests).astype("<u8").tobytes()).decode()


def _digests(text: Any) -> Digests:
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<u8").astype(np.uint64)
    except (ValueError, TypeError):
        # A record that somebody changed knows nothing.
        return np.empty(0, np.uint64)
