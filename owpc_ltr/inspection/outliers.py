"""Outliers: few values that lie many times as far out as all others of their column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.gathered import Gathered
from owpc_ltr.inspection.tails import KEPT, Tail, Tails


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
                yield _finding(name, tail, few)


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


def _finding(name: str, tail: Tail, few: int) -> Finding:
    times = tail.distance[few - 1] / tail.distance[few]
    queries = tuple(dict.fromkeys(tail.query[:few]))
    one = f"1 value of '{name}' is" if few == 1 else f"{few:,} values of '{name}' are"
    return Finding(
        "outlier",
        WARNING,
        name,
        f"{one} {times:,.0f} times as far from the median as all others (up to "
        f"{tail.value[0]:g}, query '{queries[0]}')",
        "look at these documents: a slipped unit or decimal point, or a value that stands for none",
        (name,),
        queries[:5],
        tail.row[0],
    )


def _infinite(name: str, tail: Tail) -> Finding:
    queries = tuple(dict.fromkeys(tail.query[: int(np.isinf(tail.distance).sum())]))
    return Finding(
        "outlier",
        WARNING,
        name,
        f"'{name}' is infinite, as for query '{queries[0]}'",
        "mend the feature; nothing can be trained on it",
        (name,),
        queries[:5],
        tail.row[0],
    )
