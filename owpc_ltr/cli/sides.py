"""Which queries train, and which choose the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits


@dataclass(frozen=True)
class SplitOptions:
    """How the queries of a dataset are divided."""

    validation: Annotated[
        Path | None, typer.Option(help="Validation queries; else a share of DATA, by hash.")
    ] = None
    validation_share: Annotated[
        float, typer.Option(help="Share of DATA's queries that choose the settings.")
    ] = 0.2
    test_share: Annotated[
        float, typer.Option(help="Share of DATA's queries kept out for `evaluate`.")
    ] = 0.2

    def read(self, path: Path) -> DatasetSplits[RankingDataset]:
        """The sides of a dataset's file that training needs."""
        from owpc_ltr.data.parquet import read_dataset
        from owpc_ltr.data.splits import HashSplit, split_queries, with_validation

        everything = read_dataset(path)
        if self.validation is not None:
            given = read_dataset(self.validation)
            return with_validation(everything, given, path.name, self.validation.name)
        split = HashSplit(self.validation_share, self.test_share)
        return split_queries(everything, split, path.name, ("train", "validation"))
