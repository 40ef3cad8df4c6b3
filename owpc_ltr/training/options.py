"""Parameters of jobs that train, each described once, and their defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.data.options import MaxFeatureNumber, Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.host.settings import named_grids, named_settings
from owpc_ltr.signatures import Argument, Help, Reads, Writes, option_name
from owpc_ltr.text import ShortRepr

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
        "The loss (see `owpc-ltr plugins`); owpc where only other choices are given.",
        cli=str,
        metavar="NAME",
        panel="Model",
        python="The loss: a name (see `owpc_ltr.plugins()`), a class, an object with settings, or "
        "a function (scores, labels, weights) → (value, gradient) of a query.",
    ),
]
OptimizerChoice = Annotated[
    Any,
    Help(
        "The optimizer (see `owpc-ltr plugins`); larank where only other choices are given.",
        cli=str,
        metavar="NAME",
        panel="Model",
        python="The optimizer: a name (see `owpc_ltr.plugins()`), a class, or an object with "
        "settings.",
    ),
]
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
    "JudgedTable | Path | str",
    Reads("A dataset: Parquet, LETOR text (.gz, .xz), or a folder of parts."),
    Argument.DATA,
]
ModelFile = Annotated[Path | str | None, Writes("The model file (JSON).", required=True)]
Normalise = Annotated[
    Normalisation,
    Help("scale: features by their spread within queries; none: as they are.", panel="Model"),
]
Validation = Annotated[
    "JudgedTable | Path | str | None",
    Reads("Validation queries; default: a share of DATA, by the hash of their ids.", panel="Data"),
    Argument.DATA,
]
ValidationShare = Annotated[
    float, Help("Share of DATA's queries that choose the settings.", panel="Data")
]
TestShare = Annotated[float, Help("Share of DATA's queries kept out for `evaluate`.", panel="Data")]
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
        after="seed",
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


@dataclass(frozen=True, kw_only=True, repr=False)
class DataOptions(ShortRepr):
    """How data are read, and what a model's record says of their source."""

    max_feature_number: MaxFeatureNumber = None
    memory: Memory = None
    source: Annotated[
        Mapping[str, Any] | None, "What the model's record says of where the data are from."
    ] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingOptions(DataOptions):
    """How data are read and worked through, and what a model's record says of their source."""

    dask: Dask = None
    threads: Threads = 1


@contextmanager
def workers_at(
    place: str | None, data: Sequence[Any], plugins: Sequence[Path | str] = ()
) -> Iterator[Any]:
    """Workers of the plugin that offers some, while the block lasts; None where no place is given.

    Raises UsageError, before any is started, for a file among the `data`: workers go through
    folders of parts.
    """
    if place is None:
        yield None
        return
    from owpc_ltr.data.datasets import is_partitioned
    from owpc_ltr.host.commands import plugin_answer

    for source in data:
        if isinstance(source, Path | str) and not is_partitioned(Path(source)):
            raise UsageError(
                f"workers go through a folder of parts, and {source} is not one: make one with "
                f"owpc-ltr partition {source} --out FOLDER"
            )
    use_workers = plugin_answer("ltr_workers")
    if use_workers is None:
        raise UsageError(f"no plugin offers workers: leave out {option_name('dask')}")
    with use_workers(place, plugins=plugins) as workers:
        yield workers


def by_workers(data: Any, workers: Any) -> Any:
    """The data, gone through by the workers where there are any and the data have parts."""
    from owpc_ltr.data.partitioned import PartitionedDataset

    parted = workers is not None and isinstance(data, PartitionedDataset)
    return workers.parts(data) if parted else data
