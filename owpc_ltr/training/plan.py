"""Plans: which loss, optimizer or reranker, their settings, and the candidates to choose among.

All that can be refused is refused here, before any work.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.data.scaling import check_normalisation
from owpc_ltr.errors import UsageError
from owpc_ltr.host.contracts import checked_name
from owpc_ltr.host.registry import Registry, class_of
from owpc_ltr.host.settings import configure, values_of
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.protocols import Loss, Optimizer, Reranker
from owpc_ltr.training.defaults import (
    DEFAULT_C,
    DEFAULT_LOSS,
    DEFAULT_METRIC,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    KNOTS,
    PENALTIES,
    RERANKING_LOSS,
    RERANKING_METRIC,
)
from owpc_ltr.training.fit import check_missing

Settings = Mapping[str, Any]
Grid = Mapping[str, Any]

C = "optimizer.C"
PENALTY = "reranker.penalty"


@dataclass(frozen=True)
class Plan:
    """What to train: a loss and an optimizer, their settings, and what to choose among.

    Loss and optimizer are classes, or names of installed ones. `settings` and `grid` are keyed by
    full names (`loss.generator`, `optimizer.C`). Without a grid, C is chosen from `DEFAULT_C` where
    the optimizer has one that was not set.
    """

    loss: type[Loss] | str
    optimizer: type[Optimizer] | str
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    select: str | Metric = DEFAULT_METRIC
    normalise: str = DEFAULT_NORMALISATION
    missing: str | None = None
    """`zero`: missing values are 0 from the first to the last, as engines before 3.2 have them."""
    piecewise_linear: bool = False
    """Whether a feature has a curve between `knots` of its quantiles, instead of a weight."""
    knots: int = KNOTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", class_of("loss", self.loss))
        object.__setattr__(self, "optimizer", class_of("optimizer", self.optimizer))
        parse_metric(self.select)
        check_missing(self.missing)
        if self.knots < 2:
            raise UsageError(f"a curve has 2 knots or more, not {self.knots}")
        check_normalisation(self.normalise)

    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the grid, over the fixed settings; C varies fastest."""
        grid = dict(self.grid)
        if not grid and hasattr(self.optimizer, "C") and C not in self.settings:
            grid[C] = DEFAULT_C
        return [{**self.settings, **chosen} for chosen in combinations(grid, C)]

    def make(self, settings: Settings) -> tuple[Loss, Optimizer]:
        """The loss and optimizer of these settings; refuses a pair that cannot work.

        Raises UsageError naming both and what would do, before any work.
        """
        parts = _by_kind(settings, "optimizer")
        loss = configure(class_of("loss", self.loss), parts["loss"])
        optimizer = configure(class_of("optimizer", self.optimizer), parts["optimizer"])
        if optimizer.needs_convex and not loss.convex:
            raise UsageError(
                f"optimizer '{optimizer.name}' needs a convex loss, and '{loss.name}' with these "
                "settings is not: use the optimizer gradient or boosting, or a convex loss such as "
                "owpc"
            )
        return loss, optimizer


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
        parts = _by_kind(settings, "reranker")
        loss = configure(class_of("loss", self.loss), parts["loss"])
        return loss, configure(class_of("reranker", self.reranker), parts["reranker"])


def model_plan(
    registry: Registry,
    *,
    loss: Any = DEFAULT_LOSS,
    optimizer: Any = DEFAULT_OPTIMIZER,
    settings: Settings | None = None,
    grid: Grid | None = None,
    select: Any = DEFAULT_METRIC,
    normalise: str = DEFAULT_NORMALISATION,
    missing: str | None = None,
    piecewise_linear: bool = False,
    knots: int = KNOTS,
) -> Plan:
    """How to train a model.

    `loss` and `optimizer` are names, classes, or objects with their settings. `settings` and
    `grid` go by setting: `C`, or in full `optimizer.C`. A grid's values are a sequence, or text
    as `1e-3..1e3`. Raises UsageError or PluginError.
    """
    classes, fixed, candidates = _named(
        registry, {"loss": loss, "optimizer": optimizer}, settings or {}, grid or {}
    )
    plan = Plan(
        **classes,
        settings=fixed,
        grid=candidates,
        select=parse_metric(select, registry),
        normalise=normalise,
        missing=missing,
        piecewise_linear=piecewise_linear,
        knots=knots,
    )
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


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
    classes, fixed, candidates = _named(
        registry, {"loss": loss, "reranker": reranker}, settings or {}, grid or {}
    )
    select = parse_metric(select, registry)
    plan = RerankingPlan(**classes, settings=fixed, grid=candidates, select=select)
    for candidate in plan.candidates():
        plan.make(candidate)
    return plan


def combinations(grid: Mapping[str, Iterable[Any]], innermost: str) -> list[dict[str, Any]]:
    """All combinations, the innermost setting varying fastest, so that fits can warm-start."""
    names = sorted(grid, key=lambda name: name == innermost)
    return [
        dict(zip(names, chosen, strict=True))
        for chosen in itertools.product(*(grid[name] for name in names))
    ]


def grid_values(text: str, name: str = "") -> tuple[str, ...]:
    """The values of a grid, as text.

    `a..b` counts in powers of ten, `a..b*3` in as many steps a decade; `x,y,z` lists values.
    Raises UsageError.

    >>> grid_values("1e-1..10")
    ('0.1', '1', '10')
    """
    if ".." not in text:
        return tuple(value.strip() for value in text.split(","))
    span, _, per_decade = text.partition("*")
    low, _, high = span.partition("..")
    try:
        ends = float(low), float(high)
        steps = int(per_decade or 1)
    except ValueError:
        raise UsageError(
            f"cannot read the grid '{name}={text}': write C=1e-3..1e3 or C=.1..10*3"
        ) from None
    if not (0 < ends[0] <= ends[1] < np.inf and steps > 0):
        raise UsageError(
            f"the grid '{name}={text}' must go from a small positive number to a larger one"
        )
    first, last = np.log10(ends)
    count = round((last - first) * steps) + 1
    return tuple(f"{float(10**exponent):.6g}" for exponent in np.linspace(first, last, count))


def _named(
    registry: Registry, chosen: Mapping[str, Any], settings: Settings, grid: Grid
) -> tuple[dict[str, Any], dict[str, Any], dict[str, tuple[Any, ...]]]:
    """The classes of the plugins chosen by kind, and settings and grid by full names."""
    classes: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    for kind, given in chosen.items():
        classes[kind], own = _plugin_class(registry, kind, given)
        fixed |= own
    fixed |= {full_name(name, classes): value for name, value in settings.items()}
    candidates = {full_name(name, classes): _values(name, each) for name, each in grid.items()}
    return classes, fixed, candidates


def _plugin_class(registry: Registry, kind: str, given: Any) -> tuple[Any, dict[str, Any]]:
    """A plugin's class, and the settings of an object in full names."""
    if isinstance(given, str):
        return registry.find(kind, given), {}
    cls = given if isinstance(given, type) else type(given)
    checked_name(kind, cls)
    if isinstance(given, type):
        return given, {}
    return cls, {f"{kind}.{name}": value for name, value in values_of(given).items()}


def full_name(name: str, classes: Mapping[str, Any]) -> str:
    """A setting's full name, where a bare name is a setting of one of these plugins, by kind.

    Raises UsageError where it is a setting of none of them, or of several.
    """
    if "." in name:
        return name
    known = {kind: [one.name for one in dataclasses.fields(cls)] for kind, cls in classes.items()}
    owners = [kind for kind, names in known.items() if name in names]
    if len(owners) == 1:
        return f"{owners[0]}.{name}"
    plugins = " and ".join(f"{kind} '{cls.name}'" for kind, cls in classes.items())
    if owners:
        both = " or ".join(f"{kind}.{name}" for kind in owners)
        raise UsageError(f"'{name}' is a setting of {plugins}: write {both}")
    raise UsageError(f"{plugins} have no setting '{name}'{_suggestion(name, known)}")


def _suggestion(name: str, known: Mapping[str, Sequence[str]]) -> str:
    names = [one for names in known.values() for one in names]
    same = [one for one in names if one.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, names, 1)
    if close:
        return f": did you mean '{close[0]}'?"
    told = ", ".join(f"{kind}.{one}" for kind, names in known.items() for one in names)
    return f"; their settings: {told or 'none'}"


def _values(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str):
        return grid_values(values, name)
    if not isinstance(values, Iterable):
        raise UsageError(
            f"the grid's {name} is {values!r}, one value: give several, as [.1, 1, 10] or "
            "'1e-3..1e3', or fix it with settings"
        )
    return tuple(values)


def _by_kind(settings: Settings, learner: str) -> dict[str, dict[str, Any]]:
    """Settings of the loss and of the learner, an optimizer or a reranker, by their own names."""
    parts: dict[str, dict[str, Any]] = {"loss": {}, learner: {}}
    for name, value in settings.items():
        kind, _, setting = name.partition(".")
        if kind not in parts:
            raise UsageError(
                f"'{name}' is not a setting of the loss or the {learner}: write loss.NAME or "
                f"{learner}.NAME"
            )
        parts[kind][setting] = value
    return parts
