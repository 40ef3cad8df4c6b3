"""Which queries train, and which choose the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.options import MaxFeatures

if TYPE_CHECKING:
    from owpc_ltr.api.results import DatasetSplits, RankingDataset


@dataclass(frozen=True)
class SplitOptions:
    """How the queries of a dataset are divided."""

    validation: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Validation queries; else a share of DATA, by hash."),
    ] = None
    validation_share: Annotated[
        float, typer.Option(help="Share of DATA's queries that choose the settings.")
    ] = 0.2
    test_share: Annotated[
        float, typer.Option(help="Share of DATA's queries kept out for `evaluate`.")
    ] = 0.2
    max_features: MaxFeatures = None

    def read(self, path: Path) -> DatasetSplits[RankingDataset]:
        """The sides of a dataset's file that training needs."""
        from owpc_ltr.api.datasets import read_splits

        shares = self.validation_share, self.test_share
        return read_splits(path, self.validation, *shares, max_features=self.max_features)
