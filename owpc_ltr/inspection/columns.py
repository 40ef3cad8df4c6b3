"""Faults of columns: constant, duplicate, missing in some queries, or with values far out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, WARNING, Finding, Severity, listed
from owpc_ltr.inspection.sample import Sample, Stretch, absent_stretches
from owpc_ltr.inspection.totals import KEPT, ColumnFacts, Gathered, Tail, Tails

_CHECK = "check the templates and fields"
_GUESS = f"{_CHECK}: one that is misspelt matches nothing"


def constant_columns(facts: ColumnFacts, names: Sequence[str]) -> Iterator[Finding]:
    """A finding on the columns without any value, and one on those whose value never changes."""
    empty, constant = empty_columns(facts, names), constant_values(facts, names)
    if empty:
        yield Finding(
            "constant-column",
            WARNING,
            listed(empty),
            f"no document has a value for {listed(empty)}",
            advice=_GUESS,
            columns=tuple(empty),
        )
    # A numbered feature of a published form has no field, and 0 is how it is left out.
    unused = [name for name, value in constant.items() if value == 0 and name.isdecimal()]
    if unused:
        yield _same(unused, constant, NOTE, "the features of these numbers are not used")
    telling = [name for name in constant if name not in unused]
    if telling:
        yield _same(telling, constant, WARNING, _GUESS)


def _same(
    names: list[str], constant: Mapping[str, float], severity: Severity, advice: str
) -> Finding:
    told = listed([f"{name} ({constant[name]:g})" for name in names])
    return Finding(
        "constant-column",
        severity,
        listed(names),
        f"every document has the same value for {told}",
        advice=advice,
        columns=tuple(names),
    )


def silent_features(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns that tell no document from another, for want of values or of differences."""
    silent = {*empty_columns(facts, names), *constant_values(facts, names)}
    return [name for name in names if name in silent]


def empty_columns(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns without any value."""
    return [names[column] for column in np.flatnonzero(facts.empty).tolist()]


def constant_values(facts: ColumnFacts, names: Sequence[str]) -> dict[str, float]:
    """The columns with one value in all rows, and which it is."""
    # One document differs from no other in anything.
    columns: list[int] = np.flatnonzero(facts.constant).tolist() if facts.rows > 1 else []
    return {names[column]: float(facts.lowest[column]) for column in columns}


def warnings_of_log(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The same as lines, for those who have just written the templates."""
    return [f"{one.message}: {_CHECK}" for one in constant_columns(facts, names)]


def silent_in_training(silent: Sequence[str]) -> list[str]:
    """A line on the features that nothing could be learned from, if there are any."""
    if not silent:
        return []
    return [
        f"no value, or one and the same, in all documents: {listed(silent)}: nothing was learned "
        f"from them; {_CHECK}"
    ]


_SEED = 0
_NEAR = 1e-4
"""Projections of affine copies differ by rounding of float32: those within this are compared."""
_EXACT = 4e-6
"""Some roundings of float32, relative to the largest value."""
_FEWEST = 3
"""Different values below which any two columns that change together are affine."""
_ROWS = 10_000
"""Sampled rows by which affine copies are told."""


def duplicate_columns(
    digests: NDArray[np.uint64], facts: ColumnFacts, sampled: Matrix, names: Sequence[str]
) -> Iterator[Finding]:
    """A finding for each group of equal columns, and for each affine copy of another.

    Equal ones are told by the digests of all rows, copies by sampled rows. Columns that say
    nothing are left out: they are told as such.
    """
    telling = np.flatnonzero(~facts.empty & ~facts.constant)
    kept = []
    for group in _equal(digests, telling):
        kept.append(group[0])
        if len(group) > 1:
            yield _copies_finding([names[column] for column in group])
    step = max(1, len(sampled) // _ROWS)
    for one, other in affine_pairs(sampled[::step][:, np.array(kept, np.int64)]):
        yield _affine(names[kept[one]], names[kept[other]])


def affine_pairs(columns: Matrix) -> list[tuple[int, int]]:
    """Pairs (one, another) where another is a·one + b, each column paired with one before it.

    Columns are standardised and projected on one random direction: copies have the same projection
    but for its sign, and lie side by side once these are sorted.
    """
    rows, count = columns.shape
    if rows < 2 or count < 2:
        return []
    direction = np.random.default_rng(_SEED).normal(size=(rows,))
    projections = np.array([_projection(columns[:, column], direction) for column in range(count)])
    order = np.argsort(projections, kind="stable")
    pairs = []
    for place, column in enumerate(order.tolist()):
        for other in order[place + 1 :].tolist():
            # NaN, where a column says too little, is near to nothing.
            if not projections[other] - projections[column] <= _NEAR * projections[column]:
                break
            if _is_affine(columns[:, column], columns[:, other]):
                pairs.append((min(column, other), max(column, other)))
                break
    return sorted(pairs)


def _equal(digests: NDArray[np.uint64], columns: NDArray[np.int64]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for column in columns.tolist():
        groups.setdefault(int(digests[column]), []).append(column)
    return list(groups.values())


def _projection(values: NDArray[np.float32], direction: NDArray[np.float64]) -> float:
    there = np.isfinite(values)
    own = values[there].astype(np.float64)
    if len(np.unique(own[:100])) < _FEWEST and len(np.unique(own)) < _FEWEST:
        return float("nan")
    own -= own.mean()
    deviation = own.std()
    if deviation <= _EXACT * np.abs(own).max(initial=0.0):
        return float("nan")
    return float(abs(own @ direction[there]) / deviation)


def _is_affine(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    if not np.array_equal(np.isnan(one), np.isnan(other)):
        return False
    there = np.isfinite(one) & np.isfinite(other)
    x, y = one[there].astype(np.float64), other[there].astype(np.float64)
    low, high = int(np.argmin(x)), int(np.argmax(x))
    slope = (y[high] - y[low]) / (x[high] - x[low])
    left = np.abs(y - y[low] - slope * (x - x[low])).max()
    # Each was rounded by itself.
    allowed = max(np.abs(y).max(), abs(slope) * np.abs(x).max())
    return bool(left <= _EXACT * allowed)


def _copies_finding(names: list[str]) -> Finding:
    rest = listed(names[1:])
    return Finding(
        "duplicate-column",
        WARNING,
        listed(names),
        f"'{names[0]}' stands again as {rest}, the same value in every document",
        advice="leave the copies out, or fix the feature that was meant",
        columns=tuple(names),
    )


def _affine(one: str, other: str) -> Finding:
    return Finding(
        "duplicate-column",
        NOTE,
        f"{one}, {other}",
        f"'{other}' is a multiple of '{one}' plus a constant",
        advice="leave one out: it costs a query and says nothing new",
        columns=(one, other),
    )


_LOG_AGAIN = "log these queries again, or find out what the engine lacked then"


def missing_values(found: Gathered, sample: Sample, names: Sequence[str]) -> Iterator[Finding]:
    """Columns that are absent (missing, or 0) throughout some queries; those often missing."""
    telling = np.flatnonzero(~found.columns.empty & ~found.columns.constant).tolist()
    spikes = absent_stretches(sample, telling)
    for column in telling:
        if column in spikes:
            yield _gone(names[column], sample, spikes[column])
        elif _more_than_chance(found, column):
            yield _in_queries(found, column, names[column])
    rates = found.columns.missing / max(found.columns.rows, 1)
    often = np.flatnonzero((rates > thresholds.OFTEN_MISSING) & ~found.columns.empty).tolist()
    for column in often:
        yield Finding(
            "missing-rate",
            NOTE,
            names[column],
            f"'{names[column]}' is missing in {rates[column]:.1%} of the documents",
            advice="it can help few queries: see whether it is worth its cost",
            columns=(names[column],),
        )


def _more_than_chance(found: Gathered, column: int) -> bool:
    """Whether a column is gone in more queries than its absence elsewhere makes likely.

    Were documents without it spread evenly, a query of n would be without any at rate ** n. They
    are not where it depends on the query's words: then there are queries with nearly none as well.
    """
    gone, nearly = int(found.gone[column]), int(found.nearly[column])
    rest = found.documents - int(found.gone_rows[column])
    if not thresholds.FEWEST_SPIKES <= gone <= found.queries / 2 or rest <= 0:
        return False
    rate = (int(found.absent[column]) - int(found.gone_rows[column])) / rest
    if rate > thresholds.RARELY_ABSENT or nearly > thresholds.NEARLY * gone:
        return False
    expected = sum(count * rate**n for n, count in found.lengths.items() if n > 1)
    if expected == 0:
        return True
    # Chernoff's bound for a Poisson count: its tail at k is at most exp(−k log(k/m) + k − m).
    limit = np.log(found.gone.size / thresholds.CHANCE)
    return bool(gone * (np.log(gone / expected) - 1) + expected > limit and gone > expected)


def _gone(name: str, sample: Sample, stretch: Stretch) -> Finding:
    return Finding(
        "missing-spike",
        WARNING,
        name,
        f"'{name}' is missing, or 0, in all documents {sample.place(stretch.first, stretch.last)}, "
        "and elsewhere is not",
        advice=_LOG_AGAIN,
        columns=(name,),
        queries=sample.ends(stretch.first, stretch.last),
    )


def _in_queries(found: Gathered, column: int, name: str) -> Finding:
    ids = tuple(found.gone_ids[column])
    return Finding(
        "missing-spike",
        WARNING,
        name,
        f"'{name}' is missing, or 0, in all documents of {int(found.gone[column]):,} queries, as "
        f"'{ids[0]}', and hardly ever in others",
        advice=_LOG_AGAIN,
        columns=(name,),
        queries=ids,
    )


def outliers(found: Gathered, tails: Tails, names: Sequence[str]) -> Iterator[Finding]:
    """A finding for each column that has some, at either end."""
    most = min(KEPT // 2, int(thresholds.FEW * found.documents))
    for column, name in enumerate(names):
        for end in (1, 0):
            tail = tails.of(end, column)
            few = int(np.isinf(tail.distance).sum())
            if few:
                yield _infinite(name, tail)
                continue
            few = outlying(tail.distance, most, 2 * len(names))
            if few:
                yield _outlier_finding(name, tail, few)


def outlying(distance: NDArray[np.float64], most: int, looks: int = 1) -> int:
    """How many of these distances, largest first, are outliers: 0 to `most`.

    The k largest are where a gap of a factor of ten lies below them which a tail as heavy as the
    one below the gap would leave with a chance of less than `thresholds.CHANCE` in all looks: of
    a Pareto tail k log(x_k / x_{k+1}) is exponential with mean 1/α (Rényi 1953), and α is Hill's.
    """
    distance = distance[distance > 0]
    if len(distance) < thresholds.FEWEST_VALUES:
        return 0
    logs = np.log(distance)
    most = min(most, len(logs) // 2)
    limit = thresholds.CHANCE / (looks * max(most, 1))
    # The widest gap is the only one that can be meant; a second group below it is told next time.
    gaps = logs[:most] - logs[1 : most + 1]
    for last in np.argsort(-gaps, kind="stable")[:3].tolist():
        if gaps[last] < np.log(thresholds.OUTLIER_RATIO):
            return 0
        # Tails get lighter further out: those just below the gap say how heavy it is there.
        tail = logs[last + 1 : last + 1 + thresholds.FEWEST_VALUES]
        mean = float((tail - tail[-1]).mean())
        if mean == 0 or np.exp(-(last + 1) * gaps[last] / mean) < limit:
            return int(last) + 1
    return 0


def _outlier_finding(name: str, tail: Tail, few: int) -> Finding:
    times = tail.distance[few - 1] / tail.distance[few]
    queries = tuple(dict.fromkeys(tail.query[:few]))
    one = f"1 value of '{name}' is" if few == 1 else f"{few:,} values of '{name}' are"
    return Finding(
        "outlier",
        WARNING,
        subject=name,
        message=f"{one} {times:,.0f} times as far from the median as all others (up to "
        f"{tail.value[0]:g}, query '{queries[0]}')",
        advice="check these documents: a slipped unit or decimal point, or a value that stands for "
        "none",
        columns=(name,),
        queries=queries[:5],
        row=tail.row[0],
    )


def _infinite(name: str, tail: Tail) -> Finding:
    queries = tuple(dict.fromkeys(tail.query[: int(np.isinf(tail.distance).sum())]))
    return Finding(
        "outlier",
        WARNING,
        subject=name,
        message=f"'{name}' is infinite, as for query '{queries[0]}'",
        advice="fix the feature; nothing can be trained on it",
        columns=(name,),
        queries=queries[:5],
        row=tail.row[0],
    )
