"""Which queries train, and which choose the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset


@dataclass(frozen=True)
class DatasetSplits:
    """A dataset and its sides; `source` is what the record says of where they are from."""

    everything: RankingDataset
    training: RankingDataset
    validation: RankingDataset | None
    source: dict[str, Any]


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

    def read(self, path: Path) -> DatasetSplits:
        """The sides of a dataset's file."""
        from owpc_ltr.data.parquet import read_dataset
        from owpc_ltr.data.splits import HashSplit

        everything = read_dataset(path)
        source: dict[str, Any] = {"data": path.name, "fingerprint": everything.fingerprint}
        if self.validation is not None:
            given = read_dataset(self.validation)
            source["validation"] = self.validation.name
            source["validation_fingerprint"] = given.fingerprint
            return DatasetSplits(everything, everything, given, source)
        if self.validation_share == self.test_share == 0:
            return DatasetSplits(everything, everything, None, source)
        split = HashSplit(self.validation_share, self.test_share)
        chosen_on = split.part(everything, "validation") if self.validation_share else None
        source["split"] = split.as_dict()
        return DatasetSplits(everything, split.part(everything, "train"), chosen_on, source)
