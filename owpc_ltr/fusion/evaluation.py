"""What a learned fusion is worth, on queries that it was not learned from.

Every leg has a score for every candidate. Learned are the weights of a linear model of these; a leg
alone and the engines' own fusions rank the documents that each leg found within its window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.judgments import JudgedQuery, judges_by_document
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.evaluation.compared_pair import disagreement
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.judged_data import ChosenQueries, compared_queries
from owpc_ltr.evaluation.measurement import (
    ComparisonPlan,
    PerQueryResults,
    RankerResults,
    Resampling,
)
from owpc_ltr.evaluation.ranked_lists import RankedLists, ranked_lists, within_window
from owpc_ltr.evaluation.significance import Comparison, Outcome, Verdict
from owpc_ltr.fusion.engine_fusions import Z_SCORE_SINCE, EngineFusion, engine_fusions
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import Metric, RankedQueries, parse_metrics, uneven
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import Progress, silent
from owpc_ltr.text import ShortRepr
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import Plan, model_plan
from owpc_ltr.version import parse_version

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.client.engine import Identity
    from owpc_ltr.engine.legs import Legs
    from owpc_ltr.models.linear import LinearModel


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
        return np.asarray(self.found.any(axis=1), np.bool_)

    @cached_property
    def names(self) -> list[str]:
        """The document of each row."""
        ids = self.data.doc_ids
        return [] if ids is None else ids.to_pylist()

    @cached_property
    def _missed(self) -> list[list[float]]:
        """By query, the grades of relevant documents that are in no row."""
        return [
            [grade for name, grade in grades.items() if grade > 0 and name not in rows]
            for grades, rows in zip(self.grades, map(set, self._names_by_query), strict=True)
        ]

    @cached_property
    def _judged(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Relevant documents without a row follow those of their query: where; labels, offsets."""
        counts = [len(grades) for grades in self._missed]
        places = np.repeat(self.data.offsets[1:], counts)
        grades = [grade for of_query in self._missed for grade in of_query]
        labels = np.insert(self.data.labels, places, grades)
        return places, labels, self.data.offsets + np.cumsum([0, *counts])

    def values(self, scores: Vector, shown: NDArray[np.bool_], metric: Metric) -> Vector:
        """The metric of each query, where the rows `shown` are ranked by these scores.

        Unjudged documents count as irrelevant, relevant ones that are not shown as not retrieved.
        """
        places, labels, offsets = self._judged
        ranked = np.insert(np.where(shown, scores, 0.0), places, 0.0)
        retrieved = np.insert(shown, places, False)
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
                {**dict.fromkeys(documents, 0.0), **of_query}
                for documents, of_query in zip(ranked, grades, strict=True)
            ]
        return ranked_lists(ranked, grades, max(map(len, ranked), default=1))

    def alone(self, leg: int) -> Vector:
        """The scores of one leg."""
        return np.nan_to_num(self.data.features[:, leg].astype(np.float64))

    def fused(self, fusion: EngineFusion) -> Vector:
        """The scores of an engine's fusion, which knows what each leg found."""
        by_leg = np.where(self.found, self.data.features, np.nan)
        return fusion.scores(by_leg, self.data.offsets, self.shards)

    def recall(self, shown: NDArray[np.bool_]) -> float:
        """The mean share of the relevant documents of a query that are among the rows `shown`."""
        places, labels, offsets = self._judged
        hit = np.insert((shown & (self.data.labels > 0)).astype(float), places, 0.0)
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
        by_query = zip(self._names_by_query, self.grades, strict=True)
        judged = sum(name in grades for names, grades in by_query for name in names)
        return judged / len(self.names)

    @property
    def n_relevant(self) -> int:
        """How many documents are judged relevant, over all queries."""
        return sum(grade > 0 for grades in self.grades for grade in grades.values())

    @property
    def _names_by_query(self) -> list[list[str]]:
        return [self.names[a:b] for a, b in pairwise(self.data.offsets.tolist())]


@dataclass(frozen=True, eq=False, repr=False)
class LearnedFusion(ShortRepr):
    """The model of all queries, and the scores that models of other queries give each query."""

    model: Model
    scores: Vector


def learn(
    legs: LoggedLegs, plan: Plan, *, seed: int = 0, progress: Progress = silent
) -> LearnedFusion:
    """Weights by cross-validation: fold k is scored by a model of the others.

    Fold k + 1 chooses its C. The model of all queries has the C that is best in the mean over
    folds; of equal ones the most regularised.
    """
    data, run = legs.data, Run(seed=seed)
    fold = fold_of_queries(data, FOLDS, _SALT)
    scores = np.zeros(data.n_documents)
    candidates, chosen = plan.candidates(), []
    for number in range(FOLDS):
        chooser = (number + 1) % FOLDS
        progress(f"fold {number + 1} of {FOLDS}", number / FOLDS)
        training = data.select(np.flatnonzero((fold != number) & (fold != chooser)))
        validation = data.select(np.flatnonzero(fold == chooser))
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


@dataclass(frozen=True, repr=False)
class CandidateRecall(ShortRepr):
    """The mean share of a query's relevant documents that is found.

    `legs` has each leg within its window, `union` all legs together, `request` the one request that
    the model rescores. `unreachable` of the `relevant` documents are in none: no fusion brings
    them.
    """

    legs: Mapping[str, float]
    union: float
    request: float
    relevant: int
    unreachable: int

    def as_dict(self) -> dict[str, Any]:
        """The shares and counts as JSON."""
        return {**vars(self), "legs": dict(self.legs)}


@dataclass(frozen=True, eq=False, repr=False)
class FusionFigures(BlockResult):
    """What the rankers are worth, side by side.

    `comparison` has every ranker against the best leg, corrected over all of them. `decision`
    compares the learned weights, each query scored by a model of others, with that leg: the one
    comparison that decides. `values` has the metric of each query, by ranker.
    """

    comparison: RankerComparison
    decision: Comparison
    verdict: Verdict
    values: dict[str, Vector] = field(repr=False)
    best_leg: str
    best_engine: str
    """What the best engine setting is called in the comparison."""
    engine_setting: str
    """Which one that is in most folds."""
    recall: CandidateRecall
    optimism: Optimism


def measure_fusion(
    legs: LoggedLegs,
    learned: Vector,
    metric: Metric,
    *,
    judged: Sequence[JudgedQuery],
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
    fold = fold_of_queries(data, FOLDS, _SALT)
    picked = [int(tried[:, fold != number].mean(axis=1).argmax()) for number in range(FOLDS)]
    equal = EngineFusion("min_max", weights=(1 / len(columns),) * len(columns))
    best_engine = f"best of {len(fusions)} engine settings"
    values[RRF] = legs.values(legs.fused(EngineFusion("rrf")), union, metric)
    values[EQUAL] = legs.values(legs.fused(equal), union, metric)
    values[best_engine] = tried[np.array(picked)[fold], np.arange(data.n_queries)]
    values[LEARNED] = legs.values(learned, legs.served, metric)
    # The queries that have candidates, each scored by a model of others.
    by_id = {query.query_id: query for query in judged}
    queries = [by_id[query_id] for query_id in data.query_ids.to_pylist()]
    of = compared_queries(queries, ChosenQueries(np.arange(len(queries)), "test"))
    of = replace(of, weights=weights)
    plan = ComparisonPlan((metric,), "zero", best_leg, drawing)
    judges = [dict(zip(q.doc_ids, judges_by_document(q), strict=True)) for q in queries]
    ranked = {LEARNED: (learned, legs.served), best_leg: (columns[best_leg], shown[best_leg])}
    both = {}
    for name, (scores, seen) in ranked.items():
        lists = legs.lists(scores, seen, complete=complete)
        both[name] = RankerResults(
            [values[name], *(legs.values(scores, seen, guard) for guard in plan.guards)],
            # Of complete judgments nobody gave those of the other documents.
            lists=lists if complete else replace(lists, judges=judges),
        )
    (decision,) = compare_results(PerQueryResults(both, plan, of)).pairs
    rankers = {name: RankerResults([of_queries]) for name, of_queries in values.items()}
    most = max(set(picked), key=picked.count)
    return FusionFigures(
        comparison=compare_results(PerQueryResults(rankers, plan, of)),
        decision=decision.comparison,
        verdict=decision.verdict,
        values=values,
        best_leg=best_leg,
        best_engine=best_engine,
        engine_setting=str(fusions[most]),
        recall=CandidateRecall(
            {name: legs.recall(rows) for name, rows in shown.items()},
            legs.recall(union),
            legs.recall(legs.served),
            legs.n_relevant,
            legs.n_unreachable,
        ),
        optimism=optimism_of(tried, values[best_leg], drawing.seed),
    )


_HEADERS = ("RANKER", "MEAN", "LOW", "HIGH", "DIFF", "LOW", "HIGH", "P")
_CAPTION = "Means and differences of rankers"


@dataclass(frozen=True, eq=False, repr=False)
class Fusion(FusionFigures):
    """One learned weight a leg, what it is worth on other queries, and the verdict.

    `model` is learned from all queries, and ranks what `legs.query_template` brings.
    """

    model: LinearModel
    legs: Legs
    logged: LoggedLegs = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> RankingDataset:
        """The candidates, with a column for each leg."""
        return self.logged.data

    @property
    def on_all_queries(self) -> Vector:
        """The metric of each query with `model`, which has learned from them.

        A live evaluation of the uploaded model on the same queries has these values.
        """
        scores = self.model.score(self.data.features)
        return self.logged.values(scores, self.logged.served, self.comparison.metrics[0])

    @property
    def metric(self) -> str:
        """By what is measured."""
        return str(self.comparison.metrics[0])

    @property
    def is_better(self) -> bool:
        """Whether the learned weights are better than the best leg."""
        return self.verdict.outcome == Outcome.BETTER

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each leg's score."""
        return dict(zip(self.model.feature_names, self.model.weights.tolist(), strict=True))

    @property
    def shares(self) -> dict[str, float]:
        """The share of each leg in the spread of the model's scores."""
        spread = np.nanstd(np.nan_to_num(self.data.features), axis=0) * np.abs(self.model.weights)
        shares = spread / max(float(spread.sum()), 1e-300)
        return dict(zip(self.model.feature_names, shares.tolist(), strict=True))

    @property
    def headline(self) -> str:
        """The verdict in a line: better, or why not to fuse."""
        by = self.decision
        figures = f"{by.mean_difference:+.4f} [{by.low:+.4f}, {by.high:+.4f}]"
        over = f"{self.best_leg} alone by {self.metric}"
        if self.verdict.outcome == Outcome.BETTER:
            return f"better: learned weights against {over}, {figures}"
        if self.verdict.outcome == Outcome.WORSE:
            return f"do not fuse: learned weights are worse than {over}, {figures}"
        if self.verdict.outcome == Outcome.CANNOT_TELL:
            reasons = "; ".join(warning.line for warning in self.verdict.warnings)
            return f"do not fuse: cannot tell whether it is better than {over}: {reasons}"
        why = disagreement(by, by.p_permutation)
        return (
            f"do not fuse: no significant gain over {over}, {figures}; {by.n_queries} queries "
            f"show a gain of {by.detectable:.4f} in 80 % of cases, and no smaller one"
            f"{why and f'; interval and test disagree: {why}'}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of single queries, as JSON."""
        return {
            "verdict": self.verdict.as_dict(),
            "headline": self.headline,
            "metric": self.metric,
            "baseline": self.best_leg,
            "decision": self.decision.as_dict(),
            "weights": self.weights,
            "recall": self.recall.as_dict(),
            "engine_setting": self.engine_setting,
            "optimism": vars(self.optimism),
            "comparison": self.comparison.as_dict(),
            "query_template": self.legs.query_template,
            "notes": list(self.notes),
        }

    def _blocks(self) -> Iterator[Block]:
        """The verdict first, then every ranker, the candidates, and what a selection would add."""
        yield from (self.headline, _title(self), Table(_HEADERS, list(_rows(self)), _CAPTION))
        yield from _facts(self)


def learned_fusion(
    legs: Legs,
    logged: LoggedLegs,
    judged: Judgments,
    metric: Any,
    *,
    identity: Identity,
    complete: bool,
    plugins: Sequence[Path | str],
    drawing: Resampling,
) -> Fusion:
    """The weights that are learned of these legs, and what they are worth.

    `identity` is the engine's: which fusions of its own it has.
    """
    registry = load(map(Path, plugins))
    (parsed,) = parse_metrics([metric], registry)
    parsed = within_window(parsed, legs.request_window)
    plan = model_plan(metric=parsed, registry=registry)
    learned = learn(logged, plan, seed=drawing.seed, progress=drawing.progress)
    version: tuple[int, ...] = Z_SCORE_SINCE
    if identity.distribution == "opensearch":
        version = parse_version(identity.version)
    figures = measure_fusion(
        logged,
        learned.scores,
        parsed,
        judged=judged.queries,
        complete=complete,
        version=version,
        drawing=drawing,
    )
    return Fusion(
        **vars(figures),
        model=learned.model,  # type: ignore[arg-type]
        legs=legs,
        logged=logged,
    )


def _title(fusion: Fusion) -> str:
    return (
        f"{fusion.comparison.n_queries:,} queries, {fusion.legs.window} documents a leg; learned "
        f"and chosen on other queries; differences from {fusion.best_leg}"
    )


def _rows(fusion: Fusion) -> Iterator[tuple[Any, ...]]:
    pairs = {pair.a: pair for pair in fusion.comparison.pairs}
    for ranker in fusion.comparison.rankers:
        mean = ranker.means[fusion.metric]
        pair = pairs.get(ranker.name)
        if pair is None:
            yield ranker.name, mean.mean, mean.low, mean.high, "", "", "", ""
            continue
        decides = ranker.name == LEARNED
        by = fusion.decision if decides else pair.comparison
        p = by.p_permutation if decides else pair.p_holm
        differences = (f"{value:+.4f}" for value in (by.mean_difference, by.low, by.high))
        yield (ranker.name, mean.mean, mean.low, mean.high, *differences, p)


def _facts(fusion: Fusion) -> Iterator[str]:
    yield (
        "low and high are 95 % intervals; p of the learned weights is that of one comparison, "
        "which decides; the others are corrected for all in the table (Holm)"
    )
    yield "weights: " + ", ".join(
        f"{name} {weight:.6g} ({fusion.shares[name]:.0%} of the spread)"
        for name, weight in fusion.weights.items()
    )
    recall = fusion.recall
    legs = ", ".join(f"{name} {share:.2f}" for name, share in recall.legs.items())
    yield (
        f"recall of the candidates: {legs}; all legs {recall.union:.2f}, the one request "
        f"{recall.request:.2f}; {recall.unreachable:,} of {recall.relevant:,} relevant documents "
        "are in none, and no fusion brings them"
    )
    optimism = fusion.optimism
    yield (
        f"engine settings: the best of {optimism.settings} gains {optimism.gain:+.4f} over "
        f"{fusion.best_leg} on these queries, of which {optimism.expected:+.4f} is to be expected "
        f"on others: choosing among so many adds {optimism.lost:.4f} by itself; most folds choose "
        f"{fusion.engine_setting}"
    )
    yield (
        f"the model has learned from all queries, and has {fusion.on_all_queries.mean():.4f} on "
        "them, as `compare_live(split='all')` with the query template must show"
    )
    yield from fusion.notes
