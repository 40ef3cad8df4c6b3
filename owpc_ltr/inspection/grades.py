"""Grades: one that is rare and far from all others, or between them, is mostly a slip."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.gathered import Gathered


def grade_typos(found: Gathered) -> Iterator[Finding]:
    """A finding for each grade that looks like a slip; measurements have none."""
    levels = sorted(found.grades)
    if not 2 < len(levels) <= thresholds.LEVELS:
        return
    most = max(1, int(thresholds.FEW * found.documents))
    rare = [level for level in levels if found.grades[level] <= most]
    far = _far(levels)
    whole = all(level == int(level) for level in levels if level not in rare)
    for level in rare:
        others = [one for one in levels if one not in rare]
        if level in far or (whole and level != int(level) and others):
            yield _finding(found, level, [one for one in levels if one != level])


def _far(levels: list[float]) -> list[float]:
    """The levels above a gap that is wider than others allow."""
    gaps = np.diff(levels)
    widest = int(np.argmax(gaps))
    others = np.delete(gaps, widest)
    far = gaps[widest] > thresholds.GAP_OF_GRADES * others.max()
    return levels[widest + 1 :] if far else []


def _finding(found: Gathered, level: float, others: list[float]) -> Finding:
    ids = tuple(dict.fromkeys(found.grade_ids.get(level, ())))
    count = found.grades[level]
    where = f", as of query '{ids[0]}'" if ids else ""
    return Finding(
        "grade-typo",
        WARNING,
        f"grade {level:g}",
        f"the grade {level:g} stands {'once' if count == 1 else f'{count:,} times'}{where}; all "
        f"others are {others[0]:g} to {others[-1]:g}",
        "look whether it was meant: gains grow with the grade, and such a document rules training",
        (),
        ids,
        found.grade_rows.get(level),
    )
