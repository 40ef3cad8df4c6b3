"""A metric: a measure with all its conventions, written and read as `ndcg@10,empty=skip`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.metrics import measures
from owpc_ltr.metrics.err import expected_reciprocal_rank
from owpc_ltr.metrics.pairs import pairwise_error
from owpc_ltr.metrics.ranking import RankedQueries, Ties
from owpc_ltr.metrics.wording import describe

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector

_LARGEST_GRADE = 50.0

Gain = Literal["exponential", "linear"]
Discount = Literal["log2", "letor"]
Empty = Literal["zero", "skip", "one"]
Short = Literal["normal", "zero"]


@dataclass(frozen=True)
class Metric:
    """A measure of rankings and its conventions; `parse_metric` makes one from its name.

    `gain` and `discount` are NDCG's. `ties`: what tied scores count (`expected` is the mean over
    all orders of the tied documents; `file-order` matches published scripts, and flatters where
    a file lists relevant documents first). `empty`: what a query counts on which the measure is
    undefined, mostly one without relevant documents. `short=zero`: a query with fewer documents
    than `cutoff` counts 0, as in LETOR 4.0's script. A document is relevant if its label is
    above `relevant_above`. `max_grade` is the top of ERR's scale.

    Raises UsageError where the measure does not exist or has no use for a setting.
    """

    name: str
    cutoff: int | None = None
    gain: Gain = "exponential"
    discount: Discount = "log2"
    relevant_above: float = 0.0
    max_grade: float = 4.0
    ties: Ties = "expected"
    empty: Empty = "zero"
    short: Short = "normal"

    def __post_init__(self) -> None:
        """Refuse what does not fit the measure."""
        measure = _measure(self.name)
        if self.cutoff is None and measure.cutoff == "needed":
            raise UsageError(f"'{self.name}' needs a cutoff: write {self.name}@10, for instance")
        if self.cutoff is not None and (measure.cutoff == "none" or self.cutoff < 1):
            reason = "takes no cutoff" if measure.cutoff == "none" else "needs a cutoff from 1 up"
            raise UsageError(f"'{self.name}@{self.cutoff}' is no metric: '{self.name}' {reason}")
        known = options_of(self)
        for field in fields(self)[2:]:
            value, option = getattr(self, field.name), _option(field.name)
            if value != field.default and option not in known:
                raise UsageError(
                    f"'{self.name}' has no use for {option}={value}; its options: "
                    + ", ".join(known)
                )
            _check_value(self.name, option, field.name, value)

    @property
    def higher_is_better(self) -> bool:
        """False for an error."""
        return MEASURES[self.name].higher_is_better

    @property
    def convention(self) -> str:
        """One line that says what exactly is measured, to be printed beside every figure."""
        return describe(self)

    def __str__(self) -> str:
        """The shortest text that `parse_metric` reads as this metric."""
        name = self.name
        if self.discount == "letor":
            name = f"{name}-letor"
        text = name if self.cutoff is None else f"{name}@{self.cutoff}"
        usual = parse_metric(text)
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if value != getattr(usual, field.name):
                shown = str(value).removesuffix(".0")
                text += f",{_option(field.name)}={shown}"
        return text

    def per_query(
        self, scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
    ) -> Vector:
        """The value of each query; NaN for the queries that `empty=skip` leaves out.

        `scores` and `labels` have one entry a document, queries in one piece each, `offsets` one
        entry more than there are queries. Raises BadInput naming the query whose score is NaN.
        """
        return self.of(RankedQueries(scores, labels, offsets))

    def mean(self, scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]) -> float:
        """The mean over the queries that count."""
        return self.average(self.per_query(scores, labels, offsets))

    def of(self, queries: RankedQueries) -> Vector:
        """The value of each query of a ranking that other metrics may share."""
        values = MEASURES[self.name].function(queries, self)
        undefined = np.isnan(values)
        if self.empty != "skip":
            values = np.where(undefined, 1.0 if self.empty == "one" else 0.0, values)
        if self.short == "zero" and self.cutoff is not None:
            values[(queries.lengths < self.cutoff) & ~np.isnan(values)] = 0.0
        return values

    def average(self, values: Vector) -> float:
        """The mean of per-query values, without the queries that `empty=skip` leaves out."""
        counted = values[~np.isnan(values)]
        if not len(counted):
            raise BadInput(
                f"{self} has no mean: none of the {len(values)} queries counts; "
                "give judged queries with relevant documents, or say empty=zero"
            )
        return float(counted.mean())


@dataclass(frozen=True)
class Measure:
    """What a name stands for: the function, and which settings it has a use for."""

    function: Callable[[RankedQueries, Metric], Vector]
    cutoff: Literal["needed", "optional", "none"]
    options: tuple[str, ...] = ("relevant-above",)
    higher_is_better: bool = True
    empty: Empty = "zero"


MEASURES: dict[str, Measure] = {
    "ndcg": Measure(measures.ndcg, "optional", ("gain", "discount")),
    "map": Measure(measures.average_precision, "optional"),
    "mrr": Measure(measures.reciprocal_rank, "optional"),
    "winner-takes-all": Measure(measures.winner_takes_all, "none"),
    "precision": Measure(measures.precision, "needed"),
    "recall": Measure(measures.recall, "needed"),
    "err": Measure(expected_reciprocal_rank, "optional", ("max-grade",)),
    # A query without pairs would lower a mean of errors: it is left out unless asked for.
    "pairwise-error": Measure(pairwise_error, "none", (), higher_is_better=False, empty="skip"),
}
"""The measures by name; constant."""


def parse_metric(text: str) -> Metric:
    """Read a metric from its name, cutoff and options.

    >>> parse_metric("ndcg@10,ties=file-order").ties
    'file-order'
    >>> str(parse_metric("ndcg-letor@3, empty=skip"))
    'ndcg-letor@3,empty=skip'

    Raises UsageError naming the part that is not known, and what is.
    """
    head, *options = [part.strip() for part in text.strip().lower().split(",")]
    name, at, cutoff = head.partition("@")
    if at and not (cutoff.isascii() and cutoff.isdigit()):
        raise UsageError(f"'{head}' is no metric: write a whole number after @, as in {name}@10")
    plain = name.removesuffix("-letor")
    letor = plain == "ndcg" and name != plain
    name = plain if letor else name
    values: dict[str, Any] = {"empty": _measure(name).empty}
    if letor:
        values["discount"] = "letor"
    metric = Metric(name, int(cutoff) if at else None, **values)
    given = dict(_read_option(metric, option) for option in options)
    if len(given) < len(options):
        raise UsageError(f"'{text}' names an option twice: give each one value")
    return replace(metric, **given)


def per_query(
    metrics: Iterable[Metric], scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
) -> dict[Metric, Vector]:
    """The per-query values of several metrics, from one ordering of the documents."""
    queries = RankedQueries(scores, labels, offsets)
    return {metric: metric.of(queries) for metric in metrics}


def options_of(metric: Metric) -> tuple[str, ...]:
    """The options that a metric has a use for."""
    short = () if metric.cutoff is None else ("short",)
    return (*_measure(metric.name).options, "ties", "empty", *short)


def _measure(name: str) -> Measure:
    if name not in MEASURES:
        raise UsageError(
            f"there is no metric '{name}'; known: ndcg, ndcg-letor, "
            + ", ".join(list(MEASURES)[1:])
            + " (with a cutoff: ndcg@10)"
        )
    return MEASURES[name]


def _option(field_name: str) -> str:
    return field_name.replace("_", "-")


def _read_option(metric: Metric, text: str) -> tuple[str, Any]:
    option, equals, value = (part.strip() for part in text.partition("="))
    known = options_of(metric)
    if not equals or option not in known:
        raise UsageError(
            f"'{metric}' has no option '{text}'; write OPTION=VALUE with one of: "
            + ", ".join(known)
        )
    field_name = option.replace("-", "_")
    if isinstance(getattr(metric, field_name), float):
        try:
            return field_name, float(value)
        except ValueError:
            return field_name, math.nan
    return field_name, value


def _check_value(name: str, option: str, field_name: str, value: Any) -> None:
    choices = get_args(get_type_hints(Metric)[field_name])
    if choices and value not in choices:
        raise UsageError(f"'{name}' cannot take {option}={value}; known: " + ", ".join(choices))
    if not choices and not math.isfinite(value):
        raise UsageError(f"'{name}' cannot take {option}={value}: it must be a finite number")
    if field_name == "max_grade" and not 0 < value <= _LARGEST_GRADE:
        raise UsageError(
            f"'{name}' cannot take {option}={value}: it must lie between 0 and {_LARGEST_GRADE:g}"
        )
