"""Changes of units: one column in two populations of queries, a factor apart and else alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.moved import Stretch, ks_distance, rows_in
from owpc_ltr.inspection.sample import Sample

_AT = np.linspace(0.1, 0.9, 9)
_ADVICE = (
    "bring both to one unit, and log again what was logged by another version, field or setting"
)


class Change(NamedTuple):
    """How many times as large the values are, and where: in words, and by queries."""

    factor: float
    place: str
    queries: tuple[str, ...]


def unit_changes(
    sample: Sample, moved: Mapping[int, Stretch], exchanged: Collection[str] = ()
) -> Iterator[Finding]:
    """A finding for the columns of each place that changed by the same factor there.

    Columns that are told to be exchanged with others are passed over.
    """
    found: dict[tuple[str, int], list[tuple[str, Change]]] = {}
    for column, name in enumerate(sample.data.feature_names):
        change = None
        if name in exchanged:
            continue
        if column in moved:
            change = _in_stretch(sample, column, moved[column])
        if change is None:
            change = _between_queries(sample, column)
        if change is not None:
            key = change.place, round(8 * float(np.log(change.factor)))
            found.setdefault(key, []).append((name, change))
    for several in found.values():
        yield _finding([name for name, _ in several], several[0][1])


def factor_between(one: NDArray[np.float32], other: NDArray[np.float32]) -> float | None:
    """By what the values of `one` are those of `other` multiplied; None if they are not.

    Sizes are compared, without zeros. The same factor must fit at all deciles, and what is left
    once it is divided out must be a small part of the distance that there was.
    """
    one, other = _sizes(one), _sizes(other)
    if min(len(one), len(other)) < thresholds.FEWEST_VALUES:
        return None
    # Values that say yes or no, or count up to three, fit any factor between two of them.
    if min(len(np.unique(one)), len(np.unique(other))) < thresholds.FEWEST_DIFFERENT:
        return None
    logs = np.log(np.quantile(one, _AT)), np.log(np.quantile(other, _AT))
    ratios, spreads = logs[0] - logs[1], [float(np.ptp(own)) for own in logs]
    shift = float(np.median(ratios))
    if abs(shift) < np.log(thresholds.FACTOR) or not _alike(shift, ratios, spreads):
        return None
    factor = float(np.exp(shift))
    left = ks_distance((one / factor).astype(np.float32), other)
    return factor if left <= thresholds.SAME_SHAPE * ks_distance(one, other) else None


def _alike(shift: float, ratios: NDArray[np.float64], spreads: list[float]) -> bool:
    """Whether one factor fits at all deciles, and spreads as it should."""
    if min(spreads) < thresholds.SAME_SPREAD * max(spreads):
        return False
    return bool(np.ptp(ratios) <= thresholds.SAME_SHAPE * max(abs(shift), 1.0))


def _in_stretch(sample: Sample, column: int, stretch: Stretch) -> Change | None:
    rows = rows_in(sample, stretch)
    values = sample.data.features[:, column]
    factor = factor_between(values[rows], values[~rows])
    if factor is None or _drifts(sample, column, stretch):
        return None
    blocks = sample.blocks[stretch.first], sample.blocks[stretch.last - 1]
    place = sample.place(stretch.first, stretch.last)
    return Change(factor, place, (blocks[0].first, blocks[1].last))


def _drifts(sample: Sample, column: int, stretch: Stretch) -> bool:
    """Whether values change from block to block, as prices that rise, and not at once.

    A straight line through the blocks then fits better than one step, or the change at an end of
    the stretch is a small part of that between inside and outside.
    """
    numbers, medians = _by_block(sample, column)
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


def _by_block(sample: Sample, column: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Blocks with a value other than 0, and the median of the logarithms of sizes there."""
    sizes = np.abs(sample.data.features[:, column].astype(np.float64))
    there = np.isfinite(sizes) & (sizes > 0)
    logs, block = np.log(sizes[there]), sample.block[sample.query][there]
    order = np.argsort(block, kind="stable")
    numbers, starts = np.unique(block[order], return_index=True)
    medians = np.array([np.median(part) for part in np.split(logs[order], starts[1:])])
    return numbers, medians


def _near(medians: NDArray[np.float64]) -> float:
    """The mean of the first two, but for the very first, through which the border may go."""
    return float((medians[1:3] if len(medians) > 1 else medians).mean())


def _between_queries(sample: Sample, column: int) -> Change | None:
    """The same of queries in no order: the widest gap between medians of queries parts them."""
    queries, medians = _medians(sample, column)
    fewest = max(thresholds.FEWEST_IN_BLOCK, int(2 * thresholds.FEW * sample.data.n_queries))
    if len(medians) < 2 * fewest:
        return None
    order = np.argsort(medians)
    ranked = medians[order]
    gaps = ranked[fewest : -fewest + 1] - ranked[fewest - 1 : -fewest]
    cut = int(np.argmax(gaps)) + fewest
    if gaps[cut - fewest] < np.log(thresholds.GAP_FACTOR):
        return None
    upper = len(order) - cut <= cut
    few = queries[order[cut:]] if upper else queries[order[:cut]]
    rows = np.zeros(sample.data.n_queries, bool)
    rows[few] = True
    values = sample.data.features[:, column]
    factor = factor_between(values[rows[sample.query]], values[~rows[sample.query]])
    if factor is None:
        return None
    named = tuple(sample.data.query_ids[int(query)].as_py() for query in np.sort(few)[:5])
    return Change(factor, f"in {len(few):,} queries, as '{named[0]}'", named)


def _medians(sample: Sample, column: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Queries in which a column differs, and the log of the median size of what is not 0 there."""
    values = sample.data.features[:, column].astype(np.float64)
    there = np.flatnonzero(np.isfinite(values) & (values != 0))
    if not len(there):
        return there, np.empty(0)
    query, sizes = sample.query[there], np.log(np.abs(values[there]))
    order = np.lexsort((sizes, query))
    query, sizes = query[order], sizes[order]
    starts = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    lengths = np.diff(np.append(starts, len(query)))
    # What never differs within a query is of the query itself, which differ as they like.
    differs = sizes[starts] != sizes[starts + lengths - 1]
    if not differs.any():
        return np.empty(0, np.int64), np.empty(0)
    return query[starts], sizes[starts + lengths // 2]


def _sizes(values: NDArray[np.float32]) -> NDArray[np.float32]:
    sizes: NDArray[np.float32] = np.abs(values[np.isfinite(values) & (values != 0)])
    return sizes


def _finding(names: list[str], change: Change) -> Finding:
    from owpc_ltr.data.columns import listed

    factor = change.factor
    times = f"{factor:,.3g} times" if factor > 1 else f"1/{1 / factor:,.3g} of"
    what = f"'{names[0]}' is" if len(names) == 1 else f"{listed(names)} are"
    return Finding(
        "unit-change",
        WARNING,
        names[0] if len(names) == 1 else f"{len(names)} columns",
        f"{what} {times} what they are elsewhere {change.place}, and else alike"
        if len(names) > 1
        else f"{what} {times} what it is elsewhere {change.place}, and else alike",
        _ADVICE,
        tuple(names),
        change.queries,
    )
