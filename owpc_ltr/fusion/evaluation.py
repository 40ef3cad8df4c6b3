"""What a learned fusion is worth, on queries that it was not learned from.

Every leg has a score for every candidate. Learned are the weights of a linear model of these; a leg
alone and the engines' own fusions rank the documents that each leg found within its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import JudgedQuery
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.query_choice import ChosenQueries, compared_queries
from owpc_ltr.evaluation.ranked_lists import RankedLists, ranked_lists
from owpc_ltr.evaluation.results import (
    ComparedQueries,
    ComparisonPlan,
    PerQueryResults,
    RankerResults,
    Resampling,
)
from owpc_ltr.fusion.engine_fusions import Z_SCORE_SINCE, EngineFusion, engine_fusions
from owpc_ltr.metrics import Metric, RankedQueries, uneven
from owpc_ltr.plain_text import ShortRepr
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import Progress, silent
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.plan import Plan

FOLDS = 5
FEWEST_QUERIES = 10
"""Two queries in each fold."""
DRAWS = 2000
"""Bootstrap samples by which the optimism of a selection is estimated."""
LEARNED = "learned weights"
RRF = "RRF k=60"
EQUAL = "min_max, equal weights"
_SALT = "owpc-ltr"


@dataclass(frozen=True, eq=False, repr=False)
class LoggedLegs(ShortRepr):
    """Candidates with the score of every leg, and what each leg found by itself.

    `data` has one column a leg. `found` marks what each leg has within its window (documents,
    legs), `served` what the one request rescores, `shards` where a document is. `grades` are all
    judgments of each query, of documents that no leg found, too.
    """

    data: RankingDataset
    found: NDArray[np.bool_]
    served: NDArray[np.bool_]
    shards: NDArray[np.int64]
    grades: Sequence[dict[str, float]]

    @cached_property
    def found_by_any(self) -> NDArray[np.bool_]:
        """Which documents are in the union of the legs."""
        union: NDArray[np.bool_] = np.asarray(self.found.any(axis=1))
        return union

    @cached_property
    def names(self) -> list[str]:
        """The document of each row."""
        ids = self.data.doc_ids
        return [] if ids is None else ids.to_pylist()

    @cached_property
    def _missed(self) -> list[list[float]]:
        """By query, the grades of relevant documents that are in no row."""
        return [
            [grade for name, grade in known.items() if grade > 0 and name not in rows]
            for known, rows in zip(self.grades, map(set, self._names_by_query), strict=True)
        ]

    @cached_property
    def _judged(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Where rows stand once the relevant documents without a row follow; labels, offsets."""
        extra = np.array([len(one) for one in self._missed])
        offsets = self.data.offsets + np.append(0, np.cumsum(extra))
        query = np.repeat(np.arange(len(extra)), np.diff(self.data.offsets))
        places = np.arange(len(query)) + np.append(0, np.cumsum(extra))[query]
        labels = np.zeros(int(offsets[-1]), np.float32)
        lacking = np.ones(len(labels), np.bool_)
        lacking[places] = False
        labels[places] = self.data.labels
        labels[lacking] = [grade for one in self._missed for grade in one]
        return places, labels, offsets

    def values(self, scores: Vector, shown: NDArray[np.bool_], metric: Metric) -> Vector:
        """The metric of each query, where the rows `shown` are ranked by these scores.

        Unjudged documents count as irrelevant, relevant ones that are not shown as not retrieved.
        """
        places, labels, offsets = self._judged
        ranked, retrieved = np.zeros(len(labels)), np.zeros(len(labels), np.bool_)
        ranked[places], retrieved[places] = np.where(shown, scores, 0.0), shown
        return metric.of(RankedQueries(ranked, labels, offsets, retrieved))

    def lists(self, scores: Vector, shown: NDArray[np.bool_], *, complete: bool) -> RankedLists:
        """The same as lists of documents, of which some are unjudged unless judged completely."""
        ranked = []
        starts = self.data.offsets
        for start, end in pairwise(starts.tolist()):
            rows = start + np.flatnonzero(shown[start:end])
            order = rows[np.argsort(-scores[rows], kind="stable")]
            ranked.append([self.names[row] for row in order.tolist()])
        grades = self.grades
        if complete:
            grades = [
                {**dict.fromkeys(documents, 0.0), **known}
                for documents, known in zip(ranked, grades, strict=True)
            ]
        return ranked_lists(ranked, grades, max(map(len, ranked), default=1))

    def alone(self, leg: int) -> Vector:
        """The scores of one leg."""
        return np.nan_to_num(self.data.features[:, leg].astype(np.float64))

    def fused(self, fusion: EngineFusion) -> Vector:
        """The scores of an engine's fusion, which knows what each leg found."""
        own = np.where(self.found, self.data.features, np.nan)
        return fusion.scores(own, self.data.offsets, self.shards)

    def recall(self, shown: NDArray[np.bool_]) -> float:
        """The mean share of the relevant documents of a query that are among the rows `shown`."""
        places, labels, offsets = self._judged
        hit = np.zeros(len(labels))
        hit[places] = shown & (self.data.labels > 0)
        relevant = np.add.reduceat((labels > 0).astype(float), offsets[:-1])
        counted = relevant > 0
        return float((np.add.reduceat(hit, offsets[:-1])[counted] / relevant[counted]).mean())

    @property
    def n_unreachable(self) -> int:
        """How many relevant documents no leg brings."""
        lost = int(((self.data.labels > 0) & ~self.found_by_any & ~self.served).sum())
        return lost + sum(map(len, self._missed))

    @property
    def judged_share(self) -> float:
        """The share of the candidates that have a judgment."""
        known = [
            sum(name in grades for name in names)
            for names, grades in zip(self._names_by_query, self.grades, strict=True)
        ]
        return sum(known) / len(self.names)

    @property
    def n_relevant(self) -> int:
        """How many documents are judged relevant, over all queries."""
        return sum(grade > 0 for known in self.grades for grade in known.values())

    @property
    def _names_by_query(self) -> list[list[str]]:
        return [self.names[a:b] for a, b in pairwise(self.data.offsets.tolist())]


@dataclass(frozen=True, eq=False, repr=False)
class LearnedFusion(ShortRepr):
    """The model of all queries, and the scores that models of other queries give each query."""

    model: Model
    scores: Vector


def learn(
    legs: LoggedLegs, plan: Plan, *, folds: int = FOLDS, seed: int = 0, progress: Progress = silent
) -> LearnedFusion:
    """Weights by cross-validation: fold k is scored by a model of the others.

    Fold k + 1 chooses its C. The model of all queries has the C that is best in the mean over
    folds; of equal ones the most regularised.
    """
    data, run = legs.data, Run(seed=seed)
    fold = fold_of_queries(data, folds, _SALT)
    scores = np.zeros(data.n_documents)
    candidates, chosen = plan.candidates(), []
    for number in range(folds):
        other = (number + 1) % folds
        progress(f"fold {number + 1} of {folds}", number / folds)
        training = data.select(np.flatnonzero((fold != number) & (fold != other)))
        validation = data.select(np.flatnonzero(fold == other))
        result = train_plan(training, plan, run, validation)
        # A fold may try more values of C after these.
        chosen.append([row["validation"] for row in result.table[: len(candidates)]])
        rows = np.repeat(fold == number, np.diff(data.offsets))
        scores[rows] = result.model.score(data.features[rows])
    best = candidates[int(np.argmax(np.mean(chosen, axis=0)))]
    whole = train_plan(data, replace(plan, settings=best, grid={}), run)
    return LearnedFusion(whole.model, scores)


@dataclass(frozen=True, repr=False)
class Optimism(ShortRepr):
    """What choosing the best of many settings on the queries that measure them adds by itself.

    `gain` is what the best of `settings` gains over the best leg on these queries, `expected` what
    is left of it on others (Efron's bootstrap: drawn queries choose, all queries tell).
    """

    settings: int
    gain: float
    expected: float

    @property
    def lost(self) -> float:
        """How much of the gain is selection."""
        return self.gain - self.expected


def optimism_of(values: NDArray[np.float64], baseline: Vector, seed: int = 0) -> Optimism:
    """The optimism of the best of several settings; `values` are (settings, queries).

    Every value is higher for better lists.
    """
    n_settings, n_queries = values.shape
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(n_queries, np.full(n_queries, 1 / n_queries), DRAWS) / n_queries
    means = values.mean(axis=1)
    drawn = values @ draws.T
    best = drawn.argmax(axis=0)
    added = max(0.0, float((drawn.max(axis=0) - means[best]).mean()))
    gain = float(means.max() - baseline.mean())
    return Optimism(n_settings, gain, gain - added)


@dataclass(frozen=True, eq=False, repr=False)
class FusionFigures(ShortRepr):
    """Every ranker side by side, the best leg being the baseline.

    `decision` is the learned weights against that leg, the one pair that decides. `chosen` is the
    engine's setting that the other folds choose, most often.
    """

    comparison: RankerComparison
    decision: ComparedPair
    values: dict[str, Vector]
    best_leg: str
    best_engine: str
    chosen: str
    optimism: Optimism


def measure_fusion(
    legs: LoggedLegs,
    learned: Vector,
    metric: Metric,
    *,
    judged: Sequence[JudgedQuery],
    folds: int = FOLDS,
    complete: bool = False,
    version: tuple[int, ...] = Z_SCORE_SINCE,
    drawing: Resampling,
) -> FusionFigures:
    """Each leg alone, the fusions of OpenSearch's version, and the learned weights, by one metric.

    The best engine variant is chosen for each fold on the queries of the others.
    """
    data = legs.data
    weights = uneven(data.query_weights)
    columns = {name: legs.alone(leg) for leg, name in enumerate(data.feature_names)}
    shown = {name: legs.found[:, leg] for leg, name in enumerate(data.feature_names)}
    values = {name: legs.values(columns[name], shown[name], metric) for name in columns}
    best_leg = max(values, key=lambda name: metric.average(values[name], weights))
    union = legs.found_by_any
    fusions = engine_fusions(len(columns), version)
    of_fusions = []
    for number, fusion in enumerate(fusions):
        drawing.progress(f"engine setting {number + 1} of {len(fusions)}", number / len(fusions))
        of_fusions.append(legs.values(legs.fused(fusion), union, metric))
    tried = np.array(of_fusions)
    fold = fold_of_queries(data, folds, _SALT)
    picked = [int(tried[:, fold != number].mean(axis=1).argmax()) for number in range(folds)]
    equal = EngineFusion("min_max", weights=(1 / len(columns),) * len(columns))
    best_engine = f"best of {len(fusions)} engine settings"
    values[RRF] = legs.values(legs.fused(EngineFusion("rrf")), union, metric)
    values[EQUAL] = legs.values(legs.fused(equal), union, metric)
    values[best_engine] = tried[np.array(picked)[fold], np.arange(data.n_queries)]
    values[LEARNED] = legs.values(learned, legs.served, metric)
    of = _queries_of(legs, judged, weights)
    plan = ComparisonPlan((metric,), "zero", best_leg, drawing)
    scores = {LEARNED: learned, best_leg: columns[best_leg]}
    seen = {LEARNED: legs.served, best_leg: shown[best_leg]}
    both = {
        name: RankerResults(
            [values[name], *(legs.values(own, seen[name], guard) for guard in plan.guards)],
            lists=legs.lists(own, seen[name], complete=complete),
        )
        for name, own in scores.items()
    }
    decision = compare_results(PerQueryResults(both, plan, of))
    ranked = {name: RankerResults([one]) for name, one in values.items()}
    most = max(set(picked), key=picked.count)
    return FusionFigures(
        compare_results(PerQueryResults(ranked, plan, of)),
        decision.pairs[0],
        values,
        best_leg,
        best_engine,
        chosen=str(fusions[most]),
        optimism=optimism_of(tried, values[best_leg], drawing.seed),
    )


def _queries_of(
    legs: LoggedLegs, judged: Sequence[JudgedQuery], weights: Vector | None
) -> ComparedQueries:
    """The queries that have candidates, each scored by a model of others."""
    known = {query.query_id: query for query in judged}
    queries = [known[name] for name in legs.data.query_ids.to_pylist()]
    numbers = np.arange(len(queries))
    return replace(compared_queries(queries, ChosenQueries(numbers, "test")), weights=weights)
