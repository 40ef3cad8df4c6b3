"""Every check over data in files or parts, in bounded memory; `train` and `log-features` make some.

Checks of one row after another are made in one pass over all; values are compared on a sample.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests, Vector, scrambled
from owpc_ltr.data.dataset import RankingDataset, numbers_in
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.judged_data import FEWEST_PAIRS, judgment_warnings, shares_right
from owpc_ltr.inspection.measures import (
    ALWAYS_ABSENT,
    CHANCE,
    CHECK_TEMPLATES,
    DRIFT,
    FEWEST_QUERIES,
    FEWEST_SPIKES,
    LEAK_BINS,
    LEVELS,
    MUCH_PRESENT,
    NEARLY,
    NO_AGREEMENT,
    OFTEN_MISSING,
    RARELY_ABSENT,
    REVERSED,
    SAME_FEATURES,
    SAME_QUERIES,
    SAMPLE_DOCUMENTS,
    SEPARATED,
    ColumnFacts,
    Data,
    Sample,
    Stretch,
    Stretches,
    column_facts,
    constant_columns,
    facts_together,
    queries_within,
    query_of_rows,
    sampled,
    take_sample,
    value_bins,
)
from owpc_ltr.inspection.result import (
    CHECKS,
    NOTE,
    WARNING,
    DataFigures,
    FeatureRow,
    Finding,
    Inspection,
    listed,
    of_columns,
)
from owpc_ltr.signatures import Progress

Mask = NDArray[np.bool_]
_PAIRS = 5
_ADVICE = "give a query one id, and keep it on one side: what is held out has been learned else"
_ALIKE = "features cannot tell these apart: see whether they are one query"


class Identities(NamedTuple):
    """By what each query of a part is known: its id, and numbers, 0 where there is none.

    `graded` is of the features and grades of all documents, where there are several that differ,
    `content` of their features alone.
    """

    source: int
    ids: pa.StringArray
    text: Digests
    graded: Digests
    content: Digests


def same_queries(identities: Sequence[Identities], sources: Sequence[str]) -> Iterator[Finding]:
    """Queries that are on two sides: the files, or of one file those that `train` makes of it.

    By their ids (in two files), their texts without case and punctuation, or the features and
    grades of all their documents. Of other texts, or other grades, they are queries that the
    features cannot tell apart, which is but noted.
    """
    numbers, arrays, *digests = zip(*identities, strict=True)
    ids = pa.concat_arrays(arrays)
    text, graded, content = map(np.concatenate, digests)
    kinds: list[tuple[str, Digests, str]] = [
        ("text", text, _ADVICE),
        ("features and grades of all documents", np.where(text == 0, graded, 0), _ADVICE),
        ("features of all documents, and other texts or grades,", content, _ALIKE),
    ]
    side: NDArray[Any]
    if len(sources) == 1:
        side = names = HashSplit().sides_of(ids.to_pylist())
        where = "on two sides of the split that train makes"
    else:
        side = np.repeat(numbers, [len(array) for array in arrays])
        names, where = np.array(sources)[side], "in two files"
        codes = np.asarray(ids.dictionary_encode().indices.to_numpy(), np.uint64)
        kinds.insert(0, ("id", codes + np.uint64(1), _ADVICE))
    matched = np.zeros(len(text), bool)
    for what, codes, advice in kinds:
        pairs, crossing = _crossing(codes, side, (codes != 0) & ~matched)
        count = int(crossing.sum())
        if pairs:
            many = advice == _ADVICE and count > SAME_QUERIES * len(text)
            both = " and ".join(f"'{ids[row].as_py()}' ({names[row]})" for row in pairs[0])
            first = dict.fromkeys(ids[row].as_py() for pair in pairs[:_PAIRS] for row in pair)
            yield Finding(
                "split-leak",
                WARNING if many else NOTE,
                f"{count:,} queries",
                f"{count:,} queries with the same {what} are {where}, as {both}",
                advice=advice,
                queries=tuple(first),
            )
        matched |= crossing


def _crossing(
    codes: Digests, sides: NDArray[Any], usable: Mask
) -> tuple[list[tuple[int, int]], Mask]:
    """Pairs of usable queries with the same code on two sides, and who is in any of them."""
    crossing = np.zeros(len(codes), bool)
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return [], crossing
    rows = rows[np.argsort(codes[rows], kind="stable")]
    new = np.append(True, codes[rows][1:] != codes[rows][:-1])
    group = np.cumsum(new) - 1
    # What most queries share is nothing of theirs.
    shared = np.bincount(group)[group] > max(2, len(codes) // 2)
    first = rows[np.flatnonzero(new)][group]
    other = (sides[rows] != sides[first]) & ~shared
    mixed = np.bincount(group, other) > 0
    crossing[rows[mixed[group]]] = True
    return list(zip(first[other].tolist(), rows[other].tolist(), strict=True)), crossing


_CELLS = 1 << 20


def identities_of(part: RankingDataset, source: int) -> Identities:
    """The identities of all queries of a part; the order of the documents is all one."""
    rows, starts = row_digests(part.features), part.offsets[:-1]
    graded = _mixed(rows ^ value_bits(part.labels))
    # Queries in which no document differs from another are not known by their documents.
    differ = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    with_grades, alone = (
        np.where(differ, np.add.reduceat(digests, starts), np.uint64(0))
        for digests in (graded, rows)
    )
    return Identities(source, part.query_ids, _texts(part), with_grades, alone)


def normalised(texts: pa.StringArray) -> pa.StringArray:
    """Texts without case, punctuation, and forms of the same letter.

    >>> normalised(pa.array(["Spider-Man  2", "spider man 2"])).to_pylist()
    ['spider man 2', 'spider man 2']
    """
    plain = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    words = pc.replace_substring_regex(plain, r"[^\pL\pN]+", " ")
    return pc.utf8_trim_whitespace(words)


def _texts(part: RankingDataset) -> Digests:
    """Of the parameters that a query was logged with: its words, and whatever else it asks."""
    if part.query_params is None:
        return np.zeros(part.n_queries, np.uint64)
    texts = normalised(part.query_params)
    digests = (
        hashlib.blake2b(text.encode(), digest_size=8).digest() if text else bytes(8)
        for text in texts.to_pylist()
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def row_digests(features: NDArray[np.float32]) -> Digests:
    """A number for each row, from the bits of its values."""
    rows, columns = features.shape
    factors = _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)
    step = max(1, _CELLS // max(columns, 1))
    digests = np.empty(rows, np.uint64)
    for first in range(0, rows, step):
        digests[first : first + step] = value_bits(features[first : first + step]) @ factors
    # Rows are summed: each must be mixed first, or a change could move from one to another.
    return _mixed(digests)


def value_bits(features: NDArray[np.float32]) -> Digests:
    """The bits of the values; all NaN have the same ones, and so have the zeros."""
    values = features + np.float32(0)
    values[np.isnan(values)] = np.nan
    return values.view(np.uint32).astype(np.uint64)


def _mixed(numbers: Digests) -> Digests:
    return scrambled(numbers * np.uint64(0x9E3779B97F4A7C15))


def repeated(data: RankingDataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The documents whose id stands in their query before: with the same grade, with another."""
    if data.doc_ids is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ids = data.doc_ids.dictionary_encode()
    keys = query_of_rows(data) * len(ids.dictionary) + numbers_in(ids.indices).astype(np.int64)
    return _again(keys, data.labels)


def contradicting_copies(data: RankingDataset) -> NDArray[np.int64]:
    """Documents with the features of one other of their query, told apart by chance from others."""
    keys = row_digests(data.features) + query_of_rows(data).astype(np.uint64)
    _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    pairs = sizes[group] == 2
    _, rows = _again(np.where(pairs, group, -1 - np.arange(len(group))), data.labels)
    if not len(rows):
        return rows
    own = np.zeros(data.n_documents, np.int64)
    for column in data.features.T:
        _, number, counts = np.unique(column, return_inverse=True, return_counts=True)
        own += counts[number] == sizes[group]
    single = own[sizes[group] == 1]
    return rows[own[rows] >= max(1.0, np.median(single) if len(single) else np.inf)]


def _again(
    keys: NDArray[np.int64], labels: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows whose key stands before: with the same label, and with another."""
    order = np.argsort(keys, kind="stable")
    earlier, later = order[:-1], order[1:]
    again, same = keys[earlier] == keys[later], labels[earlier] == labels[later]
    return np.sort(later[again & same]), np.sort(later[again & ~same])


_NAMED = 5
_BLOCK_CELLS = 1 << 20


class Totals:
    """Counts of all queries; of columns what can be told of one row after another.

    `gone` counts, by column, the queries of several documents in which it is absent (missing or
    0) throughout, `gone_rows` their documents, `nearly` the queries in which it is so in half of
    the documents or more, though not in all. Lists of ids hold the first few.
    """

    def __init__(self, columns: int) -> None:
        self.columns = column_facts(np.empty((0, columns), np.float32))
        self.absent, self.gone, self.gone_rows, self.nearly = np.zeros((4, columns), np.int64)
        self.gone_ids: dict[int, list[str]] = {}
        self.lengths: Counter[int] = Counter()
        self.grades: Counter[float] = Counter()
        self.without_contrast = 0
        self.contradicting = 0
        self.contradicting_ids: list[str] = []
        self.repeated = 0
        self.repeated_ids: list[str] = []
        self.repeated_document = ""
        self.parts = 0
        self.identities: list[Identities] = []

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return sum(self.lengths.values())

    def add(self, part: RankingDataset) -> None:
        """Look at another part."""
        self.columns = facts_together(self.columns, column_facts(part.features))
        for first, last in _query_blocks(part):
            self._add_absences(part, first, last)
        sizes = np.diff(part.offsets)
        for counter, values in ((self.lengths, sizes), (self.grades, part.labels)):
            different, counts = np.unique(values, return_counts=True)
            counter.update(dict(zip(different.tolist(), counts.tolist(), strict=True)))
        highest = np.maximum.reduceat(part.labels, part.offsets[:-1])
        lowest = np.minimum.reduceat(part.labels, part.offsets[:-1])
        self.without_contrast += int(((highest == lowest) & (sizes > 1)).sum())
        same, other = repeated(part)
        self.contradicting += len(other)
        _name(self.contradicting_ids, part, _queries_of(part, other))
        if len(same) and not self.repeated and part.doc_ids is not None:
            self.repeated_document = str(part.doc_ids[int(same[0])])
        self.repeated += len(same)
        _name(self.repeated_ids, part, _queries_of(part, same))
        self.parts += 1

    def _add_absences(self, part: RankingDataset, first: int, last: int) -> None:
        """Of the queries from number `first` to before `last`."""
        starts, sizes = part.offsets[first:last], np.diff(part.offsets[first : last + 1])
        # Neither 0 nor missing: both compare false.
        absent = ~(np.abs(part.features[starts[0] : part.offsets[last]]) > 0)
        counts = np.add.reduceat(absent, starts - starts[0], axis=0, dtype=np.int32)
        several = (sizes > 1)[:, None]
        gone = (counts == sizes[:, None]) & several
        self.absent += counts.sum(axis=0)
        self.gone += gone.sum(axis=0)
        self.gone_rows += (gone * sizes[:, None]).sum(axis=0)
        self.nearly += ((2 * counts >= sizes[:, None]) & ~gone & several).sum(axis=0)
        for column in np.flatnonzero(gone.any(axis=0)).tolist():
            queries = first + np.flatnonzero(gone[:, column])
            _name(self.gone_ids.setdefault(column, []), part, queries)


def totals_of(named: Mapping[str, Data], *, identify: bool = True) -> Totals:
    """One pass over all sources; `identify`: also by what each query is known again."""
    totals = Totals(next(iter(named.values())).n_features)
    for number, data in enumerate(named.values()):
        for part in data.each(lambda part: part, whole=True):
            totals.add(part)
            if identify:
                totals.identities.append(identities_of(part, number))
    return totals


def _query_blocks(part: RankingDataset) -> Iterator[tuple[int, int]]:
    """Whole queries of about a million values, as (first, after the last)."""
    rows = max(1, _BLOCK_CELLS // max(part.n_features, 1))
    first = 0
    while first < part.n_queries:
        last = int(np.searchsorted(part.offsets, part.offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), part.n_queries)
        yield first, last
        first = last


def _queries_of(part: RankingDataset, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of the queries of these rows, each once."""
    return np.unique(np.searchsorted(part.offsets, rows, side="right") - 1)


def _name(ids: list[str], part: RankingDataset, queries: NDArray[np.int64]) -> None:
    """Add the ids of the first few of these queries."""
    ids += [part.query_ids[query].as_py() for query in queries[: _NAMED - len(ids)].tolist()]


_BINS = 22


def drift_between_files(
    sample: Sample, files: Sequence[str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """A finding for each file in which columns have other values than in all others.

    Columns that are absent for a while, as other findings say, are left out.
    """
    number = np.array([files.index(block.file) for block in sample.blocks])[sample.block]
    own = number == np.arange(len(files))[:, None]
    counts = own.sum(axis=1)
    enough = np.minimum(counts, len(number) - counts) >= FEWEST_QUERIES
    if not enough.any():
        return
    looks = len(files) * sample.data.n_features * _BINS
    limit = np.sqrt(2 * np.log(2 * looks / CHANCE))
    absent = {
        name for finding in findings if finding.check == "missing-spike" for name in finding.columns
    }
    drifted: dict[int, list[int]] = {}
    for column, name in enumerate(sample.data.feature_names):
        if name not in absent:
            apart = np.zeros(len(files))
            apart[enough] = _distances(sample, column, own[enough].astype(np.float64), limit)
            # Of two files, which are as far from each other, it is the last that is told.
            worst = int(np.flatnonzero(np.isclose(apart, apart.max()))[-1])
            if apart[worst] > DRIFT:
                drifted.setdefault(worst, []).append(column)
    for file, columns in sorted(drifted.items()):
        yield _drift_finding(sample, files[file], own[file], columns)


def _distances(
    sample: Sample, column: int, own: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """The Kolmogorov–Smirnov distance of each file from all others; 0 where it may be chance.

    Distributions are means over queries, whose documents are not independent, of the share of
    documents up to a value. The difference of two means is held against the limit of so many
    standard errors: the greater one of those by the variances of both sides and by their mean
    variance, for the few queries of one side may agree by chance.
    """
    bins = value_bins(sample.data.features[:, column], _BINS)
    sizes, width = np.diff(sample.data.offsets), int(bins.max()) + 1
    counts = np.bincount(sample.query * width + bins, minlength=len(sizes) * width)
    shares = counts.reshape(-1, width).cumsum(axis=1) / sizes[:, None]
    inside = own.sum(axis=1, keepdims=True)
    n = np.array([inside, len(sizes) - inside])
    means, squares = (
        np.array([own @ values, values.sum(axis=0) - own @ values]) / n
        for values in (shares, shares**2)
    )
    variances = np.maximum(squares - means**2, 0.0)
    errors = np.maximum(
        (variances / n).sum(axis=0), (variances * n).sum(axis=0) / len(sizes) * (1 / n).sum(axis=0)
    )
    distances = np.abs(means[0] - means[1])
    distances[distances <= limit * np.sqrt(errors)] = 0.0
    most: NDArray[np.float64] = distances.max(axis=1)
    return most


def _drift_finding(
    sample: Sample, file: str, queries: NDArray[np.bool_], columns: Sequence[int]
) -> Finding:
    rows = queries[sample.query]
    names = [sample.data.feature_names[column] for column in columns]
    medians = [
        [_median(sample.data.features[side, column]) for side in (rows, ~rows)]
        for column in columns
    ]
    each = [
        f"'{name}' (median {here}, elsewhere {there})"
        for name, (here, there) in zip(names, medians, strict=True)
    ]
    return of_columns(
        "feature-drift",
        names,
        f"in {file} values differ from those of the other files: {listed(each)}",
        "log again what was logged by another engine version, field, unit or order of columns; "
        "where the documents changed, split by query and not by time",
    )


def _median(values: NDArray[np.float32]) -> str:
    values = values[~np.isnan(values)]
    return f"{float(np.median(values)):.4g}" if len(values) else "missing"


_CODED_DOCUMENTS = 10_000
_TELLS = 0.2
"""A correlation below which no column has nearly all pairs right."""


def harmful_judgments(data: RankingDataset) -> Iterator[Finding]:
    """What `judgment_warnings` finds, and columns that are the grade in other words."""
    reported: set[str] = set()
    for name in grade_copies(sampled(data, SAMPLE_DOCUMENTS)):
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
                f"{SEPARATED:.0%} of the pairs",
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
    if data.n_queries < FEWEST_QUERIES or not 2 <= len(levels) <= LEVELS:
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
    few = (pairs > 0).sum() < FEWEST_QUERIES or pairs.sum() < FEWEST_PAIRS
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
    return [names[c] for c in np.flatnonzero(right > SEPARATED).tolist()]


def _decoded(
    values: NDArray[np.float32], labels: NDArray[np.float32], side: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of each document the mean grade of those of the other half in the bin of its value."""
    width = LEAK_BINS + 1
    bins = value_bins(values, LEAK_BINS)
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
        if len(rows) <= SAME_FEATURES * sample.n_documents:
            return
        first = sample.query_ids[int(query_of_rows(sample)[rows[0]])].as_py()
        count, queries = f"{len(rows):,} of {sample.n_documents:,}", [first]
        what = "have the features of another of their query, and another grade"
    elif totals.contradicting:
        count = f"{totals.contradicting:,} of {totals.columns.rows:,}"
        queries = totals.contradicting_ids
        what = "occur earlier in their query with another grade"
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


def repeated_documents(totals: Totals) -> Iterator[Finding]:
    """Documents that stand in their query before, with the same grade."""
    if totals.repeated:
        yield Finding(
            "repeated-documents",
            NOTE,
            "documents",
            f"{totals.repeated:,} of {totals.columns.rows:,} documents stand in their query before "
            f"with the same grade, as '{totals.repeated_document}' in '{totals.repeated_ids[0]}'",
            advice="keep one of each, because losses and metrics count both; or the file's "
            "comments do not begin with document ids",
            queries=tuple(totals.repeated_ids),
        )


_TRAINED_CELLS = 1_000_000
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
    if len(agreement.query) >= FEWEST_QUERIES:
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
    below[inside > NO_AGREEMENT * outside] = 0.0
    best = int(np.argmax(below))
    if below[best] <= np.sqrt(2 * np.log(3 * len(below) / CHANCE)):
        return None
    stretch = every.at(best)
    reverse = bool(inside[best] < -outside[best] / 2)
    where = f"{sample.place(stretch)} the labels have"
    return _agreement_finding(where, sample.ends(stretch), reverse=reverse)


def _in_no_order(sample: Sample, agreement: _Agreement) -> Finding | None:
    """Whether more queries are far below 0 than chance makes."""
    from scipy.stats import binom

    far = agreement.correlation < -_FAR * np.sqrt(agreement.variance)
    by_chance = binom.ppf(1 - CHANCE / 3, len(far), 0.01)
    if far.sum() <= max(by_chance, REVERSED * len(far)):
        return None
    first = agreement.query[np.argsort(agreement.correlation, kind="stable")[:5]]
    ids = tuple(sample.data.query_ids[int(query)].as_py() for query in first)
    where = f"in at least {far.mean():.0%} of the queries, as in '{ids[0]}', the labels have"
    return _agreement_finding(where, ids, reverse=True)


def _agreement(data: RankingDataset) -> _Agreement:
    """Each query's correlation between its labels and a ranker of the other folds."""
    if not data.n_features:
        return _Agreement(np.empty(0, np.int64), np.empty(0), np.empty(0))
    chosen = queries_within(data, _TRAINED_CELLS // data.n_features, seed=1)
    part = data if len(chosen) == data.n_queries else data.select(chosen)
    sizes = np.diff(part.offsets)
    labels = standardised_within_queries(column_ranks(part.labels[:, None]), part)[:, 0]
    features = standardised_within_queries(column_ranks(part.features), part)
    if part.n_features > _COLUMNS:
        # Those that vary in the most queries: the labels have no say in the choice.
        often = np.argsort(-np.count_nonzero(features, axis=0), kind="stable")
        features = features[:, np.sort(often[:_COLUMNS])]
    each = np.add.reduceat(features * labels[:, None], part.offsets[:-1], axis=0)
    fold = np.random.default_rng(0).permutation(part.n_queries) % _FOLDS
    scores = np.empty(part.n_documents)
    row_fold = np.repeat(fold, sizes)
    parts = [features[row_fold == k] for k in range(_FOLDS)]
    products = [matrix.T @ matrix for matrix in parts]
    for k in range(_FOLDS):
        within = sum(products) - products[k]
        ridge = _RIDGE * np.trace(within) / len(within) + np.finfo(np.float64).tiny
        weights = np.linalg.solve(within + ridge * np.eye(len(within)), each[fold != k].sum(axis=0))
        scores[row_fold == k] = parts[k] @ weights
    standard = standardised_within_queries(scores[:, None], part)[:, 0]
    correlation = np.add.reduceat(standard * labels, part.offsets[:-1]) / sizes
    varies = [
        np.add.reduceat(np.abs(values), part.offsets[:-1]) > 0 for values in (standard, labels)
    ]
    good = varies[0] & varies[1] & (sizes >= _FEWEST_DOCUMENTS)
    return _Agreement(chosen[good], correlation[good], 1.0 / (sizes[good] - 1))


def column_ranks(columns: NDArray[np.float32]) -> NDArray[np.float64]:
    """The rank of each value in its column, tied ones at their mean; missing ones below all."""
    from scipy.stats import rankdata

    ranks: NDArray[np.float64] = rankdata(np.nan_to_num(columns, nan=-np.inf), axis=0)
    return ranks


def standardised_within_queries(
    columns: NDArray[np.float64], data: RankingDataset
) -> NDArray[np.float64]:
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
    often = (rates > OFTEN_MISSING) & ~facts.empty
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
    bound = np.sqrt(np.log(2 * looks / CHANCE) / 2 * variance)
    sizes = np.diff(sample.data.offsets)
    stretches = {}
    for column in range(sample.data.n_features):
        absent = ~(np.abs(sample.data.features[:, column]) > 0)
        shares = np.add.reduceat(absent, sample.data.offsets[:-1], dtype=np.int64) / sizes
        by_block = np.bincount(sample.block, shares, len(sample.blocks)).astype(np.float64)
        sums = every.sums(by_block)
        inside, outside = sums[0] / every.inside, sums[1] / every.outside
        gone = (inside >= ALWAYS_ABSENT) & (outside <= MUCH_PRESENT)
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
    if not FEWEST_SPIKES <= gone <= totals.queries / 2 or rest <= 0:
        return False
    rate = (int(totals.absent[column]) - int(totals.gone_rows[column])) / rest
    if rate > RARELY_ABSENT or nearly > NEARLY * gone:
        return False
    expected = sum(count * rate**n for n, count in totals.lengths.items() if n > 1)
    if expected == 0:
        return True
    # Chernoff's bound for a Poisson count: its tail at k is at most exp(−k log(k/m) + k − m).
    limit = np.log(totals.gone.size / CHANCE)
    return bool(gone * (np.log(gone / expected) - 1) + expected > limit and gone > expected)


_GRADES = 50


def all_checks(named: Mapping[str, Data], progress: Progress) -> Inspection:
    """What is wrong with the data of these names, which stand for files or sides of a split.

    Raises BadInput where the data have different features.
    """
    (name, first), *others = named.items()
    for other_name, other in others:
        if other.feature_names != first.feature_names:
            raise BadInput(
                f"{name} and {other_name} have different features ({first.n_features} and "
                f"{other.n_features}): inspect them one by one"
            )
    progress("looking at a sample", None)
    sample = take_sample(named)
    progress("looking at all rows", None)
    totals = totals_of(named)
    progress("comparing columns", None)
    findings = [
        *no_irrelevant_grade(totals.grades),
        *same_queries(totals.identities, list(named)),
        *_checks_of_labels(sample.data, sample),
        *constant_columns(totals.columns, first.feature_names),
        *_checks_of_values(totals, sample),
        *repeated_documents(totals),
    ]
    findings += drift_between_files(sample, list(named), findings)
    ordered = _worst_first(findings)
    return Inspection(
        _figures(named, totals, sample), _features(totals.columns, sample, ordered), ordered
    )


def warnings_before_training(data: RankingDataset) -> list[str]:
    """What is wrong with data in memory, and would harm a model of them.

    Constant columns are told after training, of all that was trained on.
    """
    if _says_nothing(data):
        return []
    sample = take_sample({"": data})
    totals = totals_of({"": data}, identify=False)
    return _lines([*_checks_of_labels(data, sample), *_checks_of_values(totals, sample)])


def warnings_of_log(
    facts: ColumnFacts, names: Sequence[str], data: RankingDataset | None
) -> list[str]:
    """What is wrong with the values that were logged, of `data` in memory; else constant columns.

    `train` tells of judgments.
    """
    constant = [
        f"{finding.message}: {CHECK_TEMPLATES}" for finding in constant_columns(facts, names)
    ]
    if data is not None:
        constant += _lines(no_irrelevant_grade(np.unique(data.labels).tolist()))
    if data is None or _says_nothing(data):
        return constant
    totals = totals_of({"": data}, identify=False)
    return [*constant, *_lines(_checks_of_values(totals, take_sample({"": data})))]


def _says_nothing(data: RankingDataset) -> bool:
    return data.n_queries < FEWEST_QUERIES or not data.n_features


def _checks_of_labels(data: RankingDataset, sample: Sample) -> Iterator[Finding]:
    """Where labels are out of order, that no feature ranks them is no further finding."""
    out_of_order = [*label_agreement(sample)]
    yield from out_of_order
    for finding in harmful_judgments(data):
        if not (out_of_order and finding.check == "worse-than-random"):
            yield finding


def _checks_of_values(totals: Totals, sample: Sample) -> Iterator[Finding]:
    yield from contradicting_grades(totals, sample.data)
    yield from missing_values(totals, sample)


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Warnings before notes, each by what its check may cost; else in the order given."""
    return tuple(sorted(findings, key=lambda f: (f.severity != WARNING, CHECKS.index(f.check))))


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [finding.line for finding in _worst_first(findings) if finding.severity == WARNING]


def _figures(named: Mapping[str, Data], totals: Totals, sample: Sample) -> DataFigures:
    lengths = np.repeat([*totals.lengths], [*totals.lengths.values()])
    facts = totals.columns
    return DataFigures(
        names=tuple(named),
        queries=totals.queries,
        documents=facts.rows,
        features=len(facts.missing),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        grades=tuple(sorted(totals.grades.items())[:_GRADES]),
        without_contrast=totals.without_contrast,
        of_one_document=totals.lengths[1],
        missing=float(facts.missing.sum() / max(facts.rows * len(facts.missing), 1)),
        parts=totals.parts,
        sampled=sample.data.n_queries,
    )


def _features(
    facts: ColumnFacts, sample: Sample, findings: tuple[Finding, ...]
) -> tuple[FeatureRow, ...]:
    right = shares_right(sample.data)
    return tuple(
        FeatureRow(
            name,
            float(facts.missing[column] / max(facts.rows, 1)),
            float(facts.lowest[column]),
            _quartiles(sample.data.features[:, column]),
            highest=float(facts.highest[column]),
            alone=float(right[column]),
            checks=tuple(
                dict.fromkeys(finding.check for finding in findings if name in finding.columns)
            ),
        )
        for column, name in enumerate(sample.data.feature_names)
    )


def _quartiles(values: NDArray[np.float32]) -> tuple[float, float, float]:
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    first, second, third = np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf").tolist()
    return first, second, third
