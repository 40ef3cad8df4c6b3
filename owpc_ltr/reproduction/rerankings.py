"""A reranking as a job: a reordering learned on top of another job's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from owpc_ltr.protocols import Model
from owpc_ltr.reproduction.jobs import DataFold, Done, Job, Result, Tools, test_values
from owpc_ltr.training.plans import reranking_plan
from owpc_ltr.training.rerankers import fit_reranker

UNCHANGED = "nothing beat the base on the validation queries"


@dataclass(frozen=True)
class Reranking:
    """The exchangeable reranker on a base; the base as it is stays a candidate."""

    name: str
    base: Job
    loss: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "ndcg-letor@10"
    is_base: bool = False

    def described(self) -> dict[str, Any]:
        """The base, the loss, the reranker's settings, and how they are chosen."""
        return {
            "rerank": ["exchangeable", self.loss, dict(self.settings), dict(self.grid)],
            "select": self.select,
            "base": self.base.described(),
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Done:
        """Fit on the training queries, choose the penalty on the validation queries."""
        assert base is not None  # noqa: S101 - a job with a base is given its model
        plan = reranking_plan(
            tools.registry, "exchangeable", self.loss, self.settings, self.grid, self.select
        )
        found = fit_reranker(fold.training, base, plan, tools.run, fold.validation)
        scores = found.model.rerank_dataset(fold.test)
        notes = (UNCHANGED,) if found.settings is None else ()
        values = test_values(scores, fold.test, tools.metrics)
        return Done(Result(found.settings or {}, found.model.record["validation"], values, notes))
