"""What queries and judgments cannot show: every rule that makes a verdict `cannot tell`.

All paths to a verdict (judged documents, runs, folds, live searches, fusion, reports) share
these rules: about the queries and their labels, about ranked lists (`ranked_list_warnings`), and
about the differences of two rankers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments import (
    CLICKS,
    JUDGED_BY,
    JudgedQuery,
    is_machine,
    is_unnamed,
    judges_by_document,
    machines_among,
    votes_of,
)
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.ranked_lists import TOP, RankedLists, mean_known
from owpc_ltr.evaluation.significance import (
    FEWEST_DIFFERENCES,
    LEVEL,
    OPPOSITE,
    ROUNDING,
    Comparison,
    Outcome,
    ResultWarning,
    Verdict,
    compare_paired,
    difference_words,
    reaches,
    standard_error,
)
from owpc_ltr.metrics.metric import divide_defined

Matrix = NDArray[np.float64]
"""One query a row, one rater a column."""

FEWEST_JUDGED = 0.5
"""The least share of the top ten that is judged, and of the loser's documents that decide: below
it, a figure says more of what unjudged documents are taken for than of the judged ones. Lists of a
good judgment pool have .7 to 1."""
LOWEST_RECALL = 0.5
"""The least share of the relevant documents within the window: with less, most of what is measured
on judged documents is of documents that no user sees."""
_MOST_REPEATED = 1.1
"""How much larger repeated queries may make the variance of a mean: intervals are 5 % too short."""
_FEWEST_QUERIES = 20
_MANY = 0.5
_ALL = 0.98
"""What holds for almost all queries, or pairs: no ranker or collection comes by it honestly."""
FEWEST_COMMON = 30
"""With so many pairs that raters of both sides have graded, their shift is known well enough."""
_OTHER_RATERS = 0.05
"""The share of the documents that decide whose raters are others than by chance: wrong grades of
7 % make a difference of .03."""
_COPIED = 0.9
"""The agreement beyond chance that two independent judges hardly reach."""
_FLIPS = 199
_STANDARD_ERRORS = 2.0
"""How far below chance the query's own order must be: 1 in 40 by chance."""
_UNLIKELY = 0.01
"""Samples that are random look so strange once in a hundred."""


METRICS_DISAGREE = "metrics-disagree"
"""The check of verdicts that another metric contradicts."""
SEGMENT_LOSES = "segment-loses"
"""The check of verdicts that a segment of the queries contradicts."""
POOL = (
    "judge what users get (`judge_pool(judged=…)`), and add it to these judgments "
    "(owpc-ltr judge merge)"
)


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
        "let people label a random sample of the queries (`judge_pool(sample=N)`)",
    )


def unnamed_judges(queries: Sequence[JudgedQuery]) -> Iterator[ResultWarning]:
    """Whether nobody vouches for some of the judgments: they may be clicks of the old list."""
    unnamed = sum(sum(map(is_unnamed, judges_by_document(query))) for query in queries)
    total = sum(len(query.doc_ids) for query in queries)
    if unnamed:
        yield ResultWarning(
            "unnamed-judge",
            f"{unnamed / total:.0%} of the judgments do not say who gave them: if they are made of "
            "clicks or by a model, they decide nothing",
            f"if people gave them, say so (`judged_by='people'`, or a column {JUDGED_BY})",
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


def copied_label_warnings(human: Labels, proxy: Labels) -> Iterator[ResultWarning]:
    """Whether grades of the same documents are those of the proxy labels, and no second opinion.

    Two people agree with a kappa of .4 to .8 (Cohen 1960, unweighted), which allows for grades that
    are frequent.
    """
    if len(human) < FEWEST_COMMON:
        return
    grades, codes = np.unique(np.concatenate([human, proxy]), return_inverse=True)
    shares = [
        np.bincount(labels, minlength=len(grades)) / len(human) for labels in np.split(codes, 2)
    ]
    by_chance, equal = float(shares[0] @ shares[1]), float((human == proxy).mean())
    if equal - by_chance > _COPIED * (1.0 - by_chance):
        yield ResultWarning(
            "same-judge",
            f"{equal:.0%} of {len(human):,} human grades are those of the proxy labels: people "
            "agree less, so that these seem to be copied or corrected from them",
            "let people grade a random sample without seeing other grades (owpc-ltr judge page)",
        )


def random_sample_warnings(p: float) -> Iterator[ResultWarning]:
    """Whether the sample is visibly not random."""
    if p >= _UNLIKELY:
        return
    yield ResultWarning(
        "not-random",
        "the human-labelled queries are not a random sample of the proxy-labelled ones: by "
        f"proxy labels, the rankers differ otherwise on them (p = {p:.2g})",
        "draw them at random (`judge_pool(sample=N)`)",
    )


def template_warnings(query_template: object) -> Iterator[ResultWarning]:
    """Whether live results are those of an application's query, or of a default."""
    if query_template is not None:
        return
    yield ResultWarning(
        "no-query-template",
        "the query of the application was not given: these are the results of a query of all "
        "text fields",
        "give it (`query_template`), or say that all fields is what users get "
        "(`query_template='all-fields'`)",
    )


def ranked_list_warnings(
    lists: Mapping[str, RankedLists],
    alone: RankedLists | None = None,
) -> list[ResultWarning]:
    """Why judgments cannot show which of these rankers, by name, has better lists for users.

    `alone` are the lists of the query without a model.
    """
    return [
        *_few_judged(lists),
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
                f"the difference in {metric} is {verdict.outcome} where unjudged documents are "
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
                METRICS_DISAGREE,
                f"{verdict.outcome} by {metric}, {outcome} {words} ({difference_words(other)})",
                "look at the queries that lose",
            )


def segment_warnings(pair: ComparedPair) -> Iterator[ResultWarning]:
    """Whether the ranker that is better in the mean loses in a segment of the queries.

    It is no matter which of the two is named first: a mean that is worse decides as little.
    """
    won = {Outcome.BETTER: pair, Outcome.WORSE: pair.reversed()}.get(pair.verdict.outcome)
    for segment in won.lost_segments if won else ():
        if won and segment.comparison and not segment.accepted:
            tested = sum(each.comparison is not None for each in pair.segments)
            yield ResultWarning(
                SEGMENT_LOSES,
                f"{won.a} is better by {pair.metric}, and loses to {won.b} in the segment "
                f"'{segment.name}' ({difference_words(segment.comparison)}, p = "
                f"{segment.p_holm:.2g} corrected over {tested} segments, {segment.n_queries:,} "
                "queries)",
                "look at the queries that lose there, and judge more like these; or accept the "
                f"loss: compare with `accept_loss={segment.name!r}`",
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
            "judge more queries, or hold some out (`train(test_share=…)`)",
        )


def _outcome(compared: Comparison, *, higher_is_better: bool = True) -> Outcome:
    """What one comparison says by itself."""
    return compared.verdict(higher_is_better=higher_is_better).outcome


def _few_judged(lists: Mapping[str, RankedLists]) -> Iterator[ResultWarning]:
    """Too few judged documents in a top ten."""
    means = {name: mean_known(ranked.judged_at(TOP)) for name, ranked in lists.items()}
    by_share = sorted((share, name) for name, share in means.items() if not np.isnan(share))
    if not by_share or by_share[0][0] >= FEWEST_JUDGED:
        return
    (least, name), (most, other) = by_share[0], by_share[-1]
    beside = f", and {most:.0%} of those of {other}" if len(by_share) > 1 else ""
    yield ResultWarning(
        "unjudged",
        f"only {least:.0%} of the first ten documents of {name} are judged{beside} "
        f"(mean of {len(lists[name].there)} queries)",
        POOL,
    )


@dataclass(frozen=True)
class DecidingDocuments:
    """The documents in one top ten and not in the other: they decide which ranker is better.

    Where both top tens have the same documents, all of them do. `winner` and `loser` are lists by
    the figures, `names` their rankers'.
    """

    names: tuple[str, str]
    winner: RankedLists
    loser: RankedLists

    @cached_property
    def marks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which ranks of the winner's and the loser's lists they are at."""
        marks = (
            self.winner.only_in_first(self.loser, TOP),
            self.loser.only_in_first(self.winner, TOP),
        )
        if any(mark.any() for mark in marks):
            return marks
        tops = [side.there.copy() for side in (self.winner, self.loser)]
        for top in tops:
            top[:, TOP:] = False
        return tops[0], tops[1]

    @cached_property
    def judged(self) -> tuple[Vector, Vector]:
        """By query, the share of the winner's and the loser's that is judged; NaN without any."""
        won, lost = (
            divide_defined((marks & ~np.isnan(lists.grades)).sum(axis=1), marks.sum(axis=1))
            for lists, marks in zip((self.winner, self.loser), self.marks, strict=True)
        )
        return won, lost

    @cached_property
    def raters(self) -> tuple[tuple[str, ...], Matrix, Matrix]:
        """The raters, and how many of the winner's and the loser's documents each judged, by query.

        Several raters of a document share it.
        """
        numbers: dict[str, int] = {}
        cells = []
        for lists, marks in zip((self.winner, self.loser), self.marks, strict=True):
            cells.append(
                [
                    (row, numbers.setdefault(name, len(numbers)), 1.0 / len(votes))
                    for row, _, judges in lists.judges_at(marks)
                    for votes in [votes_of(judges, 0.0)]
                    for name in votes
                ]
            )
        counts = np.zeros((2, len(self.winner.there), len(numbers)))
        for side, of_side in enumerate(cells):
            if of_side:
                rows, raters, shares = zip(*of_side, strict=True)
                np.add.at(counts[side], (list(rows), list(raters)), shares)
        return tuple(numbers), counts[0], counts[1]

    @cached_property
    def machines(self) -> tuple[float, float]:
        """The shares of the judged ones that a machine alone judged, and that one had a vote on."""
        sides = zip((self.winner, self.loser), self.marks, strict=True)
        judges = [judge for lists, marks in sides for _, _, judge in lists.judges_at(marks)]
        voted = [any(map(is_machine, votes_of(judge, 0.0))) for judge in judges]
        count = max(1, len(judges))
        return sum(map(is_machine, judges)) / count, sum(voted) / count


def machine_warnings(
    deciding: DecidingDocuments,
    verdict: Verdict,
    metric: str,
    without: Mapping[str, Comparison | None],
) -> Iterator[ResultWarning]:
    """Whether a difference is one by the labels of people, too, where machines judged some.

    `without` are the same comparison by the votes of people, with documents that machines alone
    judged as unjudged ones, by what these are taken for.
    """
    differences = [
        f"{difference_words(other)} with such documents {words}"
        for words, other in without.items()
        if other is not None and _outcome(other) != verdict.outcome
    ]
    alone, voted = deciding.machines
    if alone <= _MANY and not differences:
        return
    yield ResultWarning(
        "machine-labels",
        f"of the judged documents that are in one top ten alone, {voted:.0%} have labels of clicks "
        f"or models, on which the difference in {metric} rests"
        f"{''.join(f' ({difference})' for difference in differences[:1])}",
        "let people grade these documents (owpc-ltr judge pool, then judge merge)",
    )


def judged_share_warnings(
    deciding: DecidingDocuments,
    verdict: Verdict,
    worst: Comparison | None,
    clusters: NDArray[np.int64] | None,
) -> Iterator[ResultWarning]:
    """Whether the winner wins because more of its documents are judged.

    Unjudged documents count as irrelevant, so that fewer judged ones can only make it lose. `worst`
    is the comparison in which the loser's unjudged documents have the best grade; None where the
    metric does not tell it.
    """
    tops = [mean_known(side.judged_at(TOP)) for side in (deciding.winner, deciding.loser)]
    if min(tops) < FEWEST_JUDGED:
        # `_few_judged` says so.
        return
    won, lost = deciding.judged
    means = mean_known(won), mean_known(lost)
    few = means[1] < FEWEST_JUDGED
    if not few and (means[0] <= means[1] or not _differ(won, lost, clusters)):
        return
    if worst is not None and _outcome(worst) == verdict.outcome:
        return
    winner, loser = deciding.names
    yield ResultWarning(
        "unjudged",
        f"of the documents in one top ten alone, {'only ' if few else ''}{means[1]:.0%} of those "
        f"of {loser} are judged, and {means[0]:.0%} of those of {winner} (mean of "
        f"{len(deciding.winner.there)} queries): the others count as irrelevant",
        POOL,
    )


def rater_warnings(
    deciding: DecidingDocuments, wins_with: Callable[[RankedLists, RankedLists], bool]
) -> Iterator[ResultWarning]:
    """Whether other people judged the winner's documents than the loser's.

    Where raters of both sides graded common pairs, their shift is known: `wins_with` tells whether
    the winner wins where its documents' grades are lowered by it in the mean, in the winner's and
    the loser's lists.
    """
    names, won, lost = deciding.raters
    if len(names) < 2 or min(won.sum(), lost.sum()) < _FEWEST_QUERIES:
        return
    apart = _apart(won.sum(axis=0), lost.sum(axis=0))
    # If raters do not depend on rankers, a query's two sides might as well be swapped.
    swapped = np.random.default_rng(0).random((_FLIPS, len(won))) < 0.5
    moved = swapped @ (lost - won)
    by_chance = _apart(won.sum(axis=0) + moved, lost.sum(axis=0) - moved)
    p = (1 + (by_chance >= apart - ROUNDING).sum()) / (1 + _FLIPS)
    if p > _UNLIKELY or apart - by_chance.mean() < _OTHER_RATERS:
        return
    leaning = won.sum(axis=0) / won.sum() > lost.sum(axis=0) / lost.sum()
    own = {name for name, leans in zip(names, leaning, strict=True) if leans}
    shift, n_common = _shift(deciding.winner, own, set(names) - own)
    if n_common >= FEWEST_COMMON and wins_with(*_lowered(deciding, own, max(0.0, shift))):
        return
    winner, loser = deciding.names
    known = f"; on {n_common:,} common pairs the former's grades are up to {shift:+.2f} apart"
    yield ResultWarning(
        "other-raters",
        f"of the documents in one top ten alone, {apart:.0%} of those of {winner} are judged by "
        f"other raters than those of {loser}{known if n_common >= FEWEST_COMMON else ''}",
        "give raters common pairs (`judge_page(overlap=…)`, then `judge_merge(…)`), or let the "
        "same raters judge both",
    )


def _apart(first: Matrix, other: Matrix) -> Any:
    """Which share of the documents would have to change their raters (total variation)."""
    shares = (counts / counts.sum(axis=-1, keepdims=True) for counts in (first, other))
    return 0.5 * np.abs(np.subtract(*shares)).sum(axis=-1)


def _shift(lists: RankedLists, own: set[str], others: set[str]) -> tuple[float, int]:
    """How much higher the own raters may grade, as their common pairs show; how many there are.

    It is the upper end of the 95 % interval.
    """
    differences = []
    for judges in lists.judges:
        for cell in judges.values():
            votes = votes_of(cell, np.nan)
            sides = [[votes[name] for name in votes if name in side] for side in (own, others)]
            if all(sides):
                differences.append(np.mean(sides[0]) - np.mean(sides[1]))
    if len(differences) < 2:
        return 0.0, len(differences)
    values = np.array(differences)
    up = reaches(len(values) - 1, 0.0)[1] * standard_error(values)
    return float(values.mean() + up), len(values)


def _lowered(
    deciding: DecidingDocuments, own: set[str], shift: float
) -> tuple[RankedLists, RankedLists]:
    """Both lists, with the grades lowered that its own raters gave the winner's documents.

    They are lowered by `shift` in the mean, as common pairs are: by more where they are not 0, as
    no grade is below 0.
    """
    winner = deciding.winner
    lowered = {
        (row, winner.documents[row][rank]): winner.grades[row, rank]
        for row, rank, judges in winner.judges_at(deciding.marks[0])
        if own.issuperset(votes_of(judges, 0.0))
    }
    given_there = np.array([0.0, *lowered.values()])
    steps = np.unique(given_there)
    means = np.minimum(given_there[1:, None], steps).mean(axis=0) if lowered else steps
    by = float(np.interp(shift, means, steps))

    def grade(row: int, name: str, given: float) -> float:
        return max(0.0, given - by) if (row, name) in lowered else given

    return winner.regraded(grade), deciding.loser.regraded(grade)


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
