"""Pieces: what is read of the parts of a folder, and stays at hand between passes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.options import Room
from owpc_ltr.data.parquet.reading import (
    load_dataset,
    load_learnable,
    load_queries,
    load_query_params,
)
from owpc_ltr.data.partitioned.cache import PartCache
from owpc_ltr.data.partitioned.manifest import Part

Form = Literal["whole", "learnable", "filled"]
"""How a part is read: everything; what is learned from; the same with 0 for missing values."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A part, or the `chosen` queries of it, by number."""

    part: Part
    chosen: NDArray[np.int64] | None
    queries: int
    documents: int


class Files:
    """The files of a folder: what was read of them and stays in memory."""

    def __init__(self, folder: Path, room: Room) -> None:
        self.folder, self.kept = folder, PartCache(room)
        self._queries: dict[str, tuple[pa.StringArray, NDArray[np.int64]]] = {}

    def queries(self, part: Part) -> tuple[pa.StringArray, NDArray[np.int64]]:
        """The query ids of a part, and how many documents each has."""
        if part.path not in self._queries:
            self._queries[part.path] = load_queries(self.folder / part.path, part.digest)
        return self._queries[part.path]

    def query_params(self, part: Part) -> pa.StringArray | None:
        """The parameters of each query of a part, as JSON; None where it has none."""
        return load_query_params(self.folder / part.path, part.digest)

    def whole(self, piece: Piece) -> RankingDataset:
        """Everything in a piece, checked by its digest."""
        part = piece.part
        return _chosen(load_dataset(self.folder / part.path, part.digest), piece)

    def learnable(self, piece: Piece, *, filled: bool) -> RankingDataset:
        """What is learned from; it may stay in memory. `filled`: missing values are 0."""

        def load() -> RankingDataset:
            data = load_learnable(self.folder / piece.part.path, piece.part.digest)
            data = _chosen(data, piece)
            return data.without_missing() if filled else data

        chosen = None if piece.chosen is None else piece.chosen.tobytes()
        return self.kept.get((piece.part.path, chosen, filled), load)

    def read(self, piece: Piece, form: Form) -> RankingDataset:
        """A piece in one of its forms."""
        if form == "whole":
            return self.whole(piece)
        return self.learnable(piece, filled=form == "filled")

    def __reduce__(self) -> tuple[Any, ...]:
        # What was read stays in the process that has read it.
        return Files, (self.folder, self.kept.room)


def _chosen(data: RankingDataset, piece: Piece) -> RankingDataset:
    return data if piece.chosen is None else data.select(piece.chosen)
