"""Splits by query: a query's documents are never on two sides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput


@dataclass(frozen=True)
class HashSplit:
    """Each query's side is decided by the hash of its id: stable when queries come and go.

    File order is biased in most judgment lists, so position decides nothing.
    """

    validation: float = 0.2
    test: float = 0.2
    salt: str = "owpc-ltr"

    def __post_init__(self) -> None:
        if self.validation < 0 or self.test < 0 or self.validation + self.test >= 1:
            raise BadInput(
                f"validation ({self.validation}) and test ({self.test}) shares must leave "
                "queries to train on"
            )

    def sides(self, data: RankingDataset) -> NDArray[np.str_]:
        """`train`, `validation` or `test` for each query."""
        return self.sides_of(data.query_ids.to_pylist())

    def sides_of(self, query_ids: Iterable[str]) -> NDArray[np.str_]:
        """The same for queries of which only the ids are known."""
        position = _positions(query_ids, self.salt)
        return np.where(
            position < self.test,
            "test",
            np.where(position < self.test + self.validation, "validation", "train"),
        )

    def part(self, data: RankingDataset, side: str) -> RankingDataset:
        """The queries of one side."""
        chosen = np.flatnonzero(self.sides(data) == side)
        if not len(chosen):
            raise BadInput(
                f"no query falls on the {side} side: {data.n_queries} queries are too few for "
                f"shares of {self.validation} (validation) and {self.test} (test)"
            )
        return data.select(chosen)

    def as_dict(self) -> dict[str, Any]:
        """The split as JSON."""
        return {"validation": self.validation, "test": self.test, "salt": self.salt}


def query_positions(data: RankingDataset, salt: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each query, from the hash of its id."""
    return _positions(data.query_ids.to_pylist(), salt)


def fold_of_queries(data: RankingDataset, folds: int, salt: str) -> NDArray[np.int64]:
    """A fold number for each query, of sizes that differ by one at most."""
    if not 2 <= folds <= data.n_queries:
        raise BadInput(f"cannot cut {data.n_queries} queries into {folds} folds")
    order = np.argsort(query_positions(data, salt), kind="stable")
    fold = np.empty(data.n_queries, dtype=np.int64)
    fold[order] = np.arange(data.n_queries) % folds
    return fold


def _positions(query_ids: Iterable[str], salt: str) -> NDArray[np.float64]:
    digests = (
        hashlib.blake2b(f"{salt}\0{query}".encode(), digest_size=8).digest() for query in query_ids
    )
    return np.array([int.from_bytes(digest, "big") / 2**64 for digest in digests])
