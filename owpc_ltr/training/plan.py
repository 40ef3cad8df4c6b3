"""Plans: which loss and optimizer, their settings, the candidates to choose among; and one fit.

All that can be refused is refused here, before any work, and what a plugin returns is checked.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, ClassVar, Self

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.data.scales import check_normalisation
from owpc_ltr.errors import PluginError, Refused, UsageError
from owpc_ltr.host.registry import Registry, checked_name, class_of
from owpc_ltr.host.settings import configure, values_of
from owpc_ltr.metrics import Metric, RankedQueries, first_metric, parse_metric, uneven
from owpc_ltr.names import did_you_mean
from owpc_ltr.protocols import Certificate, Fit, Loss, Model, Optimizer, Reordering
from owpc_ltr.training.options import (
    DEFAULT_C,
    DEFAULT_LOSS,
    DEFAULT_METRIC,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    KNOTS,
)

Settings = Mapping[str, Any]
Grid = Mapping[str, Any]


C = "optimizer.C"

ZERO = "zero"

_NUMBER = r"\d*\.?\d+(?:[eE][+-]?\d+)?"
_DASHED = re.compile(rf"\s*({_NUMBER})\s*[-–:]\s*({_NUMBER})\s*")
"""A grid that is written as a range of pages."""

_MOST_GRADES = 32
"""More different labels are no grades: a loss for grades would take as many times its time."""
_MOST_BEYOND = 3
"""How far the default values of C are extended, in powers of ten."""
_CHECKED_ROWS = 1000

_OTHER_NAMES = {
    "n_estimators": "trees",
    "num_boost_round": "trees",
    "num_iterations": "trees",
    "learning_rate": "eta",
    "max_depth": "depth",
    "max_bin": "bins",
    "min_child_weight": "leaf",
    "min_sum_hessian_in_leaf": "leaf",
    "reg_lambda": "l2",
    "lambda_l2": "l2",
    "colsample_bytree": "colsample",
    "feature_fraction": "colsample",
    "bagging_fraction": "subsample",
    "early_stopping_rounds": "patience",
}
"""What XGBoost, LightGBM and scikit-learn call a setting of trees."""

_MODEL = ("kind", "feature_names", "record", "score", "as_dict")

_REORDERING = ("kind", "feature_names", "field_names", "rerank", "as_dict")


@dataclass(frozen=True)
class CandidatePlan:
    """What to learn by: a loss and a learner, their settings, and what to choose among.

    The learner is an optimizer or a reranker. Both are classes, or names of installed ones.
    `settings` and `grid` are keyed by full names (`loss.generator`, `optimizer.C`). Without a grid,
    the setting `varied` is chosen from `defaults` where the learner has it and it was not set.
    """

    kind: ClassVar[str]
    varied: ClassVar[str]
    defaults: ClassVar[tuple[float, ...]]

    loss: type[Loss] | str
    learner: type[Any] | str
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    select: str | Metric = DEFAULT_METRIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", class_of("loss", self.loss))
        object.__setattr__(self, "learner", class_of(self.kind, self.learner))
        parse_metric(self.select)

    @classmethod
    def checked(
        cls,
        registry: Registry,
        loss: Any,
        learner: Any,
        *,
        settings: Settings | None = None,
        grid: Grid | None = None,
        **more: Any,
    ) -> Self:
        """A plan of names, classes, or objects with their settings, each candidate of which works.

        `settings` and `grid` go by setting: `C`, or in full `optimizer.C`. A grid's values are a
        sequence, or text as `1e-3..1e3`. Raises UsageError or PluginError.
        """
        classes: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        for kind, plugin in (("loss", loss), (cls.kind, learner)):
            classes[kind], of_object = _plugin_class(registry, kind, plugin)
            fixed |= of_object
        fixed |= {full_name(name, classes): value for name, value in (settings or {}).items()}
        candidates = {
            full_name(name, classes): _values(name, values) for name, values in (grid or {}).items()
        }
        if "select" in more:
            more["select"] = first_metric(more["select"], registry)
        plan = cls(classes["loss"], classes[cls.kind], fixed, candidates, **more)
        for candidate in plan.candidates():
            plan.make(candidate)
        return plan

    @property
    def chooses_by_default(self) -> bool:
        """Whether the learner has the setting `varied`, and its value was left to the defaults."""
        own = self.varied.partition(".")[2]
        return not self.grid and self.varied not in self.settings and hasattr(self.learner, own)

    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the grid, over the fixed settings; `varied` varies fastest."""
        grid = {self.varied: self.defaults} if self.chooses_by_default else self.grid
        return [{**self.settings, **chosen} for chosen in combinations(grid, self.varied)]

    def make(self, settings: Settings) -> tuple[Loss, Any]:
        """The loss and the learner of these settings. Raises UsageError, before any work."""
        parts: dict[str, dict[str, Any]] = {"loss": {}, self.kind: {}}
        for name, value in settings.items():
            kind, _, setting = name.partition(".")
            if kind not in parts:
                raise UsageError(
                    f"'{name}' is not a setting of the loss or the {self.kind}: write loss.NAME or "
                    f"{self.kind}.NAME"
                )
            parts[kind][setting] = value
        loss = configure(class_of("loss", self.loss), parts["loss"])
        return loss, configure(class_of(self.kind, self.learner), parts[self.kind])


@dataclass(frozen=True)
class Plan(CandidatePlan):
    """How to train a model; the learner is an optimizer."""

    kind: ClassVar[str] = "optimizer"
    varied: ClassVar[str] = C
    defaults: ClassVar[tuple[float, ...]] = DEFAULT_C

    normalise: str = DEFAULT_NORMALISATION
    missing: str | None = None
    """`zero`: missing values are 0 throughout, as OpenSearch before 3.2 has them."""
    piecewise_linear: bool = False
    """Whether a feature has a curve between `knots` of its quantiles, instead of a weight."""
    knots: int = KNOTS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing not in {None, ZERO}:
            raise UsageError(f"missing values can be taken as zero, not as '{self.missing}'")
        if self.knots < 2:
            raise UsageError(f"a curve has 2 knots or more, not {self.knots}")
        check_normalisation(self.normalise)

    def for_labels(self, levels: Vector) -> Plan:
        """The plan with the loss's settings for grades, where the metric has a use for these.

        `levels` are the different labels in increasing order, or the lowest of them. Raises
        Refused where the metric, or the loss, takes every document for relevant.
        """
        metric, lowest = parse_metric(self.select), float(levels[0])
        line = getattr(metric, "relevant_above", 0.0)
        if not metric.graded and lowest > line and len(levels) > 1:
            raise Refused(
                f"no document is irrelevant: the lowest label is {lowest:g}, and by {metric} "
                f"whatever is above {line:g} is relevant: choose by a metric of grades, as "
                f"ndcg@10, or say what is irrelevant, as {metric.name},relevant-above={lowest:g}"
            )
        settings: Mapping[str, Any] = getattr(self.loss, "for_grades", {})
        # To a loss for two grades a label above 0 is relevant, whatever the metric takes for it.
        several = metric.graded and 2 < len(levels) <= _MOST_GRADES
        if not (several or lowest > 0):
            return self
        added = {f"loss.{name}": value for name, value in settings.items()}
        fixed = {name: value for name, value in added.items() if name not in self.grid}
        return replace(self, settings={**fixed, **self.settings})

    def beyond(self, tried: Sequence[tuple[Settings, float]]) -> dict[str, Any] | None:
        """One more candidate, of a C beyond the default ones, where that at their end is the best.

        `tried` are settings, and how good they are; None where there is nothing more to try.
        """
        if not self.chooses_by_default:
            return None
        by_c = sorted(((settings[C], value) for settings, value in tried), key=lambda pair: pair[0])
        if len(by_c) >= len(DEFAULT_C) + _MOST_BEYOND:
            return None
        for (c, value), others, step in ((by_c[0], by_c[1:], 0.1), (by_c[-1], by_c[:-1], 10.0)):
            if all(value > other for _, other in others):
                return {**self.settings, C: float(f"{c * step:.6g}")}
        return None

    def make(self, settings: Settings) -> tuple[Loss, Optimizer]:
        """The loss and the optimizer of these settings; refuses a pair that cannot work."""
        loss, optimizer = super().make(settings)
        if optimizer.needs_convex and not loss.convex:
            raise UsageError(
                f"optimizer '{optimizer.name}' needs a convex loss, and '{loss.name}' with these "
                "settings is not: use the optimizer gradient or boosting, or a convex loss such as "
                "owpc"
            )
        return loss, optimizer


def model_plan(
    registry: Registry,
    *,
    loss: Any = DEFAULT_LOSS,
    optimizer: Any = DEFAULT_OPTIMIZER,
    **choices: Any,
) -> Plan:
    """How to train a model, by default with OWPC and LaRank; `choices` as of `Plan.checked`."""
    return Plan.checked(registry, loss, optimizer, **choices)


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
    if dashed := _DASHED.fullmatch(text):
        raise UsageError(
            f"cannot read the grid '{name}={text}': write {name or 'C'}={dashed[1]}..{dashed[2]} "
            "for powers of ten from the one to the other"
        )
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


def full_name(name: str, classes: Mapping[str, Any]) -> str:
    """A setting's full name, where a bare name is a setting of one of these plugins, by kind.

    Raises UsageError where it is a setting of none of them, or of several.
    """
    if "." in name:
        return name
    names = {kind: [f.name for f in dataclasses.fields(cls)] for kind, cls in classes.items()}
    owners = [kind for kind, own in names.items() if name in own]
    if len(owners) == 1:
        return f"{owners[0]}.{name}"
    plugins = " and ".join(f"{kind} '{cls.name}'" for kind, cls in classes.items())
    if owners:
        both = " or ".join(f"{kind}.{name}" for kind in owners)
        raise UsageError(f"'{name}' is a setting of {plugins}: write {both}")
    raise UsageError(f"{plugins} have no setting '{name}'{_suggestion(name, names)}")


def taking_missing_as_zero(model: Model, data: RankingDataset) -> Model:
    """The model, fitted to filled values, for data as they are; it scores a gap as it does a 0.

    Raises Refused, on the evidence of `data`, for a kind of model that cannot.
    """
    from owpc_ltr.models.trees import TreeModel

    if isinstance(model, TreeModel):
        model = model.with_missing_as_zero()
    features = data.features[:_CHECKED_ROWS]
    features = features[np.isnan(features).any(axis=1)]
    filled = np.nan_to_num(features)
    if len(features) and not np.array_equal(model.score(features), model.score(filled)):
        raise Refused(
            f"a {model.kind} model does not score a missing value as 0: train it without "
            "--missing zero, or use --optimizer boosting or larank"
        )
    return model


def means_of(metrics: Sequence[Metric], model: Model, data: JudgedTable) -> list[float]:
    """The mean of each metric over the queries of some data, weighted by their importance."""

    def values(part: RankingDataset) -> list[Vector]:
        # The documents are sorted once for all metrics.
        queries = RankedQueries(model.score(part.features), part.labels, part.offsets)
        return [part.query_importance, *(metric.of(queries) for metric in metrics)]

    importance, *columns = map(np.concatenate, zip(*data.each(values), strict=True))
    weights = uneven(importance)
    return [metric.average(own, weights) for metric, own in zip(metrics, columns, strict=True)]


def levels_of(data: JudgedTable) -> Vector:
    """The different labels in increasing order; of many the lowest."""
    levels = np.unique(np.concatenate(list(data.each(lambda part: np.unique(part.labels)))))
    return levels[: _MOST_GRADES + 1].astype(np.float64)


def _check_parts(
    who: str, returned: Any, what: str, parts: tuple[str, ...], data: RankingDataset
) -> None:
    missing = [part for part in parts if not hasattr(returned, part)]
    if missing:
        raise PluginError(
            f"{who} returned {_short(returned)} where a {what} belongs, which has no "
            f"{', '.join(missing)}: return an object with {', '.join(parts)}"
        )
    if tuple(returned.feature_names) != data.feature_names:
        raise PluginError(
            f"{who} returned a {what} of the features {_short(returned.feature_names)}, where the "
            f"data have {_short(data.feature_names)}: give it those of the data"
        )


def _short(value: Any) -> str:
    """A value in one short line, and its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def checked_fit(name: str, returned: Any, data: RankingDataset) -> Fit:
    """The fit that an optimizer returned, whose model scores the first query of its data.

    Raises PluginError naming the optimizer, what it returned, and what it must return.
    """
    who = f"optimizer '{name}'"
    if not isinstance(returned, Fit):
        raise PluginError(f"{who} returned {_short(returned)}: return an owpc_ltr.protocols.Fit")
    if not isinstance(returned.certificate, Certificate):
        raise PluginError(
            f"{who} returned a fit with the certificate {_short(returned.certificate)}: give an "
            "owpc_ltr.protocols.Certificate, of which only the objective is needed"
        )
    model = returned.model
    _check_parts(who, model, "model", _MODEL, data)
    if not dataclasses.is_dataclass(model):
        raise PluginError(
            f"{who} returned the model {_short(model)}, which is not a dataclass: make it one, "
            "with a field for the record of its training"
        )
    features = data.features[: int(data.offsets[1])]
    shape = np.shape(model.score(features))
    if shape != (len(features),):
        raise PluginError(
            f"{who} returned a model that gives scores of shape {shape} for "
            f"{len(features)} documents: one number a document is wanted"
        )
    return returned


def checked_reordering(name: str, returned: Any, data: RankingDataset) -> Reordering:
    """The reordering that a reranker returned. Raises PluginError as `checked_fit` does."""
    _check_parts(f"reranker '{name}'", returned, "reordering", _REORDERING, data)
    reordering: Reordering = returned
    return reordering


def _plugin_class(registry: Registry, kind: str, plugin: Any) -> tuple[Any, dict[str, Any]]:
    """A plugin's class, and the settings of an object in full names."""
    if isinstance(plugin, str):
        return registry.find(kind, plugin), {}
    if kind == "loss" and isinstance(plugin, FunctionType):
        return _loss_of(plugin), {}
    cls = plugin if isinstance(plugin, type) else type(plugin)
    checked_name(kind, cls)
    if cls is plugin:
        return cls, {}
    return cls, {f"{kind}.{name}": value for name, value in values_of(plugin).items()}


def _loss_of(function: FunctionType) -> type[Any]:
    """A loss of a function (scores, labels, weights) → (value, gradient), which claims nothing."""
    name = function.__name__.strip("_<>").replace("_", "-").lower()
    claims = dict.fromkeys(("convex", "conservative", "smooth"), False)
    content = {"name": name, "value_and_gradient": staticmethod(function), **claims}
    return dataclass(frozen=True)(type("FunctionLoss", (), content))


def _suggestion(name: str, by_kind: Mapping[str, Sequence[str]]) -> str:
    names = [setting for settings in by_kind.values() for setting in settings]
    if (ours := _OTHER_NAMES.get(name)) in names:
        return f": it is called {ours} here"
    if question := did_you_mean(name, names):
        return f": {question}"
    known = ", ".join(f"{kind}.{own}" for kind, settings in by_kind.items() for own in settings)
    return f"; their settings: {known or 'none'}"


def _values(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str):
        return grid_values(values, name)
    if not isinstance(values, Iterable):
        raise UsageError(
            f"the grid's {name} is {values!r}, one value: give several, as [.1, 1, 10] or "
            "'1e-3..1e3', or fix it with settings"
        )
    return tuple(values)
