"""Jobs: one fit on one fold, described in full, so that its result can be kept and known again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.cross_validation import Fold
from owpc_ltr.training.plan import model_plan
from owpc_ltr_papers.ranklib import RankLib

DataFold = Fold[RankingDataset]
ALIKE = "scores all documents alike, so that the figures are those of a random order"


@dataclass(frozen=True)
class Result:
    """What a job gives: the settings that were chosen, by what value, and each test query's values.

    `values` goes by metric. `notes` is what makes the figures doubtful.
    """

    settings: Mapping[str, Any]
    validation: float
    values: Mapping[str, Vector]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """A result, and the model that gives it, where others are built on it."""

    result: Result
    model: Model | None = None


@dataclass(frozen=True)
class Tools:
    """What every job is given besides its fold."""

    registry: Registry
    run: Run
    metrics: tuple[Metric, ...]
    ranklib: RankLib | None = None


class Job(Protocol):
    """Work on one fold."""

    @property
    def name(self) -> str:
        """What it is called in folders and in progress: unique among the jobs of a protocol."""
        ...

    @property
    def base(self) -> Job | None:
        """The job whose model it needs, if any."""
        ...

    @property
    def is_base(self) -> bool:
        """Whether its model is kept, for others to build on."""
        ...

    def described(self) -> dict[str, Any]:
        """All settings that decide its result, as JSON."""
        ...

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Done:
        """Fit, choose, and measure on the test queries."""
        ...


@dataclass(frozen=True)
class Training:
    """A model of a loss and an optimizer, its settings chosen as `owpc-ltr train` does.

    `choose_on` training queries is for papers that have no validation queries.
    """

    name: str
    loss: str
    optimizer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "map"
    choose_on: Literal["validation", "training"] = "validation"
    is_base: bool = False
    base: None = None

    def described(self) -> dict[str, Any]:
        """The loss, the optimizer, their settings, and how they are chosen."""
        return {
            "train": [self.loss, self.optimizer, dict(self.settings), dict(self.grid)],
            "select": [self.select, self.choose_on],
            "model": self.is_base,
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Done:
        """Train on the features as they are; LETOR's are normalised by query already."""
        del base
        plan = model_plan(
            tools.registry,
            loss=self.loss,
            optimizer=self.optimizer,
            settings=self.settings,
            grid=self.grid,
            select=self.select,
            normalise="none",
        )
        judged = fold.validation if self.choose_on == "validation" else fold.training
        trained = train_plan(fold.training, plan, tools.run, judged)
        scores = trained.model.score(fold.test.features)
        notes = (ALIKE,) if np.ptp(scores) == 0 else ()
        values = test_values(scores, fold.test, tools.metrics)
        result = Result(trained.settings, trained.model.record["validation"], values, notes)
        return Done(result, trained.model if self.is_base else None)


def test_values(
    scores: Vector, test: RankingDataset, metrics: tuple[Metric, ...]
) -> dict[str, Vector]:
    """Each metric's value of each test query."""
    return {str(one.metric): one.per_query for one in measure(scores, test, metrics)}
