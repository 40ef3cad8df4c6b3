"""Training on a folder of parts: as in memory, by optimizers that go through parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from owpc_ltr.data.columns import silent_features
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.partitioned.facts import Facts, facts_of
from owpc_ltr.data.scaling import scales_of
from owpc_ltr.errors import UsageError
from owpc_ltr.kernels.blas import one_blas_thread
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Loss, Optimizer, Run, StreamingOptimizer
from owpc_ltr.training.fitting import Data
from owpc_ltr.training.missing_as_zero import ZERO, taking_missing_as_zero
from owpc_ltr.training.train import (
    Chosen,
    Plan,
    Trained,
    check_choosable,
    check_order,
    fit_all,
    recorded,
    train,
)

_THOSE = "bundle, larank, gradient and boosting"


def train_parts(
    data: PartitionedDataset,
    plan: Plan,
    run: Run,
    validation: Data | None = None,
    source: Mapping[str, Any] | None = None,
) -> Trained:
    """Fit every candidate and keep the one with the best validation metric; see `train`.

    Data that an optimizer needs in memory are loaded where they fit in what `data` may keep there.
    Raises UsageError, before any part is read, where they do not.
    """
    candidates = plan.candidates()
    pairs = [plan.make(settings) for settings in candidates]
    check_choosable(len(candidates), validation)
    if not goes_through_parts(plan, pairs, data, validation):
        return train(data.load(), plan, run, loaded(validation), source)
    known = data, validation
    facts = facts_of(data)
    check_order(some=facts.ordered)
    if plan.missing == ZERO:
        data, validation = data.without_missing(), validation and validation.without_missing()
    data = _scaled(data, facts, plan.normalise)
    run = replace(run, **named_validation(validation), metric=plan.select)
    with one_blas_thread():
        table, index, fit = fit_all(data, candidates, pairs, parse_metric(plan.select), run)
    if plan.missing == ZERO:
        fit = replace(fit, model=taking_missing_as_zero(fit.model, data.head))
    columns = facts.filled() if plan.missing == ZERO else facts.columns
    silent = silent_features(columns, data.feature_names)
    chosen = Chosen(fit, index, candidates[index], pairs[index], table)
    return recorded(chosen, plan, run, known, source, facts.ranges, silent, data.head)


def check_room(plan: Plan, data: PartitionedDataset, validation: Data | None = None) -> None:
    """Refuse, before any part is read, what `train_parts` would. Raises UsageError."""
    pairs = [plan.make(settings) for settings in plan.candidates()]
    check_choosable(len(pairs), validation)
    goes_through_parts(plan, pairs, data, validation)


def scaled_parts(data: PartitionedDataset, normalise: str) -> PartitionedDataset:
    """The data with the scales of their features. Refused where there is nothing to learn."""
    facts = facts_of(data)
    check_order(some=facts.ordered)
    return _scaled(data, facts, normalise)


def _scaled(data: PartitionedDataset, facts: Facts, normalise: str) -> PartitionedDataset:
    scales = None if normalise == "none" else scales_of(facts.deviation)
    return replace(data, feature_scales=scales)


def goes_through_parts(
    plan: Plan,
    pairs: Sequence[tuple[Loss, Optimizer]],
    data: PartitionedDataset,
    validation: Data | None = None,
) -> bool:
    """Whether all that is planned can; False where what cannot may load the data instead.

    Raises UsageError, naming what can, where these do not fit in memory.
    """
    why = _why_not(plan, pairs)
    if why is None:
        return True
    parts = [part for part in (data, validation) if isinstance(part, PartitionedDataset)]
    needed = sum(part.nbytes for part in parts)
    if needed > data.memory:
        raise UsageError(
            f"{why} needs its data in memory, and these take {needed / 2**20:,.1f} MiB, more than "
            f"the {data.memory / 2**20:,.1f} MiB of --memory: give it more, or use {_THOSE}, which "
            "go through parts"
        )
    return False


@overload
def loaded(data: Data) -> RankingDataset: ...
@overload
def loaded(data: Data | None) -> RankingDataset | None: ...
def loaded(data: Data | None) -> RankingDataset | None:
    """The data in memory."""
    return data.load() if isinstance(data, PartitionedDataset) else data


def _why_not(plan: Plan, pairs: Sequence[tuple[Loss, Optimizer]]) -> str | None:
    """What needs all data at once; None where nothing does."""
    if plan.basis is not None:
        return f"--basis {plan.basis}"
    for loss, optimizer in pairs:
        if not isinstance(optimizer, StreamingOptimizer):
            return f"optimizer '{optimizer.name}'"
        if not optimizer.streams(loss):
            return f"optimizer '{optimizer.name}' with loss '{loss.name}' and these settings"
    return None


def named_validation(validation: Data | None) -> dict[str, Any]:
    """Validation queries as a `Run` names them."""
    if isinstance(validation, PartitionedDataset):
        return {"validation_parts": validation}
    return {"validation": validation}
