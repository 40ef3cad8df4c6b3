"""Datasets as Parquet files.

Columns: `query_id`, `document_id`, `label`, `document_weight`, `query_weight`, `query_params`,
`comment` (those that the dataset has), then one float32 column a feature, under its own name.
What concerns a query stands on each of its rows. The rest is JSON in the file's metadata, under
`owpc_ltr`: the features in order, their columns and scales, feature-set hash, manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, IntVector, Matrix, scrambled
from owpc_ltr.compiling import SMALL, compiled
from owpc_ltr.data.dataset import RankingDataset, arrow_of, infinite_value, numbers_in
from owpc_ltr.data.options import ROLES, judgment_list, row_number
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import open_for_arrow, shown
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
    value, DiskFault where the disk fails, UsageError for a name that ends in .csv.
    """
    if Path(path).suffix.lower() == ".csv":
        raise UsageError(
            f"cannot write {path}: a dataset is written as Parquet; a table of text is "
            "data.to_pandas().to_csv(…)"
        )
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
                f"cannot save the dataset: the name {shown(name)} is not text; rename it"
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
        raise BadInput(f"cannot save the dataset: its manifest is not JSON ({error})") from error
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


def _add(digest: Any, part: NDArray[Any] | pa.Array) -> None:
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
def _add_rows(bits: NDArray[np.uint32], sums: Digests) -> Any:
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


NEEDED = ("query_id", "label")
LEARNABLE = ("query_id", "label", "document_weight", "query_weight")


_TILE = 32
_ENCODED = "query_params"


def load_dataset(path: Path | str, digest: str | None = None) -> RankingDataset:
    """Read what `save_dataset` wrote; the matrix is filled a row group at a time.

    Raises BadInput where the file is cut, is not Parquet, is not such a dataset, or is not as it
    was written: pages have checksums, and the whole has a digest (see `digest_of`), which is to
    be `digest` where that is known.
    """
    path = Path(path)
    with opened(path) as parquet:
        return _checked(path, Parts(path, parquet), digest)


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """The file, open; errors in the block become those of `open_for_arrow`."""
    with open_for_arrow(path, "Parquet file") as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        if pa.field(_ENCODED, pa.string()) in list(parquet.schema_arrow):
            # A query's parameters, which may be long vectors, stand on each of its rows.
            parquet = pq.ParquetFile(
                file,
                metadata=parquet.metadata,
                page_checksum_verification=True,
                read_dictionary=[_ENCODED],
            )
        yield parquet


def _checked(path: Path, parts: Parts, expected: str | None) -> RankingDataset:
    """The dataset, as it was written. Raises BadInput."""
    dataset = parts.dataset()
    digest, infinite = digest_of(dataset)
    # Older files have no digest.
    if digest != parts.about.get("digest", digest) or expected not in {None, digest}:
        raise changed(path)
    if infinite:
        raise BadInput(f"cannot read {path}: {infinite_value(dataset)}")
    return dataset


def changed(path: Path) -> BadInput:
    """The error for a file whose content does not have its digest."""
    return BadInput(
        f"cannot read {path}: it is not as it was written (its digest is another): fetch or "
        "write it again; what was changed on purpose, save anew from its columns: "
        "owpc_ltr.from_frame, owpc_ltr.save_dataset"
    )


class Parts:
    """The columns of an open file, checked before any is read; `only` these beside the features."""

    def __init__(
        self,
        path: Path,
        parquet: pq.ParquetFile,
        only: tuple[str, ...] | None = None,
        groups: tuple[int, ...] | None = None,
    ) -> None:
        self.path, self.only = path, only
        self.groups = range(parquet.num_row_groups) if groups is None else groups
        self.parquet = parquet
        self.schema = parquet.schema_arrow
        self.about = self._about()
        sizes = (parquet.metadata.row_group(group).num_rows for group in self.groups)
        self.rows: int = parquet.metadata.num_rows if groups is None else sum(sizes)
        self.columns: list[str] = self.about["columns"]
        self.fields: dict[str, str] | None = self.about["document_fields"]
        self._check()
        if only is not None:
            self.fields = None

    def dataset(self) -> RankingDataset:
        """Everything, read. Raises BadInput where values do not fit together."""
        features = np.empty((self.rows, len(self.columns)), np.float32)
        columns = [name for name in COLUMNS if self.only is None or name in self.only]
        names = [
            *(name for name in columns if name in self.schema.names),
            *(self.fields or {}).values(),
        ]
        parts: dict[str, list[Any]] = {name: [] for name in names}
        row = 0
        for group in self._groups():
            if row + len(group) > self.rows:
                raise self._bad("it has more rows than it says: write or fetch it again")
            for name, chunks in parts.items():
                chunks.extend(group.column(group.schema.names.index(name)).chunks)
            transpose_into(features[row : row + len(group)], self._block(group))
            row += len(group)
        whole = {name: self._whole(name, chunks) for name, chunks in parts.items()}
        if not self.rows:
            raise self._bad("it has no rows")
        if row != self.rows:
            raise self._bad("it has fewer rows than it says: write or fetch it again")
        return self._assemble(features, whole)

    def _assemble(self, features: Matrix, whole: dict[str, Any]) -> RankingDataset:
        runs = pc.run_end_encode(whole["query_id"], run_end_type=pa.int64())
        ends = numbers_in(runs.run_ends)
        offsets = np.concatenate(([0], ends)).astype(np.int64)
        for name in ("query_weight", "query_params"):
            if name in whole:
                whole[name] = self._one_a_query(name, whole[name], offsets, runs.values)
        whole["query_id"] = runs.values
        fields = self.fields and {name: whole[column] for name, column in self.fields.items()}
        for name in ("label", "document_weight", "query_weight"):
            if name in whole:
                whole[name] = numbers_in(whole[name])
        scales = self.about["feature_scales"]
        try:
            return RankingDataset(
                features=features,
                offsets=offsets,
                feature_names=tuple(self.about["features"]),
                featureset_hash=self.about["featureset_hash"],
                feature_scales=None if scales is None else np.array(scales, np.float64),
                document_fields=fields,
                manifest=self.about["manifest"],
                **{FIELDS[name]: whole[name] for name in FIELDS if name in whole},
            )
        except BadInput as error:
            raise self._bad(str(error)) from error

    def _groups(self) -> Iterator[pa.Table]:
        columns = None if self.only is None else [*self.only, *self.columns]
        for group in self.groups:
            yield self.parquet.read_row_group(group, columns=columns)

    def _block(self, group: pa.Table) -> Matrix:
        """The features of a row group, one row a feature."""
        block = np.empty((len(self.columns), len(group)), np.float32)
        index = {name: position for position, name in enumerate(group.schema.names)}
        for number, name in enumerate(self.columns):
            at = 0
            for chunk in group.column(index[name]).chunks:
                if chunk.null_count:
                    raise self._bad(f"the column {shown(name)} has nulls: NaN is a missing value")
                block[number, at : at + len(chunk)] = numbers_in(chunk)
                at += len(chunk)
        return block

    def _whole(self, name: str, chunks: list[Any]) -> Any:
        """All values of a column that is no feature."""
        whole = pa.chunked_array(chunks, self.schema.field(name).type)
        whole = whole.unify_dictionaries().combine_chunks()
        whole.validate(full=True)
        if name in COLUMNS and whole.null_count:
            row = pc.index(pc.is_null(whole), True).as_py()
            raise self._bad(f"the column '{name}' has no value in row {row_number(row)}")
        return whole

    def _one_a_query(
        self, name: str, values: pa.Array, offsets: IntVector, query_ids: pa.StringArray
    ) -> pa.Array:
        """The value of each query, which all of its rows have."""
        if pa.types.is_dictionary(values.type):
            codes = self._one_a_query(name, values.indices, offsets, query_ids)
            return values.dictionary.take(codes)
        first = values.take(arrow_of(offsets[:-1]))
        expected = first.take(arrow_of(np.repeat(np.arange(len(first)), np.diff(offsets))))
        row = pc.index(pc.equal(values, expected), False).as_py()
        if row >= 0:
            query = int(np.searchsorted(offsets, row, side="right")) - 1
            raise self._bad(
                f"query {shown(query_ids[query].as_py())} has two values of '{name}': one on its "
                f"first row, one on row {row_number(row)}"
            )
        return first

    def _about(self) -> dict[str, Any]:
        metadata = self.schema.metadata or {}
        if DATASET_KEY not in metadata:
            names = {name.lower() for name in self.schema.names}
            if names <= {alias for role in ROLES.values() for alias in role}:
                raise BadInput(f"cannot read {self.path}: {judgment_list()}")
            raise BadInput(
                f"cannot read {self.path}: it is Parquet, but no dataset of owpc-ltr: give its "
                "columns to owpc_ltr.from_frame(frame, query=…, label=…), and the result to "
                "owpc_ltr.save_dataset"
            )
        try:
            about = json.loads(metadata[DATASET_KEY])
            version = about["format"]
            sound = version != FORMAT or _is_sound(about)
        except (ValueError, KeyError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise self._bad("its metadata are damaged: write it again")
        if version != FORMAT:
            raise self._bad(
                f"its format is {version!r}, and this version reads {FORMAT}: use the version that "
                "wrote it"
            )
        return dict(about)

    def _check(self) -> None:
        """Refuse columns that are absent, double or of another type, before reading any."""
        present = [name for name in COLUMNS if name in self.schema.names]
        types: dict[str, Any] = {name: COLUMNS[name] for name in (*present, *NEEDED)}
        types |= dict.fromkeys(self.columns, pa.float32())
        types |= dict.fromkeys((self.fields or {}).values())
        for name, needed in types.items():
            indices = self.schema.get_all_field_indices(name)
            if len(indices) != 1:
                count = "no" if not indices else "more than one"
                raise self._bad(f"it has {count} column {shown(name)}")
            kind = self.schema.field(indices[0]).type
            if name == _ENCODED and pa.types.is_dictionary(kind):
                kind = kind.value_type
            if needed is not None and kind != needed:
                raise self._bad(f"the column {shown(name)} is {kind}, and must be {needed}")

    def _bad(self, what: str) -> BadInput:
        return BadInput(f"cannot read {self.path}: {what}")


def _is_sound(about: dict[str, Any]) -> bool:
    """Whether the metadata are of the types that `save_dataset` writes."""
    features, columns, fields = about["features"], about["columns"], about["document_fields"] or {}
    texts = [*features, *columns, *fields.keys(), *fields.values()]
    return (
        len(features) == len(columns)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(scale, float) for scale in about["feature_scales"] or ())
        and isinstance(about["featureset_hash"], str | None)
        and isinstance(about["manifest"], dict | None)
    )


def transpose_into(rows: Matrix, columns: Matrix) -> None:
    """`rows[:] = columns.T`."""
    if rows.size <= SMALL:
        rows[:] = columns.T
    else:
        _fill(rows, columns)


@compiled
def _fill(rows: Matrix, columns: Matrix) -> None:
    """Transpose tile by tile, so that both sides stay in the cache."""
    count, width = rows.shape
    for row in range(0, count, _TILE):
        row_stop = min(row + _TILE, count)
        for column in range(0, width, _TILE):
            column_stop = min(column + _TILE, width)
            for i in range(row, row_stop):
                for j in range(column, column_stop):
                    rows[i, j] = columns[j, i]


def load_learnable(path: Path, digest: str) -> RankingDataset:
    """What training needs of a file that was read before: features, labels, weights, query ids.

    Pages have checksums; the digest is compared with that in the file, and not computed again.
    """
    with _known(path, digest) as parquet:
        return Parts(path, parquet, LEARNABLE).dataset()


def load_query_params(path: Path, digest: str) -> pa.StringArray | None:
    """The parameters of each query of a file, as JSON; None where it has none."""
    with _known(path, digest) as parquet:
        if "query_params" not in parquet.schema_arrow.names:
            return None
        read = parquet.read(columns=["query_id", "query_params"])
        ids = read.column("query_id").combine_chunks()
        ends = numbers_in(pc.run_end_encode(ids, run_end_type=pa.int64()).run_ends)
        # They stand on each row of a query.
        return read.column("query_params").take(arrow_of(ends - 1)).cast(pa.string())


def load_queries(path: Path, digest: str) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """The query ids of a file, and how many documents each has; nothing else is read."""
    with _known(path, digest) as parquet:
        column = parquet.read(columns=["query_id"]).column("query_id").combine_chunks()
        column.validate(full=True)
        runs = pc.run_end_encode(column, run_end_type=pa.int64())
        return runs.values, np.diff(numbers_in(runs.run_ends), prepend=0)


@contextmanager
def _known(path: Path, digest: str) -> Iterator[pq.ParquetFile]:
    """A file that was read before, open. Raises BadInput where it has another digest."""
    with opened(path) as parquet:
        if Parts(path, parquet).about.get("digest") != digest:
            raise changed(path)
        yield parquet


def stream_groups(path: Path) -> Iterator[RankingDataset]:
    """Each row group of a file, as a dataset; a query may go on in the next one.

    Pages have checksums; the digest of the whole file is not checked.
    """
    with opened(path) as parquet:
        for group in range(parquet.num_row_groups):
            part = Parts(path, parquet, groups=(group,)).dataset()
            if np.isinf(part.features).any():
                raise BadInput(f"cannot read {path}: {infinite_value(part)}")
            yield part
