"""The contract of a metric."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.host.registry import Plugin, Registry
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.metrics.metric import (
    Ties,
    empty_words,
    field_types,
    option_fields,
    setting_name,
    ties_words,
)
from owpc_ltr.metrics.training_metrics import SteppedMetric, is_compiled
from owpc_ltr.plugin_checks.promises import Require

_SLACK = 1e-9
_DEPTH = 3
_STEPS = np.array([0.0, 0.25, -0.5, 2.0])


def check_metric(metric: Metric, seed: int = 0, top_grade: int = 2) -> None:
    """Check everything that a metric promises, and what it claims of itself.

    Always: one finite value a query between its bounds, or NaN for `empty=skip`; no argument
    changed, the same answer twice; only the order that scores make counts, neither that of the
    file (except for ties in file order) nor that of the queries, nor the other queries, nor what
    is below the cutoff; tied scores count what all orders of the documents give, one by one; the
    order by labels is best, its reverse the worst; `empty` and `short` are kept; its text is read
    as itself, and its convention is a line that names every option. Where claimed: `swaps_help`,
    and a `rank_sum` that has the values of the metric. Labels go from 0 to `top_grade`. Raises
    AssertionError.
    """
    require = Require("metric", metric)
    rng = np.random.default_rng(seed)
    _check_declarations(require, metric)
    _check_text(require, metric)
    _check_convention(require, metric)
    _check_undefined(require, metric, top_grade)
    # Short lists would hide what the others show; what they count is seen apart.
    plain = replace(metric, short="normal")
    for tied in (True, False):
        lists = _sample_lists(tied, top_grade, rng)
        _check_values(require, plain, lists)
        sums = _rank_sums(metric, lists) if is_compiled(metric) else ()
        for actual, expected, broken in (*_identities(plain, lists, rng), *sums):
            require.equal(actual, expected, broken)
    # All orders are taken of lists so short that a deep cutoff would tell nothing of them.
    shallow = replace(plain, cutoff=plain.cutoff and min(plain.cutoff, _DEPTH), empty="skip")
    _check_orders(require, shallow, top_grade, rng)


Lists = Sequence[tuple[Vector, Labels]]
"""Queries: the scores and the labels of the documents of each."""


def _sample_lists(tied: bool, top_grade: int, rng: np.random.Generator) -> Lists:
    """60 queries of 1 to 25 documents, of which one has no relevant document, and one no other."""
    lists = []
    for query in range(60):
        size = rng.integers(1, 26)
        labels = rng.integers(0, top_grade + 1, size) * (rng.random(size) < 0.5)
        labels = np.full(size, [0, top_grade][query]) if query < 2 else labels
        scores = rng.integers(-3, 4, size) / 2 if tied else rng.normal(size=size)
        lists.append((scores, labels.astype(np.float32)))
    return lists


def _in_order(rows: Iterable[Sequence[float] | NDArray[Any]]) -> Lists:
    """Queries given as labels, best first."""
    return [(-np.arange(float(len(row))), np.asarray(row, np.float32)) for row in rows]


def _arrays(lists: Lists) -> dict[str, NDArray[Any]]:
    """The lists as metrics read them."""
    scores, labels = (np.concatenate(column) for column in zip(*lists, strict=True))
    offsets = np.cumsum([0, *(len(labels) for _, labels in lists)])
    return {"scores": scores, "labels": labels, "offsets": offsets}


def _values(metric: Metric, lists: Lists) -> Vector:
    return metric.per_query(**_arrays(lists))


def _check_values(require: Require, metric: Metric, lists: Lists) -> None:
    values = require.answer(metric.per_query, _arrays(lists), (len(lists),), twice=True)
    require(values.dtype == np.float64, f"gave {values.dtype} values, not float64")
    defined = _values(replace(metric, empty="skip"), lists)
    counted = defined[~np.isnan(defined)]
    require.finite(counted, "values")
    low, high = metric.value_range
    require(
        ((counted >= low - _SLACK) & (counted <= high + _SLACK)).all(),
        f"declares that it lies between {low:g} and {high:g}, and goes from "
        f"{counted.min(initial=high):g} to {counted.max(initial=low):g}",
    )


Identity = tuple[Vector, Any, str]
"""Values that must be equal, and what a metric does where they are not."""


def _identities(metric: Metric, lists: Lists, rng: np.random.Generator) -> Iterator[Identity]:
    values = _values(metric, lists)
    for scaled in ([(3 * s - 100, y) for s, y in lists], [(np.exp(s), y) for s, y in lists]):
        yield _values(metric, scaled), values, "depends on more of the scores than their order"
    distinct = all(len(np.unique(s)) == len(s) for s, _ in lists)
    if metric.ties != "file-order" or distinct:
        orders = [rng.permutation(len(s)) for s, _ in lists]
        moved = [(s[order], y[order]) for (s, y), order in zip(lists, orders, strict=True)]
        what = f"the documents in the file, where ties={metric.ties}"
        yield _values(metric, moved), values, f"depends on the order of {what}"
    order = rng.permutation(len(lists))
    what = "depends on the order of the queries"
    yield _values(metric, [lists[query] for query in order]), values[order], what
    for query in order[:10]:
        alone = _values(metric, [lists[query]])
        yield alone, values[[query]], "differs for a query alone and among others"
    if metric.cutoff_use != "none" and distinct:
        ranked = [y[np.argsort(-s)] for s, y in lists]
        for cutoff in (1, 4):
            deep = replace(metric, cutoff=cutoff)
            mixed = [np.append(row[:cutoff], rng.permutation(row[cutoff:])) for row in ranked]
            what = f"depends on the order of the documents below rank {cutoff}"
            yield _values(deep, _in_order(mixed)), _values(deep, _in_order(ranked)), what
    if metric.cutoff_use == "optional":
        whole, beyond = (replace(metric, cutoff=cutoff) for cutoff in (None, 1000))
        what = f"'{beyond}' is not '{whole}' on lists that are shorter"
        yield _values(beyond, lists), _values(whole, lists), what


def _rank_sums(metric: Metric, lists: Lists) -> Iterator[Identity]:
    scores, labels, offsets = _arrays(lists).values()
    n, query = len(labels), np.repeat(np.arange(len(lists)), np.diff(offsets))
    data, direction = make_dataset(np.zeros((n, 1)), labels, query), np.roll(scores, 7)
    for ties in get_args(Ties):
        with_ties = replace(metric, ties=ties)
        at_rest = with_ties.per_query(np.zeros(n), labels, offsets)
        along = SteppedMetric(with_ties, data, at_rest).along(scores, direction, _STEPS)
        for step, values in zip(_STEPS, along, strict=True):
            expected = with_ties.per_query(scores + step * direction, labels, offsets)
            yield values, expected, "claims to be a sum over ranks, which has other values"


def _check_undefined(require: Require, metric: Metric, top: int) -> None:
    """What `empty` and `short` say is counted."""
    lists = _in_order([[], [0], [top], [0] * 5, [top] * 5, [0, 0, 0, 0, top]])
    plain = replace(metric, empty="skip", short="normal")
    _check_values(require, plain, lists)
    values = _values(plain, lists)
    require(
        np.isnan(values[0]),
        f"is {values[0]} for a query without documents: it must be undefined (NaN), so that "
        "empty= says what it counts",
    )
    undefined = np.isnan(values)
    short = np.array([len(labels) < (metric.cutoff or 0) for _, labels in lists])
    for count, which, option, choice in (
        (0, undefined, "empty", "zero"),
        (1, undefined, "empty", "one"),
        (0, short & ~undefined, "short", "zero"),
    ):
        if variant := _with(plain, **{option: choice}):
            expected = np.where(which, count, values)
            what = f"does not count {count} by {option}={choice}"
            require.equal(_values(variant, lists), expected, what)


def _check_orders(require: Require, metric: Metric, top: int, rng: np.random.Generator) -> None:
    """On short lists, of which every order is tried: ties, the best, the worst, and swaps."""
    fixed = [[0], [top], [0, 0, 0], [top, top, top], [0, 0, top, 0], [1, 0, 1, 0, 0]]
    drawn = [rng.integers(0, top + 1, size) for size in (2, 3, 4, 4, 5, 5)]
    sign = 1 if metric.higher_is_better else -1
    differs, tied, possible = False, [], []
    for labels in (np.array(row, np.float32) for row in (*fixed, *drawn)):
        orders = np.array(list(itertools.permutations(range(len(labels)))))
        goodness = sign * _values(metric, _in_order(labels[orders]))
        for levels in (1, 2, 3):
            scores = rng.integers(0, levels, len(labels)).astype(float)
            tied.append((scores, labels))
            # The orders that ties leave open, that of the file first.
            possible.append(goodness[(np.diff(scores[orders]) <= 0).all(axis=1)])
        if not np.isnan(goodness).all():
            differs = differs or bool(np.ptp(goodness) > _SLACK)
            _check_best_and_worst(require, labels[orders], goodness)
            if metric.swaps_help:
                _check_swaps(require, labels[orders], orders, goodness)
    require(differs, "gives the best and the worst order the same value")
    for ties, counted in _COUNTED.items():
        values = sign * _values(replace(metric, ties=ties), tied)
        for own, value in zip(possible, values, strict=True):
            what = f"does not count the {len(own)} orders of tied documents by ties={ties}"
            require.equal(sign * value, sign * counted(own), what)


_COUNTED: dict[Ties, Callable[[Vector], float]] = {
    "expected": np.mean,
    "file-order": lambda possible: float(possible[0]),
}
"""What tied documents count, by how good their possible orders are."""


def _check_best_and_worst(require: Require, rows: NDArray[np.float32], goodness: Vector) -> None:
    """Rows are the labels of one query in every order, and how good each is."""
    by_label = np.lexsort(rows.T[::-1])
    # Labels in ascending order are the first row in the order of all, in descending the last.
    for end, which, extreme in (
        (by_label[-1], "best", goodness.argmax()),
        (by_label[0], "worst", goodness.argmin()),
    ):
        require.equal(
            goodness[end],
            goodness[extreme],
            f"has a value of what must be the {which} order, beyond which is that of "
            f"{rows[extreme]}",
        )


def _check_swaps(
    require: Require, rows: NDArray[np.float32], orders: NDArray[np.int64], goodness: Vector
) -> None:
    """Orders are all of them, in lexicographic order, so that each is found by its digits."""
    digits = orders.shape[1] ** np.arange(orders.shape[1])[::-1]
    for i, j in itertools.combinations(range(orders.shape[1]), 2):
        swapped = orders.copy()
        swapped[:, [i, j]] = orders[:, [j, i]]
        gain = goodness[np.searchsorted(orders @ digits, swapped @ digits)] - goodness
        harmed = (rows[:, i] < rows[:, j]) & (gain < -_SLACK)
        row = harmed.argmax()
        require(
            not harmed.any(),
            f"claims that swaps help, but moving label {rows[row, j]:g} from rank {j + 1} to "
            f"{i + 1} of {rows[row]} costs {-gain[row]:.3g}",
        )


def _check_declarations(require: Require, metric: Metric) -> None:
    cls = type(metric)
    hints, options = field_types(cls), {field.name for field in fields(cls)}
    for name in inspect.get_annotations(cls):
        require(
            ClassVar in (hints[name], get_origin(hints[name])) or name in options,
            f"has the option {setting_name(name)} only on paper: its class needs "
            "@dataclass(frozen=True)",
        )
    low, high = metric.value_range
    require(low < high, f"declares that it lies between {low} and {high}")
    for cutoff, wrong in ((3, "none"), (None, "needed")):
        taken = _with(metric, cutoff=cutoff, short="normal") is not None
        require(
            taken != (metric.cutoff_use == wrong),
            f"declares its cutoff {metric.cutoff_use}, and {'takes' if taken else 'refuses'} "
            f"{cutoff}",
        )


def _check_text(require: Require, metric: Metric) -> None:
    cls = type(metric)
    registry = Registry([Plugin("metric", metric.name, cls, "what is checked")])

    def read(text: str) -> Metric:
        try:
            return parse_metric(text, registry)
        except UsageError as error:
            raise AssertionError(f"{require.who} cannot be read from its text: {error}") from error

    cutoff = "@3" if metric.cutoff_use == "needed" else ""
    for text in (f"{metric.name}-{suffix}{cutoff}" for suffix in metric.variants):
        text_again = str(read(text))
        require(text_again == text, f"calls itself '{text_again}' where it was read from '{text}'")
    for variant in (metric, cls(), *_alternatives(metric)):
        again = read(str(variant))
        require(
            again == variant,
            f"calls itself '{variant}', which is read as another: {again!r} in place of "
            f"{variant!r}",
        )


def _check_convention(require: Require, metric: Metric) -> None:
    line = metric.convention
    require(
        "\n" not in line and line.startswith(f"{metric}: ") and line == line.rstrip(),
        f"must say its convention in one line after its text and a colon, not {line!r}",
    )
    for words in (ties_words(metric.ties), empty_words(metric.empty, metric.defined_on)):
        require(words in line, f"does not say in its convention that {words}")
    pairs = [(metric, second) for second in _alternatives(metric)]
    if metric.cutoff_use != "none":
        pairs.append((replace(metric, cutoff=3), replace(metric, cutoff=4)))
    for first, second in pairs:
        convention, same = (m.convention.removeprefix(f"{m}: ") for m in (first, second))
        require(convention != same, f"says the same in the convention of '{first}' and '{second}'")


def _alternatives(metric: Metric) -> Iterator[Metric]:
    """The metric with other values of each option, as far as it takes them."""
    for name in option_fields(type(metric)):
        value, hint = getattr(metric, name), field_types(type(metric))[name]
        others: tuple[Any, ...] = get_args(hint) if get_origin(hint) is Literal else ()
        if isinstance(value, bool):
            others = (not value,)
        elif isinstance(value, int | float):
            others = (value + 1, type(value)(value / 2))
        variants = (
            _with(metric, **{name: alternative}) for alternative in others if alternative != value
        )
        yield from filter(None, variants)


def _with(metric: Metric, **options: Any) -> Metric | None:
    try:
        return replace(metric, **options)
    except (UsageError, ValueError):
        return None
