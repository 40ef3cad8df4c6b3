"""Parquet dataset files, read whole, by row group, or only what is learned from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.compiling import SMALL, compiled
from owpc_ltr.data.dataset import RankingDataset, arrow_of, infinite_value, numbers_in
from owpc_ltr.data.options import ROLES, judgment_list, row_number
from owpc_ltr.data.parquet.writing import COLUMNS, DATASET_KEY, FIELDS, FORMAT, digest_of
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import open_for_arrow, shown

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

    def _one_a_query(self, name: str, values: Any, offsets: Any, query_ids: Any) -> Any:
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
def _fill(rows: Any, columns: Any) -> None:
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
