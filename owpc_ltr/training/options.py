"""Parameters of jobs that train, each described once, and the queries that they train on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.host.settings import named_grids, named_settings
from owpc_ltr.signatures import Help, Progress, Reads

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.options import Room
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.protocols import Run

    Data = RankingDataset | PartitionedDataset

LossChoice = Annotated[Any, Help("The loss; see `owpc-ltr plugins`.", cli=str, panel="Model")]
Settings = Annotated[
    "Mapping[str, Any] | None",
    Help(
        "A setting, as C=10 or loss.generator=top; may be repeated.",
        flag="--set",
        metavar="NAME=VALUE",
        cli=list[str],
        parse=named_settings,
        panel="Model",
        python='Settings by name: {"C": 10, "loss.generator": "top"}.',
    ),
]
Grid = Annotated[
    "Mapping[str, Any] | None",
    Help(
        "Values to choose among: C=1e-3..1e3, loss.generator=constant,inverse; may be repeated.",
        metavar="NAME=VALUES",
        cli=list[str],
        parse=named_grids,
        panel="Model",
        python='Values to choose among: {"C": "1e-3..1e3", "generator": ["constant", "inverse"]}.',
    ),
]
TrainingData = Annotated[
    "Data | Path | str",
    Reads("A dataset: Parquet, LETOR text (.gz, .xz), or a folder of parts."),
]
Validation = Annotated[
    "Data | Path | str | None",
    Reads("Validation queries; default: a share of DATA, by the hash of their ids.", panel="Data"),
]
ValidationShare = Annotated[
    float, Help("Share of DATA's queries that choose the settings.", panel="Data")
]
TestShare = Annotated[float, Help("Share of DATA's queries kept out for `evaluate`.", panel="Data")]
Threads = Annotated[
    int, Help("Threads; more than free cores only slow down.", min=1, panel="Advanced")
]


def training_splits(
    data: Data | Path | str,
    validation: Data | Path | str | None,
    shares: tuple[float, float],
    *,
    max_features: int | None = None,
    memory: int | Room | None = None,
) -> tuple[DatasetSplits[Any], Mapping[str, Any] | None]:
    """The queries to train on and to choose settings on, and what a record says of their source.

    Without validation queries the data are split by `shares` (validation, test), unless they are
    one side of a split already. A record says of datasets, which have no name, what they know.
    """
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.datasets import open_or_read
    from owpc_ltr.data.partitioned.dataset import split_parts
    from owpc_ltr.data.splits import DatasetSplits, HashSplit, split_queries, with_validation

    def read(given: Data | Path | str) -> tuple[Any, str | None]:
        if not isinstance(given, Path | str):
            return given, None
        opened = open_or_read(given, memory=memory, max_features=max_features)
        return opened, Path(given).name

    known, name = read(data)
    if validation is not None:
        chosen, chosen_name = read(validation)
        splits = with_validation(known, chosen, name, chosen_name)
        return splits, None if name is None else splits.source
    if known.origin is not None:
        return DatasetSplits(known, {"train": known}, {}), None
    cut = split_queries if isinstance(known, RankingDataset) else split_parts
    splits = cut(known, HashSplit(*shares), name, ("train", "validation"))
    return splits, None if name is None else splits.source


def run_of(seed: int, threads: int, progress: Progress) -> Run:
    """What every fit is given besides its loss and data."""
    from owpc_ltr.protocols import Run

    return Run(seed=seed, threads=threads, progress=progress)
