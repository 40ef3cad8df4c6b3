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
from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.host.registry import Plugin, Registry
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.metrics.conventions import Empty, empty_words
from owpc_ltr.metrics.line_search import SteppedMetric, is_compiled
from owpc_ltr.metrics.metric import field_types, option_fields, spelled
from owpc_ltr.metrics.ranking import Ties, ties_words
from owpc_ltr.plugin_checks.samples import require

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
    check_words(metric)
    # Short lists would hide what the others show; what they count is seen apart.
    plain = replace(metric, short="normal")
    _check_degenerate(metric, top_grade)
    for tied in (False, True):
        lists = ragged_lists(tied, top_grade, seed)
        _check_answer(plain, lists)
        _check_order_alone(plain, lists, seed)
        _check_queries_apart(plain, lists, seed)
        _check_compiled(metric, lists)
    _check_cutoff(plain, ragged_lists(False, top_grade, seed), seed)
    # All orders are taken of lists so short that a deep cutoff would tell nothing of them.
    shallow = replace(plain, cutoff=plain.cutoff and min(plain.cutoff, _DEPTH))
    check_best_and_worst(shallow, top_grade, seed)
    check_ties(shallow, top_grade, seed)


def _check_answer(metric: Metric, lists: Lists) -> None:
    given: dict[str, NDArray[Any]] = {
        name: getattr(lists, name).copy() for name in ("scores", "labels", "offsets")
    }
    values = metric.per_query(**given)
    require(
        np.shape(values) == (len(lists.offsets) - 1,) and values.dtype == np.float64,
        f"metric '{metric.name}' gave {values.dtype} values of shape {np.shape(values)} for "
        f"{len(lists.offsets) - 1} queries",
    )
    for name, after in given.items():
        require(
            np.array_equal(getattr(lists, name), after),
            f"metric '{metric.name}' changed the {name} it read",
        )
    require(
        np.array_equal(values, lists.values(metric), equal_nan=True),
        f"metric '{metric.name}' gave two answers for the same queries",
    )
    defined = lists.values(replace(metric, empty="skip"))
    low, high = metric.value_range
    counted = defined[~np.isnan(defined)]
    require(np.isfinite(counted).all(), f"metric '{metric.name}' is infinite for a query")
    require(
        (counted >= low - _SLACK).all() and (counted <= high + _SLACK).all(),
        f"metric '{metric.name}' declares that it lies between {low:g} and {high:g}, and goes "
        f"from {counted.min(initial=high):g} to {counted.max(initial=low):g}",
    )


def _check_order_alone(metric: Metric, lists: Lists, seed: int) -> None:
    values = lists.values(metric)
    for transformed in (3 * lists.scores - 100, np.exp(lists.scores)):
        require(
            same_values(values, lists.scored(transformed).values(metric)),
            f"metric '{metric.name}' depends on more of the scores than their order",
        )
    if metric.ties == "file-order" and len(np.unique(lists.scores)) < len(lists.scores):
        return
    query = np.repeat(np.arange(len(values)), np.diff(lists.offsets))
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(query)), query))
    moved = Lists(lists.scores[shuffled], lists.labels[shuffled], lists.offsets)
    require(
        same_values(values, moved.values(metric)),
        f"metric '{metric.name}' depends on the order of the documents in the file, where "
        f"ties={metric.ties}",
    )


def _check_queries_apart(metric: Metric, lists: Lists, seed: int) -> None:
    values = lists.values(metric)
    order = np.random.default_rng(seed).permutation(len(values))
    rows = np.concatenate([np.arange(*lists.offsets[[query, query + 1]]) for query in order])
    offsets = np.concatenate([[0], np.cumsum(np.diff(lists.offsets)[order])])
    moved = Lists(lists.scores[rows], lists.labels[rows], offsets).values(metric)
    require(
        same_values(values[order], moved),
        f"metric '{metric.name}' depends on the order of the queries",
    )
    for query in order[:10]:
        alone = lists.query(query).values(metric)
        require(
            same_values(alone, values[[query]]),
            f"metric '{metric.name}' gives a query {alone[0]} alone and {values[query]} among "
            "others",
        )


def _check_cutoff(metric: Metric, lists: Lists, seed: int) -> None:
    if metric.cutoff_use == "none":
        return
    rng = np.random.default_rng(seed)
    for cutoff in (1, 4):
        deep = replace(metric, cutoff=cutoff)
        one, other = [], []
        for query in range(len(lists.offsets) - 1):
            labels = ranked_labels(lists.query(query))
            one.append(labels)
            other.append(np.append(labels[:cutoff], rng.permutation(labels[cutoff:])))
        require(
            same_values(lists_of(one).values(deep), lists_of(other).values(deep)),
            f"metric '{deep}' depends on the order of the documents below rank {cutoff}",
        )
    if metric.cutoff_use == "optional":
        whole, beyond = (replace(metric, cutoff=cutoff) for cutoff in (None, 1000))
        require(
            same_values(lists.values(whole), lists.values(beyond)),
            f"metric '{beyond}' is not '{whole}' on lists that are shorter",
        )


def _check_degenerate(metric: Metric, top_grade: int) -> None:
    lists = lists_of([[], [0], [top_grade], [0] * 5, [top_grade] * 5, [0, 0, 0, 0, top_grade]])
    plain = replace(metric, empty="skip", short="normal")
    _check_answer(plain, lists)
    values = lists.values(plain)
    require(
        np.isnan(values[0]),
        f"metric '{metric.name}' is {values[0]} for a query without documents: it must be "
        "undefined (NaN), so that empty= says what it counts",
    )
    counts: dict[Empty, float] = {"zero": 0.0, "one": 1.0}
    for empty, count in counts.items():
        found = lists.values(replace(metric, empty=empty, short="normal"))
        require(
            same_values(found, np.where(np.isnan(values), count, values)),
            f"metric '{metric.name}' does not count {count:g} what is undefined, where "
            f"empty={empty}",
        )
    if metric.cutoff is not None:
        found = lists.values(replace(metric, empty="skip", short="zero"))
        short = (np.diff(lists.offsets) < metric.cutoff) & ~np.isnan(values)
        require(
            same_values(found, np.where(short, 0.0, values)),
            f"metric '{metric}' does not count 0 what is shorter than the cutoff, where short=zero",
        )


def _check_compiled(metric: Metric, lists: Lists) -> None:
    if not is_compiled(metric):
        return
    queries = np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))
    data = make_dataset(np.zeros((len(queries), 1)), lists.labels, queries)
    direction = np.roll(lists.scores, 7)
    for ties in get_args(Ties):
        one = replace(metric, ties=ties)
        at_rest = one.per_query(np.zeros(len(queries)), lists.labels, lists.offsets)
        along = SteppedMetric(one, data, at_rest).along(lists.scores, direction, _STEPS)
        for step, found in zip(_STEPS, along, strict=True):
            wanted = lists.scored(lists.scores + step * direction).values(one)
            require(
                same_values(found, wanted),
                f"metric '{one}' claims to be a sum over ranks, whose value differs from its own "
                f"by up to {np.nanmax(np.abs(found - wanted)):.3g}",
            )


Rows = NDArray[np.float32]
"""Labels of one query, an order a row."""

_SLACK = 1e-9


def check_ties(metric: Metric, top_grade: int, seed: int) -> None:
    """Check that tied scores count what all orders of the documents give, one by one."""
    metric = replace(metric, empty="skip")
    for lists in small_lists(top_grade, seed):
        orders = lists_of(all_orders(lists)).values(metric)
        worst, best = orders.min(), orders.max()
        if not metric.higher_is_better:
            worst, best = best, worst
        wanted: dict[Ties, float] = {"expected": orders.mean(), "file-order": orders[0]}
        if metric.swaps_help:
            # Else which order of tied documents is best need not be that of their labels.
            wanted |= {"pessimistic": worst, "optimistic": best}
        for ties, value in wanted.items():
            found = lists.values(replace(metric, ties=ties))
            require(
                same_values(found, np.array([value])),
                f"metric '{metric.name}' gives {found[0]} where ties={ties}, and the "
                f"{len(orders)} orders of the documents give {value}, scores {{}}, labels {{}}",
                lists.scores,
                lists.labels,
            )


def check_best_and_worst(metric: Metric, top_grade: int, seed: int) -> None:
    """Check that the order by labels is best, its reverse worst, and that swaps help if claimed."""
    metric = replace(metric, empty="skip")
    sign, told = (1.0 if metric.higher_is_better else -1.0), False
    for lists in small_lists(top_grade, seed):
        rows = all_orders(lists.scored(np.zeros(len(lists.labels))))
        goodness = sign * lists_of(rows).values(metric)
        if np.isnan(goodness).all():
            continue
        _check_ends(metric, rows, goodness)
        if metric.swaps_help:
            _check_swaps(metric, rows, goodness)
        told = told or bool(np.ptp(goodness) > _SLACK)
    require(told, f"metric '{metric.name}' gives the best and the worst order the same value")


def _check_ends(metric: Metric, rows: Rows, goodness: Vector) -> None:
    sign = 1.0 if metric.higher_is_better else -1.0
    by_label = np.sort(rows[0])
    best, worst = sign * lists_of([by_label[::-1], by_label]).values(metric)
    for end, which, beyond in (
        (best, "best", goodness > best + _SLACK),
        (worst, "worst", goodness < worst - _SLACK),
    ):
        require(
            not beyond.any(),
            f"metric '{metric.name}' gives {sign * end} to what must be the {which} order, and "
            f"{sign * goodness[beyond.argmax()]} to {{}}",
            rows[beyond.argmax()],
        )


def _check_swaps(metric: Metric, rows: Rows, goodness: Vector) -> None:
    sign = 1.0 if metric.higher_is_better else -1.0
    for i, j in itertools.combinations(range(rows.shape[1]), 2):
        swapped = rows.copy()
        swapped[:, [i, j]] = rows[:, [j, i]]
        gain = sign * lists_of(swapped).values(metric) - goodness
        harmed = (rows[:, i] < rows[:, j]) & (gain < -_SLACK)
        which = harmed.argmax()
        require(
            not harmed.any(),
            f"metric '{metric.name}' claims that swaps help, but moving label {rows[which, j]:g} "
            f"from rank {j + 1} to {i + 1} of {{}} costs {-gain[which]:.3g}",
            rows[which],
        )


_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_words(metric: Metric) -> None:
    """Check what a metric declares, that its text is read as itself, and what its line says."""
    _check_declarations(metric)
    _check_cutoff_use(metric)
    _check_text(metric)
    _check_convention(metric)


def alternatives(metric: Metric, name: str) -> Iterator[Metric]:
    """The metric with other values of one option, as far as it takes them."""
    value, hint = getattr(metric, name), field_types(type(metric))[name]
    others: tuple[Any, ...] = ()
    if get_origin(hint) is Literal:
        others = get_args(hint)
    elif isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int | float):
        others = (value + 1, type(value)(value / 2))
    for other in others:
        if other != value:
            try:
                yield replace(metric, **{name: other})
            except (UsageError, ValueError):
                continue


def _check_declarations(metric: Metric) -> None:
    cls = type(metric)
    require(
        _WORD.fullmatch(metric.name),
        f"metric '{metric.name}' needs a name of lower-case words with hyphens between them",
    )
    names, hints = {field.name for field in fields(cls)}, field_types(cls)
    for name in inspect.get_annotations(cls):
        constant = hints[name] is ClassVar or get_origin(hints[name]) is ClassVar
        require(
            constant or name in names,
            f"metric '{metric.name}' has the option {spelled(name)} only on paper: its class needs "
            "@dataclass(frozen=True)",
        )
    for field in fields(cls):
        require(
            field.default is not MISSING,
            f"metric '{metric.name}' needs a default of its option {spelled(field.name)}",
        )
    low, high = metric.value_range
    require(low < high, f"metric '{metric.name}' declares that it lies between {low} and {high}")


def _check_text(metric: Metric) -> None:
    plugin = Plugin("metric", metric.name, type(metric), "what is checked")
    registry = Registry([plugin])
    texts = [f"{metric.name}-{suffix}" for suffix in metric.variants]
    at = "@3" if metric.cutoff_use == "needed" else ""
    for text in texts:
        require(_WORD.fullmatch(text), f"metric '{metric.name}' has the variant '{text}'")
        variant = parse_metric(text + at, registry)
        require(
            str(variant) == text + at,
            f"metric '{metric.name}' calls itself '{variant}' where it was read from '{text + at}'",
        )
    own = [other for name in option_fields(type(metric)) for other in alternatives(metric, name)]
    for one in (metric, type(metric)(), *own):
        again = parse_metric(str(one), registry)
        require(
            again == one,
            f"metric '{metric.name}' calls itself '{one}', which is read as another: {again!r} "
            f"in place of {one!r}",
        )


def _check_cutoff_use(metric: Metric) -> None:
    for cutoff, wrong in ((3, "none"), (None, "needed")):
        try:
            replace(metric, cutoff=cutoff, short="normal")
        except UsageError:
            taken = False
        else:
            taken = True
        require(
            taken != (metric.cutoff_use == wrong),
            f"metric '{metric.name}' declares its cutoff {metric.cutoff_use}, and "
            f"{'takes' if taken else 'refuses'} {cutoff}",
        )


def _check_convention(metric: Metric) -> None:
    line = metric.convention
    require(
        "\n" not in line and line.startswith(f"{metric}: ") and line == line.rstrip(),
        f"metric '{metric.name}' must say its convention in one line after its text and a colon, "
        "not {!r}",
        line,
    )
    for words in (ties_words(metric.ties), empty_words(metric.empty, metric.defined_on)):
        require(
            words in line, f"metric '{metric.name}' does not say in its convention that {words}"
        )
    for name in option_fields(type(metric)):
        for other in alternatives(metric, name):
            require(
                _after_colon(other) != _after_colon(metric),
                f"metric '{metric.name}' does not name {spelled(name)} in its convention: it says "
                f"the same of {spelled(name)}={getattr(other, name)} and {getattr(metric, name)}",
            )
    if metric.cutoff_use != "none":
        deep, deeper = (replace(metric, cutoff=cutoff) for cutoff in (3, 4))
        require(
            _after_colon(deep) != _after_colon(deeper),
            f"metric '{metric.name}' does not name its cutoff in its convention",
        )


def _after_colon(metric: Metric) -> str:
    return metric.convention.removeprefix(f"{metric}: ")


Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """Queries with scored and judged documents, as metrics read them."""

    scores: Vector
    labels: Labels
    offsets: Positions

    def values(self, metric: Metric) -> Vector:
        """What a metric says of each query."""
        return metric.per_query(self.scores, self.labels, self.offsets)

    def query(self, index: int) -> Lists:
        """One of the queries alone."""
        rows = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        labels = self.labels[rows]
        return Lists(self.scores[rows], labels, np.array([0, len(labels)]))

    def scored(self, scores: Any) -> Lists:
        """The same documents with other scores."""
        return replace(self, scores=scores)


def lists_of(rows: Any) -> Lists:
    """Queries given as labels, best first."""
    labels = [np.asarray(row, dtype=np.float32) for row in rows]
    scores = [-np.arange(float(len(row))) for row in labels]
    offsets = np.cumsum([0, *map(len, labels)])
    return Lists(np.concatenate(scores), np.concatenate(labels), offsets)


def ragged_lists(tied: bool, top_grade: int, seed: int) -> Lists:
    """60 queries of 1 to 25 documents, of which one has no relevant document, and one no other."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 26, 60))])
    labels = rng.integers(0, top_grade + 1, offsets[-1]) * (rng.random(offsets[-1]) < 0.5)
    labels[: offsets[1]], labels[offsets[1] : offsets[2]] = 0, top_grade
    scores = rng.integers(-3, 4, offsets[-1]) / 2 if tied else rng.normal(size=offsets[-1])
    return Lists(scores, labels.astype(np.float32), offsets)


def small_lists(top_grade: int, seed: int) -> Iterator[Lists]:
    """Single queries of 1 to 5 documents, most with tied scores, of each mixture of labels."""
    rng = np.random.default_rng(seed)
    top = top_grade
    given = [[0], [top], [0, 0, 0], [top, top, top], [0, 0, top, 0], [1, 0, 1, 0, 0]]
    drawn = [rng.integers(0, top + 1, size).tolist() for size in (2, 3, 4, 4, 5, 5)]
    for labels in (*given, *drawn):
        for levels in (1, 2, 3):
            yield lists_of([labels]).scored(rng.integers(0, levels, len(labels)).astype(float))


def all_orders(lists: Lists) -> NDArray[np.float32]:
    """The labels of a query in every order that its scores leave open, that of the file first."""
    orders = np.array(list(itertools.permutations(range(len(lists.labels)))))
    ranked = lists.scores[orders]
    possible: NDArray[np.float32] = lists.labels[orders[(np.diff(ranked) <= 0).all(axis=1)]]
    return possible


def ranked_labels(lists: Lists) -> Labels:
    """The labels of a query by decreasing scores."""
    ranked: Labels = lists.labels[np.argsort(-lists.scores, kind="stable")]
    return ranked


def same_values(one: Vector, other: Vector) -> bool:
    """Whether values agree to what rounding leaves, and are undefined for the same queries."""
    return np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
