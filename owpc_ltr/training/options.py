"""Parameters of jobs that train, each described once, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.host.settings import named_grids, named_settings
from owpc_ltr.signatures import Argument, Help, Reads, Writes

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned import JudgedTable

Normalisation = Literal["scale", "none"]

DEFAULT_LOSS = "owpc"
DEFAULT_OPTIMIZER = "larank"
DEFAULT_METRIC = "map"
"""By which validation queries choose."""
DEFAULT_C = tuple(float(f"1e{exponent}") for exponent in range(-3, 2))
"""Candidates of `optimizer.C`, the most regularised first."""
DEFAULT_NORMALISATION: Normalisation = "scale"
KNOTS = 8
"""Of each feature's curve in a piecewise-linear model, at most."""

DEFAULT_RERANKER = "exchangeable"
RERANKING_LOSS = "bregman"
RERANKING_METRIC = "ndcg@10"
PENALTIES = (1e3, 1e2, 10.0, 1.0, 1e-1, 1e-2, 1e-5, 0.0)
"""Candidates of `reranker.penalty` (Pareek & Ravikumar 2014), the most regularised first."""

FOLDS = 5
REPORTED_METRICS = ("map", "ndcg@1", "ndcg@3", "ndcg@10")
"""What `select` measures on the test queries of each fold."""

LossChoice = Annotated[
    Any,
    Help(
        "The loss (see `plugins()`); owpc where only other choices are given.",
        cli=str,
        metavar="NAME",
        panel="Model",
    ),
]
OptimizerChoice = Annotated[
    Any,
    Help(
        "The optimizer (see `plugins()`); larank where only other choices are given.",
        cli=str,
        metavar="NAME",
        panel="Model",
    ),
]
Settings = Annotated[
    "Mapping[str, Any] | None",
    Help(
        'Settings by name: `settings={"C": 10, "loss.generator": "top"}`.',
        flag="--set",
        metavar="NAME=VALUE",
        cli=list[str],
        parse=named_settings,
        panel="Model",
    ),
]
Grid = Annotated[
    "Mapping[str, Any] | None",
    Help(
        'Values to choose among: `grid={"C": "1e-3..1e3", "loss.generator": "constant,inverse"}`.',
        metavar="NAME=VALUES",
        cli=list[str],
        parse=named_grids,
        panel="Model",
    ),
]
TrainingData = Annotated[
    "JudgedTable | Path | str",
    Reads("A dataset: Parquet, LETOR text (.gz, .xz), or a folder of parts.", project="data"),
    Argument.DATA,
]
ModelFile = Annotated[Path | str | None, Writes("The model file (JSON).", required=True)]
Normalise = Annotated[
    Normalisation,
    Help("scale: features by their spread within queries; none: as they are.", panel="Model"),
]
Validation = Annotated[
    "JudgedTable | Path | str | None",
    Reads(
        "Validation queries; default: a share of `data`, by the hash of their ids.", panel="Data"
    ),
    Argument.DATA,
]
ValidationShare = Annotated[
    float, Help("Share of the queries of `data` that choose the settings.", panel="Data")
]
TestShare = Annotated[
    float, Help("Share of the queries of `data` kept out for `evaluate`.", panel="Data")
]
Folds = Annotated[
    int | None,
    Help(
        "Train on all queries, and again without each of so many folds of them: figures and tests "
        "then count every query, ranked by a model that never saw it.",
        min=2,
        panel="Data",
    ),
]
Threads = Annotated[
    int,
    Help(
        "Number of threads; more than the free cores only slow it down.",
        min=1,
        panel="Advanced",
    ),
]
Dask = Annotated[
    str | None,
    Help(
        "Dask workers for a folder of parts: local:4 (processes here), tcp://HOST:8786.",
        metavar="PLACE",
        panel="Advanced",
    ),
]
Source = Annotated[
    "Mapping[str, Any] | None", "What the model's record says of where the data are from."
]
