"""Dataset → Parquet, in one canonical form, with a digest of every value."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from owpc_ltr.arrays import scrambled
from owpc_ltr.compiling import SMALL, compiled
from owpc_ltr.data.dataset import RankingDataset, infinite_value, numbers_in
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.output import open_output
from owpc_ltr.signatures import public

FORMAT = 1
DATASET_KEY = b"owpc_ltr"
"""The key of a dataset's metadata in its file; no other file has it."""
COLUMNS = {
    "query_id": pa.string(),
    "document_id": pa.string(),
    "label": pa.float32(),
    "document_weight": pa.float32(),
    "query_weight": pa.float64(),
    "query_params": pa.string(),
    "comment": pa.string(),
}
FIELDS = {name: f"{name}s" for name in COLUMNS}
FIELDS |= {"document_id": "doc_ids", "query_params": "query_params"}
"""The fields of a dataset that the columns hold."""
PER_QUERY = ("query_id", "query_weight", "query_params")
_ROWS = 1 << 16
_BYTES = 1 << 28


@public
def save_dataset(dataset: RankingDataset, path: Path | str) -> None:
    """Write the dataset, whole or not at all; equal datasets give equal bytes.

    Missing values stay NaN. Raises BadInput where the manifest is no JSON, and for an infinite
    value, DiskFault where the disk fails.
    """
    write_dataset(dataset, path)


def write_dataset(
    dataset: RankingDataset,
    path: Path | str,
    *,
    whole_queries: bool = False,
    reserved: tuple[str, ...] = (),
) -> str:
    """Write the dataset; returns its digest. With `whole_queries`, row groups do not cut queries.

    Columns of features and fields do not have the names that are `reserved`.
    """
    _check_names((*dataset.feature_names, *(dataset.document_fields or {})))
    held = _kept(dataset)
    taken = {*COLUMNS, *reserved}
    columns = _free_columns(dataset.feature_names, "feature", taken)
    # Sorted, as their names are in the metadata: their order means nothing.
    fields = dict(sorted((dataset.document_fields or {}).items()))
    field_columns = _free_columns(tuple(fields), "field", taken)
    ours = list(held)
    held |= dict(zip(field_columns, fields.values(), strict=True))
    metadata, digest = _metadata(dataset, columns, dict(zip(fields, field_columns, strict=True)))
    types = {name: values.type for name, values in held.items()}
    types |= dict.fromkeys(columns, pa.float32())
    schema = pa.schema(types, {DATASET_KEY: metadata})
    rows = np.repeat(np.arange(dataset.n_queries), np.diff(dataset.offsets))
    with (
        open_output(path, binary=True) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in ("query_id", "query_params") if name in ours],
            # Bytes of one place next to each other: smaller and read faster than plain floats.
            use_byte_stream_split=columns,
            write_statistics=ours,
            write_page_checksum=True,
        ) as writer,
    ):
        for start, stop in pairwise(_cuts(dataset, whole_queries=whole_queries)):
            part = slice(start, stop)
            queries = pa.array(rows[part])
            arrays = [
                values.take(queries) if name in PER_QUERY else values[part]
                for name, values in held.items()
            ]
            values = np.ascontiguousarray(dataset.features[part].T)
            arrays += [pa.array(column) for column in values]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=stop - start)
    return digest


def _cuts(dataset: RankingDataset, *, whole_queries: bool) -> list[int]:
    """The first rows of all row groups, and the end of the last one."""
    size, rows = _rows_of_a_group(dataset), dataset.n_documents
    if not whole_queries:
        return [*range(0, rows, size), rows]
    cuts = [0]
    while cuts[-1] < rows:
        ends = dataset.offsets[dataset.offsets > cuts[-1]]
        # The last query that fits, or one that is longer by itself.
        fitting = ends[ends <= cuts[-1] + size]
        cuts.append(int(fitting[-1] if len(fitting) else ends[0]))
    return cuts


def _rows_of_a_group(dataset: RankingDataset) -> int:
    """Rows that are written at a time: fewer where a query's parameters, on each row, are long."""
    if dataset.query_params is None or not len(dataset.query_params):
        return _ROWS
    longest = pc.max(pc.binary_length(dataset.query_params)).as_py() or 1
    return max(1, min(_ROWS, _BYTES // longest))


def _kept(dataset: RankingDataset) -> dict[str, Any]:
    """The columns beside the features: what the dataset has, one value a query or a document."""
    parts = {name: getattr(dataset, FIELDS[name]) for name in COLUMNS}
    return {
        name: values if isinstance(values, pa.Array) else pa.array(values, COLUMNS[name])
        for name, values in parts.items()
        if values is not None
    }


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse a name that is not valid Unicode, as from bytes in another encoding."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise BadInput(
                f"cannot save the dataset: the name {shown(name)} is no text; rename it"
            ) from error


def _free_columns(names: tuple[str, ...], what: str, taken: set[str]) -> list[str]:
    """A column for each name: the name itself, or one made from it where it is taken."""
    columns = []
    for name in names:
        column = name
        while column in taken or (column != name and column in names):
            column = f"{what} {column}"
        taken.add(column)
        columns.append(column)
    return columns


def _metadata(
    dataset: RankingDataset, columns: list[str], fields: dict[str, str]
) -> tuple[str, str]:
    """The metadata as text, and the digest in it."""
    scales = dataset.feature_scales
    about: dict[str, Any] = {
        "format": FORMAT,
        "features": list(dataset.feature_names),
        "columns": columns,
        "document_fields": fields if dataset.document_fields is not None else None,
        "feature_scales": None if scales is None else scales.tolist(),
        "featureset_hash": dataset.featureset_hash,
        "manifest": dataset.manifest,
    }
    try:
        json.dumps(dataset.manifest, allow_nan=False)
        about["digest"], infinite = digest_of(dataset)
        text = json.dumps(about, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInput(f"cannot save the dataset: its manifest is no JSON ({error})") from error
    if infinite:
        raise BadInput(f"cannot save the dataset: {infinite_value(dataset)}")
    return text, about["digest"]


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
        dataset.doc_ids,
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
    if bits.size <= SMALL:
        infinite = (bits & np.uint32(0x7FFFFFFF)) == np.uint32(0x7F800000)
        return row_keys(len(bits)) @ bits.astype(np.uint64), bool(infinite.any())
    sums = np.zeros(bits.shape[1], np.uint64)
    return sums, bool(_add_rows(bits, sums))


def row_keys(rows: int) -> NDArray[np.uint64]:
    """An odd number for each row: its own number, mixed as in SplitMix64 (Steele et al. 2014)."""
    numbers = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return scrambled(numbers) | np.uint64(1)


def _add(digest: Any, part: Any) -> None:
    """Add an array by its values; its layout in Arrow does not matter."""
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
