"""Labels: grades without an irrelevant one, or that contradict; columns that are the grade; order.

For the last, of each query the correlation between its labels and a linear ranker of the other
queries is taken (on ranks, by Fisher's discriminant). Labels shuffled within the query give one of
mean 0 and variance 1/(n − 1), those reversed the negative one. Reversed labels are detected by the
number of queries that are far below 0, of which chance makes a hundredth. Where the queries of a
file, a part or a stretch are concerned, the mean correlation there is compared with that of all
others, which takes far fewer, and detects shuffled labels too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.judged_data import FEWEST_PAIRS, judgment_warnings, shares_right
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.queries import contradicting_copies
from owpc_ltr.inspection.result import WARNING, Finding, of_columns
from owpc_ltr.inspection.sample import (
    Sample,
    Stretches,
    queries_within,
    query_of_rows,
    sampled,
    value_bins,
)
from owpc_ltr.inspection.totals import Totals

_CODED_DOCUMENTS = 10_000
_TELLS = 0.2
"""A correlation below which no column has nearly all pairs right."""


def harmful_judgments(data: RankingDataset) -> Iterator[Finding]:
    """What `judgment_warnings` finds, and columns that are the grade in other words."""
    reported: set[str] = set()
    for name in grade_copies(sampled(data, thresholds.SAMPLE_DOCUMENTS)):
        yield _leak(
            name, "the grade in other words: its values alone tell every grade of every query"
        )
        reported.add(name)
    for warning in judgment_warnings(data):
        if not set(warning.columns) & reported:
            reported.update(warning.columns)
            yield Finding(
                warning.check,
                WARNING,
                warning.columns[0] if warning.columns else "judgments",
                warning.message,
                advice=warning.advice,
                columns=warning.columns,
            )
    for name in grade_codes(data):
        if name not in reported:
            yield _leak(
                name,
                "a code of the grade: what grade other queries have at its values tells more than "
                f"{thresholds.SEPARATED:.0%} of the pairs",
            )


def _leak(name: str, what: str) -> Finding:
    advice = "leave it out: it was made from the judgments, and will not be there in a search"
    return of_columns("leak", [name], f"'{name}' is {what}", advice)


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
    return [data.feature_names[column] for column in np.flatnonzero(rises | falls).tolist()]


def grade_codes(data: RankingDataset) -> list[str]:
    """The columns that know the grade by some function of their values, rising or not.

    The function is the mean grade of what has about the same value in the other half of the
    queries, so that a column of chance has half of the pairs right.
    """
    data = sampled(data, _CODED_DOCUMENTS)
    relevant = np.add.reduceat(data.labels > 0, data.offsets[:-1], dtype=np.int64)
    pairs = relevant * (np.diff(data.offsets) - relevant)
    few = (pairs > 0).sum() < thresholds.FEWEST_QUERIES or pairs.sum() < FEWEST_PAIRS
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
    right = shares_right(
        replace(data, features=np.column_stack(decoded), feature_names=tuple(names))
    )
    return [names[c] for c in np.flatnonzero(right > thresholds.SEPARATED).tolist()]


def _decoded(
    values: NDArray[np.float32], labels: NDArray[np.float32], side: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of each document the mean grade of those of the other half in the bin of its value."""
    width = thresholds.LEAK_BINS + 1
    bins = value_bins(values, thresholds.LEAK_BINS)
    cells = side * width + bins
    counts = np.bincount(cells, minlength=2 * width)
    sums = np.bincount(cells, labels, minlength=2 * width)
    mean = np.divide(
        sums, counts, out=np.full(2 * width, labels.mean(dtype=float)), where=counts > 0
    )
    decoded: NDArray[np.float64] = mean[(1 - side) * width + bins]
    return decoded


def no_irrelevant_grade(grades: Collection[float]) -> Iterator[Finding]:
    """Where every document is relevant to what takes a label above 0 for relevant."""
    if len(grades) > 1 and (lowest := min(grades)) > 0:
        yield Finding(
            "no-irrelevant-grade",
            WARNING,
            "labels",
            f"no document is irrelevant: the lowest label is {lowest:g}, and a label above 0 is "
            "relevant to map, mrr and losses of two grades",
            f"subtract {lowest:g} from all labels, or choose by a metric of grades, as ndcg@10",
        )


def contradicting_grades(totals: Totals, sample: RankingDataset) -> Iterator[Finding]:
    """A finding on the documents told by their ids, or without these by the sample's features."""
    if sample.doc_ids is None:
        rows = contradicting_copies(sample)
        if len(rows) <= thresholds.SAME_FEATURES * sample.n_documents:
            return
        first = sample.query_ids[int(query_of_rows(sample)[rows[0]])].as_py()
        count, queries = f"{len(rows):,} of {sample.n_documents:,}", [first]
        what = "have the features of another of their query, and another grade"
    elif totals.contradicting:
        count = f"{totals.contradicting:,} of {totals.columns.rows:,}"
        queries = totals.contradicting_ids
        what = "stand in their query before, with another grade"
    else:
        return
    yield Finding(
        "contradicting-grades",
        WARNING,
        "grades",
        f"{count} documents {what}, as in '{queries[0]}'",
        advice="keep one of them: which grade is right its judges must say; a model learns both, "
        "and no order satisfies them",
        queries=tuple(queries),
    )


_CELLS = 1_000_000
_COLUMNS = 300
"""At most so many features are looked at: memory grows with their square."""
_FOLDS = 5
_RIDGE = 0.05
_FEWEST_DOCUMENTS = 3
_FAR = 2.33
"""Standard deviations that a hundredth of shuffled queries are below."""


class _Agreement(NamedTuple):
    """Of queries of several grades their number, correlation, and its variance by chance."""

    query: NDArray[np.int64]
    correlation: Vector
    variance: Vector


def label_agreement(sample: Sample) -> Iterator[Finding]:
    """A finding where a part of the queries has labels that are reversed, or shuffled."""
    agreement = _agreement(sample.data)
    if len(agreement.query) >= thresholds.FEWEST_QUERIES:
        finding = _in_stretch(sample, agreement) or _in_no_order(sample, agreement)
        if finding is not None:
            yield finding


def _in_stretch(sample: Sample, agreement: _Agreement) -> Finding | None:
    """Whether the mean correlation of a stretch is about 0 or below, and that of the others not.

    The difference is held against its standard error and the union bound of a normal tail.
    """
    every = Stretches.of(sample, agreement.query)
    if not len(every.first):
        return None
    block, r = sample.block[agreement.query], agreement.correlation
    sums, squares = (
        every.sums(np.bincount(block, values, len(sample.blocks)).astype(np.float64))
        for values in (r, r * r)
    )
    n = every.inside, every.outside
    inside, outside = (total / count for total, count in zip(sums, n, strict=True))
    spread = sum(
        (total / count - mean**2) / count
        for total, count, mean in zip(squares, n, (inside, outside), strict=True)
    )
    # Few queries may agree by chance: none varies less than shuffled labels do.
    floor = float(agreement.variance.mean()) * (1 / n[0] + 1 / n[1])
    below = (outside - inside) / np.sqrt(np.maximum(spread, floor))
    below[inside > thresholds.NO_AGREEMENT * outside] = 0.0
    best = int(np.argmax(below))
    if below[best] <= np.sqrt(2 * np.log(3 * len(below) / thresholds.CHANCE)):
        return None
    stretch = every.at(best)
    reverse = bool(inside[best] < -outside[best] / 2)
    where = f"{sample.place(stretch)} the labels have"
    return _agreement_finding(where, sample.ends(stretch), reverse=reverse)


def _in_no_order(sample: Sample, agreement: _Agreement) -> Finding | None:
    """Whether more queries are far below 0 than chance makes."""
    from scipy.stats import binom

    far = agreement.correlation < -_FAR * np.sqrt(agreement.variance)
    by_chance = binom.ppf(1 - thresholds.CHANCE / 3, len(far), 0.01)
    if far.sum() <= max(by_chance, thresholds.REVERSED * len(far)):
        return None
    first = agreement.query[np.argsort(agreement.correlation, kind="stable")[:5]]
    ids = tuple(sample.data.query_ids[int(query)].as_py() for query in first)
    where = f"in at least {far.mean():.0%} of the queries, as in '{ids[0]}', the labels have"
    return _agreement_finding(where, ids, reverse=True)


def _agreement(data: RankingDataset) -> _Agreement:
    """Each query's correlation between its labels and a ranker of the other folds."""
    if not data.n_features:
        return _Agreement(np.empty(0, np.int64), np.empty(0), np.empty(0))
    chosen = queries_within(data, _CELLS // data.n_features, seed=1)
    part = data if len(chosen) == data.n_queries else data.select(chosen)
    sizes = np.diff(part.offsets)
    labels = _standardised(_ranks(part.labels[:, None]), part)[:, 0]
    features = _standardised(_ranks(part.features), part)
    if part.n_features > _COLUMNS:
        # Those that vary in the most queries: the labels have no say in the choice.
        often = np.argsort(-np.count_nonzero(features, axis=0), kind="stable")
        features = features[:, np.sort(often[:_COLUMNS])]
    each = np.add.reduceat(features * labels[:, None], part.offsets[:-1], axis=0)
    fold = np.random.default_rng(0).permutation(part.n_queries) % _FOLDS
    scores = np.empty(part.n_documents)
    row_fold = np.repeat(fold, sizes)
    parts = [features[row_fold == k] for k in range(_FOLDS)]
    products = [one.T @ one for one in parts]
    for k in range(_FOLDS):
        within = sum(products) - products[k]
        ridge = _RIDGE * np.trace(within) / len(within) + np.finfo(np.float64).tiny
        weights = np.linalg.solve(within + ridge * np.eye(len(within)), each[fold != k].sum(axis=0))
        scores[row_fold == k] = parts[k] @ weights
    standard = _standardised(scores[:, None], part)[:, 0]
    correlation = np.add.reduceat(standard * labels, part.offsets[:-1]) / sizes
    varies = [np.add.reduceat(np.abs(one), part.offsets[:-1]) > 0 for one in (standard, labels)]
    good = varies[0] & varies[1] & (sizes >= _FEWEST_DOCUMENTS)
    return _Agreement(chosen[good], correlation[good], 1.0 / (sizes[good] - 1))


def _ranks(columns: NDArray[np.float32]) -> NDArray[np.float64]:
    """The rank of each value in its column, tied ones at their mean; missing ones below all."""
    from scipy.stats import rankdata

    ranks: NDArray[np.float64] = rankdata(np.nan_to_num(columns, nan=-np.inf), axis=0)
    return ranks


def _standardised(columns: NDArray[np.float64], data: RankingDataset) -> NDArray[np.float64]:
    """Columns of mean 0 and variance 1 in each query; 0 where they do not vary."""
    sizes = np.diff(data.offsets)
    mean = np.add.reduceat(columns, data.offsets[:-1], axis=0) / sizes[:, None]
    centred = columns - np.repeat(mean, sizes, axis=0)
    spread = np.sqrt(np.add.reduceat(centred**2, data.offsets[:-1], axis=0) / sizes[:, None])
    # Ranks are halves at least; scores of one value differ by rounding.
    spread[spread <= 1e-9 * np.abs(columns).max(axis=0, initial=0.0)] = np.inf
    standard: NDArray[np.float64] = centred / np.repeat(spread, sizes, axis=0)
    return standard


def _agreement_finding(where: str, queries: tuple[str, ...], *, reverse: bool) -> Finding:
    check, advice = "inverted-labels", "check the scale of these grades"
    what = "the reverse of what orders the others, as if best and worst were exchanged"
    if not reverse:
        check = "partly-shuffled-labels"
        advice = "check that these labels were matched to the right documents"
        what = "nothing to do with what orders the others, as if they were shuffled"
    return Finding(check, WARNING, "labels", f"{where} {what}", advice, queries=queries)
