"""Labels: judgments that teach harm, grades that are slips, and queries that teach nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.judgment_checks import judgment_doubts, shares_right
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding, Severity
from owpc_ltr.inspection.sample import sampled
from owpc_ltr.inspection.totals import Gathered

_CODED_DOCUMENTS = 10_000
_FEWEST_PAIRS = 1_000
_TELLS = 0.2
"""A correlation below which no column has nearly all pairs right."""
_QUANTILES = np.linspace(0, 1, thresholds.LEAK_BINS + 1)[1:-1]


def harmful_judgments(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> Iterator[Finding]:
    """What `judgment_doubts` finds, and columns that are the grade in other words."""
    copies = grade_copies(sampled(data, thresholds.SAMPLE_DOCUMENTS))
    for name in copies:
        yield _copy(name)
    told = set(copies)
    for doubt in judgment_doubts(data, text_features):
        if not set(doubt.columns) & told:
            yield _of(doubt)
            told.update(doubt.columns)
    for name in grade_codes(data):
        if name not in told:
            yield _code(name)


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


def grade_codes(data: RankingDataset) -> list[str]:
    """The columns that know the grade by some function of their values, rising or not.

    The function is the mean grade of what has about the same value in the other half of the
    queries, so that a column of chance has half of the pairs right.
    """
    data = sampled(data, _CODED_DOCUMENTS)
    relevant = np.add.reduceat(data.labels > 0, data.offsets[:-1], dtype=np.int64)
    pairs = relevant * (np.diff(data.offsets) - relevant)
    few = (pairs > 0).sum() < thresholds.FEWEST_QUERIES or pairs.sum() < _FEWEST_PAIRS
    if few or not data.n_features:
        return []
    half = np.random.default_rng(0).permutation(data.n_queries) % 2
    side = np.repeat(half, np.diff(data.offsets))
    centred = data.labels - data.labels.mean(dtype=np.float64)
    names, decoded = [], []
    for name, column in zip(data.feature_names, data.features.T, strict=True):
        grade = _decoded(column, data.labels, side)
        grade -= grade.mean()
        if (grade @ centred) ** 2 > _TELLS**2 * (grade @ grade) * (centred @ centred):
            names.append(name)
            decoded.append(grade.astype(np.float32))
    if not names:
        return []
    telling = replace(data, features=np.column_stack(decoded), feature_names=tuple(names))
    right = shares_right(telling)
    return [names[c] for c in np.flatnonzero(right > thresholds.SEPARATED).tolist()]


def _decoded(
    values: NDArray[np.float32], labels: NDArray[np.float32], side: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of each document the mean grade of those of the other half in the bin of its value."""
    there = values[~np.isnan(values)]
    inner = np.quantile(there, _QUANTILES, method="inverted_cdf") if len(there) else there
    bins = 1 + np.searchsorted(np.unique(inner), values, side="left")
    bins[np.isnan(values)] = 0
    cells, width = side * (len(inner) + 2) + bins, len(inner) + 2
    counts = np.bincount(cells, minlength=2 * width)
    sums = np.bincount(cells, labels, minlength=2 * width)
    mean = np.divide(
        sums, counts, out=np.full(2 * width, labels.mean(dtype=float)), where=counts > 0
    )
    decoded: NDArray[np.float64] = mean[(1 - side) * width + bins]
    return decoded


def _code(name: str) -> Finding:
    return Finding(
        "leak",
        WARNING,
        name,
        f"'{name}' is a code of the grade: what grade other queries have at its values tells more "
        f"than {thresholds.SEPARATED:.0%} of the pairs",
        "leave it out: it was made from the judgments, and will not be there in a search",
        (name,),
    )


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
            yield _slip_finding(found, level, [one for one in levels if one != level])


def _far(levels: list[float]) -> list[float]:
    """The levels above a gap that is wider than others allow."""
    gaps = np.diff(levels)
    widest = int(np.argmax(gaps))
    others = np.delete(gaps, widest)
    far = gaps[widest] > thresholds.GAP_OF_GRADES * others.max()
    return levels[widest + 1 :] if far else []


def _slip_finding(found: Gathered, level: float, others: list[float]) -> Finding:
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


def queries_without_contrast(found: Gathered) -> Iterator[Finding]:
    """A finding on each kind, a warning where there are many."""
    if found.single_ids:
        yield _contrast_finding(
            found,
            "one-document-queries",
            found.lengths[1],
            "one document",
            thresholds.ONE_DOCUMENT,
            found.single_ids,
            "judge more documents of them: there is no order to learn, and any metric is perfect",
        )
    if found.alike:
        yield _contrast_finding(
            found,
            "no-contrast",
            found.alike,
            "documents of one grade only",
            thresholds.WITHOUT_CONTRAST,
            found.alike_ids,
            "training passes over them: judge further documents, or grade finer",
        )


def _contrast_finding(
    found: Gathered, check: str, count: int, what: str, limit: float, ids: list[str], advice: str
) -> Finding:
    share = count / found.queries
    many = share > limit and found.queries >= thresholds.FEWEST_QUERIES
    severity: Severity = WARNING if many else NOTE
    several = "1 query has" if count == 1 else f"{count:,} queries have"
    return Finding(
        check,
        severity,
        f"{count:,} queries",
        f"{several} {what} ({share:.1%}), as '{ids[0]}'",
        advice,
        (),
        tuple(ids),
    )
