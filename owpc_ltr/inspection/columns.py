"""Faults of columns: constant, duplicate, missing in some queries, or with values far out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, WARNING, Finding, listed, of_columns
from owpc_ltr.inspection.sample import Sample, absent_stretches
from owpc_ltr.inspection.totals import KEPT, ColumnFacts, Tails, Totals

_CHECK = "check the templates and fields"
_GUESS = f"{_CHECK}: one that is misspelt matches nothing"


def constant_columns(facts: ColumnFacts, names: Sequence[str]) -> Iterator[Finding]:
    """A finding on the columns without any value, and one on those whose value never changes."""
    empty = [names[column] for column in np.flatnonzero(facts.empty).tolist()]
    if empty:
        message = f"no document has a value for {listed(empty)}"
        yield of_columns("constant-column", empty, message, _GUESS)
    values = {
        names[column]: float(facts.lowest[column])
        for column in np.flatnonzero(facts.never_changes).tolist()
    }
    # A numbered feature of a published form has no field, and 0 is how it is left out.
    unused = [name for name, value in values.items() if value == 0 and name.isdecimal()]
    used = [name for name in values if name not in unused]
    for columns, advice, severity in (
        (unused, "the features of these numbers are not used", NOTE),
        (used, _GUESS, WARNING),
    ):
        if columns:
            each = listed([f"{name} ({values[name]:g})" for name in columns])
            message = f"every document has the same value for {each}"
            yield of_columns("constant-column", columns, message, advice, severity)


def constant_features(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The columns that tell no document from another, for want of values or of differences."""
    columns = np.flatnonzero(facts.empty | facts.never_changes).tolist()
    return [names[column] for column in columns]


def warnings_of_log(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The same as lines, for those who have just written the templates."""
    return [f"{finding.message}: {_CHECK}" for finding in constant_columns(facts, names)]


def constant_in_training(constant: Sequence[str]) -> list[str]:
    """A line on the features that nothing could be learned from, if there are any."""
    if not constant:
        return []
    return [
        f"no value, or one and the same, in all documents: {listed(constant)}: nothing was learned "
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

    Equal ones are told by the digests of all rows, copies by sampled rows. Empty and constant
    columns are left out: `constant_columns` has them.
    """
    groups: dict[int, list[int]] = {}
    for column in np.flatnonzero(facts.varies).tolist():
        groups.setdefault(int(digests[column]), []).append(column)
    for group in groups.values():
        if len(group) > 1:
            first, *copies = equal = [names[column] for column in group]
            yield of_columns(
                "duplicate-column",
                equal,
                f"'{first}' stands again as {listed(copies)}, the same value in every document",
                "leave the copies out, or fix the feature that was meant",
            )
    different = [group[0] for group in groups.values()]
    step = max(1, len(sampled) // _ROWS)
    for pair in affine_pairs(sampled[::step][:, np.array(different, np.int64)]):
        one, other = (names[different[column]] for column in pair)
        yield of_columns(
            "duplicate-column",
            (one, other),
            f"'{other}' is a multiple of '{one}' plus a constant",
            "leave one out: it costs a query and says nothing new",
            NOTE,
        )


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


def _projection(values: NDArray[np.float32], direction: NDArray[np.float64]) -> float:
    finite = np.isfinite(values)
    numbers = values[finite].astype(np.float64)
    if len(np.unique(numbers[:100])) < _FEWEST and len(np.unique(numbers)) < _FEWEST:
        return float("nan")
    numbers -= numbers.mean()
    deviation = numbers.std()
    if deviation <= _EXACT * np.abs(numbers).max(initial=0.0):
        return float("nan")
    return float(abs(numbers @ direction[finite]) / deviation)


def _is_affine(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    if not np.array_equal(np.isnan(one), np.isnan(other)):
        return False
    finite = np.isfinite(one) & np.isfinite(other)
    x, y = one[finite].astype(np.float64), other[finite].astype(np.float64)
    low, high = int(np.argmin(x)), int(np.argmax(x))
    slope = (y[high] - y[low]) / (x[high] - x[low])
    left = np.abs(y - y[low] - slope * (x - x[low])).max()
    # Each was rounded by itself.
    allowed = max(np.abs(y).max(), abs(slope) * np.abs(x).max())
    return bool(left <= _EXACT * allowed)


_LOG_AGAIN = "log these queries again, or find out what the engine lacked then"


def missing_values(totals: Totals, sample: Sample, names: Sequence[str]) -> Iterator[Finding]:
    """Columns that are absent (missing, or 0) throughout some queries; those often missing."""
    varying = np.flatnonzero(totals.columns.varies).tolist()
    stretches = absent_stretches(sample, varying)
    for column in varying:
        absent = f"'{names[column]}' is missing, or 0, in all documents"
        queries: tuple[str, ...]
        if stretch := stretches.get(column):
            message = f"{absent} {sample.place(stretch)}, and elsewhere is not"
            queries = sample.ends(stretch)
        elif _more_than_chance(totals, column):
            queries = tuple(totals.gone_ids[column])
            message = (
                f"{absent} of {int(totals.gone[column]):,} queries, as '{queries[0]}', and hardly "
                "ever in others"
            )
        else:
            continue
        yield of_columns("missing-spike", [names[column]], message, _LOG_AGAIN, queries=queries)
    rates = totals.columns.missing / max(totals.columns.rows, 1)
    often = (rates > thresholds.OFTEN_MISSING) & ~totals.columns.empty
    for column in np.flatnonzero(often).tolist():
        yield of_columns(
            "missing-rate",
            [names[column]],
            f"'{names[column]}' is missing in {rates[column]:.1%} of the documents",
            "it can help few queries: see whether it is worth its cost",
            NOTE,
        )


def _more_than_chance(totals: Totals, column: int) -> bool:
    """Whether a column is gone in more queries than its absence elsewhere makes likely.

    Were documents without it spread evenly, a query of n would be without any at rate ** n. They
    are not where it depends on the query's words: then there are queries with nearly none as well.
    """
    gone, nearly = int(totals.gone[column]), int(totals.nearly[column])
    rest = totals.documents - int(totals.gone_rows[column])
    if not thresholds.FEWEST_SPIKES <= gone <= totals.queries / 2 or rest <= 0:
        return False
    rate = (int(totals.absent[column]) - int(totals.gone_rows[column])) / rest
    if rate > thresholds.RARELY_ABSENT or nearly > thresholds.NEARLY * gone:
        return False
    expected = sum(count * rate**n for n, count in totals.lengths.items() if n > 1)
    if expected == 0:
        return True
    # Chernoff's bound for a Poisson count: its tail at k is at most exp(−k log(k/m) + k − m).
    limit = np.log(totals.gone.size / thresholds.CHANCE)
    return bool(gone * (np.log(gone / expected) - 1) + expected > limit and gone > expected)


def outliers(totals: Totals, tails: Tails, names: Sequence[str]) -> Iterator[Finding]:
    """A finding for each column that has some, at either end."""
    most = min(KEPT // 2, int(thresholds.FEW * totals.documents))
    for column, name in enumerate(names):
        for end in (1, 0):
            tail = tails.of(end, column)
            infinite = int(np.isinf(tail.distance).sum())
            few = infinite or outlying(tail.distance, most, 2 * len(names))
            if not few:
                continue
            queries = tuple(dict.fromkeys(tail.query[:few]))
            message = f"'{name}' is infinite, as for query '{queries[0]}'"
            advice = "fix the feature; nothing can be trained on it"
            if not infinite:
                number, verb = ("1 value", "is") if few == 1 else (f"{few:,} values", "are")
                times = tail.distance[few - 1] / tail.distance[few]
                message = (
                    f"{number} of '{name}' {verb} {times:,.0f} times as far from the median as all "
                    f"others (up to {tail.value[0]:g}, query '{queries[0]}')"
                )
                advice = (
                    "check these documents: a slipped unit or decimal point, or a value that "
                    "stands for none"
                )
            yield of_columns(
                "outlier", [name], message, advice, queries=queries[:5], row=tail.row[0]
            )


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
