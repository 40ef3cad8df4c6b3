"""Attractiveness → grades: as it is, or of what is above the mean the grade of nearest gain."""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.errors import UsageError
from owpc_ltr.protocols import ClickFit

_FEW = 5.0
"""So many clicks of the mean value each document is taken to have had besides its own."""
_MOST = 30
_ROUNDING = 1e-9


def parse_grades(text: str) -> int | None:
    """The top grade of `0..4`; None for `none`, probabilities as they are. Raises UsageError.

    >>> parse_grades("0..4"), parse_grades("none")
    (4, None)
    """
    if text.strip().lower() == "none":
        return None
    first, _, last = text.partition("..")
    if first.strip() == "0" and last.strip().isdecimal() and 1 <= int(last) <= _MOST:
        return int(last)
    raise UsageError(f"cannot read the grades '{text}': write 0..4, or none for probabilities")


def cuts(top: int) -> Vector:
    """From which worth on each grade from 1 is given: midway between the gains 2^grade − 1.

    >>> cuts(2).tolist()
    [0.16666666666666666, 0.6666666666666666]
    """
    gains = (np.exp2(np.arange(top + 1.0)) - 1) / (2.0**top - 1)
    middle: Vector = (gains[1:] + gains[:-1]) / 2
    return middle


def worth(counts: ClickCounts, fit: ClickFit, greatest: float) -> Vector:
    """What users get of each pair, from 0 to 1: attractiveness, times what an action is worth.

    Where only clicks count it is the attractiveness. A document with few clicks is taken to have
    the value of all.
    """
    clicks, value = counts.by_pair(counts.clicked), counts.by_pair(counts.value)
    mean = _mean_value(counts, greatest)
    each: Vector = (value + _FEW * mean) / (clicks + _FEW) / greatest
    return fit.attractiveness * each


def worth_of_any(counts: ClickCounts, fit: ClickFit, greatest: float) -> float:
    """What users get of a document of which nothing is known."""
    alpha, beta = fit.prior
    return alpha / (alpha + beta) * _mean_value(counts, greatest) / greatest


def grades(worths: Vector, top: int | None, of_any: float = 0.0) -> Vector:
    """The grade of each worth; without a top grade, the worth.

    What is worth no more than any document has grade 0. The worth of what was hardly seen is that
    of any: by the cuts alone it would have a higher grade than what was seen often and passed over,
    and who learns from that learns to turn the ranking around.
    """
    if top is None:
        return worths
    found = np.searchsorted(cuts(top), worths, side="right").astype(np.float64)
    return np.where(worths > of_any * (1 + _ROUNDING), found, 0.0)


def _mean_value(counts: ClickCounts, greatest: float) -> float:
    total = float(counts.clicked.sum())
    return float(counts.value.sum()) / total if total else greatest
