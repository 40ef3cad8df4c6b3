"""A model that errs, people for a sample of the queries: how often the verdict is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.live_results.judge_pool import random_sample
from tests.proxy_labels import listed

QUERIES, DOCUMENTS = 240, 12
RANKERS = {"a": "feature:a", "b": "feature:b"}
STEPS = [0.6, 1.4, 2.2]


def world(seed: int, gain: float) -> tuple[RankingDataset, RankingDataset]:
    """Grades 0 to 3 of people, and of a model that overrates; `gain` is what ranker a is better."""
    rng = np.random.default_rng(seed)
    rows = QUERIES * DOCUMENTS
    latent = rng.normal(size=rows) + np.repeat(rng.normal(0, 0.8, QUERIES), DOCUMENTS)
    labels = np.digitize(latent, STEPS).astype(np.float32)
    noise = rng.normal(size=(rows, 2)) * 1.2
    people = make_dataset(
        labels[:, None] * [0.5 + gain, 0.5] + noise,
        labels,
        np.repeat([f"q{n}" for n in range(QUERIES)], DOCUMENTS),
        ("a", "b"),
        doc_ids=[f"d{n}" for n in range(rows)],
    )
    graded = np.digitize(latent + 0.7 + 0.5 * rng.normal(size=rows), STEPS)
    return people, replace(people, labels=graded.astype(np.float32))


def verdict(seed: int, gain: float, n: int) -> str:
    people, model = world(seed, gain)
    human = random_sample(listed(people, range(QUERIES)).queries, n, seed)
    comparison = ltr.compare(
        RANKERS, data=Judgments(human), proxy_labels=model,
        metrics="ndcg@10", resamples=1000, split="all", seed=seed,
    )  # fmt: skip
    return str(comparison.pairs[0].verdict.outcome)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [30, 60])
def test_a_model_that_overrates_makes_no_more_false_verdicts_than_chance(n: int) -> None:
    said = [verdict(seed, 0.0, n) for seed in range(120)]
    # 2.5 % a side, and what 120 worlds spread around it.
    assert max(said.count("better"), said.count("worse")) <= 8


@pytest.mark.thorough
def test_a_real_difference_is_found() -> None:
    said = [verdict(seed, 0.35, 60) for seed in range(40)]
    assert said.count("better") >= 16
    assert said.count("worse") == 0
