"""Learning a reordering: its settings chosen on validation queries, the base always a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import source_of
from owpc_ltr.evaluation.query_choice import model_data
from owpc_ltr.host.registry import Registry, class_of
from owpc_ltr.host.settings import configure
from owpc_ltr.metrics import Metric, first_metric, parse_metric, uneven
from owpc_ltr.models.model_file import parity_samples_of
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Loss, Model, Reranker, Run
from owpc_ltr.training.candidates import (
    check_choosable,
    check_trainable,
    record_of_data,
    record_of_method,
)
from owpc_ltr.training.options import PENALTIES, RERANKING_LOSS, RERANKING_METRIC
from owpc_ltr.training.plan import (
    Grid,
    Settings,
    checked_reordering,
    chosen_plugins,
    combinations,
    settings_by_kind,
)

PENALTY = "reranker.penalty"


@dataclass(frozen=True)
class RerankingPlan:
    """What to learn: a loss and a reranker, their settings, and what to choose among.

    Loss and reranker are classes, or names of installed ones. `settings` and `grid` are keyed by
    full names (`loss.psi`, `reranker.kernels`). Without a grid, the penalty is chosen from
    `PENALTIES` where the reranker has one that was not set.
    """

    loss: type[Loss] | str
    reranker: type[Reranker] | str
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    select: str | Metric = RERANKING_METRIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", class_of("loss", self.loss))
        object.__setattr__(self, "reranker", class_of("reranker", self.reranker))

    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the grid, over the fixed settings."""
        grid = dict(self.grid)
        if not grid and hasattr(self.reranker, "penalty") and PENALTY not in self.settings:
            grid[PENALTY] = PENALTIES
        return [{**self.settings, **chosen} for chosen in combinations(grid, PENALTY)]

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that the candidates need."""
        rerankers = [self.make(candidate)[1] for candidate in self.candidates()]
        return tuple(sorted({name for reranker in rerankers for name in reranker.field_names}))

    def make(self, settings: Settings) -> tuple[Loss, Reranker]:
        """The loss and the reranker of these settings. Raises UsageError, before any work."""
        parts = settings_by_kind(settings, "reranker")
        loss = configure(class_of("loss", self.loss), parts["loss"])
        return loss, configure(class_of("reranker", self.reranker), parts["reranker"])


def reranking_plan(
    registry: Registry,
    *,
    reranker: Any,
    loss: Any = RERANKING_LOSS,
    settings: Settings | None = None,
    grid: Grid | None = None,
    select: Any = RERANKING_METRIC,
) -> RerankingPlan:
    """How to learn a reordering; everything as for a model."""
    classes, fixed, candidates = chosen_plugins(
        registry, {"loss": loss, "reranker": reranker}, settings or {}, grid or {}
    )
    select = first_metric(select, registry)
    plan = RerankingPlan(**classes, settings=fixed, grid=candidates, select=select)
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


@dataclass(frozen=True)
class Reranked:
    """What was learned, and one row for every candidate; the first is the base as it is."""

    model: ReorderingModel
    settings: dict[str, Any] | None
    """Those of the chosen candidate; None where no candidate was better than the base."""
    table: tuple[dict[str, Any], ...]


def fit_reranker(
    data: RankingDataset,
    base: Model,
    plan: RerankingPlan,
    run: Run,
    validation: RankingDataset | None = None,
    *,
    source: Mapping[str, Any] | None = None,
) -> Reranked:
    """Fit every candidate to `data`, and keep the one with the best validation metric.

    The base as it is is always a candidate, and kept unless another is better. Without validation
    queries there may be one candidate only, which is kept. `source` (files, split) goes into the
    record, with the digests of the queries that the base and the reranker have seen.
    """
    candidates = plan.candidates()
    pairs = [plan.make(settings) for settings in candidates]
    check_choosable(len(candidates), validation)
    check_trainable(data)
    model_data(base, data, "all")
    metric = parse_metric(plan.select)
    run = replace(run, validation=validation, metric=plan.select)
    base_scores = base.score(data.features)
    unchanged = ReorderingModel(base, pairs[0][1].name, None)
    best, chosen = _measured(unchanged, metric, validation), unchanged
    table: list[dict[str, Any]] = [{"reordering": False, "validation": best}]
    settings: dict[str, Any] | None = None
    for index, (candidate, (loss, reranker)) in enumerate(zip(candidates, pairs, strict=True)):
        run.progress(f"candidate {index + 1} of {len(candidates)}", index / len(candidates))
        fitted = reranker.fit(loss, data, base_scores, run)
        model = replace(unchanged, reordering=checked_reordering(reranker.name, fitted, data))
        value = _measured(model, metric, validation)
        table.append({"reordering": True, **candidate, "validation": value})
        better = value > best if metric.higher_is_better else value < best
        if validation is None or better:
            chosen, best, settings = model, value, candidate
    loss, reranker = pairs[0 if settings is None else candidates.index(settings)]
    record = {
        **record_of_method(loss, reranker, "reranker", metric, run),
        **record_of_data(data),
        "source": source_of(data, validation, source, base.record),
        "chosen": settings,
        "validation": None if validation is None else best,
        "table": table if validation is not None else [],
        "probes": parity_samples_of(data if validation is None else validation),
    }
    return Reranked(replace(chosen, record=record), settings, tuple(table))


def _measured(model: ReorderingModel, metric: Metric, validation: RankingDataset | None) -> float:
    """The metric on validation queries; NaN where there are none."""
    if validation is None:
        return float("nan")
    scores = model.rerank_dataset(validation)
    weights = uneven(validation.query_weights)
    return metric.mean(scores, validation.labels, validation.offsets, weights)
