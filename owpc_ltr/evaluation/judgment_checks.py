"""Judgment checks: signs that judgments will teach a model what harms users.

A model is asked live to order what a query brings. Judgments that hold other documents (answers
that the query never brings, negatives drawn from elsewhere) teach it to tell these apart, and a
held-out part of the same judgments applauds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.arrow_numbers import numbers_in
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.verdict import Doubt

_FEWEST_QUERIES = 20
_FEWEST_PAIRS = 1_000
_MOST_DOCUMENTS = 10_000
_MANY = 0.5
_SEPARATED = 0.98
_FEW_JUDGED = 0.3
_SEED = 0


def judgment_findings(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> list[str]:
    """What looks harmful in a dataset's judgments, one line each; see `judgment_doubts`."""
    return [doubt.line for doubt in judgment_doubts(data, text_features)]


def judgment_doubts(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> list[Doubt]:
    """What looks harmful in a dataset's judgments; nothing is said of few queries.

    `text_features` are the columns that tell how well a document matches the query's words. Where
    they are not known, it is every column that is not the same for a document whatever the query.
    Of a large dataset a sample of the queries is looked at.
    """
    sample = _sampled(data)
    if sample.n_queries < _FEWEST_QUERIES or not sample.n_features:
        return []
    pairs = _Pairs.of(sample)
    columns = _text_columns(sample, text_features)
    known = text_features is not None
    return [
        *_found_by_nothing(sample, columns, known),
        *_worse_than_random(sample, pairs, columns, known),
        *_from_other_sources(sample, pairs),
        *_sampled_alike(sample),
    ]


def shares_right(data: RankingDataset) -> NDArray[np.float64]:
    """By column, the share of pairs (relevant, irrelevant) that it alone has in the right order.

    NaN where no query has both. Of a large dataset a sample of the queries is looked at.
    """
    sample = _sampled(data)
    pairs = _Pairs.of(sample)
    if not pairs.mixed.any():
        return np.full(data.n_features, np.nan)
    return np.array([pairs.right(sample.features[:, c]) for c in range(data.n_features)])


def live_findings(
    recall: float, judged: tuple[float, ...], window: int, n_queries: int
) -> list[str]:
    """The same of what the engine brings for some queries, one line each.

    `recall` is the mean share of the relevant documents within the window; `judged` the mean
    shares of judged documents among the first ten: of the query alone, and with a model if there
    is one. NaN is not known.
    """
    found = []
    if recall < _MANY:
        found.append(
            f"only {recall:.0%} of the relevant documents are among the first {window} that the "
            f"query brings (mean of {n_queries} queries): no ranker of the window can mend that, "
            "and a model of the others learns what users never see; mend the query, widen the "
            "window, or judge what it brings (owpc-ltr judge pool)"
        )
    least = min((share for share in judged if share == share), default=1.0)  # noqa: PLR0124 - NaN
    if least < _FEW_JUDGED:
        found.append(
            f"only {least:.0%} of the first ten documents are judged (mean of {n_queries} "
            "queries): these judgments cannot tell whether users get better lists; judge what "
            "they get (owpc-ltr judge pool)"
        )
    return found


@dataclass(frozen=True)
class _Pairs:
    """The queries with relevant and irrelevant documents; `query` and `relevant` per document."""

    query: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    n_relevant: NDArray[np.int64]
    n_irrelevant: NDArray[np.int64]

    @staticmethod
    def of(data: RankingDataset) -> _Pairs:
        query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
        relevant = data.labels > 0
        n_relevant = np.bincount(query, relevant, data.n_queries).astype(np.int64)
        return _Pairs(query, relevant, n_relevant, np.diff(data.offsets) - n_relevant)

    @property
    def number(self) -> int:
        return int((self.n_relevant * self.n_irrelevant).sum())

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """The queries that have both."""
        return (self.n_relevant > 0) & (self.n_irrelevant > 0)

    def right(self, values: NDArray[Any]) -> float:
        """The mean over queries of the share of pairs in which the relevant one is above.

        Ties count half, and a missing value stands below all others.
        """
        values = np.where(np.isnan(values), -np.inf, values)
        order = np.lexsort((values, self.query))
        query, ordered, relevant = self.query[order], values[order], self.relevant[order]
        new = np.append(True, (query[1:] != query[:-1]) | (ordered[1:] != ordered[:-1]))
        run = np.cumsum(new) - 1
        irrelevant = np.bincount(run, ~relevant)
        below = np.cumsum(irrelevant) - irrelevant
        first_run = run[np.append(True, query[1:] != query[:-1])]
        lower = below[run] - below[first_run][query] + irrelevant[run] / 2
        wins = np.bincount(query, np.where(relevant, lower, 0.0), len(self.n_relevant))
        mixed = self.mixed
        return float((wins[mixed] / (self.n_relevant * self.n_irrelevant)[mixed]).mean())


def _sampled(data: RankingDataset) -> RankingDataset:
    """Whole queries, of about as many documents as a look needs."""
    if data.n_documents <= _MOST_DOCUMENTS:
        return data
    order = np.random.default_rng(_SEED).permutation(data.n_queries)
    kept = np.cumsum(np.diff(data.offsets)[order]) <= _MOST_DOCUMENTS
    return data.select(np.sort(order[kept]))


def _text_columns(data: RankingDataset, named: Collection[str] | None) -> NDArray[np.int64]:
    """The columns of scores of the query's words, among those that differ within some query."""
    matrix = data.features
    starts = np.repeat(data.offsets[:-1], np.diff(data.offsets))
    with np.errstate(invalid="ignore"):
        first = matrix[starts]
        varies = ((matrix != first) & ~(np.isnan(matrix) & np.isnan(first))).any(axis=0)
    if named is not None:
        return np.flatnonzero(varies & np.isin(data.feature_names, list(named)))
    return np.flatnonzero(varies & ~_of_the_document(data))


def _of_the_document(data: RankingDataset) -> NDArray[np.bool_]:
    """Which columns have one value a document in all its queries, as far as documents come back."""
    unknown = np.zeros(data.n_features, np.bool_)
    if data.document_ids is None:
        return unknown
    codes = numbers_in(data.document_ids.dictionary_encode().indices)
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    if len(again) < _FEWEST_QUERIES:
        return unknown
    one, other = data.features[order[again]], data.features[order[again + 1]]
    same: NDArray[np.bool_] = ((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=0)
    # A column that is almost never there says nothing by staying away twice.
    often: NDArray[np.bool_] = np.isfinite(one).mean(axis=0) > _MANY
    return same & often


def _found_by_nothing(
    data: RankingDataset, columns: NDArray[np.int64], known: bool
) -> Iterator[Doubt]:
    relevant = data.features[data.labels > 0][:, columns]
    if not relevant.size:
        return
    lost = float((np.isnan(relevant) | (relevant == 0)).all(axis=1).mean())
    if lost > _MANY:
        which = "text feature" if known else "feature of the query"
        yield Doubt(
            "never-retrieved",
            f"{lost:.0%} of the relevant documents have no match in any {which}: a query never "
            "brings them, so that a model of them ranks what users never see",
            "judge what your query brings (owpc-ltr judge pool)",
        )


def _worse_than_random(
    data: RankingDataset, pairs: _Pairs, columns: NDArray[np.int64], known: bool
) -> Iterator[Doubt]:
    if int(pairs.mixed.sum()) < _FEWEST_QUERIES or not len(columns):
        return
    best, name = max((pairs.right(data.features[:, c]), data.feature_names[c]) for c in columns)
    if best <= 0.5:
        which = "text feature" if known else "feature"
        yield Doubt(
            "worse-than-random",
            f"every single {which} ranks these judgments at or below random: the best, '{name}', "
            f"has {best:.0%} of the pairs right; the irrelevant documents were picked because they "
            "match, or the relevant ones although they do not",
            "judge what your query brings (owpc-ltr judge pool)",
            joint=": ",
        )


def _from_other_sources(data: RankingDataset, pairs: _Pairs) -> Iterator[Doubt]:
    if pairs.number < _FEWEST_PAIRS or int(pairs.mixed.sum()) < _FEWEST_QUERIES:
        return
    told: list[tuple[float, str, str]] = []
    for place, name in enumerate(data.feature_names):
        values = data.features[:, place]
        right = pairs.right(values)
        told.append((max(right, 1 - right), f"the feature '{name}'", name))
        missing = np.isnan(values)
        if missing.any() and not missing.all():
            right = pairs.right(missing.astype(np.float64))
            told.append((max(right, 1 - right), f"whether '{name}' is missing", name))
    best, what, column = max(told)
    if best > _SEPARATED:
        yield Doubt(
            "leak",
            f"{what} alone tells relevant from irrelevant documents in {best:.1%} of "
            f"{pairs.number:,} pairs: they seem to come from different sources, which a model "
            "learns in place of relevance",
            "judge documents of one source (owpc-ltr judge pool)",
            (column,),
        )


def _sampled_alike(data: RankingDataset) -> Iterator[Doubt]:
    pairs = _Pairs.of(data)
    relevant, irrelevant = set(pairs.n_relevant.tolist()), set(pairs.n_irrelevant.tolist())
    if len(relevant) == 1 and len(irrelevant) == 1 and 0 not in relevant | irrelevant:
        yield Doubt(
            "sampled-negatives",
            f"each of {data.n_queries} queries has {relevant.pop()} relevant and "
            f"{irrelevant.pop()} irrelevant documents: such negatives were sampled, not judged, "
            "and are not what a query brings",
            "judge what it brings (owpc-ltr judge pool)",
        )
