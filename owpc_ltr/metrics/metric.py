"""A metric: a measure with all its conventions, written and read as `ndcg@10,empty=skip`.

The text is `NAME[@CUTOFF][,OPTION=VALUE]…`, its name that of a plugin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.host.registry import Plugin, Registry, installed
from owpc_ltr.host.settings import check_settings, convert
from owpc_ltr.metrics.ranking import Empty, RankedQueries, Short, Ties, empty_words, ties_words
from owpc_ltr.text import ShortRepr, did_you_mean, printable

Kind = Literal["discounted-gain", "relevant-found", "precisions", "first-relevant"]


@dataclass(frozen=True)
class Metric(ABC):
    """A measure of rankings and its conventions; `parse_metric` makes one from its text.

    A metric extends this class as a frozen dataclass: `name`, `values`, `meaning`, and fields for
    options of its own, each with a default. `relevant_above: float = 0.0` is then the option
    `relevant-above=`; what a Literal type lists, and that a float is finite, is checked here.

    `ties`: what tied scores count (`expected` is the mean over all orders of the tied documents;
    `file-order` matches published scripts, and flatters where a file lists relevant documents
    first). `empty`: what a query counts on which the metric is undefined, mostly one without
    relevant documents. `short=zero`: a query with fewer documents than `cutoff` counts 0, as in
    LETOR 4.0's script.

    Raises UsageError for what does not fit the metric.
    """

    name: ClassVar[str]
    cutoff_use: ClassVar[Literal["needed", "optional", "none"]] = "optional"
    higher_is_better: ClassVar[bool] = True
    """False for an error."""
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Between what every value lies."""
    swaps_help: ClassVar[bool] = True
    """Whether moving a document above one of lower label never makes a ranking worse."""
    defined_on: ClassVar[str] = "relevant documents"
    """What a query must have, in words."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Spellings of their own: `{"letor": {"discount": "letor"}}` makes `ndcg-letor` of `ndcg`."""

    cutoff: int | None = None
    ties: Ties = field(default="expected", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)
    short: Short = field(default="normal", kw_only=True)

    @abstractmethod
    def values(self, queries: RankedQueries) -> Vector:
        """The value of each query, from `queries.ranking(self.ties)`; NaN where it is undefined."""

    @property
    def graded(self) -> bool:
        """Whether more than two grades count; else a document is relevant, or it is not."""
        return False

    @property
    def span(self) -> float:
        """The largest difference that two rankings of a query can have."""
        low, high = self.value_range
        return high - low

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What is measured, in words that name every option of the metric's own, and the cutoff."""

    def rank_sum(self, queries: RankedQueries) -> RankSum | None:  # noqa: ARG002 - for others
        """The metric as a sum that compiled loops evaluate many times; None where it is none."""
        return None

    def __post_init__(self) -> None:
        """Refuse what does not fit the metric."""
        _check_choices(self)
        check_settings(self)
        _check_finite(self)
        _check_cutoff(self)
        if self.short != "normal" and self.cutoff is None:
            raise UsageError(
                f"'{self.name}' has no use for short={self.short}; its options: "
                + ", ".join(self.options)
            )

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the metric has a use for, as its text spells them."""
        names = option_fields(type(self))
        return tuple(setting_name(name) for name in names if self.cutoff or name != "short")

    @property
    def convention(self) -> str:
        """One line that says what exactly is measured, to be printed beside every figure.

        >>> from owpc_ltr.metrics import parse_metric
        >>> print(parse_metric("mrr").convention)
        mrr: 1/rank of the first relevant document (label above 0); tied scores count their \
expected value; queries without relevant documents count 0
        """
        parts = [
            f"{self}: {self.meaning}",
            ties_words(self.ties),
            empty_words(self.empty, self.defined_on),
        ]
        if self.short == "zero":
            parts.append(f"queries with fewer than {self.cutoff} documents count 0")
        return "; ".join(parts)

    def __str__(self) -> str:
        """The shortest text that `parse_metric` reads as this metric."""
        suffix, preset = _variant(self)
        text = f"{self.name}-{suffix}" if suffix else self.name
        if self.cutoff is not None:
            text += f"@{self.cutoff}"
        usual = {option.name: option.default for option in fields(self)} | dict(preset)
        for name in option_fields(type(self)):
            value = getattr(self, name)
            if value != usual[name]:
                text += f",{setting_name(name)}={str(value).removesuffix('.0')}"
        return text

    def per_query(
        self, scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
    ) -> Vector:
        """The value of each query; NaN for the queries that `empty=skip` leaves out.

        `scores` and `labels` have one entry a document, queries in one piece each, `offsets` one
        entry more than there are queries. Raises BadInput naming the query whose score is NaN.
        """
        return self.of(RankedQueries(scores, labels, offsets))

    def mean(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        offsets: NDArray[Any],
        weights: Vector | None = None,
    ) -> float:
        """The mean over the queries that count; `weights`, one a query, weigh them."""
        return self.average(self.per_query(scores, labels, offsets), weights)

    def of(self, queries: RankedQueries) -> Vector:
        """The value of each query of a ranking that other metrics may share."""
        values = self.values(queries)
        if np.shape(values) != (queries.n_queries,):
            raise PluginError(
                f"metric '{self.name}' gave values of shape {np.shape(values)} for "
                f"{queries.n_queries} queries: return one number a query"
            )
        undefined = np.isnan(values)
        if self.empty != "skip":
            values = np.where(undefined, 1.0 if self.empty == "one" else 0.0, values)
        if self.short == "zero" and self.cutoff is not None:
            values[(queries.lengths < self.cutoff) & ~np.isnan(values)] = 0.0
        return values

    def average(self, values: Vector, weights: Vector | None = None) -> float:
        """The mean of per-query values, without the queries that `empty=skip` leaves out.

        A query of weight k counts as k queries.
        """
        counts = ~np.isnan(values)
        if weights is not None:
            counts &= weights > 0
        counted = values[counts]
        if not len(counted):
            raise BadInput(
                f"{self} has no mean: none of the {len(values)} queries counts; "
                "give judged queries with relevant documents, or say empty=zero"
            )
        if weights is None:
            return float(counted.mean())
        weights = weights[counts]
        return float((weights * counted).sum() / weights.sum())


@dataclass(frozen=True, repr=False)
class RankSum(ShortRepr):
    """What each query's documents are worth at each rank, and what their sum is divided by.

    `kind` is the sum: worth times the discount of the rank; the relevant documents found; the
    precisions at them; one over the rank of the first. `worth` has one entry a document (1 or 0
    where only relevance counts), `whole` one a query: the divisor, 0 where the metric is
    undefined. `discounts` are those of ranks 1 to the longest query's last.
    """

    kind: Kind
    worth: Vector
    whole: Vector
    discounts: Vector
    cutoff: int | None

    @classmethod
    def of_relevant(
        cls,
        kind: Kind,
        queries: RankedQueries,
        relevant_above: float,
        whole: Vector,
        cutoff: int | None,
    ) -> RankSum:
        """A sum in which only relevance counts, and ranks count as one over themselves."""
        worth = (queries.labels > relevant_above).astype(np.float64)
        longest = int(queries.lengths.max(initial=0))
        return cls(kind, worth, whole, np.divide(1.0, np.arange(1.0, longest + 1.0)), cutoff)


def parse_metric(metric: str | Metric | type[Metric], registry: Registry | None = None) -> Metric:
    """Read a metric from its name, cutoff and options; a `Metric` is what it is, or its class.

    Names are those of the registry's metrics, or without one of what is installed, and only the
    metric that is asked for is imported.

    >>> parse_metric("ndcg@10,ties=file-order").ties
    'file-order'
    >>> str(parse_metric("ndcg-letor@3, empty=skip"))
    'ndcg-letor@3,empty=skip'

    Raises UsageError naming the part that is not known, and what is.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, type) and issubclass(metric, Metric):
        return metric()
    if not isinstance(metric, str):
        raise UsageError(f"{metric!r} is not a metric: give a name, as 'ndcg@10', or a Metric")
    head, *options = [part.strip() for part in metric.strip().lower().split(",")]
    name, at, cutoff = head.partition("@")
    if at and not (cutoff.isascii() and cutoff.isdigit()):
        raise UsageError(f"'{head}' is not a metric: write a whole number after @, as in {name}@10")
    cls, preset = _find(name, installed() if registry is None else registry)
    plain = cls(cutoff=int(cutoff) if at else None, **preset)
    values = dict(_read_option(plain, option) for option in options)
    if len(values) < len(options):
        raise UsageError(f"'{metric}' names an option twice: give each one value")
    try:
        return replace(plain, **values)
    except ValueError as error:
        raise UsageError(f"'{name}' refuses its options: {error}") from error


GivenMetric = str | Metric | type[Metric]
"""What `parse_metric` reads."""
GivenMetrics = GivenMetric | Sequence[GivenMetric] | Set[GivenMetric]


def listed_metrics(metrics: GivenMetrics) -> list[GivenMetric]:
    """The metrics of one or several: texts may name some between commas, metrics stay.

    An option (`NAME=VALUE`) belongs to the metric before it.

    >>> listed_metrics(["ndcg@10,gain=linear,map", "mrr"])
    ['ndcg@10,gain=linear', 'map', 'mrr']
    """
    several = metrics if isinstance(metrics, Sequence | Set) else [metrics]
    listed: list[GivenMetric] = []
    for metric in [metrics] if isinstance(metrics, str) else several:
        if not isinstance(metric, str):
            listed.append(metric)
            continue
        for number, piece in enumerate(metric.split(",")):
            if number and "=" in piece:
                listed[-1] = f"{listed[-1]},{piece}"
            else:
                listed.append(piece)
    return listed


def parse_metrics(metrics: GivenMetrics, registry: Registry | None = None) -> tuple[Metric, ...]:
    """The metrics that `listed_metrics` gives, each once."""
    return tuple(dict.fromkeys(parse_metric(text, registry) for text in listed_metrics(metrics)))


def first_metric(metrics: GivenMetrics, registry: Registry | None = None) -> Metric:
    """The first of the metrics, which chooses. Raises UsageError where there is none."""
    listed = listed_metrics(metrics)
    if not listed:
        raise UsageError("`metric` names no metric: leave it out, or name one")
    return parse_metric(listed[0], registry)


def uneven(weights: Vector | None) -> Vector | None:
    """The weights; None where they are all alike, so that none weighs more."""
    return None if weights is None or (weights == weights[:1]).all() else weights


@cache
def option_fields(cls: type[Metric]) -> tuple[str, ...]:
    """The fields that are options, a metric's own first."""
    shared = [option.name for option in fields(Metric)]
    options = [option.name for option in fields(cls) if option.init and option.name not in shared]
    return (*options, *(name for name in shared if name != "cutoff"))


@cache
def field_types(cls: type[Metric]) -> dict[str, Any]:
    """The type of each field."""
    return get_type_hints(cls)


def setting_name(name: str) -> str:
    """A field's name as an option."""
    return name.replace("_", "-")


def _variant(metric: Metric) -> tuple[str, Mapping[str, Any]]:
    """The suffix under which a metric has a spelling of its own, and what the suffix sets."""
    for suffix, preset in metric.variants.items():
        if all(getattr(metric, name) == value for name, value in preset.items()):
            return suffix, preset
    return "", {}


def _check_cutoff(metric: Metric) -> None:
    name, cutoff, use = metric.name, metric.cutoff, metric.cutoff_use
    if cutoff is None and use == "needed":
        raise UsageError(f"'{name}' needs a cutoff: write {name}@10, for instance")
    if cutoff is not None and (use == "none" or cutoff < 1):
        reason = "takes no cutoff" if use == "none" else "needs a cutoff from 1 up"
        raise UsageError(f"'{name}@{cutoff}' is not a metric: '{name}' {reason}")


def _check_choices(metric: Metric) -> None:
    for name in option_fields(type(metric)):
        value, hint = getattr(metric, name), field_types(type(metric))[name]
        if get_origin(hint) is Literal and value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            given = printable(str(value))
            raise UsageError(
                f"'{metric.name}' cannot take {setting_name(name)}={given}; known: {choices}"
            )


def _check_finite(metric: Metric) -> None:
    for name in option_fields(type(metric)):
        value = getattr(metric, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"'{metric.name}' cannot take {setting_name(name)}={value}: it must be a finite "
                "number"
            )


def _find(name: str, registry: Registry) -> tuple[type[Metric], Mapping[str, Any]]:
    """The class of this name, and what the name sets where it is a variant's."""
    offers = list(_offers(name, registry))
    if not offers:
        names = [spelling for plugin in registry.all("metric") for spelling in plugin.spellings]
        failed = "".join(f"; {failure}" for failure in registry.failures)
        raise UsageError(
            f"there is no metric '{name}'{_meant(name, names)}; known: {', '.join(names)} "
            f"(with a cutoff: ndcg@10){failed}"
        )
    if len(offers) > 1:
        sources = " and ".join(f"'{plugin.name}' of {plugin.source}" for plugin, _ in offers)
        raise PluginError(
            f"two plugins offer the metric '{name}': {sources}; rename or uninstall one"
        )
    ((plugin, preset),) = offers
    if not issubclass(plugin.cls, Metric):
        raise PluginError(
            f"metric '{name}' of {plugin.source} cannot be used: {plugin.cls.__name__} must extend "
            "owpc_ltr.metrics.Metric"
        )
    return plugin.cls, preset


_OTHER_NAMES = {
    **{"p": "precision", "ap": "map", "rr": "mrr", "r": "recall"},
    **{"ndcg_cut": "ndcg", "map_cut": "map", "recip_rank": "mrr"},
}
"""What trec_eval and ir_measures call a metric, in lower case."""


def _meant(name: str, known: Sequence[str]) -> str:
    """What is probably meant: `ndcg10` and `ndcg_cut_10` are ndcg@10, `P` is precision."""
    plain = name.rstrip("0123456789")
    cutoff = "@" * (plain != name) + name[len(plain) :]
    ours = _OTHER_NAMES.get(plain.rstrip("_."), plain)
    if ours + cutoff != name and ours in known:
        return f": did you mean '{ours}{cutoff}'?"
    question = did_you_mean(name, known)
    return f": {question}" if question else ""


def _offers(name: str, registry: Registry) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """Every metric that the name could stand for: `a-b-c`, variant c of `a-b`, b-c of `a`."""
    exact = registry.look_up("metric", name)
    if exact is not None:
        yield exact, {}
    # No shipped metric has the name of another's variant: only a third-party one can be in doubt.
    importing = exact is None or not exact.shipped
    for place in (place for place, letter in enumerate(name) if letter == "-"):
        plugin = registry.look_up("metric", name[:place], importing)
        variants = {} if plugin is None else getattr(plugin.cls, "variants", {})
        if plugin is not None and name[place + 1 :] in variants:
            yield plugin, variants[name[place + 1 :]]


def _read_option(metric: Metric, text: str) -> tuple[str, Any]:
    option, equals, value = (part.strip() for part in text.partition("="))
    options = metric.options
    if not equals or option not in options:
        raise UsageError(
            f"'{metric}' has no option '{text}'; write OPTION=VALUE with one of: "
            + ", ".join(options)
        )
    name = option.replace("-", "_")
    hint = field_types(type(metric))[name]
    # What `Metric` refuses itself is passed on to be refused.
    if get_origin(hint) is Literal:
        return name, next((choice for choice in get_args(hint) if str(choice) == value), value)
    if hint is float:
        try:
            return name, float(value)
        except ValueError:
            return name, math.nan
    return name, convert(metric.name, option, value, hint)
