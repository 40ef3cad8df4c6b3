"""What queries and judgments cannot show: every rule that makes a verdict `cannot tell`.

All paths to a verdict (judged documents, runs, folds, live searches, fusion, reports) share
these rules: about the queries and their labels, about ranked lists (`ranked_list_warnings`), and
about the differences of two rankers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.grouping import CLICKS, machines_among
from owpc_ltr.evaluation.ranked_lists import TOP, RankedLists, mean_known
from owpc_ltr.evaluation.resampling import FEWEST_DIFFERENCES, LEVEL
from owpc_ltr.evaluation.significance import (
    OPPOSITE,
    Comparison,
    Outcome,
    ResultWarning,
    Verdict,
    compare_paired,
    difference_words,
)

FEWEST_JUDGED = 0.5
"""The least share of the top ten that is judged: below it, a figure says more of what unjudged
documents are taken for than of the judged ones. Lists of a good judgment pool have .7 to 1."""
MOST_APART = 0.1
"""How far the judged shares of two rankers may be apart. Unjudged documents count as irrelevant, so
that one document in ten moves NDCG@10 by more than most gains are worth."""
LOWEST_RECALL = 0.5
"""The least share of the relevant documents within the window: with less, most of what is measured
on judged documents is of documents that no user sees."""
_MOST_REPEATED = 1.1
"""How much larger repeated queries may make the variance of a mean: intervals are 5 % too short."""
_FEWEST_QUERIES = 20
_MANY = 0.5
_ALL = 0.98
"""What holds for almost all queries, or pairs: no ranker or collection comes by it honestly."""
_STANDARD_ERRORS = 2.0
_UNLIKELY = 0.01
"""Samples that are random look so strange once in a hundred."""
"""How far below chance the query's own order must be: 1 in 40 by chance."""


POOL = "judge what users get (owpc-ltr judge pool)"


def machine_labels(judged: Any) -> Iterator[ResultWarning]:
    """Whether most judgments of a dataset, or of judged queries, are by clicks or models."""
    machines = machines_among(judged)
    share = sum(machines.values())
    if share <= _MANY:
        return
    names = " and ".join("clicks" if name == CLICKS else f"'{name}'" for name in machines)
    yield ResultWarning(
        "machine-labels",
        f"{share:.0%} of the judgments are by {names}: such labels favour what was shown, or "
        "what looks relevant, and decide nothing alone",
        "let people label a random sample of the queries (owpc-ltr judge pool --sample N)",
    )


def cluster_warnings(clusters: NDArray[np.int64] | None) -> Iterator[ResultWarning]:
    """Whether spellings of one request make an interval of single queries too narrow.

    Of requests that are there `k` times, the variance of a mean is up to Σk² / n times that of n
    independent ones. A comparison resamples clusters; a prediction-powered one cannot.
    """
    if clusters is None:
        return
    counts = np.unique(clusters, return_counts=True)[1]
    if (counts**2).sum() <= _MOST_REPEATED * counts.sum():
        return
    yield ResultWarning(
        "repeated-queries",
        f"of these {counts.sum():,} queries {len(counts):,} are independent: the others are "
        "spellings of them, or have mostly the same judged documents, and prediction-powered "
        "intervals count each for itself",
        "give each request once, with a query_weight for how often it is asked",
    )


def random_sample_warnings(p: float) -> Iterator[ResultWarning]:
    """Whether the sample is visibly not random."""
    if p >= _UNLIKELY:
        return
    yield ResultWarning(
        "not-random",
        "the human-labelled queries are not a random sample of the proxy-labelled ones: by "
        f"proxy labels, the rankers differ otherwise on them (p = {p:.2g})",
        "draw them at random (owpc-ltr judge pool --sample N)",
    )


def template_warnings(query_template: Any) -> Iterator[ResultWarning]:
    """Whether live results are those of an application's query, or of a default."""
    if query_template is not None:
        return
    yield ResultWarning(
        "no-query-template",
        "the query of the application was not given: these are the results of a query of all "
        "text fields",
        "give it (--query-template FILE), or say that all fields is what users get "
        "(--query-template all-fields)",
    )


def ranked_list_warnings(
    lists: Mapping[str, RankedLists],
    alone: RankedLists | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> list[ResultWarning]:
    """Why judgments cannot show which of these rankers, by name, has better lists for users.

    `alone` are the lists of the query without a model.
    """
    return [
        *_unjudged(lists, clusters),
        *_one_grade(lists),
        *_known_items(lists),
        *_made_from_a_list(lists),
        *([] if alone is None else _inverted(alone)),
    ]


def treatment_warnings(
    verdict: Verdict, metric: str, others: Mapping[str, Comparison | None]
) -> Iterator[ResultWarning]:
    """Whether a difference depends on what unjudged documents are taken for.

    `others` are the same comparison by what unjudged documents are taken for. The verdict stands
    only where each has a significant difference of its sign.
    """
    if verdict.outcome not in OPPOSITE:
        return
    for words, other in others.items():
        if other is not None and _outcome(other) != verdict.outcome:
            yield ResultWarning(
                "unjudged-decide",
                f"the difference in {metric} is {verdict.outcome} with unjudged documents as "
                f"irrelevant, and {difference_words(other)} {words}",
                POOL,
            )
            return


def table_warnings(
    verdict: Verdict, metric: str, compared: Comparison, without: Comparison | None
) -> Iterator[ResultWarning]:
    """Whether most of a difference is by features from tables, which may know the judgments."""
    if without is None or verdict.outcome not in OPPOSITE:
        return
    if abs(without.mean_difference) < _MANY * abs(compared.mean_difference):
        yield ResultWarning(
            "external-features",
            f"without the features from tables the difference in {metric} is "
            f"{difference_words(without)}, and {compared.mean_difference:+.4f} with them",
            "check that the tables were made before the judgments, and know nothing of them",
            decides=False,
        )


def contradictions(
    verdict: Verdict, metric: str, others: Mapping[str, tuple[Comparison | None, bool]]
) -> Iterator[ResultWarning]:
    """Whether another view of the same lists has a significant difference of the other sign.

    `others` are comparisons, and whether higher is better, by what they are of;
    None where too few queries count.
    """
    for words, (other, higher_is_better) in others.items():
        if other is None:
            continue
        outcome = _outcome(other, higher_is_better=higher_is_better)
        if outcome == OPPOSITE.get(verdict.outcome):
            yield ResultWarning(
                "metrics-disagree",
                f"{verdict.outcome} by {metric}, {outcome} {words} ({difference_words(other)})",
                "look at the queries that lose, and say before the comparison what decides",
            )


def fewer_training_queries(
    outcome: Outcome, names: tuple[str, str], cross_validated: frozenset[str]
) -> Iterator[ResultWarning]:
    """Whether a ranker loses whose models of folds have learned from fewer queries than it."""
    loser = {Outcome.BETTER: names[1], Outcome.WORSE: names[0]}.get(outcome)
    if loser in cross_validated and not cross_validated.issuperset(names):
        yield ResultWarning(
            "fewer-training-queries",
            f"{loser} is measured by models that learned from fewer queries than it did, and that "
            "they are worse does not show that it is",
            "judge more queries, or hold some out (train without --folds)",
        )


def _outcome(compared: Comparison, *, higher_is_better: bool = True) -> Outcome:
    """What one comparison says by itself."""
    return compared.verdict(higher_is_better=higher_is_better).outcome


def _unjudged(
    lists: Mapping[str, RankedLists], clusters: NDArray[np.int64] | None
) -> Iterator[ResultWarning]:
    """Too few judged documents in a top ten, or fewer than in the other."""
    shares = {name: ranked.judged_at(TOP) for name, ranked in lists.items()}
    means = {name: mean_known(of_queries) for name, of_queries in shares.items()}
    by_share = sorted((share, name) for name, share in means.items() if not np.isnan(share))
    if not by_share:
        return
    (least, name), (most, other) = by_share[0], by_share[-1]
    few, apart = least < FEWEST_JUDGED, most - least > MOST_APART
    if not few and not apart and not _differ(shares[name], shares[other], clusters):
        return
    beside = f", and {most:.0%} of those of {other}" if len(by_share) > 1 else ""
    n_queries = len(lists[name].there)
    yield ResultWarning(
        "unjudged",
        f"{'only ' if few else ''}{least:.0%} of the first ten documents of {name} are judged"
        f"{beside} (mean of {n_queries} queries)",
        POOL,
    )


def _differ(
    a: NDArray[np.float64], b: NDArray[np.float64], clusters: NDArray[np.int64] | None
) -> bool:
    """Whether shares of the same queries differ significantly (paired test)."""
    counted = ~(np.isnan(a) | np.isnan(b))
    if counted.sum() < FEWEST_DIFFERENCES or (a == b)[counted].all():
        return False
    units = None if clusters is None else clusters[counted]
    compared = compare_paired(a[counted], b[counted], seed=0, resamples=2000, clusters=units)
    return compared.p_permutation < LEVEL


def recall_warnings(recall: float, window: int, n_queries: int) -> Iterator[ResultWarning]:
    """Whether judgments are of documents that users get; `recall` is a mean over the queries."""
    if not recall < LOWEST_RECALL:
        return
    yield ResultWarning(
        "window-recall",
        f"only {recall:.0%} of the relevant documents are among the first {window} that the "
        f"query brings (mean of {n_queries} queries): no ranker of the window can change that, "
        "and a model of the others learns what users never see",
        "change the query, widen the window, or judge what it brings (owpc-ltr judge pool)",
    )


def _one_grade(lists: Mapping[str, RankedLists]) -> Iterator[ResultWarning]:
    """Judged documents that all have the best grade: clicks alone, or the top of some list."""
    grades = np.concatenate([ranked.grades[:, :TOP].ravel() for ranked in lists.values()])
    highest = max(ranked.highest for ranked in lists.values())
    if _almost_all(grades[~np.isnan(grades)] == highest):
        yield ResultWarning(
            "one-grade",
            f"the judged documents among the first ten all have the grade {highest:g}: none is "
            "graded irrelevant",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _known_items(lists: Mapping[str, RankedLists]) -> Iterator[ResultWarning]:
    """One relevant document per query: other relevant ones may be unjudged."""
    counts = next(iter(lists.values())).n_relevant
    if _almost_all(counts[counts > 0] == 1):
        yield ResultWarning(
            "known-items",
            "each query has one relevant document: the others are unjudged, and "
            "a ranker that returns good ones among them gets a low score",
            "judge all documents that users get (owpc-ltr judge pool)",
        )


def _made_from_a_list(lists: Mapping[str, RankedLists]) -> Iterator[ResultWarning]:
    """A ranker that orders as the grades do, in all queries."""
    for name, ranked in lists.items():
        right = _agreement(ranked)
        if _almost_all(right):
            yield ResultWarning(
                "made-from-a-list",
                f"{name} has {right.mean():.1%} of the judged pairs in its first ten documents in "
                "the order of their grades: the grades seem to come from its list, or from a "
                "feature that it reads",
                "let people judge the documents (owpc-ltr judge pool)",
            )


def _inverted(alone: RankedLists) -> Iterator[ResultWarning]:
    """Grades that the query's own order contradicts."""
    right = _agreement(alone)
    if len(right) < _FEWEST_QUERIES:
        return
    error = float(right.std(ddof=1)) / len(right) ** 0.5
    if right.mean() < 0.5 - _STANDARD_ERRORS * error:
        yield ResultWarning(
            "inverted",
            f"the query alone has {right.mean():.0%} of the judged pairs in its first ten "
            "documents in the order of their grades, fewer than by chance: the grades seem to be "
            "inverted, or made to contradict it",
            "check which grade is the best one, and let people judge (owpc-ltr judge pool)",
        )


def _agreement(ranked: RankedLists) -> Vector:
    """Of each query with a judged pair, the share of these in the order of their grades."""
    right = ranked.agreement_at(TOP)
    return right[~np.isnan(right)]


def _almost_all(shares: NDArray[Any]) -> bool:
    """Whether almost all of enough values are 1."""
    return len(shares) >= _FEWEST_QUERIES and float(shares.mean()) > _ALL
