"""A reranking as a job: a reordering learned on top of another job's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.models.model_file import content_of
from owpc_ltr.protocols import Model
from owpc_ltr.training.plan import reranking_plan
from owpc_ltr.training.rerankers import fit_reranker
from owpc_ltr_papers.jobs import DataFold, Done, Job, Result, Tools, test_values

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
    lift: float = 0.0
    """Added to every base score, where one of 0 must be positive."""
    is_base: bool = False

    def described(self) -> dict[str, Any]:
        """The base, the loss, the reranker's settings, and how they are chosen."""
        return {
            "rerank": ["exchangeable", self.loss, dict(self.settings), dict(self.grid)],
            "select": self.select,
            "base": self.base.described(),
            **({"lift": self.lift} if self.lift else {}),
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Done:
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
        ranker = Lifted(base, self.lift) if self.lift else base
        found = fit_reranker(fold.training, ranker, plan, tools.run, fold.validation)
        scores = found.model.rerank_dataset(fold.test)
        notes = (UNCHANGED,) if found.settings is None else ()
        values = test_values(scores, fold.test, tools.metrics)
        return Done(Result(found.settings or {}, found.model.record["validation"], values, notes))


@dataclass(frozen=True)
class Lifted:
    """A base whose scores are raised by a constant: the same ranking, and no score of 0."""

    kind: ClassVar[str] = "lifted"

    model: Model
    by: float

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The model's own."""
        return self.model.feature_names

    @property
    def record(self) -> dict[str, Any]:
        """The model's own."""
        return self.model.record

    def score(self, features: Matrix) -> Vector:
        """The model's scores, raised."""
        return self.model.score(features) + self.by

    def as_dict(self) -> dict[str, Any]:
        """The model, and by how much it is raised."""
        return {"model": content_of(self.model), "by": self.by}

    def save(self, path: Path | str) -> None:
        """Save the model; it is lifted for one fit alone, and never kept so."""
        self.model.save(path)
