"""Jobs: one fit on one fold, with a complete description, so that a stored result can be reused.

A job trains a model, or a reranker on another job's model. The bench runs jobs one after another
on the folds of data sets, or takes their results from its journal.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.files.output import Journal, digest_of, disk_faults, finite_json
from owpc_ltr.host.registry import Registry
from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.metrics import Metric
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.cross_validation import Fold
from owpc_ltr.training.plan import model_plan
from owpc_ltr.training.rerankers import fit_reranker, reranking_plan
from owpc_ltr.version import VERSION
from owpc_ltr_papers.folders import Collection

DataFold = Fold[RankingDataset]

ALIKE = "scores all documents alike, so that the figures are those of a random order"


@dataclass(frozen=True)
class Result:
    """The result of a job: the chosen settings, their validation value, the values of queries.

    `values` are by metric. `notes` say why the figures are doubtful. `model` is the fitted model,
    where other jobs are built on it.
    """

    settings: Mapping[str, Any]
    validation: float
    values: Mapping[str, Vector]
    notes: tuple[str, ...] = ()
    model: Model | None = None


@dataclass(frozen=True)
class Tools:
    """What every job needs besides its fold."""

    registry: Registry
    run: Run
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class FoldJob(ABC):
    """Work on one fold.

    Its name, in folders and in progress, is unique among the jobs of a protocol. `base` is the job
    whose model it needs, if any; `is_base`, whether its own model is kept, for others to build on.
    """

    name: str
    base: FoldJob | None = field(default=None, kw_only=True)
    is_base: bool = field(default=False, kw_only=True)

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """All settings that decide its result, as JSON."""

    @abstractmethod
    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Fit, choose, and measure on the test queries."""


@dataclass(frozen=True)
class Training(FoldJob):
    """A model of a loss and an optimizer, its settings chosen as `owpc-ltr train` does.

    `choose_on` training queries is for papers that have no validation queries.
    """

    loss: str
    optimizer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "map"
    choose_on: Literal["validation", "training"] = "validation"

    def described(self) -> dict[str, Any]:
        """The loss, the optimizer, their settings, and how they are chosen."""
        return {
            "train": [self.loss, self.optimizer, dict(self.settings), dict(self.grid)],
            "select": [self.select, self.choose_on],
            "model": self.is_base,
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
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
        model = trained.model if self.is_base else None
        return Result(trained.settings, trained.model.record["validation"], values, notes, model)


def test_values(
    scores: Vector, test: RankingDataset, metrics: tuple[Metric, ...]
) -> dict[str, Vector]:
    """Each metric's value of each test query."""
    return {str(measured.metric): measured.per_query for measured in measure(scores, test, metrics)}


UNCHANGED = "nothing beat the base on the validation queries"


@dataclass(frozen=True)
class Reranking(FoldJob):
    """The exchangeable reranker on a base; the base as it is stays a candidate."""

    base: FoldJob = field(kw_only=True)
    loss: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "ndcg-letor@10"

    def described(self) -> dict[str, Any]:
        """The base, the loss, the reranker's settings, and how they are chosen."""
        return {
            "rerank": ["exchangeable", self.loss, dict(self.settings), dict(self.grid)],
            "select": self.select,
            "base": self.base.described(),
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Fit on the training queries, choose the penalty on the validation queries."""
        assert base is not None  # noqa: S101 - a job with a base is given its model
        plan = reranking_plan(
            tools.registry,
            reranker="exchangeable",
            loss=self.loss,
            settings=self.settings,
            grid=self.grid,
            select=self.select,
        )
        fit = fit_reranker(fold.training, base, plan, tools.run, fold.validation)
        scores = fit.model.rerank_dataset(fold.test)
        notes = (UNCHANGED,) if fit.settings is None else ()
        values = test_values(scores, fold.test, tools.metrics)
        return Result(fit.settings or {}, fit.model.record["validation"], values, notes)


Results = Mapping[str, Mapping[str, Result]]

"""By the name of a job, and of a fold."""


@dataclass
class Bench:
    """Runs jobs, and keeps their results in the journal of the folder `out`, if any.

    A stored result is valid while its data, the version and the base that it was built on are the
    same. `stale` counts the stored results that are not valid, `reused` those that are.
    """

    tools: Tools
    journal: Journal
    out: Path | None = None
    stale: int = 0
    reused: int = 0

    def results(self, data: Collection, jobs: Sequence[FoldJob]) -> dict[str, dict[str, Result]]:
        """Every job on every fold of a data set; a fold's queries are read once."""
        results: dict[str, dict[str, Result]] = {job.name: {} for job in jobs}
        readers = data.readers()
        with one_blas_thread():
            for number, (name, read) in enumerate(readers.items()):
                fold = read()
                models: dict[str, Model | None] = {}
                for index, job in enumerate(jobs):
                    done = (number + index / len(jobs)) / len(readers)
                    self.tools.run.progress(f"{data.label}, {name}: {job.name}", done)
                    base = None if job.base is None else models[job.base.name]
                    result = self._result(data.label, fold, job, base)
                    models[job.name] = result.model
                    results[job.name][name] = replace(result, model=None)
        return results

    def _result(self, label: str, fold: DataFold, job: FoldJob, base: Model | None) -> Result:
        """One job's result as it is read from the journal. Raises DiskFault."""
        key = _key((label, fold.name, job.name), job, self.tools.run.seed)
        scope = self._scope(fold, base)
        piece = self.journal.pieces.get(key)
        if piece is not None and piece.scope == scope:
            self.reused += 1
            return _from_json(piece.value)
        self.stale += piece is not None
        quiet = replace(self.tools, run=replace(self.tools.run, progress=_silence))
        value = _as_json(job.do(fold, quiet, base))
        with disk_faults(self.out or ""):
            self.journal.append(key, value, scope)
        return _from_json(value)

    def _scope(self, fold: DataFold, base: Model | None) -> str:
        """The digest of what decides a result besides the job's own settings."""
        sides = (fold.training, fold.validation, fold.test)
        inputs = {
            "data": [side.fingerprint for side in sides],
            "metrics": [str(metric) for metric in self.tools.metrics],
            "seed": self.tools.run.seed,
            "base": None if base is None else digest_of(base.as_dict()),
        }
        return digest_of({**inputs, "owpc-ltr": VERSION})


def _silence(_message: str, _done: float | None = None) -> None:
    """Keep quiet: the bench tells which job is under way."""


def _key(names: tuple[str, ...], job: FoldJob, seed: int) -> str:
    """Data set, fold and job, with a digest of its settings."""
    settings = digest_of({"described": job.described(), "seed": seed})
    plain = (re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") for name in names)
    return f"{'/'.join(plain)}-{settings[:8]}"


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "settings": json.loads(json.dumps(dict(result.settings), default=str)),
        "validation": finite_json(result.validation),
        "values": finite_json({name: values.tolist() for name, values in result.values.items()}),
        "notes": result.notes,
        "model": None if result.model is None else content_of(result.model),
    }


def _from_json(content: Mapping[str, Any]) -> Result:
    validation, values, model = content["validation"], content["values"], content["model"]
    return Result(
        content["settings"],
        math.nan if validation is None else validation,
        {name: np.array(numbers, dtype=np.float64) for name, numbers in values.items()},
        tuple(content["notes"]),
        None if model is None else model_of(model, Path("journal")),
    )
