"""Splits by query: a query's documents are never on two sides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput, UsageError

SIDES = ("train", "validation", "test")


class JudgedQueries(Protocol):
    """What can be split: queries by their ids, as a dataset has them."""

    @property
    def query_ids(self) -> pa.StringArray:
        """One id a query."""
        ...

    @property
    def n_queries(self) -> int:
        """How many there are."""
        ...

    @property
    def origin(self) -> Origin | None:
        """The split that they are a side of already."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of the data."""
        ...

    def select(self, queries: NDArray[np.int64]) -> Self:
        """These queries, in this order."""
        ...

    def with_origin(self, origin: Origin | None) -> Self:
        """The same, said to be a side of a split."""
        ...


Data = TypeVar("Data", bound=JudgedQueries)


@dataclass(frozen=True)
class HashSplit:
    """Each query's side is decided by the hash of its id: stable when queries come and go.

    File order is biased in most judgment lists, so position decides nothing.
    """

    validation: float = 0.2
    test: float = 0.2
    salt: str = "owpc-ltr"

    def __post_init__(self) -> None:
        # The shares are not below 0, and no NaN.
        sound = self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1
        if not sound:
            raise BadInput(
                f"validation ({self.validation}) and test ({self.test}) shares must leave "
                "queries to train on"
            )

    def sides(self, data: JudgedQueries) -> NDArray[np.str_]:
        """`train`, `validation` or `test` for each query."""
        return self.sides_of(data.query_ids.to_pylist())

    def sides_of(self, query_ids: Iterable[str]) -> NDArray[np.str_]:
        """The same for queries of which only the ids are known."""
        position = positions_of(query_ids, self.salt)
        return self.sides_at(position)

    def sides_at(self, position: NDArray[np.float64]) -> NDArray[np.str_]:
        """The same for queries of which only the numbers in [0, 1) are known."""
        return np.where(
            position < self.test,
            "test",
            np.where(position < self.test + self.validation, "validation", "train"),
        )

    def part(self, data: Data, side: str) -> Data:
        """The queries of one side, which know the split; not where they were one's side before.

        Raises BadInput where there is none.
        """
        chosen = np.flatnonzero(self.sides(data) == side)
        if not len(chosen):
            raise BadInput(
                f"no query falls on the {side} side: {data.n_queries} queries are too few for "
                f"shares of {self.validation} (validation) and {self.test} (test)"
            )
        part = data.select(chosen)
        # Two splits, one in the other, are no one split of the whole.
        whole = data.origin is None
        return part.with_origin(Origin(data.fingerprint, self, side)) if whole else part

    def as_dict(self) -> dict[str, Any]:
        """The split as JSON."""
        return {"validation": self.validation, "test": self.test, "salt": self.salt}


@dataclass(frozen=True)
class Origin:
    """Where queries are from: the fingerprint of the whole dataset, its split, and the side."""

    fingerprint: str
    split: HashSplit
    side: str

    def __str__(self) -> str:
        return (
            f"the {self.side} side of {self.fingerprint[:12]}, split by hash with "
            f"{self.split.validation:g} validation and {self.split.test:g} test"
        )

    def source(self) -> dict[str, Any]:
        """What a model's record says of it."""
        return {"fingerprint": self.fingerprint, "split": self.split.as_dict()}


@dataclass(frozen=True, repr=False)
class DatasetSplits(Generic[Data]):
    """A dataset and its sides; iterating gives training, validation and test queries.

    A side whose share is 0 is not there. `source` is what a model's record says of where the
    queries are from.
    """

    everything: Data
    sides: Mapping[str, Data]
    source: Mapping[str, Any]

    @property
    def training(self) -> Data:
        """The queries to learn from."""
        return self._side("train")

    @property
    def validation(self) -> Data:
        """The queries to choose settings on. Raises UsageError where their share is 0."""
        return self._side("validation")

    @property
    def test(self) -> Data:
        """The queries to measure on. Raises UsageError where their share is 0."""
        return self._side("test")

    @property
    def optional_validation(self) -> Data | None:
        """The validation queries; None where there are none."""
        return self.sides.get("validation")

    def __iter__(self) -> Iterator[Data]:
        """The sides that there are."""
        return (self.sides[side] for side in SIDES if side in self.sides)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part.n_queries} {side}" for side, part in self.sides.items())
        return f"DatasetSplits: {self.everything.n_queries} queries, by hash: {sizes}"

    def _repr_html_(self) -> str:
        from owpc_ltr.data import html

        rows = [(side, f"{part.n_queries:,} queries") for side, part in self.sides.items()]
        title = f"DatasetSplits: {self.everything.n_queries:,} queries, by hash"
        return html.block(title, html.facts(rows))

    def _side(self, side: str) -> Data:
        if side not in self.sides:
            raise UsageError(
                f"there are no {side} queries: their share is 0; give one, as in split({side}=0.2)"
            )
        return self.sides[side]


def split_queries(
    data: Data, split: HashSplit, name: str | None = None, wanted: Sequence[str] = SIDES
) -> DatasetSplits[Data]:
    """The wanted sides of a dataset; where no share is kept out, the whole of it trains.

    `name` is the file's, for the record. Raises BadInput where a wanted side would be empty.
    """
    source = {**_named(name), "fingerprint": data.fingerprint}
    if split.validation == split.test == 0:
        return DatasetSplits(data, {"train": data}, source)
    shares = {"train": 1.0, "validation": split.validation, "test": split.test}
    parts = {side: split.part(data, side) for side in wanted if shares[side]}
    return DatasetSplits(data, parts, {**source, "split": split.as_dict()})


def with_validation(
    data: Data, given: Data, name: str | None = None, given_name: str | None = None
) -> DatasetSplits[Data]:
    """All queries of a dataset to learn from, and those of another to choose settings on."""
    source = {
        **_named(name),
        "fingerprint": data.fingerprint,
        **({} if given_name is None else {"validation": given_name}),
        "validation_fingerprint": given.fingerprint,
    }
    return DatasetSplits(data, {"train": data, "validation": given}, source)


def query_positions(data: JudgedQueries, salt: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each query, from the hash of its id."""
    return positions_of(data.query_ids.to_pylist(), salt)


def positions_of(query_ids: Iterable[str], salt: str) -> NDArray[np.float64]:
    """The same for queries of which only the ids are known."""
    return hashes_of(query_ids, salt) / 2**64


def hashes_of(query_ids: Iterable[str], salt: str) -> NDArray[np.uint64]:
    """The hash of each id, of which the position is the share of all hashes below it."""
    digests = (
        hashlib.blake2b(f"{salt}\0{query}".encode(), digest_size=8).digest() for query in query_ids
    )
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def fold_of_queries(data: JudgedQueries, folds: int, salt: str) -> NDArray[np.int64]:
    """A fold number for each query, of sizes that differ by one at most."""
    if not 2 <= folds <= data.n_queries:
        raise BadInput(f"cannot cut {data.n_queries} queries into {folds} folds")
    order = np.argsort(query_positions(data, salt), kind="stable")
    fold = np.empty(data.n_queries, dtype=np.int64)
    fold[order] = np.arange(data.n_queries) % folds
    return fold


def _named(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"data": name}
