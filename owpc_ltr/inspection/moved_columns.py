"""Columns whose values moved in a part of the queries: exchanged with others, or in other units.

A column's values are counted by bins between its quantiles, each query counting once, and every
stretch of blocks is compared with all others by the Kolmogorov–Smirnov distance. A change of units
is one column in two populations of queries, the one a · x + b of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import WARNING, Finding, listed, of_columns
from owpc_ltr.inspection.sample import Sample, Stretch, Stretches, shares_by_block, value_bins
from owpc_ltr.metrics.ranking import best_first

_BINS = 22
_MOST = 32
"""Columns that are compared in pairs: those farthest off."""
_ROWS = 4_000
"""Documents of each side that are compared, at even steps."""
_SAME = 0.1
_AT = np.linspace(0.1, 0.9, 9)
_ADVICE = (
    "bring both to one unit, and log again what was logged by another version, field or setting"
)


def moved_stretches(sample: Sample) -> dict[int, Stretch]:
    """By column the stretch that differs most from the rest, where chance does not explain it."""
    every = Stretches.of(sample)
    if not len(every.first):
        return {}
    features = sample.data.features
    bound = np.maximum(every.bound(features.shape[1]), thresholds.MOVED)
    stretches = {}
    for column in range(features.shape[1]):
        shares = shares_by_block(sample, value_bins(features[:, column], _BINS))
        inside, outside = every.sums(np.cumsum(shares, axis=1))
        differences = inside / every.inside[:, None] - outside / every.outside[:, None]
        distance = np.abs(differences).max(axis=1)
        best = int(np.argmax(distance / bound))
        if distance[best] > bound[best]:
            stretches[column] = every.at(best, float(distance[best]))
    return stretches


def moved_columns(sample: Sample) -> Iterator[Finding]:
    """A finding for each pair of exchanged columns, and for those in other units.

    Exchanges first: two columns of one shape that were exchanged look like changed units.
    """
    moved = moved_stretches(sample)
    exchanged: set[str] = set()
    farthest = sorted(moved, key=lambda column: -moved[column].distance)[:_MOST]
    for pair in combinations(sorted(farthest), 2):
        for stretch in dict.fromkeys(moved[column] for column in pair):
            if _exchanged(sample, pair, stretch):
                names = [sample.data.feature_names[column] for column in pair]
                exchanged.update(names)
                yield of_columns(
                    "swapped-columns",
                    names,
                    f"'{names[0]}' and '{names[1]}' have each other's values "
                    f"{sample.place(stretch)}",
                    "check how these rows were made: columns in another order, or names exchanged",
                    queries=sample.ends(stretch),
                )
                break
    changes: dict[tuple[str, int, float], list[tuple[str, Change]]] = {}
    for column, name in enumerate(sample.data.feature_names):
        if name in exchanged:
            continue
        change = _in_stretch(sample, column, moved[column]) if column in moved else None
        # Of queries in no order, the widest gap between medians of queries parts them.
        for sizes in (True, False):
            change = change or _apart(sample, column, sizes=sizes)
        if change is not None:
            key = change.place, round(8 * float(np.log(change.factor))), change.added
            changes.setdefault(key, []).append((name, change))
    # One finding for the columns that changed by the same factor at one place.
    for several in changes.values():
        yield _unit_change([name for name, _ in several], several[0][1])


def _exchanged(sample: Sample, pair: tuple[int, int], stretch: Stretch) -> bool:
    """Whether each is far from itself, and like the other, inside as against outside."""
    rows = _rows_in(sample, stretch)
    (a, b), (c, d) = (
        sample.data.features[side[:: max(1, len(side) // _ROWS)]][:, pair].T
        for side in (np.flatnonzero(rows), np.flatnonzero(~rows))
    )
    own = min(ks_distance(a, c), ks_distance(b, d))
    if own < thresholds.MOVED:
        return False
    return max(ks_distance(a, d), ks_distance(b, c)) < thresholds.SAME_SHAPE * own


def _rows_in(sample: Sample, stretch: Stretch) -> NDArray[np.bool_]:
    """Which documents are in a stretch."""
    inside = (sample.block >= stretch.first) & (sample.block < stretch.last)
    return inside[sample.query]


def ks_distance(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The largest difference of the distribution functions of two samples; 1 if one is empty."""
    if not len(one) or not len(other):
        return 1.0
    one, other = np.sort(one), np.sort(other)
    # Where values tie, both functions step there together.
    at = np.concatenate((one, other))
    shares = [np.searchsorted(side, at, side="right") / len(side) for side in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


class Change(NamedTuple):
    """How many times as large the values are, what is added, where: in words, and by queries."""

    factor: float
    added: float
    place: str
    queries: tuple[str, ...]


def factor_between(one: NDArray[np.float32], other: NDArray[np.float32]) -> float | None:
    """By what the values of `one` are those of `other` multiplied; None if they are not.

    Sizes are compared, without zeros. The same factor must fit at all deciles, and what is left
    once it is divided out must be a small part of the distance that there was.
    """
    one, other = (np.abs(side[np.isfinite(side) & (side != 0)]) for side in (one, other))
    if _too_few(one) or _too_few(other):
        return None
    logs = np.log(np.quantile(one, _AT)), np.log(np.quantile(other, _AT))
    ratios, spreads = logs[0] - logs[1], [float(np.ptp(side)) for side in logs]
    shift = float(np.median(ratios))
    if abs(shift) < np.log(thresholds.FACTOR):
        return None
    if min(spreads) < thresholds.SAME_SPREAD * max(spreads):
        return None
    if np.ptp(ratios) > thresholds.SAME_SHAPE * max(abs(shift), 1.0):
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
    if min(float(np.ptp(side)) for side in deciles) == 0:
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


def _in_stretch(sample: Sample, column: int, stretch: Stretch) -> Change | None:
    rows = _rows_in(sample, stretch)
    values = sample.data.features[:, column]
    factor = factor_between(values[rows], values[~rows])
    line = line_between(values[rows], values[~rows]) if factor is None else (factor, 0.0)
    sizes = factor is not None
    if line is None or _drifts(stretch, *_by_block(sample, column, sizes=sizes)):
        return None
    return Change(*line, sample.place(stretch), sample.ends(stretch))


def _drifts(stretch: Stretch, numbers: NDArray[np.int64], medians: NDArray[np.float64]) -> bool:
    """Whether values change from block to block, as prices that rise, and not at once.

    A straight line through the blocks then fits better than one step, or the change at an end of
    the stretch is a small part of that between inside and outside.
    """
    inside = (numbers >= stretch.first) & (numbers < stretch.last)
    if inside.all() or not inside.any():
        return True
    sides = medians[inside], medians[~inside]
    step = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    line = np.polynomial.Polynomial.fit(numbers, medians, 1)
    if float(((medians - line(numbers)) ** 2).sum()) < step:
        return True
    shift = abs(float(np.median(sides[0]) - np.median(sides[1])))
    before, after = medians[numbers < stretch.first][::-1], medians[numbers >= stretch.last]
    jumps = [
        abs(_near(within) - _near(outside))
        for within, outside in ((sides[0], before), (sides[0][::-1], after))
        if len(outside)
    ]
    return min(jumps) < thresholds.AT_ONCE * shift


def _by_block(
    sample: Sample, column: int, *, sizes: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Blocks with a value, other than 0 for `sizes`, and the median there, of logarithms then."""
    values = sample.data.features[:, column].astype(np.float64)
    counted = np.isfinite(values) & ((values != 0) | (not sizes))
    values, block = values[counted], sample.block[sample.query][counted]
    if sizes:
        values = np.log(np.abs(values))
    order = np.argsort(block, kind="stable")
    numbers, starts = np.unique(block[order], return_index=True)
    medians = np.array([np.median(part) for part in np.split(values[order], starts[1:])])
    return numbers, medians


def _near(medians: NDArray[np.float64]) -> float:
    """The mean of the first two, but for the very first, through which the border may go."""
    return float((medians[1:3] if len(medians) > 1 else medians).mean())


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
    line = None if sizes else line_between(*sides)
    if factor is not None:
        line = factor, 0.0
    if line is None:
        return None
    ids = tuple(sample.data.query_ids[int(query)].as_py() for query in np.sort(few)[:5])
    return Change(*line, f"in {len(few):,} queries, as '{ids[0]}'", ids)


def _medians(
    sample: Sample, column: int, *, sizes: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Queries in which a column differs, and the median of what is not 0 there, or its log."""
    values = sample.data.features[:, column].astype(np.float64)
    rows = np.flatnonzero(np.isfinite(values) & (values != 0))
    if not len(rows):
        return rows, np.empty(0)
    counts = np.bincount(sample.query[rows], minlength=sample.data.n_queries)
    query = np.flatnonzero(counts)
    lengths = counts[query]
    starts = np.cumsum(lengths) - lengths
    values = np.log(np.abs(values[rows])) if sizes else values[rows]
    values = values[best_first(values, np.append(starts, len(values)))]
    # What never differs within a query is of the query itself, which differ as they like.
    differs = values[starts] != values[starts + lengths - 1]
    if not differs.any():
        return np.empty(0, np.int64), np.empty(0)
    return query, values[starts + (lengths - 1) // 2]


def _unit_change(names: list[str], change: Change) -> Finding:
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
