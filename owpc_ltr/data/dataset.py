"""RankingDataset: queries, their documents, features and labels, as one matrix cut at offsets."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector, is_frame
from owpc_ltr.data import html
from owpc_ltr.data.consistency import check_lengths, check_not_negative, check_shapes, check_values
from owpc_ltr.data.frames import arrow_of, numbers_of, table_of, text_ids
from owpc_ltr.data.matrix import feature_matrix, vector
from owpc_ltr.data.splits import DatasetSplits, HashSplit, Origin, split_queries
from owpc_ltr.errors import BadInput, OwpcLtrWarning, UsageError


@dataclass(frozen=True)
class RowGroups:
    """The queries in the order of their first rows; `order` are their rows, None as they stand.

    `scattered` is the number of queries whose rows did not stand together.
    """

    query_ids: pa.StringArray
    offsets: NDArray[np.int64]
    order: NDArray[np.int64] | None = None
    scattered: int = 0

    def arranged(self, part: Any) -> Any:
        """One entry a row, in the order of the groups."""
        if self.order is None or part is None:
            return part
        return part[self.order] if isinstance(part, np.ndarray) else part.take(pa.array(self.order))


def group_rows(ids: pa.StringArray) -> RowGroups:
    """The rows of each query id; the rows of a query keep their order."""
    runs = pc.run_end_encode(ids, run_end_type=pa.int64())
    pieces = runs.values.dictionary_encode()
    if len(pieces.dictionary) == len(pieces):
        ends = runs.run_ends.to_numpy()
        return RowGroups(runs.values, np.concatenate(([0], ends)).astype(np.int64))
    rows = ids.dictionary_encode()
    codes = rows.indices.to_numpy()
    sizes = np.bincount(codes)
    scattered = int((np.bincount(pieces.indices.to_numpy()) > 1).sum())
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return RowGroups(rows.dictionary, offsets, np.argsort(codes, kind="stable"), scattered)


_MOST_LABELS = 8
"""More different labels than these are shown as a range."""


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
    copy of the matrix. `origin` says which side of a split the queries are, `notes` what was done
    to the rows that were given. Raises BadInput where the parts do not fit together.
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
        """How many documents have each label, in ascending order."""
        labels, counts = np.unique(self.labels, return_counts=True)
        return dict(zip(labels.tolist(), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return "\n  ".join(self._lines())

    def _repr_html_(self) -> str:
        title, *lines = self._lines()
        return html.block(title, *map(html.line, lines))

    def _lines(self) -> list[str]:
        """What is in the dataset, in one to three lines."""
        sizes = ("query", "queries"), ("document", "documents"), ("feature", "features")
        counts = (self.n_queries, self.n_documents, self.n_features)
        named = [f"{n:,} {forms[n != 1]}" for n, forms in zip(counts, sizes, strict=True)]
        counted = self.label_counts
        labels = ", ".join(f"{label:g} × {count:,}" for label, count in counted.items())
        if len(counted) > _MOST_LABELS:
            labels = f"{len(counted)} different, from {min(counted):g} to {max(counted):g}"
        weights = {"query": self.query_weights, "document": self.document_weights}
        weighted = " and ".join(name for name, part in weights.items() if part is not None)
        facts = [f"labels {labels}"] if labels else []
        facts += [f"weighted by {weighted}"] if weighted else []
        source = [f"feature set {self.featureset_hash[:12]}"] if self.featureset_hash else []
        source += [*([str(self.origin)] if self.origin else []), *self.notes]
        first = f"RankingDataset: {', '.join(named)}, {self.missing_share:.2%} missing"
        return [first, *("; ".join(part) for part in (facts, source) if part)]

    def split(
        self, validation: float = 0.2, test: float = 0.2, salt: str = HashSplit.salt
    ) -> DatasetSplits[RankingDataset]:
        """Training, validation and test queries, by the hash of their ids.

        Raises BadInput where a side would be empty, UsageError where they are one side of a split
        by the same hash already, which says nothing new of them.
        """
        if self.origin is not None and self.origin.split.salt == salt:
            raise UsageError(
                f"these queries are the {self.origin.side} side of a split by the same hash: give "
                "another salt, as in split(salt='again')"
            )
        return split_queries(self, HashSplit(validation, test, salt))

    def with_origin(self, origin: Origin | None) -> RankingDataset:
        """The same queries, said to be a side of a split."""
        return replace(self, origin=origin)

    def select(self, queries: NDArray[np.int64]) -> RankingDataset:
        """The dataset of these queries, in the order given; rows are copied once.

        It is no side of a split, whatever the dataset was.
        """
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
            query_ids=self.query_ids.take(arrow_of(queries)),
            document_ids=_take(self.document_ids, rows),
            comments=_take(self.comments, rows),
            document_fields=(
                None
                if self.document_fields is None
                else {name: _take(part, rows) for name, part in self.document_fields.items()}
            ),
            query_params=_take(self.query_params, queries),
            origin=None,
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


def make_dataset(
    features: Any,
    labels: Any,
    query_ids: Any,
    feature_names: Sequence[str] | None = None,
    **parts: Any,
) -> RankingDataset:
    """A dataset from one row a document: features, labels, and the query id of each row.

    Arrays, lists or series of any kind of number; features may be a data frame, whose columns
    then give the names. Else they are "1", "2", … where none are given. Query ids are text or
    whole numbers. Rows of a query that are not next to each other are brought together, with an
    OwpcLtrWarning; then `parts` a query stand in the order of the queries' first rows. Raises
    BadInput naming the argument, the row and the value that cannot be used.

    >>> data = make_dataset([[1.0], [2.0], [3.0]], [0, 1, 0], ["a", "a", "b"])
    >>> data.n_queries, data.offsets.tolist()
    (2, [0, 2, 3])
    """
    matrix, own_names = _features(features)
    ids = text_ids(query_ids, "query ids")
    _check_rows("query_ids", len(ids), len(matrix), query_ids)
    grades = vector(labels, "labels", np.float32)
    if len(grades) == len(matrix):
        check_not_negative("labels", grades)
    names = own_names if feature_names is None else tuple(map(str, feature_names))
    return _grouped(matrix, grades, ids, names, _converted(parts))


def _grouped(
    matrix: Matrix,
    labels: Labels,
    ids: pa.StringArray,
    names: tuple[str, ...],
    parts: dict[str, Any],
) -> RankingDataset:
    """The rows by query, brought together where they are not."""
    groups = group_rows(ids)
    if groups.order is not None:
        note = (
            f"the rows of {groups.scattered} of {len(groups.query_ids)} queries did not stand "
            "together, and were brought together"
        )
        warnings.warn(note, OwpcLtrWarning, stacklevel=3)
        parts["notes"] = (*parts.get("notes", ()), note)
        _check_rows("labels", len(labels), len(matrix))
        for name in ("document_ids", "document_weights", "comments"):
            if parts.get(name) is not None:
                _check_rows(name, len(parts[name]), len(matrix))
                parts[name] = groups.arranged(parts[name])
        if parts.get("document_fields"):
            fields = parts["document_fields"].items()
            parts["document_fields"] = {name: groups.arranged(part) for name, part in fields}
    return RankingDataset(
        features=groups.arranged(matrix),
        labels=groups.arranged(labels),
        offsets=groups.offsets,
        query_ids=groups.query_ids,
        feature_names=names,
        **parts,
    )


def _features(values: Any) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix, and the names of its columns."""
    if is_frame(values):
        table = table_of(values)
        names = tuple(table.column_names)
        instead = "leave it out of the features, or turn it into numbers"
        return numbers_of(table, names, np.float32, instead), names
    matrix = feature_matrix(values)
    return matrix, tuple(str(column + 1) for column in range(matrix.shape[1]))


def _converted(parts: dict[str, Any]) -> dict[str, Any]:
    """Ids and weights of any kind as the kinds that a dataset holds."""
    converted = dict(parts)
    if parts.get("document_ids") is not None:
        converted["document_ids"] = text_ids(parts["document_ids"], "document ids")
    for name, kind in (("document_weights", np.float32), ("query_weights", np.float64)):
        if parts.get(name) is not None:
            converted[name] = vector(parts[name], name, kind)
    return converted


def _check_rows(name: str, count: int, rows: int, given: Any = None) -> None:
    """Refuse another number of entries than rows; sizes of groups are known by their sum."""
    if count == rows:
        return
    hint = ""
    if given is not None and np.asarray(given).dtype.kind in "iu" and np.sum(given) == rows:
        hint = ": sizes of groups are no ids; give np.repeat(np.arange(len(sizes)), sizes)"
    raise BadInput(f"{name} has {count} entries where {rows} rows need one each{hint}")


def _take(array: pa.StringArray | None, rows: NDArray[np.int64]) -> pa.StringArray | None:
    return None if array is None else array.take(arrow_of(rows))
