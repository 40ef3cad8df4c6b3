"""Which queries train, and which choose the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.options import MaxFeatures, Memory

if TYPE_CHECKING:
    from owpc_ltr.api.results import DatasetSplits, PartitionedDataset, RankingDataset


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
    memory: Memory = None

    def check_in_parts(self, path: Path) -> None:
        """Refuse, before workers are started, what they cannot go through."""
        from owpc_ltr_dask.use_workers import check_in_parts

        for one in filter(None, (path, self.validation)):
            check_in_parts(one)

    def read(self, path: Path) -> DatasetSplits[RankingDataset] | DatasetSplits[PartitionedDataset]:
        """The sides of a dataset, a file or a folder of parts, that training needs."""
        from owpc_ltr.api.datasets import read_splits
        from owpc_ltr.api.partitions import room_from

        shares = self.validation_share, self.test_share
        return read_splits(
            path,
            self.validation,
            *shares,
            max_features=self.max_features,
            memory=room_from(self.memory),
        )
