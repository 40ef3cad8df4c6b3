"""Missing values: columns that are gone in whole queries or stretches, and hardly elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding
from owpc_ltr.inspection.gathered import Gathered
from owpc_ltr.inspection.moved import Stretch, absent_stretches
from owpc_ltr.inspection.sample import Sample

_ADVICE = "log these queries again, or find out what the engine lacked then"


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
            "it can help few queries: see whether it is worth its cost",
            (names[column],),
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
    blocks = sample.blocks[stretch.first], sample.blocks[stretch.last - 1]
    return Finding(
        "missing-spike",
        WARNING,
        name,
        f"'{name}' is missing, or 0, in all documents {sample.place(stretch.first, stretch.last)}, "
        "and elsewhere is not",
        _ADVICE,
        (name,),
        (blocks[0].first, blocks[1].last),
    )


def _in_queries(found: Gathered, column: int, name: str) -> Finding:
    ids = tuple(found.gone_ids[column])
    return Finding(
        "missing-spike",
        WARNING,
        name,
        f"'{name}' is missing, or 0, in all documents of {int(found.gone[column]):,} queries, as "
        f"'{ids[0]}', and hardly ever in others",
        _ADVICE,
        (name,),
        ids,
    )
