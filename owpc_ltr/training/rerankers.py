"""Learning a reordering: its settings chosen on validation queries, the base always a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import source_of
from owpc_ltr.evaluation.judged_data import model_data
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.model_file import parity_samples_of
from owpc_ltr.protocols import Loss, Model, Reranker, Run
from owpc_ltr.training.fitting import (
    check_choosable,
    check_trainable,
    record_of_data,
    record_of_method,
)
from owpc_ltr.training.options import (
    DEFAULT_RERANKER,
    PENALTIES,
    RERANKING_LOSS,
    RERANKING_METRIC,
)
from owpc_ltr.training.plan import (
    CandidatePlan,
    Grid,
    MetricChoice,
    PluginChoice,
    Settings,
    checked_reordering,
    parsed,
)


@dataclass(frozen=True)
class RerankingPlan(CandidatePlan[Reranker]):
    """How to learn a reordering; the learner is a reranker."""

    kind: ClassVar[str] = "reranker"
    varied: ClassVar[str] = "reranker.penalty"
    defaults: ClassVar[tuple[float, ...]] = PENALTIES

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that the candidates need."""
        rerankers = [self.make(candidate)[1] for candidate in self.candidates()]
        return tuple(sorted({name for reranker in rerankers for name in reranker.field_names}))


def reranking_plan(
    loss: PluginChoice[Loss] = RERANKING_LOSS,
    reranker: PluginChoice[Reranker] = DEFAULT_RERANKER,
    settings: Settings | None = None,
    grid: Grid | None = None,
    metric: MetricChoice = RERANKING_METRIC,
    *,
    registry: Registry | None = None,
) -> RerankingPlan:
    """How to learn a reordering; the choices as of `parsed`. Raises UsageError or PluginError."""
    choices = parsed(
        RerankingPlan.kind,
        loss,
        reranker,
        settings=settings,
        grid=grid,
        metric=metric,
        registry=registry,
    )
    return RerankingPlan(*choices).checked()


def fit_reranker(
    data: RankingDataset,
    base: Model,
    plan: RerankingPlan,
    run: Run,
    validation: RankingDataset | None = None,
    *,
    source: Mapping[str, Any] | None = None,
) -> ReorderingModel:
    """Fit every candidate to `data`, and keep the one with the best validation metric.

    The base as it is is always a candidate, and kept unless another is better. Without validation
    queries there may be one candidate only, which is kept. The record has the settings that were
    `chosen` (None: the base), a row for every candidate (the first is the base), and `source`
    (files, split) with the digests of the queries that the base and the reranker have seen.
    """
    candidates = plan.candidates()
    pairs = [plan.make(settings) for settings in candidates]
    check_choosable(len(candidates), validation)
    check_trainable(data)
    model_data(base, data, "all")
    metric = plan.metric
    run = replace(run, validation=validation, metric=metric)
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
    return replace(chosen, record=record)


def _measured(model: ReorderingModel, metric: Metric, validation: RankingDataset | None) -> float:
    """The metric on validation queries; NaN where there are none."""
    if validation is None:
        return float("nan")
    scores = model.rerank_dataset(validation)
    weights = uneven(validation.query_weights)
    return metric.mean(scores, validation.labels, validation.offsets, weights)
