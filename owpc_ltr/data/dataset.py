"""RankingDataset: queries, their documents, features and labels, as one matrix cut at offsets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector
from owpc_ltr.errors import BadInput


@dataclass(frozen=True)
class Query:
    """One query of a dataset: views into its arrays, nothing copied."""

    query_id: str
    features: Matrix
    labels: Labels
    weights: Labels


@dataclass(frozen=True, eq=False)
class RankingDataset:
    """Judged documents, grouped by query.

    `features` is float32 (n_documents, n_features), C-contiguous, NaN where the engine had no
    value. `labels` is float32, 0 for irrelevant. `offsets` is int64 (n_queries + 1): query q owns
    the rows from `offsets[q]` to `offsets[q + 1]`. Ids and comments are Arrow string arrays.
    `query_params` holds, per query, the JSON object of the parameters its features were logged
    with. `query_weights` (float64) and `document_weights` (float32) are optional.
    `document_fields` holds further facts of the documents by name (see `document_fields.py`).
    `feature_scales` (float64) multiplies the columns for optimizers of linear models, without a
    copy of the matrix. Raises BadInput where the parts do not fit together.
    """

    features: Matrix
    labels: Labels
    offsets: NDArray[np.int64]
    query_ids: pa.StringArray
    feature_names: tuple[str, ...]
    document_ids: pa.StringArray | None = None
    featureset_hash: str | None = None
    query_params: pa.StringArray | None = None
    query_weights: Vector | None = None
    document_weights: Labels | None = None
    comments: pa.StringArray | None = None
    feature_scales: Vector | None = None
    document_fields: Mapping[str, pa.Array] | None = None
    manifest: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_shapes(self)
        _check_lengths(self)
        _check_values(self)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of judged documents, over all queries."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @cached_property
    def weights(self) -> Labels:
        """Document weights; ones where none are given."""
        if self.document_weights is None:
            return np.ones(self.n_documents, dtype=np.float32)
        return self.document_weights

    @cached_property
    def query_importance(self) -> Vector:
        """Query weights; ones where none are given."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @cached_property
    def scales(self) -> Vector:
        """Feature scales; ones where none are given."""
        return np.ones(self.n_features) if self.feature_scales is None else self.feature_scales

    @cached_property
    def has_missing(self) -> bool:
        """Whether any feature value is missing (NaN)."""
        # A column's sum is NaN as soon as one entry is: one pass, no mask of the whole matrix.
        # It is NaN too where infinities cancel, so the few columns in question are looked at.
        with np.errstate(all="ignore"):
            sums = np.dot(np.ones(self.n_documents, np.float32), self.features)
        return any(
            bool(np.isnan(self.features[:, column]).any())
            for column in np.flatnonzero(sums != sums)  # noqa: PLR0124 - NaN
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that decides what is learned from the dataset."""
        digest = hashlib.sha256()
        for part in (self.features, self.labels, self.offsets, self.weights, self.query_importance):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        digest.update("\0".join(self.query_ids.to_pylist()).encode())
        digest.update("\0".join(self.feature_names).encode())
        return digest.hexdigest()

    def __getitem__(self, index: int) -> Query:
        """Query number `index`."""
        rows = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return Query(
            self.query_ids[index].as_py(),
            self.features[rows],
            self.labels[rows],
            self.weights[rows],
        )

    def __iter__(self) -> Iterator[Query]:
        """Each query in turn."""
        return (self[index] for index in range(self.n_queries))

    def select(self, queries: NDArray[np.int64]) -> RankingDataset:
        """The dataset of these queries, in the order given; rows are copied once."""
        queries = np.asarray(queries, dtype=np.int64)
        sizes = np.diff(self.offsets)[queries]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        rows = np.repeat(self.offsets[queries], sizes) + within
        return replace(
            self,
            features=self.features[rows],
            labels=self.labels[rows],
            offsets=offsets,
            query_ids=self.query_ids.take(pa.array(queries)),
            document_ids=_take(self.document_ids, rows),
            comments=_take(self.comments, rows),
            document_fields=(
                None
                if self.document_fields is None
                else {name: _take(part, rows) for name, part in self.document_fields.items()}
            ),
            query_params=_take(self.query_params, queries),
            query_weights=None if self.query_weights is None else self.query_weights[queries],
            document_weights=(
                None if self.document_weights is None else self.document_weights[rows]
            ),
        )

    def without_missing(self) -> RankingDataset:
        """The dataset with 0 for every missing value, as an engine gives to a linear model."""
        return self._filled if self.has_missing else self

    @cached_property
    def _filled(self) -> RankingDataset:
        """Filled once, however many fits ask for it."""
        filled = np.nan_to_num(self.features, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return replace(self, features=filled)


def make_dataset(features: Any, labels: Any, query_ids: Any, **parts: Any) -> RankingDataset:
    """A dataset from one row a document: features, labels, and the query id of each row.

    Query ids are text or whole numbers. Feature names are "1", "2", … where none are given. Raises
    BadInput where a query's rows are not next to each other.

    >>> data = make_dataset([[1.0], [2.0], [3.0]], [0, 1, 0], ["a", "a", "b"])
    >>> data.n_queries, data.offsets.tolist()
    (2, [0, 2, 3])
    """
    matrix = np.ascontiguousarray(features, dtype=np.float32)
    if np.ndim(features) != 2:
        raise BadInput(f"features have {np.ndim(features)} dimensions, and must be rows × columns")
    ids = _as_text(query_ids)
    if len(ids) != len(matrix):
        raise BadInput(f"query_ids has {len(ids)} entries where {len(matrix)} rows need one each")
    runs = pc.run_end_encode(ids, run_end_type=pa.int64())
    parts.setdefault("feature_names", tuple(str(i + 1) for i in range(matrix.shape[1])))
    return RankingDataset(
        features=matrix,
        labels=np.ascontiguousarray(labels, dtype=np.float32),
        offsets=np.concatenate(([0], runs.run_ends.to_numpy())).astype(np.int64),
        query_ids=runs.values,
        **parts,
    )


def _as_text(query_ids: Any) -> pa.StringArray:
    """Query ids as text. Raises BadInput for what has no one way to be written as an id."""
    ids = query_ids if isinstance(query_ids, pa.Array | pa.ChunkedArray) else pa.array(query_ids)
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if len(ids) == 0:
        return pa.array([], pa.string())
    known = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_integer,
    )
    if not any(is_known(ids.type) for is_known in known) or ids.null_count:
        raise BadInput(
            f"query ids must be text or whole numbers, each of them: these are {ids.type}"
            f"{', and some are missing' * bool(ids.null_count)}"
        )
    return ids.cast(pa.string())


def _check_shapes(data: RankingDataset) -> None:
    """Refuse arrays of another kind than compiled code reads."""
    if data.features.ndim != 2 or data.features.dtype != np.float32:
        raise BadInput("features must be a float32 matrix, one row a document")
    if not data.features.flags.c_contiguous:
        raise BadInput("features must be C-contiguous: one document's values side by side")
    for name, kind in (
        ("labels", np.float32),
        ("offsets", np.int64),
        ("query_weights", np.float64),
        ("document_weights", np.float32),
        ("feature_scales", np.float64),
    ):
        part = getattr(data, name)
        if part is not None and (part.ndim != 1 or part.dtype != kind):
            raise BadInput(f"{name} must be a one-dimensional {np.dtype(kind)} array")
    for name in ("query_ids", "document_ids", "query_params", "comments"):
        part = getattr(data, name)
        if part is not None and (part.type != pa.string() or part.null_count):
            raise BadInput(f"{name} must be Arrow strings, without a missing one")


def _check_lengths(data: RankingDataset) -> None:
    """Refuse parts that are not for the same queries, documents and features."""
    documents, columns = data.features.shape
    queries = len(data.offsets) - 1
    if queries < 0 or data.offsets[0] != 0 or data.offsets[-1] != documents:
        raise BadInput(f"offsets must run from 0 to the number of documents, {documents}")
    if (np.diff(data.offsets) <= 0).any():
        raise BadInput("offsets must increase: a query without documents cannot be ranked")
    for name, wanted in (
        ("labels", documents),
        ("query_ids", queries),
        ("feature_names", columns),
        ("document_ids", documents),
        ("document_weights", documents),
        ("comments", documents),
        ("query_params", queries),
        ("query_weights", queries),
        ("feature_scales", columns),
    ):
        part = getattr(data, name)
        if part is not None and len(part) != wanted:
            raise BadInput(f"{name} has {len(part)} entries where {wanted} are needed")
    for name, part in (data.document_fields or {}).items():
        if len(part) != documents:
            raise BadInput(
                f"document field '{name}' has {len(part)} entries where {documents} are needed"
            )


def _check_values(data: RankingDataset) -> None:
    """Refuse what nothing can be learned from without going wrong."""
    for name in ("labels", "query_weights", "document_weights"):
        part = getattr(data, name)
        if part is not None and not ((part >= 0) & np.isfinite(part)).all():
            row = int(np.flatnonzero(~((part >= 0) & np.isfinite(part)))[0])
            raise BadInput(
                f"{name} must be finite and not negative: entry {row + 1} is {part[row]}"
            )
    duplicate = _first_duplicate(list(data.feature_names))
    if duplicate is not None:
        raise BadInput(f"the feature name '{duplicate}' stands twice")
    duplicate = _first_duplicate(data.query_ids.to_pylist())
    if duplicate is not None:
        raise BadInput(
            f"query '{duplicate}' stands in two places: put all its rows next to each other"
        )


def _take(array: pa.StringArray | None, rows: NDArray[np.int64]) -> pa.StringArray | None:
    return None if array is None else array.take(pa.array(rows))


def _first_duplicate(names: list[str]) -> str | None:
    if len(set(names)) == len(names):
        return None
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
