"""Changes of units: one column in two populations of queries, the one a · x + b of the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import WARNING, Finding, listed
from owpc_ltr.inspection.sample import Sample, Stretch, ks_distance, rows_in
from owpc_ltr.metrics.ranking import best_first

_SAME = 0.1
_AT = np.linspace(0.1, 0.9, 9)
_ADVICE = (
    "bring both to one unit, and log again what was logged by another version, field or setting"
)


class Change(NamedTuple):
    """How many times as large the values are, what is added, where: in words, and by queries."""

    factor: float
    added: float
    place: str
    queries: tuple[str, ...]


def unit_changes(
    sample: Sample, moved: Mapping[int, Stretch], exchanged: Collection[str] = ()
) -> Iterator[Finding]:
    """A finding for the columns of each place that changed by the same factor there.

    Columns that are told to be exchanged with others are passed over.
    """
    found: dict[tuple[str, int, float], list[tuple[str, Change]]] = {}
    for column, name in enumerate(sample.data.feature_names):
        change = None
        if name in exchanged:
            continue
        if column in moved:
            change = _in_stretch(sample, column, moved[column])
        if change is None:
            change = _between_queries(sample, column)
        if change is not None:
            key = change.place, round(8 * float(np.log(change.factor))), change.added
            found.setdefault(key, []).append((name, change))
    for several in found.values():
        yield _finding([name for name, _ in several], several[0][1])


def factor_between(one: NDArray[np.float32], other: NDArray[np.float32]) -> float | None:
    """By what the values of `one` are those of `other` multiplied; None if they are not.

    Sizes are compared, without zeros. The same factor must fit at all deciles, and what is left
    once it is divided out must be a small part of the distance that there was.
    """
    one, other = _sizes(one), _sizes(other)
    if _too_few(one) or _too_few(other):
        return None
    logs = np.log(np.quantile(one, _AT)), np.log(np.quantile(other, _AT))
    ratios, spreads = logs[0] - logs[1], [float(np.ptp(own)) for own in logs]
    shift = float(np.median(ratios))
    if abs(shift) < np.log(thresholds.FACTOR) or not _alike(shift, ratios, spreads):
        return None
    factor = float(np.exp(shift))
    left = ks_distance((one / factor).astype(np.float32), other)
    return factor if left <= thresholds.SAME_SHAPE * ks_distance(one, other) else None


def line_between(
    one: NDArray[np.float32], other: NDArray[np.float32]
) -> tuple[float, float] | None:
    """By what the values of `one` are those of `other` multiplied, and what is added; else None.

    The line goes through the deciles, and what is left once it is undone must be a small part of
    the distance that there was.
    """
    one, other = one[np.isfinite(one)], other[np.isfinite(other)]
    if _too_few(one) or _too_few(other):
        return None
    deciles = np.quantile(one.astype(np.float64), _AT), np.quantile(other.astype(np.float64), _AT)
    if min(float(np.ptp(own)) for own in deciles) == 0:
        return None
    factor, added = np.polyfit(deciles[1], deciles[0], 1).tolist()
    if factor <= 0 or np.corrcoef(*deciles)[0, 1] < thresholds.STRAIGHT:
        return None
    left = ks_distance(((one - added) / factor).astype(np.float32), other)
    before = ks_distance(one, other)
    return (factor, added) if left <= thresholds.SAME_SHAPE * before else None


def _too_few(values: NDArray[np.float32]) -> bool:
    """Whether any line fits: values that say yes or no, or count up to three, do not tell."""
    few = len(values) < thresholds.FEWEST_VALUES
    return few or len(np.unique(values)) < thresholds.FEWEST_DIFFERENT


def _alike(shift: float, ratios: NDArray[np.float64], spreads: list[float]) -> bool:
    """Whether one factor fits at all deciles, and spreads as it should."""
    if min(spreads) < thresholds.SAME_SPREAD * max(spreads):
        return False
    return bool(np.ptp(ratios) <= thresholds.SAME_SHAPE * max(abs(shift), 1.0))


def _in_stretch(sample: Sample, column: int, stretch: Stretch) -> Change | None:
    rows = rows_in(sample, stretch)
    values = sample.data.features[:, column]
    factor = factor_between(values[rows], values[~rows])
    line = line_between(values[rows], values[~rows]) if factor is None else (factor, 0.0)
    sizes = factor is not None
    if line is None or _drifts(stretch, *_by_block(sample, column, sizes=sizes)):
        return None
    place = stretch.first, stretch.last
    return Change(*line, sample.place(*place), sample.ends(*place))


def _drifts(stretch: Stretch, numbers: NDArray[np.int64], medians: NDArray[np.float64]) -> bool:
    """Whether values change from block to block, as prices that rise, and not at once.

    A straight line through the blocks then fits better than one step, or the change at an end of
    the stretch is a small part of that between inside and outside.
    """
    inside = (numbers >= stretch.first) & (numbers < stretch.last)
    if inside.all() or not inside.any():
        return True
    sides = medians[inside], medians[~inside]
    step = sum(float(((own - own.mean()) ** 2).sum()) for own in sides)
    line = np.polynomial.Polynomial.fit(numbers, medians, 1)
    if float(((medians - line(numbers)) ** 2).sum()) < step:
        return True
    shift = abs(float(np.median(sides[0]) - np.median(sides[1])))
    before, after = medians[numbers < stretch.first][::-1], medians[numbers >= stretch.last]
    jumps = [
        abs(_near(own) - _near(outside))
        for own, outside in ((sides[0], before), (sides[0][::-1], after))
        if len(outside)
    ]
    return min(jumps) < thresholds.AT_ONCE * shift


def _by_block(
    sample: Sample, column: int, *, sizes: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Blocks with a value, other than 0 for `sizes`, and the median there, of logarithms then."""
    values = sample.data.features[:, column].astype(np.float64)
    there = np.isfinite(values) & ((values != 0) | (not sizes))
    logs, block = values[there], sample.block[sample.query][there]
    if sizes:
        logs = np.log(np.abs(logs))
    order = np.argsort(block, kind="stable")
    numbers, starts = np.unique(block[order], return_index=True)
    medians = np.array([np.median(part) for part in np.split(logs[order], starts[1:])])
    return numbers, medians


def _near(medians: NDArray[np.float64]) -> float:
    """The mean of the first two, but for the very first, through which the border may go."""
    return float((medians[1:3] if len(medians) > 1 else medians).mean())


def _between_queries(sample: Sample, column: int) -> Change | None:
    """The same of queries in no order: the widest gap between medians of queries parts them."""
    return _apart(sample, column, sizes=True) or _apart(sample, column, sizes=False)


def _apart(sample: Sample, column: int, *, sizes: bool) -> Change | None:
    """By a gap between logarithms of sizes, which a factor makes, or between the values."""
    queries, medians = _medians(sample, column, sizes=sizes)
    fewest = max(thresholds.FEWEST_IN_BLOCK, int(2 * thresholds.FEW * sample.data.n_queries))
    if not sizes:
        fewest = max(2 * thresholds.FEWEST_IN_BLOCK, len(medians) // 10)
    if len(medians) < (2 if sizes else 6) * fewest:
        return None
    order = np.argsort(medians)
    ranked = medians[order]
    gaps = ranked[fewest : -fewest + 1] - ranked[fewest - 1 : -fewest]
    cut = int(np.argmax(gaps)) + fewest
    gap = gaps[cut - fewest]
    spread = max(float(np.std(part)) for part in (ranked[:cut], ranked[cut:]))
    if gap < (np.log(thresholds.GAP_FACTOR) if sizes else thresholds.GAP_SPREAD * spread):
        return None
    upper = len(order) - cut <= cut
    few = queries[order[cut:]] if upper else queries[order[:cut]]
    rows = np.zeros(sample.data.n_queries, bool)
    rows[few] = True
    values = sample.data.features[:, column]
    sides = values[rows[sample.query]], values[~rows[sample.query]]
    factor = factor_between(*sides) if sizes else None
    line = (factor, 0.0) if factor is not None else None if sizes else line_between(*sides)
    if line is None:
        return None
    named = tuple(sample.data.query_ids[int(query)].as_py() for query in np.sort(few)[:5])
    return Change(*line, f"in {len(few):,} queries, as '{named[0]}'", named)


def _medians(
    sample: Sample, column: int, *, sizes: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Queries in which a column differs, and the median of what is not 0 there, or its log."""
    values = sample.data.features[:, column].astype(np.float64)
    there = np.flatnonzero(np.isfinite(values) & (values != 0))
    if not len(there):
        return there, np.empty(0)
    counts = np.bincount(sample.query[there], minlength=sample.data.n_queries)
    query = np.flatnonzero(counts)
    lengths = counts[query]
    starts = np.cumsum(lengths) - lengths
    own = np.log(np.abs(values[there])) if sizes else values[there]
    own = own[best_first(own, np.append(starts, len(own)))]
    # What never differs within a query is of the query itself, which differ as they like.
    differs = own[starts] != own[starts + lengths - 1]
    if not differs.any():
        return np.empty(0, np.int64), np.empty(0)
    return query, own[starts + (lengths - 1) // 2]


def _sizes(values: NDArray[np.float32]) -> NDArray[np.float32]:
    sizes: NDArray[np.float32] = np.abs(values[np.isfinite(values) & (values != 0)])
    return sizes


def _finding(names: list[str], change: Change) -> Finding:
    factor, one = change.factor, len(names) == 1
    times = f"{factor:,.3g} times " if factor > 1 else f"1/{1 / factor:,.3g} of "
    plus = f" {'plus' if change.added > 0 else 'minus'} {abs(change.added):,.3g},"
    if not change.added:
        plus = ""
    elif abs(np.log(factor)) < _SAME:
        times = ""
    what = f"'{names[0]}' is" if one else f"{listed(names)} are"
    elsewhere = "what it is elsewhere" if one else "what they are elsewhere"
    return Finding(
        "unit-change",
        WARNING,
        names[0] if one else f"{len(names)} columns",
        f"{what} {times}{elsewhere}{plus} {change.place}, and otherwise alike",
        advice=_ADVICE,
        columns=tuple(names),
        queries=change.queries,
    )
