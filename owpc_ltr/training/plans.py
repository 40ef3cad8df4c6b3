"""Plans from names: which loss, optimizer or reranker, their settings, and what to choose among.

All that can be refused is refused here, before any work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from owpc_ltr.errors import UsageError
from owpc_ltr.host.contracts import checked_name
from owpc_ltr.host.grids import parse_grid
from owpc_ltr.host.registry import Registry
from owpc_ltr.metrics import parse_metric
from owpc_ltr.training.ramps import KNOTS
from owpc_ltr.training.rerankers import RerankingPlan
from owpc_ltr.training.train import Plan

Settings = Mapping[str, Any]
Grid = Mapping[str, Any]


def model_plan(
    registry: Registry,
    loss: Any = "owpc",
    optimizer: Any = "larank",
    settings: Settings | None = None,
    grid: Grid | None = None,
    select: Any = "map",
    normalise: str = "scale",
    missing: str | None = None,
    basis: str | None = None,
    knots: int = KNOTS,
) -> Plan:
    """How to train a model.

    `loss` and `optimizer` are names, classes, or objects with their settings. `settings` and
    `grid` go by setting: `C`, or in full `optimizer.C`. A grid's values are a sequence, or text
    as `1e-3..1e3`. Raises UsageError or PluginError.
    """
    loss_class, of_loss = _chosen(registry, "loss", loss)
    optimizer_class, of_optimizer = _chosen(registry, "optimizer", optimizer)
    given = _full_names(settings or {}, loss_class, optimizer_class, "optimizer")
    fixed = {**of_loss, **of_optimizer, **given}
    candidates = _grid(grid or {}, loss_class, optimizer_class, "optimizer")
    metric = parse_metric(select, registry)
    plan = Plan(
        loss_class, optimizer_class, fixed, candidates, metric, normalise, missing, basis, knots
    )
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


def reranking_plan(
    registry: Registry,
    reranker: Any,
    loss: Any = "bregman",
    settings: Settings | None = None,
    grid: Grid | None = None,
    select: Any = "ndcg@10",
) -> RerankingPlan:
    """How to learn a reordering; everything as for a model."""
    loss_class, of_loss = _chosen(registry, "loss", loss)
    reranker_class, of_reranker = _chosen(registry, "reranker", reranker)
    given = _full_names(settings or {}, loss_class, reranker_class, "reranker")
    fixed = {**of_loss, **of_reranker, **given}
    candidates = _grid(grid or {}, loss_class, reranker_class, "reranker")
    metric = parse_metric(select, registry)
    plan = RerankingPlan(loss_class, reranker_class, fixed, candidates, metric)
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


def _chosen(registry: Registry, kind: str, given: Any) -> tuple[type[Any], dict[str, Any]]:
    """A plugin's class, and the settings of an object in full names."""
    if isinstance(given, str):
        return registry.find(kind, given), {}
    cls = given if isinstance(given, type) else type(given)
    checked_name(kind, cls)
    if isinstance(given, type):
        return given, {}
    from owpc_ltr.host.settings import values_of

    return cls, {f"{kind}.{name}": value for name, value in values_of(given).items()}


def _full_names(
    settings: Settings, loss: type[Any], learner: type[Any], kind: str
) -> dict[str, Any]:
    """Settings by full names, where a bare name is of the loss or of the learner."""
    return {_full_name(name, loss, learner, kind): value for name, value in settings.items()}


def _full_name(name: str, loss: type[Any], learner: type[Any], kind: str) -> str:
    return name if "." in name else parse_grid(f"{name}=x", loss, learner, kind)[0]


def _grid(grid: Grid, loss: type[Any], learner: type[Any], kind: str) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for name, values in grid.items():
        if isinstance(values, str):
            full, spread = parse_grid(f"{name}={values}", loss, learner, kind)
            found[full] = spread
            continue
        if not isinstance(values, Iterable):
            raise UsageError(
                f"the grid's {name} is {values!r}, one value: give several, as [.1, 1, 10] or "
                "'1e-3..1e3', or fix it with settings"
            )
        found[_full_name(name, loss, learner, kind)] = tuple(values)
    return found
