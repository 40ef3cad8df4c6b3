"""The digest of a dataset: of every value, wherever its row groups are cut, in one pass."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.compiling import compiled, is_small
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.frames import numbers_in


def digest_of(dataset: RankingDataset) -> tuple[str, bool]:
    """The hex digest of everything that a dataset file holds; whether a feature is infinite."""
    sums, infinite = column_sums(dataset.features.view(np.uint32))
    fields = dataset.document_fields
    scales = dataset.feature_scales
    about = {
        "shape": dataset.features.shape,
        "features": dataset.feature_names,
        "fields": None if fields is None else sorted(fields),
        "scales": None if scales is None else scales.tolist(),
        "featureset_hash": dataset.featureset_hash,
        "manifest": dataset.manifest,
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    parts = (
        sums,
        dataset.labels,
        dataset.offsets,
        dataset.query_weights,
        dataset.document_weights,
        dataset.query_ids,
        dataset.document_ids,
        dataset.query_params,
        dataset.comments,
        *((fields or {})[name] for name in sorted(fields or {})),
    )
    for part in parts:
        digest.update(b"-" if part is None else b"+")
        if part is not None:
            _add(digest, part)
    return digest.hexdigest(), infinite


def column_sums(bits: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], bool]:
    """Each column's sum of its bits, times an odd number a row; whether a float is infinite.

    A value that changes by d changes its column's sum by d times an odd number, modulo 2⁶⁴: never
    by nothing.
    """
    if is_small(bits.size):
        infinite = (bits & np.uint32(0x7FFFFFFF)) == np.uint32(0x7F800000)
        return row_keys(len(bits)) @ bits.astype(np.uint64), bool(infinite.any())
    sums = np.zeros(bits.shape[1], np.uint64)
    return sums, bool(_add_rows(bits, sums))


def row_keys(rows: int) -> NDArray[np.uint64]:
    """An odd number for each row: its own number, mixed as in SplitMix64 (Steele et al. 2014)."""
    key = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (key ^ (key >> np.uint64(31))) | np.uint64(1)


def _add(digest: Any, part: Any) -> None:
    """Add an array, by its values: how Arrow lays them out does not matter."""
    if isinstance(part, np.ndarray):
        digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        return
    if isinstance(part, pa.ChunkedArray):
        part = part.combine_chunks()
    # Parquet renames what lists hold: "item" comes back as "element".
    name = "list" if pa.types.is_list(part.type) else str(part.type)
    digest.update(f"{name} {len(part)} {part.null_count}".encode())
    if part.null_count:
        digest.update(np.packbits(pc.is_null(part).to_numpy(zero_copy_only=False)).data)
        part = part.drop_null()
    kind = part.type
    if pa.types.is_string(kind):
        ends = np.frombuffer(
            part.buffers()[1] or bytes(4), np.int32, len(part) + 1, part.offset * 4
        )
        digest.update(np.diff(ends).data)
        digest.update(memoryview(part.buffers()[2] or b"")[ends[0] : ends[-1]])
    elif pa.types.is_list(kind):
        digest.update(numbers_in(pc.list_value_length(part)).data)
        _add(digest, part.flatten())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        digest.update(numbers_in(part).view(np.uint8).data)
    else:
        digest.update(repr(part.to_pylist()).encode())


@compiled
def _add_rows(bits: Any, sums: Any) -> Any:
    """Add each row, times its key, to the sums; how many values are infinite."""
    rows, width = bits.shape
    infinite = np.uint64(0)
    for row in range(rows):
        # As in `row_keys`, with no array of them.
        key = (np.uint64(row) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key = (key ^ (key >> np.uint64(31))) | np.uint64(1)
        for column in range(width):
            value = bits[row, column]
            sums[column] += np.uint64(value) * key
            infinite += np.uint64((value & np.uint32(0x7FFFFFFF)) == np.uint32(0x7F800000))
    return infinite
