"""Plans: which loss and optimizer, their settings, the candidates to choose among; and one fit.

All that can be refused is refused here, before any work, and what a plugin returns is checked.

Scales of features: one over their spread within queries.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.errors import PluginError, Refused, UsageError
from owpc_ltr.host.registry import Registry, checked_name, installed
from owpc_ltr.host.settings import choices_of, configure, values_of
from owpc_ltr.metrics import Metric, RankedQueries, first_metric, uneven
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

NORMALISATIONS = ("scale", "none")

Table = TypeVar("Table", bound=JudgedTable)


def with_scales(data: Table, normalise: str) -> Table:
    """The data, with `feature_scales` for the optimizer; nothing is copied.

    `scale`: one over the standard deviation within queries (0 for a feature that never differs
    within a query). `none`: features as they are.
    """
    check_normalisation(normalise)
    if normalise == "none":
        return data
    deviation = deviation_within_queries(data)
    scales = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return replace(data, feature_scales=scales)


def check_normalisation(name: str) -> None:
    """Refuse a normalisation that does not exist."""
    if name not in NORMALISATIONS:
        raise UsageError(f"no normalisation is called '{name}'; known: {', '.join(NORMALISATIONS)}")


def deviation_within_queries(data: JudgedTable) -> Vector:
    """Standard deviation of each feature around its query's mean, (n_features,)."""
    squares, largest = np.zeros(data.n_features), np.zeros(data.n_features)
    for part_squares, part_largest in data.each(_squares_within_queries):
        squares += part_squares
        np.maximum(largest, part_largest, out=largest)
    deviation: Vector = np.sqrt(squares / max(data.n_documents, 1))
    # What is left of a constant feature is rounding, not signal.
    deviation[deviation <= 1e-7 * largest] = 0.0
    return deviation


def _squares_within_queries(data: RankingDataset) -> tuple[Vector, Vector]:
    """Of each feature, the sum of squares around its query's mean, and the largest size."""
    squares = np.zeros(data.n_features)
    largest = np.zeros(data.n_features)
    # Blocks of queries keep the float64 copy small.
    for first in range(0, data.n_queries, 256):
        last = min(first + 256, data.n_queries)
        start, end = data.offsets[first], data.offsets[last]
        rows = np.nan_to_num(data.features[start:end].astype(np.float64), nan=0.0)
        cuts = data.offsets[first:last] - start
        sizes = np.diff(data.offsets[first : last + 1])
        means = np.add.reduceat(rows, cuts, axis=0) / sizes[:, None]
        np.maximum(largest, np.abs(rows).max(axis=0), out=largest)
        rows -= np.repeat(means, sizes, axis=0)
        squares += np.einsum("ij,ij->j", rows, rows)
    return squares, largest


T = TypeVar("T")
L = TypeVar("L")
Settings = Mapping[str, Any]
Grid = Mapping[str, Any]
PluginChoice: TypeAlias = str | type[T] | T
"""A plugin by its name, its class, or an object with its settings."""
MetricChoice: TypeAlias = str | Metric | type[Metric] | Sequence[str | Metric | type[Metric]]

C = "optimizer.C"

ZERO = "zero"

_NUMBER = r"\d*\.?\d+(?:[eE][+-]?\d+)?"
_DASHED = re.compile(rf"\s*({_NUMBER})\s*[-–:]\s*({_NUMBER})\s*")
"""A grid that is written as a range of pages."""

_MOST_GRADES = 32
"""More different labels are no grades: a loss for grades would take as many times its time."""
_MOST_BEYOND = 3
"""How far the default values of C are extended, in powers of ten."""
_FALLS = 2
"""After so many falls in a row C is not raised any more."""
_CHECKED_ROWS = 1000

OTHER_NAMES = {
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
class CandidatePlan(Generic[L]):
    """What to learn by: a loss and a learner, their settings, and what to choose among.

    The learner is an optimizer or a reranker. `settings` and `grid` are keyed by full names
    (`loss.generator`, `optimizer.C`). Without a grid, the setting `varied` is chosen from
    `defaults` where the learner has it and it was not set. `metric` chooses, on validation queries.
    `model_plan` and `reranking_plan` make plans.
    """

    kind: ClassVar[str]
    varied: ClassVar[str]
    defaults: ClassVar[tuple[float, ...]]

    loss: type[Loss]
    learner: type[L]
    settings: Settings
    grid: Mapping[str, Sequence[Any]]
    metric: Metric

    @property
    def chooses_by_default(self) -> bool:
        """Whether the learner has the setting `varied`, and its value was left to the defaults."""
        own = self.varied.partition(".")[2]
        return not self.grid and self.varied not in self.settings and hasattr(self.learner, own)

    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the grid, over the fixed settings; `varied` varies fastest."""
        grid = {self.varied: self.defaults} if self.chooses_by_default else self.grid
        return [{**self.settings, **chosen} for chosen in combinations(grid, self.varied)]

    def checked(self) -> Self:
        """The plan, each candidate of which can be made. Raises UsageError."""
        for candidate in self.candidates():
            self.make(candidate)
        return self

    def make(self, settings: Settings) -> tuple[Loss, L]:
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
        return configure(self.loss, parts["loss"]), configure(self.learner, parts[self.kind])


@dataclass(frozen=True)
class Plan(CandidatePlan[Optimizer]):
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

    @property
    def columns_record(self) -> dict[str, Any]:
        """What a record says of the data as the fits take them."""
        missing = {} if self.missing is None else {"missing": self.missing}
        basis = {"basis": {"name": "ramps", "knots": self.knots}} if self.piecewise_linear else {}
        return {"normalise": self.normalise, **missing, **basis}

    def for_labels(self, levels: Vector) -> Plan:
        """The plan with the loss's settings for these labels and the metric that chooses.

        `levels` are the different labels in increasing order, or the lowest of them and the
        highest. Raises Refused where the metric, or the loss, takes every document for relevant,
        and where the loss does not take the highest label.
        """
        metric, lowest = self.metric, float(levels[0])
        line = getattr(metric, "relevant_above", 0.0)
        if not metric.graded and lowest > line and len(levels) > 1:
            raise Refused(
                f"no document is irrelevant: the lowest label is {lowest:g}, and by {metric} "
                f"whatever is above {line:g} is relevant: choose by a metric of grades, as "
                f"ndcg@10, or say what is irrelevant, as {metric.name},relevant-above={lowest:g}"
            )
        added = self._from_metric()
        # To a loss for two grades a label above 0 is relevant, whatever the metric takes for it.
        several = metric.graded and 2 < len(levels) <= _MOST_GRADES
        if several or lowest > 0:
            added |= getattr(self.loss, "for_grades", {})
        named = {f"loss.{name}": value for name, value in added.items()}
        fixed = {name: value for name, value in named.items() if name not in self.grid}
        plan = replace(self, settings={**fixed, **self.settings})
        for settings in plan.candidates():
            loss, optimizer = plan.make(settings)
            if optimizer.uses_loss and hasattr(loss, "check_labels"):
                loss.check_labels(float(levels[-1]))
        return plan

    def _from_metric(self) -> dict[str, Any]:
        """The metric's options that the loss takes over, where they are not its own default."""
        names: Sequence[str] = getattr(self.loss, "from_metric", ())
        options = {name: getattr(self.metric, name, None) for name in names}
        choices = choices_of(self.loss)
        return {
            name: value
            for name, value in options.items()
            if value in choices[name] and value != getattr(self.loss, name)
        }

    def has_fallen(self, tried: Sequence[tuple[Settings, float]]) -> bool:
        """Whether the last default values of C, as they were tried, are worse than one before.

        Larger ones take most of the time, and lose more. `tried` is as of `beyond`.
        """
        values = [value for _, value in tried]
        fallen = len(values) > _FALLS and max(values[-_FALLS:]) < max(values[:-_FALLS])
        return self.chooses_by_default and fallen

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
    loss: PluginChoice[Loss] = DEFAULT_LOSS,
    optimizer: PluginChoice[Optimizer] = DEFAULT_OPTIMIZER,
    settings: Settings | None = None,
    grid: Grid | None = None,
    metric: MetricChoice = DEFAULT_METRIC,
    normalise: str = DEFAULT_NORMALISATION,
    missing: str | None = None,
    *,
    piecewise_linear: bool = False,
    knots: int = KNOTS,
    registry: Registry | None = None,
) -> Plan:
    """How to train a model, by default with OWPC and LaRank; the choices as of `parsed`.

    Raises UsageError or PluginError for what no candidate can be made of.
    """
    if missing not in {None, ZERO}:
        raise UsageError(f"missing values can be taken as zero, not as '{missing}'")
    if knots < 2:
        raise UsageError(f"a curve has 2 knots or more, not {knots}")
    check_normalisation(normalise)
    choices = parsed(
        Plan.kind,
        loss,
        optimizer,
        settings=settings,
        grid=grid,
        metric=metric,
        registry=registry,
    )
    return Plan(*choices, normalise, missing, piecewise_linear, knots).checked()


def parsed(
    kind: str,
    loss: PluginChoice[Loss],
    learner: PluginChoice[L],
    *,
    settings: Settings | None,
    grid: Grid | None,
    metric: MetricChoice,
    registry: Registry | None,
) -> tuple[type[Loss], type[L], Settings, Mapping[str, Sequence[Any]], Metric]:
    """The classes of a loss and a learner of a kind, their settings and grid, and the metric.

    Plugins are names, classes, or objects with their settings. `settings` and `grid` go by setting:
    `C`, or in full `optimizer.C`. A grid's values are a sequence, or text as `1e-3..1e3`. Of
    several metrics the first one chooses. Raises UsageError or PluginError.
    """
    registry = installed() if registry is None else registry
    loss_class, of_loss = _plugin_class(registry, "loss", loss)
    learner_class, of_learner = _plugin_class(registry, kind, learner)
    classes = {"loss": loss_class, kind: learner_class}
    given = {full_name(name, classes): value for name, value in (settings or {}).items()}
    candidates = {
        full_name(name, classes): _values(name, values) for name, values in (grid or {}).items()
    }
    fixed = {**of_loss, **of_learner, **given}
    return loss_class, learner_class, fixed, candidates, first_metric(metric, registry)


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
            "`missing='zero'`, or use `optimizer='boosting'` or 'larank'"
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
    """The different labels in increasing order; of many the lowest and the highest."""
    levels = np.unique(np.concatenate(list(data.each(lambda part: np.unique(part.labels)))))
    if len(levels) > _MOST_GRADES:
        levels = np.append(levels[:_MOST_GRADES], levels[-1])
    return levels.astype(np.float64)


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


def _short(value: object) -> str:
    """A value in one short line, and its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def checked_fit(name: str, returned: object, data: RankingDataset) -> Fit:
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


def _plugin_class(
    registry: Registry, kind: str, plugin: PluginChoice[T]
) -> tuple[type[T], dict[str, Any]]:
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
    if (ours := OTHER_NAMES.get(name)) in names:
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
    # NumPy's numbers as Python's, which JSON can hold.
    return tuple(value.item() if hasattr(value, "item") else value for value in values)
