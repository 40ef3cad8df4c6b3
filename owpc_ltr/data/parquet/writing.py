"""Dataset → Parquet, in one canonical form."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from owpc_ltr.data.consistency import infinite_value
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.parquet.digest import digest_of
from owpc_ltr.data.parquet.reading import COLUMNS, FORMAT, KEY, PER_QUERY
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import open_output
from owpc_ltr.files.text import shown

_ROWS = 1 << 16
_BYTES = 1 << 28


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
    """The same; its digest. Row groups may be of `whole_queries`, names of columns `reserved`."""
    _check_names((*dataset.feature_names, *(dataset.document_fields or {})))
    kept = _kept(dataset)
    taken = {*COLUMNS, *reserved}
    columns = _free_columns(dataset.feature_names, "feature", taken)
    # Sorted, as their names are in the metadata: their order means nothing.
    fields = dict(sorted((dataset.document_fields or {}).items()))
    field_columns = _free_columns(tuple(fields), "field", taken)
    ours = {name: COLUMNS[name] for name in kept}
    kept |= dict(zip(field_columns, fields.values(), strict=True))
    metadata, digest = _metadata(dataset, columns, dict(zip(fields, field_columns, strict=True)))
    schema = pa.schema(
        [
            *ours.items(),
            *((name, kept[name].type) for name in field_columns),
            *((name, pa.float32()) for name in columns),
        ],
        {KEY: metadata},
    )
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
            write_statistics=list(ours),
            write_page_checksum=True,
        ) as writer,
    ):
        for start, stop in pairwise(_cuts(dataset, whole_queries=whole_queries)):
            part = slice(start, stop)
            queries = pa.array(rows[part])
            arrays = [
                values.take(queries) if name in PER_QUERY else values[part]
                for name, values in kept.items()
            ]
            values = np.ascontiguousarray(dataset.features[part].T)
            arrays += [pa.array(column) for column in values]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=stop - start)
    return digest


def _cuts(dataset: RankingDataset, *, whole_queries: bool) -> list[int]:
    """Where row groups begin, and the last one ends."""
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
    parts = {
        "query_id": dataset.query_ids,
        "document_id": dataset.document_ids,
        "label": dataset.labels,
        "document_weight": dataset.document_weights,
        "query_weight": dataset.query_weights,
        "query_params": dataset.query_params,
        "comment": dataset.comments,
    }
    return {
        name: values if isinstance(values, pa.Array) else pa.array(values, COLUMNS[name])
        for name, values in parts.items()
        if values is not None
    }


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse a name that no file can hold: one with half a character, as from bytes read amiss."""
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
