"""Prediction-powered comparison: proxy and human labels, and `compare --proxy-labels`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

import owpc_ltr as ltr
from owpc_ltr import RankerComparison
from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.compared_pair import (
    FEWEST,
    PredictionPowered,
    crossfitted_slopes,
    prediction_powered,
    sampled_queries,
)
from owpc_ltr.evaluation.significance import mean_of, standard_error
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.datasets import seen_sides
from tests.proxy_labels import (
    DOCUMENTS,
    JUDGED,
    NAMES,
    PEOPLE,
    PROXY,
    QUERIES,
    RANKERS,
    SAMPLE,
    compared,
    listed,
    run,
)

N = 300


def ids(n: int = N) -> list[str]:
    return [f"q{number}" for number in range(n)]


def drawn(seed: int = 0, n: int = 80, noise: float = 0.1) -> tuple[Vector, Vector]:
    """Proxy differences of all queries, and human ones of the first n."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.05, 0.3, N)
    human = np.where(np.arange(N) < n, truth, np.nan)
    return truth + rng.normal(0.1, noise, N), human


def estimated(proxy: Vector, human: Vector, **how: Any) -> PredictionPowered:
    return prediction_powered(proxy, human, ids(len(proxy)), **how)


def alike(first: PredictionPowered, other: PredictionPowered) -> None:
    for name in ("by_both", "by_human"):
        for mine, theirs in zip(
            dataclasses.astuple(getattr(first, name)),
            dataclasses.astuple(getattr(other, name)),
            strict=True,
        ):
            assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_a_proxy_judge_who_says_what_people_say_gives_the_interval_of_all_queries() -> None:
    truth, human = drawn(noise=0.0)
    truth = truth - 0.1
    human = np.where(np.isnan(human), np.nan, truth)
    estimate = estimated(truth, human)
    everybody = estimated(truth, truth)
    assert estimate.strength == pytest.approx(1.0)
    assert estimate.by_both.mean == pytest.approx(everybody.by_both.mean)
    assert dataclasses.astuple(everybody.by_both) == pytest.approx(
        dataclasses.astuple(estimate.by_proxy)
    )
    # But for the rule of three: of what 80 queries lack, nobody can tell what people say.
    assert estimate.by_both.high - estimate.by_both.mean == pytest.approx(3 / 80)


def test_noise_is_given_no_say() -> None:
    strengths, ratios = [], []
    for seed in range(40):
        _, human = drawn(seed)
        noise = np.random.default_rng(1000 + seed).normal(0.3, 0.3, N)
        estimate = estimated(noise, human)
        strengths.append(estimate.strength)
        ratios.append(
            (estimate.by_both.high - estimate.by_both.low)
            / (estimate.by_human.high - estimate.by_human.low)
        )
    assert np.median(strengths) == 0.0
    assert np.mean(strengths) < 0.05
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.01)


def test_constant_and_opposite_judges_leave_what_people_say_alone() -> None:
    proxy, human = drawn()
    for judge in (np.zeros(N), np.full(N, 0.7), -proxy):
        estimate = estimated(judge, human)
        assert estimate.strength == 0.0
        assert estimate.by_both == estimate.by_human


def test_people_alone_give_students_interval_where_nothing_is_skewed() -> None:
    half = np.random.default_rng(1).normal(size=40)
    values = np.concatenate([half, -half]) + 0.2
    human = np.concatenate([values, np.full(N - 80, np.nan)])
    interval = estimated(np.zeros(N), human).by_human
    low, high = t.interval(0.95, 79, values.mean(), values.std(ddof=1) / np.sqrt(80))
    assert (interval.mean, interval.low, interval.high) == pytest.approx((values.mean(), low, high))
    assert interval.p == pytest.approx(
        2 * t.sf(values.mean() / (values.std(ddof=1) / np.sqrt(80)), 79)
    )


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3), st.floats(-5, 5))
def test_the_scale_of_proxy_judgments_and_their_bias_do_not_matter(
    seed: int, scale: float, bias: float
) -> None:
    proxy, human = drawn(seed)
    estimate, other = estimated(proxy, human), estimated(scale * proxy + bias, human)
    assert other.by_both.mean == pytest.approx(estimate.by_both.mean, abs=1e-9)
    assert other.by_both.low == pytest.approx(estimate.by_both.low, abs=1e-9)
    assert other.strength * scale == pytest.approx(estimate.strength, rel=1e-6, abs=1e-9)


@given(st.integers(0, 10_000))
def test_the_order_of_queries_and_of_rankers_does_not_matter(seed: int) -> None:
    proxy, human = drawn(seed)
    order = np.random.default_rng(seed).permutation(N)
    estimate = estimated(proxy, human)
    shuffled = prediction_powered(proxy[order], human[order], np.array(ids())[order].tolist())
    alike(estimate, shuffled)
    other = estimated(-proxy, -human)
    assert (other.by_both.low, other.by_both.high) == pytest.approx(
        (-estimate.by_both.high, -estimate.by_both.low)
    )


@given(st.integers(0, 10_000))
def test_an_interval_holds_its_mean_and_agrees_with_its_p(seed: int) -> None:
    proxy, human = drawn(seed, noise=0.3)
    estimate = estimated(proxy, human)
    for each in (estimate.by_both, estimate.by_human, estimate.by_proxy):
        assert each.low <= each.mean <= each.high
        assert (each.p < 0.05) == (each.low > 0 or each.high < 0)
    assert (estimate.n_more == 0) == estimate.decided


def test_weights_are_importance() -> None:
    proxy, human = drawn()
    weights = np.random.default_rng(4).uniform(0.5, 4.0, N)
    estimate = estimated(proxy, human, weights=weights)
    judged = ~np.isnan(human)
    alone = mean_of(human[judged], weights[judged])
    assert estimate.by_human.mean == pytest.approx(alone)
    error = standard_error(human[judged], weights[judged])
    reach = (estimate.by_human.high - estimate.by_human.low) / 2
    assert reach == pytest.approx(t.ppf(0.975, 79) * error, rel=0.02)
    alike(estimated(proxy, human, weights=np.full(N, 3.0)), estimated(proxy, human))
    # A query of weight 0 is not there.
    weights[::7] = 0.0
    kept = weights > 0
    fewer = prediction_powered(
        proxy[kept], human[kept], np.array(ids())[kept].tolist(), weights=weights[kept]
    )
    alike(estimated(proxy, human, weights=weights), fewer)


def test_where_all_are_judged_nothing_is_left_to_predict() -> None:
    proxy, _ = drawn()
    truth = np.random.default_rng(2).normal(0.02, 0.3, N)
    estimate = estimated(proxy, truth)
    assert estimate.strength == 0.0
    assert estimate.by_both == estimate.by_human
    assert estimate.n_more is None or estimate.n_more == 0


def test_further_judgments_decide_as_was_told() -> None:
    """Of a sample that decides nothing: as many as it says, of the same spread, decide."""
    rng = np.random.default_rng(12)
    truth = rng.normal(0.1, 1.0, 2000)
    proxy = truth + rng.normal(0, 0.7, 2000)
    decided = []
    for _ in range(60):
        order = rng.permutation(2000)
        human = np.full(2000, np.nan)
        human[order[:60]] = truth[order[:60]]
        estimate = estimated(proxy, human)
        if not estimate.n_more:
            continue
        human[order[: 60 + estimate.n_more]] = truth[order[: 60 + estimate.n_more]]
        again = estimated(proxy, human)
        decided.append(abs(again.by_both.mean) / (again.by_both.high - again.by_both.mean))
    assert len(decided) > 10
    assert np.median(decided) > 0.8


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", [0.05, 0.3, 5.0])
def test_the_interval_holds_the_truth_as_often_as_it_says(noise: float, weighted: bool) -> None:
    covered = _coverage(noise, weighted, liar="")
    assert covered >= 0.93


def test_one_who_trusts_the_proxy_judge_alone_is_caught() -> None:
    assert _coverage(0.3, False, liar="proxy alone") < 0.5


def test_one_who_fits_the_slope_on_the_queries_that_it_moves_is_caught() -> None:
    """Of noise: the fitted slope leaves smaller residuals than a slope of other queries does."""
    ratios = []
    for seed in range(60):
        proxy, human = drawn(seed, FEWEST, 5.0)
        sample = sampled_queries(proxy, human, ids())
        x, y = sample.centred_proxy[sample.judged], sample.human
        fitted = np.polyfit(x, y, 1)[0]
        honest = np.var(y - crossfitted_slopes(sample) * x)
        ratios.append((np.var(y - fitted * x) / np.var(y), honest / np.var(y)))
    cheat, fair = np.mean(ratios, axis=0)
    assert cheat < 0.98
    assert fair >= 0.998


def test_one_who_does_not_pair_gains_nothing() -> None:
    proxy, human = drawn(noise=0.1)
    judged = ~np.isnan(human)
    honest = estimated(proxy, human)
    unpaired = proxy.copy()
    unpaired[judged] = np.random.default_rng(0).permutation(unpaired[judged])
    other = estimated(unpaired, human)
    width = honest.by_human.high - honest.by_human.low
    assert (honest.by_both.high - honest.by_both.low) / width < 0.7
    assert (other.by_both.high - other.by_both.low) / width > 0.95


def test_few_human_judgments_say_nothing_of_the_proxy_ones() -> None:
    proxy, human = drawn(n=FEWEST - 1, noise=0.0)
    assert estimated(proxy, human).strength == 0.0
    assert estimated(*drawn(n=FEWEST, noise=0.0)).strength == pytest.approx(1.0)


def test_what_cannot_be_is_refused() -> None:
    proxy, human = drawn()
    with pytest.raises(Refused, match="1 of the compared queries"):
        estimated(*drawn(n=1))
    with pytest.raises(BadInput, match="3 human values for 300 queries"):
        estimated(proxy, human[:3])
    with pytest.raises(BadInput, match="query q4 has the differences nan"):
        estimated(np.where(np.arange(N) == 4, np.nan, proxy), human)
    with pytest.raises(BadInput, match="weights are 0 or more"):
        estimated(proxy, human, weights=np.full(N, -1.0))


def _coverage(noise: float, weighted: bool, liar: str, resamples: int = 600) -> float:
    rng = np.random.default_rng(77)
    held = 0
    names = ids()
    # Many ties, and a long tail, as differences of metrics have.
    pool = rng.gamma(1.0, 0.3, 20_000) * rng.choice([1, -0.7, 0], 20_000, p=[0.25, 0.25, 0.5])
    for _ in range(resamples):
        truth = rng.choice(pool, N)
        proxy = truth + rng.normal(0.1, noise, N) * (rng.random(N) < 0.5)
        human = np.where(np.arange(N) < 60, truth, np.nan)
        weights = rng.uniform(0.5, 3.0, N) if weighted else None
        estimate = prediction_powered(proxy, human, names, weights=weights)
        interval = estimate.by_proxy if liar == "proxy alone" else estimate.by_both
        held += interval.low <= pool.mean() <= interval.high
    return held / resamples


__all__ = ["run"]


def figures(comparison: RankerComparison, pair: int = 0) -> PredictionPowered:
    """The figures of a pair by human and proxy labels."""
    estimate = comparison.pairs[pair].prediction_powered
    assert estimate is not None
    return estimate


def test_a_list_and_a_dataset_of_the_same_judgments_say_the_same() -> None:
    of_list = compared(listed(PEOPLE, SAMPLE))
    other = compared(PEOPLE.select(SAMPLE))
    assert figures(of_list).by_both.low == pytest.approx(figures(other).by_both.low)
    alone = ltr.compare(RANKERS, data=PEOPLE.select(SAMPLE), metrics="ndcg@5", resamples=200)
    assert of_list.pairs[0].comparison.mean_difference == pytest.approx(
        alone.pairs[0].comparison.mean_difference
    )
    assert figures(of_list).by_human.mean == pytest.approx(
        alone.pairs[0].comparison.mean_difference
    )


def test_proxy_judgments_narrow_the_interval_and_do_not_move_it_to_themselves() -> None:
    estimate = figures(compared(listed(PEOPLE, SAMPLE)))
    assert (estimate.n_queries, estimate.n_human) == (QUERIES, JUDGED)
    width = estimate.by_both.high - estimate.by_both.low
    assert width < 0.95 * (estimate.by_human.high - estimate.by_human.low)
    assert estimate.n_worth > JUDGED
    truth = ltr.compare(RANKERS, data=PEOPLE, metrics="ndcg@5", resamples=200).pairs[0].comparison
    assert estimate.by_both.low < truth.mean_difference < estimate.by_both.high


def test_a_perfect_judge_says_what_all_queries_would() -> None:
    estimate = figures(compared(listed(PEOPLE, SAMPLE), PEOPLE))
    assert estimate.strength == pytest.approx(1.0)
    truth = ltr.compare(RANKERS, data=PEOPLE, metrics="ndcg@5", resamples=200).pairs[0].comparison
    assert estimate.by_both.mean == pytest.approx(truth.mean_difference, abs=1e-7)


def test_what_is_left_out_is_told() -> None:
    judgments = listed(PEOPLE, SAMPLE)
    first = judgments.queries[0]
    first = replace(
        first,
        doc_ids=[*first.doc_ids, "elsewhere"],
        grades=np.append(first.grades, 1).astype(np.float32),
    )
    strange = JudgedQuery("other", {"query": "other"}, ["d1"], np.ones(1, np.float32))
    comparison = compared(Judgments([first, *judgments.queries[1:], strange]))
    assert any("1 human-labelled queries are not among" in note for note in comparison.notes)
    assert any("1 human-labelled documents are not in" in note for note in comparison.notes)
    assert comparison.n_queries == JUDGED


def test_a_sample_that_was_chosen_is_a_doubt_and_a_random_one_is_not() -> None:
    values = ltr.compare(RANKERS, data=PROXY, metrics="ndcg@5", resamples=100).per_query
    gains = np.array(values["ndcg@5 a"]) - np.array(values["ndcg@5 b"])
    best = np.argsort(-gains)[:JUDGED]
    comparison = compared(listed(PEOPLE, best))
    for pair in (*comparison.pairs, *comparison.prediction_powered):
        assert [warning.check for warning in pair.verdict.warnings] == ["not-random"]
    assert "cannot tell: the human-labelled queries are not a random sample" in str(comparison)
    assert compared(listed(PEOPLE, SAMPLE)).verdict("a", "b").outcome != "cannot tell"


def test_queries_that_a_ranker_was_trained_on_are_left_out_of_both() -> None:
    split = HashSplit(0.2, 0.5)
    source = seen_sides(PROXY.query_ids.to_pylist(), split)
    model = LinearModel(NAMES, np.array([1.0, 0.5]), record={"source": source})
    comparison = compared(listed(PEOPLE, SAMPLE), rankers={"model": model, "b": "feature:likes"})
    test = split.sides(PROXY) == "test"
    assert figures(comparison).n_queries == int(test.sum())
    assert figures(comparison).n_human == int(test[SAMPLE].sum())


def test_importance_of_the_proxy_queries_weighs_everything() -> None:
    weights = np.random.default_rng(2).uniform(0.5, 3, QUERIES)
    comparison = compared(listed(PEOPLE, SAMPLE), replace(PROXY, query_weights=weights))
    plain = compared(listed(PEOPLE, SAMPLE))
    assert comparison.weighted
    estimate = figures(comparison)
    assert estimate.by_human.mean == pytest.approx(comparison.pairs[0].comparison.mean_difference)
    assert estimate.by_both.mean != figures(plain).by_both.mean
    again = compared(
        listed(PEOPLE, SAMPLE),
        replace(PROXY, query_weights=weights),
        unweighted=True,
    )
    assert figures(again) == figures(plain)


def test_several_pairs_are_corrected_together() -> None:
    rankers = {**RANKERS, "c": LinearModel(NAMES, np.array([1.0, 1.0]))}
    comparison = compared(listed(PEOPLE, SAMPLE), rankers=rankers, metrics=["ndcg@5", "map"])
    assert len(comparison.prediction_powered) == 6
    for number in range(6):
        assert figures(comparison, number).p_holm >= figures(comparison, number).by_both.p
    assert (
        json.loads(json.dumps(comparison.as_dict()))["prediction_powered"][0]["p_holm"] is not None
    )


def test_what_cannot_be_is_refused_command() -> None:
    people = listed(PEOPLE, SAMPLE)
    with pytest.raises(UsageError, match="compare-live"):
        compared(people, rankers=["live:x@y", "live:z@y"])
    labels = PROXY.labels.copy()
    labels[:DOCUMENTS] = 0
    with pytest.raises(UsageError, match="leaves out queries"):
        compared(people, replace(PROXY, labels=labels), metrics="ndcg@5,empty=skip")
    others = [replace(query, query_id=f"x{query.query_id}") for query in people.queries]
    with pytest.raises(BadInput, match="none of the queries with human labels"):
        compared(Judgments(others))
    strange = [replace(q, doc_ids=["z"], grades=q.grades[:1]) for q in people.queries]
    with pytest.raises(BadInput, match="none of the documents with human labels"):
        compared(Judgments(strange))
    with pytest.raises(BadInput, match="do not know their documents"):
        compared(people, replace(PROXY, doc_ids=None))
    with pytest.raises(BadInput, match="none of the queries"):
        compared(Judgments([]))
    with pytest.raises(Refused, match="1 of the 240 queries"):
        compared(listed(PEOPLE, SAMPLE[:1]))


def test_the_command_says_what_either_judge_says_and_fits_80_columns(run: Run) -> None:
    asked = ["compare", "linear.json", "feature:likes", "--data", "sample.tsv"]
    asked += ["--proxy-labels", "clicks.parquet", "--metric", "ndcg@5", "--resamples", "200"]
    out = run.output(*asked)
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "proxy, biased",
        "human",
        "λ = 0.",
        "human-labelled queries",
        "by human and proxy labels",
        "the target is the metric over the human-labelled documents",
    ):
        assert words in " ".join(out.split())
    result = json.loads(run(*asked, "--json")[1])
    comparison = ltr.compare(
        ["linear.json", "feature:likes"], data="sample.tsv", metrics="ndcg@5",
        proxy_labels="clicks.parquet",
        resamples=200,
    )  # fmt: skip
    assert result["prediction_powered"] == json.loads(
        json.dumps(comparison.as_dict()["prediction_powered"])
    )
    assert result["ideal_of"] == "human-labelled documents"
    assert "by 60 human-labelled and 240 proxy-labelled queries" in " ".join(
        str(comparison).split()
    )
    assert "human-labelled" in comparison._repr_html_()


def test_few_human_labels_show_nothing_whatever_they_say() -> None:
    """As in 32 of 60 worlds without a difference: two labelled queries that differ alike."""
    for few in (2, 4, 29):
        comparison = compared(listed(PEOPLE, SAMPLE[:few]))
        for pair in (*comparison.pairs, *comparison.prediction_powered):
            assert pair.verdict.outcome == "cannot tell"
            assert pair.better is None
        estimate = figures(comparison)
        assert estimate.by_both.high - estimate.by_both.low >= 6 / few
        assert estimate.n_more is None or estimate.n_more >= 30 - few
    assert (
        compared(listed(PEOPLE, SAMPLE[:30])).prediction_powered[0].verdict.outcome != "cannot tell"
    )
