"""Jobs: one fit on one fold, with a complete description, so that a stored result can be reused.

A job trains a model, or a reranker on another job's model. The bench runs jobs one after another
on the folds of data sets, or takes their results from its journal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.measurement import values_of
from owpc_ltr.files.output import Journal, digest_of, finite_json
from owpc_ltr.host.registry import Registry
from owpc_ltr.kernels.kernel import one_blas_thread
from owpc_ltr.metrics import Metric
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import silent
from owpc_ltr.training.cross_validation import Fold
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import Plan, model_plan
from owpc_ltr.training.rerankers import RerankingPlan, fit_reranker, reranking_plan
from owpc_ltr.version import VERSION
from owpc_ltr_papers.folders import Collection

DataFold = Fold[RankingDataset]

ALIKE = "scores all documents alike, so that the figures are those of a random order"
UNCHANGED = "nothing beat the base on the validation queries"


@dataclass(frozen=True)
class Job:
    """A model of a loss and an optimizer; with a `base`, the exchangeable reranker on its model.

    Its name, in folders and in progress, is unique among the jobs of a protocol. The model of one
    that `is_base` is kept, for others to build on. `choose_on` training queries is for papers that
    have no validation queries.
    """

    name: str
    loss: str
    optimizer: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "map"
    choose_on: Literal["validation", "training"] = "validation"
    base: Job | None = None
    is_base: bool = False


@dataclass(frozen=True)
class Result:
    """The result of a job: the validation value of what it chose, and the values of test queries.

    `values` are by metric. `notes` say why the figures are doubtful. `model` is the fitted model,
    where other jobs are built on it.
    """

    validation: float
    values: Mapping[str, Vector]
    notes: tuple[str, ...] = ()
    model: Model | None = None


Results = Mapping[str, Mapping[str, Result]]
"""By the name of a job, and of a fold."""


@dataclass(frozen=True)
class Tools:
    """What every job needs besides its fold."""

    registry: Registry
    run: Run
    metrics: tuple[Metric, ...]


def plan_of(job: Job, registry: Registry) -> Plan | RerankingPlan:
    """How a job trains; on features as they are, for LETOR's are normalised by query already."""
    options: dict[str, Any] = {"settings": job.settings, "grid": job.grid, "metric": job.select}
    if job.base is not None:
        return reranking_plan(job.loss, "exchangeable", **options, registry=registry)
    return model_plan(job.loss, job.optimizer, **options, normalise="none", registry=registry)


def fitted(job: Job, fold: DataFold, tools: Tools, base: Model | None = None) -> Result:
    """Fit on the training queries, choose, and measure on the test queries."""
    plan = plan_of(job, tools.registry)
    model = None
    if isinstance(plan, RerankingPlan):
        assert base is not None  # noqa: S101 - a job with a base is given its model
        # The base as it is stays a candidate.
        reranked = fit_reranker(fold.training, base, plan, tools.run, fold.validation)
        record, scores = reranked.record, reranked.rerank_dataset(fold.test)
        notes = (UNCHANGED,) if record["chosen"] is None else ()
    else:
        model = train_plan(fold.training, plan, tools.run, getattr(fold, job.choose_on)).model
        record, scores = model.record, model.score(fold.test.features)
        notes = (ALIKE,) if np.ptp(scores) == 0 else ()
    values = dict(
        zip(map(str, tools.metrics), values_of(scores, fold.test, tools.metrics), strict=True)
    )
    return Result(record["validation"], values, notes, model if job.is_base else None)


@dataclass
class JobRunner:
    """Runs jobs, and keeps their results in the journal.

    A stored result is valid while its data, the version and the base that it was built on are the
    same. `stale` counts the stored results that are not valid, `reused` those that are.
    """

    tools: Tools
    journal: Journal
    stale: int = 0
    reused: int = 0

    def results(self, data: Collection, jobs: Sequence[Job]) -> dict[str, dict[str, Result]]:
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

    def _result(self, label: str, fold: DataFold, job: Job, base: Model | None) -> Result:
        """One job's result as it is read from the journal. Raises DiskFault."""
        key = _key((label, fold.name, job.name), job, self.tools.run.seed)
        scope = self._scope(fold, base)
        piece = self.journal.pieces.get(key)
        if piece is not None and piece.scope == scope:
            self.reused += 1
            return _from_json(piece.value)
        self.stale += piece is not None
        # The bench tells which job is under way.
        quiet = replace(self.tools, run=replace(self.tools.run, progress=silent))
        value = _as_json(fitted(job, fold, quiet, base))
        self.journal.append(key, value, scope)
        return _from_json(value)

    def _scope(self, fold: DataFold, base: Model | None) -> str:
        """The digest of what decides a result besides the job's own settings."""
        inputs = {
            "data": [side.fingerprint for side in fold],
            "metrics": [str(metric) for metric in self.tools.metrics],
            "seed": self.tools.run.seed,
            "base": None if base is None else digest_of(base.as_dict()),
        }
        return digest_of({**inputs, "owpc-ltr": VERSION})


def _key(names: tuple[str, ...], job: Job, seed: int) -> str:
    """Data set, fold and job, with a digest of its settings."""
    settings = digest_of({"job": asdict(job), "seed": seed})
    plain = (re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") for name in names)
    return f"{'/'.join(plain)}-{settings[:8]}"


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "validation": finite_json(result.validation),
        "values": finite_json({name: values.tolist() for name, values in result.values.items()}),
        "notes": result.notes,
        "model": None if result.model is None else content_of(result.model),
    }


def _from_json(content: Mapping[str, Any]) -> Result:
    validation, model = content["validation"], content["model"]
    return Result(
        math.nan if validation is None else validation,
        {name: np.array(values, dtype=np.float64) for name, values in content["values"].items()},
        tuple(content["notes"]),
        None if model is None else model_of(model, Path("journal")),
    )
