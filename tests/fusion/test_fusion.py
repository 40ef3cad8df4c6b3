"""Learned weights against legs alone: worlds with a known truth, where fusing helps or harms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from owpc_ltr import make_dataset
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan, Resampling, measure_lists
from owpc_ltr.evaluation.significance import Outcome, compare_paired
from owpc_ltr.fusion.evaluation import (
    EQUAL,
    LEARNED,
    RRF,
    FusionFigures,
    LoggedLegs,
    learn,
    measure_fusion,
    optimism_of,
)
from owpc_ltr.metrics import parse_metric
from owpc_ltr.training.plan import model_plan

NDCG = parse_metric("ndcg@10")
Values = NDArray[np.float64]


def world(
    queries: int, second: float, seed: int = 0, window: int = 20, documents: int = 120
) -> LoggedLegs:
    """Two legs that see the worth of a document in noise: the first well, the second by `second`.

    The scale of the second leg is another one, and a tenth of the relevant documents is found by
    neither.
    """
    rng = np.random.default_rng(seed)
    features, labels, ids, names, worths = [], [], [], [], []
    grades: list[dict[str, float]] = []
    for query in range(queries):
        worth = rng.normal(size=documents)
        relevant = (worth > 1.2).astype(np.float32)
        scores = np.column_stack([
            10 + 3 * (worth + rng.normal(size=documents)),
            0.5 + 0.1 * (second * worth + rng.normal(size=documents)),
        ]).clip(0)  # fmt: skip
        ranks = np.argsort(np.argsort(-scores, axis=0), axis=0)
        own = ranks < window
        rows = np.flatnonzero(own.any(axis=1))
        features.append(scores[rows])
        labels.append(relevant[rows])
        worths.append(own[rows])
        ids += [f"q{query}"] * len(rows)
        names += [f"d{row}" for row in rows]
        grades.append({f"d{row}": float(relevant[row]) for row in range(documents)})
    marks = np.concatenate(worths)
    data = make_dataset(
        np.concatenate(features), np.concatenate(labels), ids,
        feature_names=["lexical", "dense"], doc_ids=names,
    )  # fmt: skip
    everywhere = np.ones(len(marks), np.bool_)
    return LoggedLegs(data, marks, everywhere, np.zeros(len(marks), np.int64), grades)


def measured(legs: LoggedLegs, seed: int = 0) -> FusionFigures:
    learned = learn(legs, model_plan(metric=NDCG), seed=seed)
    return measure_fusion(
        legs, learned.scores, NDCG, judged=judged(legs), drawing=Resampling(seed, 500)
    )


def judged(legs: LoggedLegs) -> list[JudgedQuery]:
    return [
        JudgedQuery(
            name, {"keywords": f"words {name}"}, list(known), np.array(list(known.values()))
        )
        for name, known in zip(legs.data.query_ids.to_pylist(), legs.grades, strict=True)
    ]


def outcome(figures: FusionFigures) -> Outcome:
    learned, other = figures.values[LEARNED], figures.values[figures.best_leg]
    return compare_paired(learned, other, seed=0, resamples=500).verdict().outcome


def test_figures_are_those_of_the_live_lists() -> None:
    """Rows are measured at once; the lists of documents say the same, missed ones included."""
    legs = world(12, 0.7)
    for leg in (0, 1):
        lists = legs.lists(legs.alone(leg), legs.found[:, leg], complete=True)
        expected = measure_lists(lists, ComparisonPlan((NDCG,))).values[0]
        assert legs.values(legs.alone(leg), legs.found[:, leg], NDCG) == pytest.approx(expected)
        assert legs.lists(legs.alone(leg), legs.found[:, leg], complete=False).judged_at(10).all()


def test_recall_counts_documents_that_no_leg_found() -> None:
    legs = world(30, 0.7)
    union = legs.recall(legs.found_by_any)
    relevant = [sum(known.values()) for known in legs.grades]
    names = [legs.names[a:b] for a, b in pairwise(legs.data.offsets.tolist())]
    expected = [
        sum(known[name] for name in own) / n
        for known, own, n in zip(legs.grades, names, relevant, strict=True)
        if n
    ]
    assert union == pytest.approx(np.mean(expected))
    assert legs.n_relevant == sum(relevant)
    lost = sum(relevant) - float((legs.data.labels > 0).sum())
    assert legs.n_unreachable == lost > 0
    # Fewer rows, less recall.
    assert legs.recall(legs.found[:, 0]) < union


def test_a_second_view_of_the_worth_makes_fusion_better() -> None:
    figures = measured(world(150, 1.0))
    assert outcome(figures) == Outcome.BETTER
    means = {ranker.name: ranker.means[str(NDCG)].mean for ranker in figures.comparison.rankers}
    # Two views of equal worth: weights that learn that are as good as any that assume it.
    assert means[LEARNED] >= max(means[RRF], means[EQUAL]) - 0.01
    assert figures.comparison.baseline == figures.best_leg


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_leg_of_noise_is_never_shipped_and_costs_reciprocal_ranks(seed: int) -> None:
    figures = measured(world(60, 0.0, seed), seed)
    assert figures.best_leg == "lexical"
    assert outcome(figures) != Outcome.BETTER
    by_name = {pair.a: pair.comparison for pair in figures.comparison.pairs}
    assert by_name[RRF].mean_difference < -0.05
    assert by_name[LEARNED].mean_difference > -0.02


def test_no_query_is_scored_by_a_model_that_learned_from_it() -> None:
    """Labels of a fold decide nothing about its own scores: liar labels in it change none."""
    legs = world(20, 0.7)
    plan = model_plan(metric=NDCG, settings={"C": 1.0})
    honest = learn(legs, plan).scores
    fold = np.repeat(fold_of_queries(legs.data, 5, "owpc-ltr"), np.diff(legs.data.offsets))
    labels = np.where(fold == 2, 1 - legs.data.labels, legs.data.labels).astype(np.float32)
    lied = learn(replace(legs, data=replace(legs.data, labels=labels)), plan).scores
    assert np.array_equal(honest[fold == 2], lied[fold == 2])
    assert not np.array_equal(honest[fold == 0], lied[fold == 0])


@pytest.mark.parametrize("queries", [20, 60])
@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: rng.exponential(size=shape) - 1,
        lambda rng, shape: rng.choice([0.0, 0.0, 0.0, 3.0, -3.0], size=shape),
    ],
    ids=["normal", "skewed", "rare"],
)
def test_what_a_selection_adds_is_what_is_lost_on_others(
    queries: int, noise: Callable[..., Values]
) -> None:
    """Of 80 settings with known means, half of the noise shared, as settings of one engine have."""
    rng = np.random.default_rng(queries)
    truth = np.linspace(-0.02, 0.02, 80)
    shown, estimated, true = [], [], []
    for _ in range(25):
        shared = noise(rng, (1, queries))
        values = truth[:, None] + 0.15 * (shared + noise(rng, (80, queries)))
        optimism = optimism_of(values, np.zeros(queries), seed=1)
        shown.append(optimism.gain - truth[int(values.mean(axis=1).argmax())])
        estimated.append(optimism.expected)
        true.append(truth[int(values.mean(axis=1).argmax())])
        assert optimism.lost >= 0
    added = np.mean(true) - np.mean(estimated)
    # The bootstrap is known to leave some of the optimism: no more than a third of it here.
    assert abs(added) < 0.35 * np.mean(shown)


@pytest.mark.thorough
def test_hardly_any_of_100_draws_ships_what_is_worse() -> None:
    """Of 50 of 300 queries, where a second leg adds close to nothing.

    An interval of 95 % lies above 0 by chance in 2.5 % of the draws.
    """
    draws = 100
    legs = world(300, 0.15, window=10, documents=60)
    plan = model_plan(metric=NDCG)
    first = legs.values(legs.alone(0), legs.found[:, 0], NDCG)
    rng = np.random.default_rng(1)
    starts = legs.data.offsets
    worse = 0
    for _ in range(draws):
        drawn = np.sort(rng.choice(legs.data.n_queries, 50, replace=False))
        rows = np.concatenate([np.arange(starts[query], starts[query + 1]) for query in drawn])
        part = LoggedLegs(
            legs.data.select(drawn),
            legs.found[rows],
            legs.served[rows],
            legs.shards[rows],
            [legs.grades[query] for query in drawn],
        )
        learned = learn(part, plan)
        alone = part.values(part.alone(0), part.found[:, 0], NDCG)
        values = part.values(learned.scores, part.served, NDCG)
        verdict = compare_paired(values, alone, seed=0, resamples=500).verdict()
        if verdict.outcome == Outcome.BETTER:
            scores = learned.model.score(legs.data.features)
            gain = legs.values(scores, legs.served, NDCG) - first
            worse += bool(np.delete(gain, drawn).mean() < 0)
    assert worse <= 0.025 * draws
