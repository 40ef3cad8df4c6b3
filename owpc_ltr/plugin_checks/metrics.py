"""The contract of a metric."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.host.registry import Plugin, Registry
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.metrics.metric import field_types, option_fields, spelled
from owpc_ltr.metrics.ranking import Ties, empty_words, ties_words
from owpc_ltr.metrics.training_metrics import SteppedMetric, is_compiled
from owpc_ltr.plugin_checks.samples import Require, answer, requires

_SLACK = 1e-9
_DEPTH = 3
_STEPS = np.array([0.0, 0.25, -0.5, 2.0])
_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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
    require = requires(f"metric '{metric.name}'")
    rng = np.random.default_rng(seed)
    _check_declarations(require, metric)
    _check_text(require, metric)
    _check_convention(require, metric)
    # Short lists would hide what the others show; what they count is seen apart.
    plain = replace(metric, short="normal")
    _check_undefined(require, metric, top_grade)
    for tied in (True, False):
        lists = _ragged_lists(tied, top_grade, rng)
        _check_answer(require, plain, lists)
        for one, other, broken in _identities(plain, lists, rng):
            require(_same(one, other), broken)
        if is_compiled(metric):
            _check_compiled(require, metric, lists)
    # All orders are taken of lists so short that a deep cutoff would tell nothing of them.
    shallow = replace(plain, cutoff=plain.cutoff and min(plain.cutoff, _DEPTH), empty="skip")
    _check_orders(require, shallow, top_grade, rng)


def _check_answer(require: Require, metric: Metric, lists: Lists) -> None:
    values, again = (answer(require, metric.per_query, **vars(lists)) for _ in range(2))
    require(
        np.shape(values) == (lists.n_queries,) and values.dtype == np.float64,
        f"gave {values.dtype} values of shape {np.shape(values)} for {lists.n_queries} queries",
    )
    require(np.array_equal(values, again, equal_nan=True), "gave two answers for the same queries")
    defined = lists.values(replace(metric, empty="skip"))
    counted = defined[~np.isnan(defined)]
    require(np.isfinite(counted).all(), "is infinite for a query")
    low, high = metric.value_range
    require(
        ((counted >= low - _SLACK) & (counted <= high + _SLACK)).all(),
        f"declares that it lies between {low:g} and {high:g}, and goes from "
        f"{counted.min(initial=high):g} to {counted.max(initial=low):g}",
    )


def _identities(
    metric: Metric, lists: Lists, rng: np.random.Generator
) -> Iterator[tuple[Vector, Vector, str]]:
    """Values that must be equal, and what a metric does where they are not."""
    values = lists.values(metric)
    for scores in (3 * lists.scores - 100, np.exp(lists.scores)):
        scaled = replace(lists, scores=scores).values(metric)
        yield values, scaled, "depends on more of the scores than their order"
    distinct = len(np.unique(lists.scores)) == len(lists.scores)
    if metric.ties != "file-order" or distinct:
        rows = np.lexsort((rng.random(len(lists.scores)), lists.query))
        moved = Lists(lists.scores[rows], lists.labels[rows], lists.offsets).values(metric)
        what = f"the documents in the file, where ties={metric.ties}"
        yield values, moved, f"depends on the order of {what}"
    order = rng.permutation(lists.n_queries)
    yield values[order], lists.take(order).values(metric), "depends on the order of the queries"
    for query in order[:10]:
        alone = lists.take([query]).values(metric)
        told = f"gives a query {alone[0]} alone and {values[query]} among others"
        yield values[[query]], alone, told
    if metric.cutoff_use != "none" and distinct:
        ranked = [
            one.labels[np.argsort(-one.scores)]
            for one in (lists.take([query]) for query in range(lists.n_queries))
        ]
        for cutoff in (1, 4):
            deep = replace(metric, cutoff=cutoff)
            other = [np.append(row[:cutoff], rng.permutation(row[cutoff:])) for row in ranked]
            told = f"depends on the order of the documents below rank {cutoff}"
            yield _lists_of(ranked).values(deep), _lists_of(other).values(deep), told
    if metric.cutoff_use == "optional":
        whole, beyond = (replace(metric, cutoff=cutoff) for cutoff in (None, 1000))
        told = f"'{beyond}' is not '{whole}' on lists that are shorter"
        yield lists.values(whole), lists.values(beyond), told


def _check_undefined(require: Require, metric: Metric, top: int) -> None:
    """What `empty` and `short` say is counted."""
    lists = _lists_of([[], [0], [top], [0] * 5, [top] * 5, [0, 0, 0, 0, top]])
    plain = replace(metric, empty="skip", short="normal")
    _check_answer(require, plain, lists)
    values = lists.values(plain)
    require(
        np.isnan(values[0]),
        f"is {values[0]} for a query without documents: it must be undefined (NaN), so that "
        "empty= says what it counts",
    )
    undefined, below = np.isnan(values), lists.lengths < (metric.cutoff or 0)
    for one, count, which, what in (
        (replace(plain, empty="zero"), 0, undefined, "undefined, where empty=zero"),
        (replace(plain, empty="one"), 1, undefined, "undefined, where empty=one"),
        (_with(plain, short="zero"), 0, below & ~undefined, "shorter than the cutoff, where "
         "short=zero"),
    ):  # fmt: skip
        require(
            one is None or _same(lists.values(one), np.where(which, count, values)),
            f"does not count {count} what is {what}",
        )


def _check_compiled(require: Require, metric: Metric, lists: Lists) -> None:
    n = len(lists.labels)
    data = make_dataset(np.zeros((n, 1)), lists.labels, lists.query)
    direction = np.roll(lists.scores, 7)
    for ties in get_args(Ties):
        one = replace(metric, ties=ties)
        at_rest = one.per_query(np.zeros(n), lists.labels, lists.offsets)
        along = SteppedMetric(one, data, at_rest).along(lists.scores, direction, _STEPS)
        for step, found in zip(_STEPS, along, strict=True):
            wanted = replace(lists, scores=lists.scores + step * direction).values(one)
            require(
                _same(found, wanted),
                f"'{one}' claims to be a sum over ranks, whose value differs from its own by up "
                f"to {np.nanmax(np.abs(found - wanted)):.3g}",
            )


def _check_orders(require: Require, metric: Metric, top: int, rng: np.random.Generator) -> None:
    """On short lists, of which every order is tried: ties, the best, the worst, and swaps."""
    given = [[0], [top], [0, 0, 0], [top, top, top], [0, 0, top, 0], [1, 0, 1, 0, 0]]
    drawn = [rng.integers(0, top + 1, size) for size in (2, 3, 4, 4, 5, 5)]
    rows = [np.array(row, np.float32) for row in (*given, *drawn)]
    orders = [np.array(list(itertools.permutations(range(len(row))))) for row in rows]
    values = [_lists_of(row[order]).values(metric) for row, order in zip(rows, orders, strict=True)]
    told = False
    for row, order, value in zip(rows, orders, values, strict=True):
        goodness = value if metric.higher_is_better else -value
        if not np.isnan(goodness).all():
            _check_best_and_worst(require, metric, row[order], goodness)
            told = told or bool(np.ptp(goodness) > _SLACK)
    require(told, "gives the best and the worst order the same value")
    for row, order, value in zip(rows, orders, values, strict=True):
        for levels in (1, 2, 3):
            scores = rng.integers(0, levels, len(row)).astype(float)
            possible = value[(np.diff(scores[order]) <= 0).all(axis=1)]
            _check_ties(require, metric, _lists_of([row], scores), possible)


def _check_ties(require: Require, metric: Metric, lists: Lists, possible: Vector) -> None:
    """Tied scores count what the orders give that they leave open, that of the file first."""
    wanted = {"expected": possible.mean(), "file-order": possible[0]}
    if metric.swaps_help:
        # Else which order of tied documents is best need not be that of their labels.
        ends = possible.min(), possible.max()
        wanted["pessimistic"], wanted["optimistic"] = (
            ends if metric.higher_is_better else ends[::-1]
        )
    for ties, value in wanted.items():
        found = lists.values(replace(metric, ties=ties))  # type: ignore[arg-type]
        require(
            _same(found, np.array([value])),
            f"gives {found[0]} where ties={ties}, and the {len(possible)} orders of the documents "
            f"give {value}, scores {{}}, labels {{}}",
            lists.scores,
            lists.labels,
        )


def _check_best_and_worst(
    require: Require, metric: Metric, rows: NDArray[np.float32], goodness: Vector
) -> None:
    """Rows are the labels of one query in every order, and how good each is."""
    by_label = np.lexsort(rows.T[::-1])
    # Labels in ascending order are the first row in the order of all, in descending the last.
    for end, which, beyond in (
        (by_label[-1], "best", goodness > goodness[by_label[-1]] + _SLACK),
        (by_label[0], "worst", goodness < goodness[by_label[0]] - _SLACK),
    ):
        require(
            not beyond.any(),
            f"gives {abs(goodness[end])} to what must be the {which} order, and "
            f"{abs(goodness[beyond.argmax()])} to {{}}",
            rows[beyond.argmax()],
        )
    if not metric.swaps_help:
        return
    sign = 1.0 if metric.higher_is_better else -1.0
    for i, j in itertools.combinations(range(rows.shape[1]), 2):
        swapped = rows.copy()
        swapped[:, [i, j]] = rows[:, [j, i]]
        gain = sign * _lists_of(swapped).values(metric) - goodness
        harmed = (rows[:, i] < rows[:, j]) & (gain < -_SLACK)
        row = harmed.argmax()
        require(
            not harmed.any(),
            f"claims that swaps help, but moving label {rows[row, j]:g} from rank {j + 1} to "
            f"{i + 1} of {{}} costs {-gain[row]:.3g}",
            rows[row],
        )


def _check_declarations(require: Require, metric: Metric) -> None:
    cls = type(metric)
    require(
        _WORD.fullmatch(metric.name), "needs a name of lower-case words with hyphens between them"
    )
    defaults, hints = {field.name: field.default for field in fields(cls)}, field_types(cls)
    for name in inspect.get_annotations(cls):
        require(
            ClassVar in (hints[name], get_origin(hints[name])) or name in defaults,
            f"has the option {spelled(name)} only on paper: its class needs "
            "@dataclass(frozen=True)",
        )
    for name, default in defaults.items():
        require(default is not MISSING, f"needs a default of its option {spelled(name)}")
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
    registry = Registry([Plugin("metric", metric.name, type(metric), "what is checked")])
    for suffix in metric.variants:
        text = f"{metric.name}-{suffix}"
        require(_WORD.fullmatch(text), f"has the variant '{text}'")
        text += "@3" if metric.cutoff_use == "needed" else ""
        variant = parse_metric(text, registry)
        require(str(variant) == text, f"calls itself '{variant}' where it was read from '{text}'")
    own = [other for name in option_fields(type(metric)) for other in _alternatives(metric, name)]
    for one in (metric, type(metric)(), *own):
        again = parse_metric(str(one), registry)
        require(
            again == one,
            f"calls itself '{one}', which is read as another: {again!r} in place of {one!r}",
        )


def _check_convention(require: Require, metric: Metric) -> None:
    line = metric.convention
    require(
        "\n" not in line and line.startswith(f"{metric}: ") and line == line.rstrip(),
        f"must say its convention in one line after its text and a colon, not {line!r}",
    )
    for words in (ties_words(metric.ties), empty_words(metric.empty, metric.defined_on)):
        require(words in line, f"does not say in its convention that {words}")
    others = [
        (spelled(name), metric, other)
        for name in option_fields(type(metric))
        for other in _alternatives(metric, name)
    ]
    if metric.cutoff_use != "none":
        deep, deeper = (replace(metric, cutoff=cutoff) for cutoff in (3, 4))
        others.append(("its cutoff", deep, deeper))
    for name, one, other in others:
        said, same = (m.convention.removeprefix(f"{m}: ") for m in (one, other))
        require(
            said != same, f"does not name {name} in its convention: it says the same of '{one!r}' "
            f"and '{other!r}'",
        )  # fmt: skip


def _alternatives(metric: Metric, name: str) -> Iterator[Metric]:
    """The metric with other values of one option, as far as it takes them."""
    value, hint = getattr(metric, name), field_types(type(metric))[name]
    others: tuple[Any, ...] = get_args(hint) if get_origin(hint) is Literal else ()
    if isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int | float):
        others = (value + 1, type(value)(value / 2))
    made = (_with(metric, **{name: other}) for other in others if other != value)
    return (other for other in made if other is not None)


def _with(metric: Metric, **options: Any) -> Metric | None:
    try:
        return replace(metric, **options)
    except (UsageError, ValueError):
        return None


@dataclass(frozen=True)
class Lists:
    """Queries with scored and judged documents, as metrics read them."""

    scores: Vector
    labels: Labels
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many documents each query has."""
        return np.diff(self.offsets)

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.offsets) - 1

    @property
    def query(self) -> NDArray[np.int64]:
        """The number of each document's query."""
        return np.repeat(np.arange(self.n_queries), self.lengths)

    def values(self, metric: Metric) -> Vector:
        """What a metric says of each query."""
        return metric.per_query(self.scores, self.labels, self.offsets)

    def take(self, queries: Any) -> Lists:
        """Some of the queries, or all in another order."""
        rows = np.concatenate([np.flatnonzero(self.query == query) for query in queries])
        offsets = np.cumsum([0, *self.lengths[queries]])
        return Lists(self.scores[rows], self.labels[rows], offsets)


def _lists_of(rows: Any, scores: Vector | None = None) -> Lists:
    """Queries given as labels, best first where there are no scores."""
    labels = [np.asarray(row, dtype=np.float32) for row in rows]
    if scores is None:
        scores = np.concatenate([-np.arange(float(len(row))) for row in labels])
    return Lists(scores, np.concatenate(labels), np.cumsum([0, *map(len, labels)]))


def _ragged_lists(tied: bool, top_grade: int, rng: np.random.Generator) -> Lists:
    """60 queries of 1 to 25 documents, of which one has no relevant document, and one no other."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 26, 60))])
    labels = rng.integers(0, top_grade + 1, offsets[-1]) * (rng.random(offsets[-1]) < 0.5)
    labels[: offsets[1]], labels[offsets[1] : offsets[2]] = 0, top_grade
    scores = rng.integers(-3, 4, offsets[-1]) / 2 if tied else rng.normal(size=offsets[-1])
    return Lists(scores, labels.astype(np.float32), offsets)


def _same(one: Vector, other: Vector) -> bool:
    """Whether values agree to what rounding leaves, and are undefined for the same queries."""
    return np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
