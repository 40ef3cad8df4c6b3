"""Judgment checks: judgments that teach a model what harms users, or cannot show what it does.

A model is asked live to order what a query brings. Judgments that hold other documents (answers
that the query never brings, negatives drawn from elsewhere) teach it to tell these apart, and a
held-out part of the same judgments applauds. `judgment_doubts` looks at judged documents and their
features, `list_doubts` at the lists that users get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, numbers_in
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.evaluation.live_lists import LiveLists
from owpc_ltr.evaluation.verdict import Doubt

_FEWEST_QUERIES = 20
_FEWEST_PAIRS = 1_000
_MOST_DOCUMENTS = 10_000
_MANY = 0.5
_SEPARATED = 0.98
_SEED = 0

TOP = 10
"""How many documents of a list users look at."""
FEWEST_JUDGED = 0.5
"""The least share of the top ten that is judged: below it, a figure says more of what unjudged
documents are taken for than of the judged ones. Lists of a good judgment pool have .7 to 1."""
FEWEST_SHOWN = 0.9
"""The same where judgments are made of clicks: these know only what users were shown, so that both
top tens must have been."""
MOST_APART = 0.1
"""How far the judged shares of two rankers may be apart. Unjudged documents count as irrelevant, so
that one document in ten moves NDCG@10 by more than most gains are worth."""
LOWEST_RECALL = 0.5
"""The least share of the relevant documents within the window: with less, most of what is measured
on judged documents is of documents that no user sees."""
_ALL = 0.98
"""What holds for almost all queries, or pairs: no ranker or collection comes by it honestly."""
_STANDARD_ERRORS = 2.0
"""How far below chance the query's own order must be: 1 in 40 by chance."""


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


def recall_doubts(recall: float, window: int, n_queries: int) -> list[Doubt]:
    """Whether judgments are of documents that users get; `recall` is a mean over the queries."""
    if not recall < LOWEST_RECALL:
        return []
    return [
        Doubt(
            "window-recall",
            f"only {recall:.0%} of the relevant documents are among the first {window} that the "
            f"query brings (mean of {n_queries} queries): no ranker of the window can change that, "
            "and a model of the others learns what users never see",
            "change the query, widen the window, or judge what it brings (owpc-ltr judge pool)",
        )
    ]


def list_doubts(
    lists: Mapping[str, LiveLists], alone: LiveLists | None = None, by_clicks: float = 0.0
) -> list[Doubt]:
    """Why judgments cannot show which of these rankers, by name, has better lists for users.

    `alone` are the lists of the query without a model, `by_clicks` the share of the judgments that
    are made of clicks.
    """
    return [
        *_unjudged(lists, by_clicks > _MANY),
        *_one_grade(lists),
        *_known_items(lists),
        *_made_from_a_list(lists),
        *([] if alone is None else _inverted(alone)),
    ]


def _unjudged(lists: Mapping[str, LiveLists], by_clicks: bool) -> Iterator[Doubt]:
    """Too few judged documents in a top ten, or many fewer than in the other."""
    fewest = FEWEST_SHOWN if by_clicks else FEWEST_JUDGED
    shares = {name: mean_known(one.judged_at(TOP)) for name, one in lists.items()}
    known = sorted((share, name) for name, share in shares.items() if not np.isnan(share))
    if not known:
        return
    (least, name), (most, other) = known[0], known[-1]
    few, apart = least < fewest, most - least > MOST_APART
    if not few and not apart:
        return
    beside = f", and {most:.0%} of those of {other}" if len(known) > 1 else ""
    n_queries = len(lists[name].there)
    yield Doubt(
        "unjudged",
        f"{'only ' if few else ''}{least:.0%} of the first ten documents of {name} are judged"
        f"{beside} (mean of {n_queries} queries)"
        f"{', by clicks, which know only what was shown' if by_clicks else ''}",
        "judge what users get (owpc-ltr judge pool)",
    )


def _one_grade(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """Judged documents that all have the best grade: clicks alone, or the top of some list."""
    grades = np.concatenate([one.grades[:, :TOP].ravel() for one in lists.values()])
    grades = grades[~np.isnan(grades)]
    highest = max(one.highest for one in lists.values())
    if len(grades) >= _FEWEST_QUERIES and float((grades == highest).mean()) > _ALL:
        yield Doubt(
            "one-grade",
            f"the judged documents among the first ten all have the grade {highest:g}: nobody said "
            "what is irrelevant",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _known_items(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """One relevant document a query: whether there are others, nobody looked."""
    counts = next(iter(lists.values())).n_relevant
    counts = counts[counts > 0]
    if len(counts) >= _FEWEST_QUERIES and float((counts == 1).mean()) > _ALL:
        yield Doubt(
            "known-items",
            "each query has one relevant document: such known items come with documents that "
            "nobody judged, and a ranker that brings other good ones looks bad",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _made_from_a_list(lists: Mapping[str, LiveLists]) -> Iterator[Doubt]:
    """A ranker that orders as the grades do, in all queries."""
    for name, one in lists.items():
        right = one.agreement_at(TOP)
        right = right[~np.isnan(right)]
        if len(right) >= _FEWEST_QUERIES and right.mean() > _ALL:
            yield Doubt(
                "made-from-a-list",
                f"{name} has {right.mean():.1%} of the judged pairs in its first ten documents in "
                "the order of their grades: the grades seem to come from its list, or from a "
                "feature that it reads",
                "let people judge the documents (owpc-ltr judge pool)",
            )


def _inverted(alone: LiveLists) -> Iterator[Doubt]:
    """Grades that the query's own order contradicts."""
    right = alone.agreement_at(TOP)
    right = right[~np.isnan(right)]
    if len(right) < _FEWEST_QUERIES:
        return
    error = float(right.std(ddof=1)) / len(right) ** 0.5
    if right.mean() < 0.5 - _STANDARD_ERRORS * error:
        yield Doubt(
            "inverted",
            f"the query alone has {right.mean():.0%} of the judged pairs in its first ten "
            "documents in the order of their grades, fewer than by chance: the grades seem to be "
            "inverted, or made to contradict it",
            "check which grade is the best one, and let people judge (owpc-ltr judge pool)",
        )


def mean_known(values: Vector) -> float:
    """The mean of the values that are known; NaN where none is."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")


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


UNUSED = "metrics do not weigh documents: the weights of judgments count in training alone"


def unused_weights(data: RankingDataset | PartitionedDataset) -> list[str]:
    """A sentence where documents have weights other than 1."""
    if isinstance(data, RankingDataset):
        return [UNUSED] if _weighed(data) else []
    if "document_weights" not in data.columns:
        return []
    return [UNUSED] if any(data.each(_weighed)) else []


def _weighed(part: RankingDataset) -> bool:
    return part.document_weights is not None and bool((part.document_weights != 1).any())
