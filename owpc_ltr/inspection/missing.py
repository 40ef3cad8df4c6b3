"""Columns that are missing in some queries though not in others, or in nearly all documents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import NOTE, Finding, of_columns
from owpc_ltr.inspection.sample import Sample, Stretch, Stretches
from owpc_ltr.inspection.totals import Totals


def missing_values(totals: Totals, sample: Sample) -> Iterator[Finding]:
    """Columns that are absent (missing, or 0) throughout some queries; those often missing."""
    names, facts = sample.data.feature_names, totals.columns
    stretches = _absent_stretches(sample)
    for column in np.flatnonzero(facts.varies).tolist():
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
        advice = "log these queries again, or find out what the engine lacked then"
        yield of_columns("missing-spike", [names[column]], message, advice, queries=queries)
    rates = facts.missing / max(facts.rows, 1)
    often = (rates > thresholds.OFTEN_MISSING) & ~facts.empty
    for column in np.flatnonzero(often).tolist():
        yield of_columns(
            "missing-rate",
            [names[column]],
            f"'{names[column]}' is missing in {rates[column]:.1%} of the documents",
            "it can help few queries: see whether it is worth its cost",
            NOTE,
        )


def _absent_stretches(sample: Sample) -> dict[int, Stretch]:
    """By column the longest stretch in which it is absent (missing, 0) though it is not elsewhere.

    The difference of the mean share a query is held against Hoeffding's bound.
    """
    every = Stretches.of(sample)
    if not len(every.first):
        return {}
    looks = max(1, len(every.inside) * sample.data.n_features)
    variance = 1 / every.inside + 1 / every.outside
    bound = np.sqrt(np.log(2 * looks / thresholds.CHANCE) / 2 * variance)
    sizes = np.diff(sample.data.offsets)
    stretches = {}
    for column in range(sample.data.n_features):
        absent = ~(np.abs(sample.data.features[:, column]) > 0)
        shares = np.add.reduceat(absent, sample.data.offsets[:-1], dtype=np.int64) / sizes
        by_block = np.bincount(sample.block, shares, len(sample.blocks)).astype(np.float64)
        sums = every.sums(by_block)
        inside, outside = sums[0] / every.inside, sums[1] / every.outside
        gone = (inside >= thresholds.ALWAYS_ABSENT) & (outside <= thresholds.MUCH_PRESENT)
        gone &= inside - outside > bound
        if gone.any():
            stretches[column] = every.at(int(np.argmax(np.where(gone, every.inside, 0))))
    return stretches


def _more_than_chance(totals: Totals, column: int) -> bool:
    """Whether a column is gone in more queries than its absence elsewhere makes likely.

    Were documents without it spread evenly, a query of n would be without any at rate ** n. They
    are not where it depends on the query's words: then there are queries with nearly none as well.
    """
    gone, nearly = int(totals.gone[column]), int(totals.nearly[column])
    rest = totals.columns.rows - int(totals.gone_rows[column])
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
