"""RankingDataset: queries, their documents, features and labels, as one matrix cut at offsets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector, pandas_for
from owpc_ltr.data.blocks import html_of
from owpc_ltr.data.options import TEST_SHARE, VALIDATION_SHARE, row_number
from owpc_ltr.data.splits import DatasetSplits, HashSplit, Origin, split_queries
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import first_duplicate

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")

_MOST_LABELS = 8
"""If there are more distinct labels, their range is shown."""
_OF_DOCUMENTS = ("labels", "doc_ids", "document_weights", "comments")
_OF_QUERIES = ("query_ids", "query_params", "query_weights")
_OPTIONAL = {"doc_ids": "document_ids"} | {
    name: name
    for name in ("query_params", "query_weights", "document_weights", "comments", "document_fields")
}
"""The optional fields of a dataset, and what files call them."""


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
    `document_fields` holds further facts of the documents by name (see `documents.py`).
    `feature_scales` (float64) multiplies the columns for optimizers of linear models, without a
    copy of the matrix. `origin` says which side of a split the queries are, `notes` what was done
    to the rows that were given. Raises BadInput where the parts do not fit together.
    """

    features: Matrix
    labels: Labels
    offsets: NDArray[np.int64]
    query_ids: pa.StringArray
    feature_names: tuple[str, ...]
    doc_ids: pa.StringArray | None = None
    featureset_hash: str | None = None
    query_params: pa.StringArray | None = None
    query_weights: Vector | None = None
    document_weights: Labels | None = None
    comments: pa.StringArray | None = None
    feature_scales: Vector | None = None
    document_fields: Mapping[str, pa.Array] | None = None
    manifest: dict[str, Any] | None = None
    origin: Origin | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_shapes(self)
        check_lengths(self)
        check_values(self)

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

    @property
    def columns(self) -> tuple[str, ...]:
        """The optional columns that it has, by the names of the files."""
        return tuple(name for field, name in _OPTIONAL.items() if getattr(self, field) is not None)

    @property
    def head(self) -> RankingDataset:
        """Itself; of a `PartitionedDataset`, its first part, which checks look at."""
        return self

    def load(self) -> RankingDataset:
        """Itself: all of it is in memory."""
        return self

    def each(
        self, call: Callable[[RankingDataset], R], threads: int = 1, *, whole: bool = False
    ) -> Iterator[R]:
        """The result of `call` for its one part; a `PartitionedDataset` has several."""
        del threads, whole
        yield call(self)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that decides what is learned from the dataset."""
        digest = hashlib.sha256()
        for part in (self.features, self.labels, self.offsets, self.weights, self.query_importance):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        digest.update("\0".join(self.query_ids.to_pylist()).encode())
        digest.update("\0".join(self.feature_names).encode())
        return digest.hexdigest()

    def __len__(self) -> int:
        """The number of queries: what iteration gives. Documents are `n_documents`."""
        return self.n_queries

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> RankingDataset: ...
    def __getitem__(self, index: int | slice) -> Query | RankingDataset:
        """Query number `index`, from the end where it is negative; of a slice, a dataset."""
        if isinstance(index, slice):
            return self.select(np.arange(self.n_queries)[index])
        try:
            number = range(self.n_queries)[index]
        except IndexError:
            raise IndexError(f"query {index} of a dataset of {self.n_queries}") from None
        except TypeError:
            raise TypeError(
                f"a dataset is indexed by the number of a query or by a slice, and this is "
                f"{type(index).__name__}: data.select([0, 2]) takes several queries"
            ) from None
        rows = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return Query(
            self.query_ids[number].as_py(),
            self.features[rows],
            self.labels[rows],
            self.weights[rows],
        )

    def __iter__(self) -> Iterator[Query]:
        """Each query in turn."""
        return (self[index] for index in range(self.n_queries))

    def to_pandas(self) -> pd.DataFrame:
        """One row per document, which `from_frame` reads: ids, label, weights, features by name.

        The columns are `query_id`, `doc_id` where it is known, `label`, `weight` and `query_weight`
        where there are some, and the features. Raises ImportError without pandas, BadInput for a
        feature that has the name of another column.
        """
        pandas, sizes = pandas_for("to_pandas()"), np.diff(self.offsets)
        weights = self.query_weights
        columns = {
            "query_id": self.query_ids.to_pandas().repeat(sizes).array,
            "doc_id": None if self.doc_ids is None else self.doc_ids.to_pandas().array,
            "label": self.labels,
            "weight": self.document_weights,
            "query_weight": None if weights is None else np.repeat(weights, sizes),
        }
        columns = {name: values for name, values in columns.items() if values is not None}
        if (name := next(filter(columns.__contains__, self.feature_names), None)) is not None:
            raise BadInput(f"the feature '{name}' has the name of another column: rename it")
        return pandas.DataFrame(
            columns | dict(zip(self.feature_names, self.features.T, strict=True)), copy=True
        )

    @cached_property
    def missing_share(self) -> float:
        """The share of feature values that are missing."""
        if not self.has_missing:
            return 0.0
        # One column after another keeps the mask small.
        missing = sum(int(np.isnan(column).sum()) for column in self.features.T)
        return missing / int(self.features.size)

    @cached_property
    def label_counts(self) -> dict[float, int]:
        """The number of documents by label, labels ascending."""
        labels, counts = np.unique(self.labels, return_counts=True)
        return dict(zip(labels.tolist(), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return "\n  ".join(self._lines())

    def _repr_html_(self) -> str:
        return html_of(self._lines())

    def _lines(self) -> list[str]:
        """A summary of the dataset, in one to three lines."""
        sizes = (
            f"{self.n_queries:,} {'query' if self.n_queries == 1 else 'queries'}",
            f"{self.n_documents:,} document{'s' * (self.n_documents != 1)}",
            f"{self.n_features:,} feature{'s' * (self.n_features != 1)}",
        )
        counts = self.label_counts
        labels = ", ".join(f"{label:g} × {count:,}" for label, count in counts.items())
        if len(counts) > _MOST_LABELS:
            labels = f"{len(counts)} different, from {min(counts):g} to {max(counts):g}"
        weights = {"query": self.query_weights, "document": self.document_weights}
        weighted = " and ".join(name for name, part in weights.items() if part is not None)
        facts = [labels and f"labels {labels}", weighted and f"weighted by {weighted}"]
        source = [f"feature set {self.featureset_hash[:12]}" if self.featureset_hash else ""]
        source += [str(self.origin) if self.origin else "", *self.notes]
        first = f"RankingDataset: {', '.join(sizes)}, {self.missing_share:.2%} missing"
        return [first, *filter(None, ("; ".join(filter(None, line)) for line in (facts, source)))]

    def split(
        self,
        validation: float = VALIDATION_SHARE,
        test: float = TEST_SHARE,
        salt: str = HashSplit.salt,
    ) -> DatasetSplits[RankingDataset]:
        """Training, validation and test queries, by the hash of their ids.

        Raises BadInput if a side would be empty, UsageError if they are a side of a split by the
        same hash already: the new sides would not be independent of it.
        """
        if self.origin is not None and self.origin.split.salt == salt:
            raise UsageError(
                f"these queries are the {self.origin.side} side of a split by the same hash: give "
                "another salt, as in split(salt='again')"
            )
        return split_queries(self, HashSplit(validation, test, salt))

    def on_side(self, split: HashSplit, side: str) -> RankingDataset:
        """The queries on one side of a split; there may be none."""
        return self.select(np.flatnonzero(split.sides(self) == side))

    def with_origin(self, origin: Origin | None) -> RankingDataset:
        """The same queries, marked as a side of a split."""
        return replace(self, origin=origin)

    def select(self, queries: ArrayLike) -> RankingDataset:
        """The dataset of these queries, in this order; rows are copied once.

        They are numbers, or a truth value for each query. It is no side of a split, even if this
        dataset is one.
        """
        queries = np.asarray(queries)
        if queries.dtype == bool and len(queries) == self.n_queries:
            queries = np.flatnonzero(queries)
        if queries.dtype.kind not in "iu" and queries.size:
            raise TypeError(
                "queries are selected by their numbers, from 0, or by a truth value for each of "
                f"the {self.n_queries:,}, not by {len(queries):,} of type {queries.dtype}"
            )
        queries = queries.astype(np.int64)
        sizes = np.diff(self.offsets)[queries]
        starts = np.cumsum(sizes) - sizes
        rows = np.repeat(self.offsets[queries] - starts, sizes) + np.arange(sizes.sum())
        return self._taken(queries, sizes, rows)

    def select_documents(self, chosen: NDArray[np.bool_]) -> RankingDataset:
        """The dataset of these documents, a truth value each, and of the queries that have one."""
        sizes = np.add.reduceat(chosen, self.offsets[:-1], dtype=np.int64)
        queries = np.flatnonzero(sizes)
        return self._taken(queries, sizes[queries], np.flatnonzero(chosen))

    def select_features(self, names: Sequence[str]) -> RankingDataset:
        """The dataset with these columns alone, in this order."""
        places = np.array([self.feature_names.index(name) for name in names], np.int64)
        return replace(
            self,
            features=np.ascontiguousarray(self.features[:, places]),
            feature_names=tuple(names),
            feature_scales=take_rows(self.feature_scales, places),
        )

    def _taken(
        self, queries: NDArray[np.int64], sizes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> RankingDataset:
        """Some queries, with so many documents each, which are these rows."""
        fields = self.document_fields
        return replace(
            self,
            offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
            document_fields=fields
            and {name: take_rows(part, rows) for name, part in fields.items()},
            origin=None,
            **{name: take_rows(getattr(self, name), rows) for name in ("features", *_OF_DOCUMENTS)},
            **{name: take_rows(getattr(self, name), queries) for name in _OF_QUERIES},
        )

    def without_missing(self) -> RankingDataset:
        """The dataset with 0 for every missing value, as an engine gives to a linear model."""
        return self._filled if self.has_missing else self

    @cached_property
    def _filled(self) -> RankingDataset:
        """Filled once, however many fits ask for it."""
        filled = np.nan_to_num(self.features, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return replace(self, features=filled)


def take_rows(part: NDArray[Any] | pa.Array | None, rows: NDArray[np.int64]) -> Any:
    """Some rows of a NumPy or an Arrow array; None of None."""
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else part[rows]
    return part.take(arrow_of(rows))


def numbers_in(array: pa.Array) -> NDArray[Any]:
    """The values of an array of numbers without nulls, to be read only."""
    kind = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def arrow_of(numbers: NDArray[Any]) -> pa.Array:
    """One-dimensional numbers as an array of the same type."""
    values = np.ascontiguousarray(numbers)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def check_shapes(data: RankingDataset) -> None:
    """Refuse arrays of types that compiled code does not read."""
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
    for name in ("query_ids", "doc_ids", "query_params", "comments"):
        part = getattr(data, name)
        if part is not None and (part.type != pa.string() or part.null_count):
            raise BadInput(f"{name} must be Arrow strings, without a missing one")


def check_lengths(data: RankingDataset) -> None:
    """Refuse parts whose lengths do not fit together."""
    documents, columns = data.features.shape
    queries = len(data.offsets) - 1
    if queries < 0 or data.offsets[0] != 0 or data.offsets[-1] != documents:
        raise BadInput(f"offsets must run from 0 to the number of documents, {documents}")
    if (np.diff(data.offsets) <= 0).any():
        raise BadInput("offsets must increase: a query without documents cannot be ranked")
    fields = {
        f"document field '{name}'": part for name, part in (data.document_fields or {}).items()
    }
    for names, size in (
        (_OF_DOCUMENTS, documents),
        (_OF_QUERIES, queries),
        (("feature_names", "feature_scales"), columns),
        (fields, documents),
    ):
        for name in names:
            part = fields[name] if name in fields else getattr(data, name)
            if part is not None and len(part) != size:
                raise BadInput(f"{name} has {len(part)} entries where {size} are needed")


def check_values(data: RankingDataset) -> None:
    """Refuse invalid labels and weights, and names of features or queries that occur twice."""
    for name in ("labels", "query_weights", "document_weights"):
        check_not_negative(name, getattr(data, name))
    if (duplicate := first_duplicate(data.feature_names)) is not None:
        raise BadInput(f"the feature name '{duplicate}' occurs twice")
    if (duplicate := first_duplicate(data.query_ids.to_pylist())) is not None:
        raise BadInput(f"query '{duplicate}' is in two places: put all its rows next to each other")


def check_not_negative(name: str, part: NDArray[Any] | None) -> None:
    """Refuse a negative number, a missing or an infinite one, naming its entry."""
    if part is not None and not ((part >= 0) & np.isfinite(part)).all():
        row = int(np.flatnonzero(~((part >= 0) & np.isfinite(part)))[0])
        where = f"entry {row_number(row)}"
        raise BadInput(f"{name} must be finite and not negative: {where} is {part[row]}")


def infinite_value(data: RankingDataset) -> str:
    """The place of the first infinite feature of a dataset, and the remedy."""
    for start in range(0, len(data.features), 1 << 14):
        places = np.argwhere(np.isinf(data.features[start : start + (1 << 14)]))
        if len(places):
            row, column = int(places[0][0]) + start, int(places[0][1])
            return (
                f"feature '{data.feature_names[column]}' of row {row_number(row)} is "
                f"{data.features[row, column]}: fix the feature; a missing value is NaN"
            )
    raise ValueError("no feature is infinite")
