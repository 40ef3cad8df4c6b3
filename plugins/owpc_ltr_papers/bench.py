"""The bench: jobs done one after another on the folds of data sets, or found in the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.protocols import Model
from owpc_ltr_papers.folds import Cut
from owpc_ltr_papers.jobs import DataFold, Job, Result, Tools
from owpc_ltr_papers.journal import Journal, model_digest

Results = Mapping[str, Mapping[str, Result]]
"""By the name of a job, and of a fold."""


@dataclass(frozen=True)
class Bench:
    """What jobs are done with, and where what is done is kept."""

    tools: Tools
    journal: Journal

    def results(self, cut: Cut, jobs: Sequence[Job]) -> dict[str, dict[str, Result]]:
        """Every job on every fold of a data set; a fold's queries are read once."""
        found: dict[str, dict[str, Result]] = {job.name: {} for job in jobs}
        with one_blas_thread():
            for number, reader in enumerate(cut.readers):
                fold = reader.read()
                models: dict[str, Model] = {}
                for index, job in enumerate(jobs):
                    done = (number + index / len(jobs)) / len(cut.readers)
                    self.tools.run.progress(f"{cut.label}, {reader.name}: {job.name}", done)
                    result = self._result(cut, fold, job, models)
                    found[job.name][reader.name] = result
        return found

    def _result(self, cut: Cut, fold: DataFold, job: Job, models: dict[str, Model]) -> Result:
        """One job's result, kept or made; its model goes among the others if it is a base."""
        base = None if job.base is None else models[job.base.name]
        inputs = self._inputs(fold, base)
        place = (cut.label, fold.name)
        done = self.journal.find(place, job, inputs)
        if done is None:
            quiet = replace(self.tools, run=replace(self.tools.run, progress=_silence))
            done = self.journal.keep(place, job, inputs, job.do(fold, quiet, base))
        if done.model is not None:
            models[job.name] = done.model
        return done.result

    def _inputs(self, fold: DataFold, base: Model | None) -> dict[str, Any]:
        """What decides a result besides the job's own settings."""
        sides = (fold.training, fold.validation, fold.test)
        return {
            "data": [side.fingerprint for side in sides],
            "metrics": [str(metric) for metric in self.tools.metrics],
            "seed": self.tools.run.seed,
            "base": None if base is None else model_digest(base),
        }


def _silence(_message: str, _done: float | None = None) -> None:
    """Keep quiet: the bench tells which job is under way."""
