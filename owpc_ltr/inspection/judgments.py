"""Judgments that teach harm, and columns that give the grade away."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.judgment_checks import judgment_doubts
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import WARNING, Finding
from owpc_ltr.inspection.sample import sampled


def harmful_judgments(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> Iterator[Finding]:
    """What `judgment_doubts` finds, and columns that are the grade in other words."""
    copies = grade_copies(sampled(data, thresholds.SAMPLE_DOCUMENTS))
    for name in copies:
        yield _copy(name)
    for doubt in judgment_doubts(data, text_features):
        if not set(doubt.columns) & set(copies):
            yield _of(doubt)


def grade_copies(data: RankingDataset) -> list[str]:
    """The columns whose values lie in other ranges for each grade, in the grades' order or against.

    Chance does that to no column of many documents, and no honest feature comes near it: it would
    have to agree over all queries, and with every grade.
    """
    levels, grade = np.unique(data.labels, return_inverse=True)
    if data.n_queries < thresholds.FEWEST_QUERIES or not 2 <= len(levels) <= thresholds.LEVELS:
        return []
    order = np.argsort(grade, kind="stable")
    starts = np.searchsorted(grade[order], np.arange(len(levels)))
    values = data.features[order]
    low = np.minimum.reduceat(values, starts, axis=0)
    high = np.maximum.reduceat(values, starts, axis=0)
    # NaN compares false: a copy that is missing somewhere is told by pairs.
    rises, falls = (high[:-1] < low[1:]).all(axis=0), (low[:-1] > high[1:]).all(axis=0)
    found = np.logical_or(rises, falls)
    return [data.feature_names[column] for column in np.flatnonzero(found).tolist()]


def _copy(name: str) -> Finding:
    return Finding(
        "leak",
        WARNING,
        name,
        f"'{name}' is the grade in other words: its values alone tell every grade of every query",
        "leave it out: it was made from the judgments, and will not be there in a search",
        (name,),
    )


def _of(doubt: Doubt) -> Finding:
    return Finding(
        doubt.check,
        WARNING,
        doubt.columns[0] if doubt.columns else "judgments",
        doubt.message,
        doubt.advice,
        doubt.columns,
    )
