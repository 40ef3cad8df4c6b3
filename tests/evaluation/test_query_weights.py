"""Query weights: the same as repeated queries, in losses, means and tests."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from owpc_ltr_losses.listnet import ListNet
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.larank import LaRank
from scipy import stats

import owpc_ltr as ltr
from owpc_ltr import save_model
from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.judged_data import UNUSED, unused_weights
from owpc_ltr.evaluation.significance import (
    acceleration,
    bca_interval,
    compare_paired,
    standard_error,
)
from owpc_ltr.evaluation.significance import mean_of as mean_of_values
from owpc_ltr.host.registry import installed
from owpc_ltr.kernels.kernel import bind, linear_risk
from owpc_ltr.metrics.training_metrics import Judge
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Loss, Optimizer, Run
from owpc_ltr.training.plan import means_of
from tests.commands import Run as RunCommand

QUERIES, DOCUMENTS = 8, 6
TIMES = np.array([0, 1, 2, 3, 1, 4, 2, 1])
COPIES = np.random.default_rng(3).integers(0, 4, QUERIES * DOCUMENTS)
LOSSES: list[Loss] = [plugin.cls() for plugin in installed().all("loss")]
COPYING = [loss for loss in LOSSES if getattr(loss, "weights_are_copies", False)]


def plain() -> RankingDataset:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 3, QUERIES * DOCUMENTS)
    features = rng.normal(size=(len(labels), 3)) + labels[:, None] * [0.6, 0.2, 0.0]
    return make_dataset(features, labels, np.repeat(np.arange(QUERIES), DOCUMENTS))


def of_rows(rows: NDArray[np.int64], ids: Any) -> RankingDataset:
    data = plain()
    return make_dataset(data.features[rows], data.labels[rows], ids)


def repeated() -> RankingDataset:
    """Each query as often as it is asked, as queries of their own."""
    pairs = [(query, turn) for query in range(QUERIES) for turn in range(TIMES[query])]
    rows = np.concatenate([np.arange(DOCUMENTS) + DOCUMENTS * query for query, _ in pairs])
    return of_rows(rows, np.repeat([f"{query}-{turn}" for query, turn in pairs], DOCUMENTS))


def copied() -> RankingDataset:
    """Each document as often as its weight says."""
    rows = np.repeat(np.arange(len(COPIES)), COPIES)
    return of_rows(rows, [str(row // DOCUMENTS) for row in rows])


def asked_often() -> RankingDataset:
    return replace(plain(), query_weights=TIMES.astype(np.float64))


def sure() -> RankingDataset:
    return replace(plain(), document_weights=COPIES.astype(np.float32))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_query_of_weight_k_is_priced_as_k_queries(loss: Loss) -> None:
    w = np.array([0.7, -0.2, 0.4])
    risk, slope = linear_risk(asked_often(), bind(loss), w)
    many, slopes = linear_risk(repeated(), bind(loss), w)
    assert risk == pytest.approx(many, rel=1e-12)
    assert slope == pytest.approx(slopes, rel=1e-9, abs=1e-12)


def test_most_losses_count_a_document_of_weight_k_as_k_copies() -> None:
    assert {loss.name for loss in LOSSES} - {loss.name for loss in COPYING} == {"lambdarank"}


@pytest.mark.parametrize("loss", COPYING, ids=lambda loss: loss.name)
def test_a_document_of_weight_k_is_priced_as_k_copies(loss: Loss) -> None:
    w = np.array([0.7, -0.2, 0.4])
    risk, slope = linear_risk(sure(), bind(loss), w)
    many, slopes = linear_risk(copied(), bind(loss), w)
    assert risk == pytest.approx(many, rel=1e-9)
    assert slope == pytest.approx(slopes, rel=1e-7, abs=1e-9)
    assert risk != pytest.approx(linear_risk(plain(), bind(loss), w)[0], rel=1e-3)


@pytest.mark.parametrize("method", [LaRank, Bundle], ids=lambda method: method.name)
@pytest.mark.parametrize("loss", [OWPC(), Pairwise(), ListNet()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("weighed", "as_many"), [(asked_often, repeated), (sure, copied)], ids=["queries", "documents"]
)
def test_training_with_weights_ends_where_training_on_copies_does(
    method: Any, loss: Loss, weighed: Any, as_many: Any
) -> None:
    optimizer: Optimizer = method(C=0.5, tolerance=1e-6)
    fits = [optimizer.minimise(loss, data(), Run()) for data in (weighed, as_many, plain)]
    weighted, many, other = (fit.certificate for fit in fits)
    # Both optima lie between objective − gap and objective, and are one.
    assert weighted.objective - weighted.gap <= many.objective * (1 + 1e-9)
    assert many.objective - many.gap <= weighted.objective * (1 + 1e-9)
    assert max(weighted.gap, many.gap) < 0.05 * abs(weighted.objective - other.objective)


WEIGHED = LinearModel(("1", "2", "3"), np.array([0.3, 0.9, -0.5]))


@pytest.mark.parametrize("metric", [NDCG(cutoff=3), NDCG(cutoff=3, empty="skip")], ids=str)
def test_a_mean_over_weighted_queries_is_that_of_repeated_ones(metric: Any, tmp_path: Path) -> None:
    parts = ltr.partition(asked_often(), out=tmp_path / "parts", buckets=3)
    often = means_of([metric], WEIGHED, asked_often())[0]
    for same in (repeated(), parts):
        assert often == pytest.approx(means_of([metric], WEIGHED, same)[0], rel=1e-12)
    assert abs(often - means_of([metric], WEIGHED, plain())[0]) > 1e-4
    judged = [
        Judge[int](Run(validation=data, metric=metric)).see(1, WEIGHED.score)["validation"]
        for data in (asked_often(), repeated())
    ]
    assert judged[0] == pytest.approx(judged[1], rel=1e-12)
    judge = Judge[int](Run(validation=parts, metric=metric))
    assert judge.validation is not None
    order = [int(query) for query in parts.query_ids.to_pylist()]
    assert judge.validation.query_importance.tolist() == TIMES[order].tolist()


def test_the_settings_are_chosen_by_the_queries_that_are_asked_often() -> None:
    """Two queries that want opposite models: whichever is asked more has its way."""
    features = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]
    validation = make_dataset(features, [0, 1, 1, 0], ["a", "a", "b", "b"])
    model = LinearModel(("1", "2"), np.array([1.0, 0.0]))
    for often, expected in ((9.0, 0.9), (1 / 9, 0.1)):
        data = replace(validation, query_weights=np.array([often, 1.0]))
        mean = means_of([NDCG(cutoff=1)], model, data)[0]
        assert mean == pytest.approx(expected)


def test_who_measures_is_told_that_documents_are_not_weighed(tmp_path: Path) -> None:
    ones = replace(plain(), document_weights=np.ones(len(COPIES), np.float32))
    for data, notes in ((sure(), [UNUSED]), (ones, []), (plain(), []), (asked_often(), [])):
        parts = ltr.partition(data, out=tmp_path / str(id(data)), buckets=2)
        for held in (data, parts):
            assert unused_weights(held) == notes
            evaluation = ltr.evaluate(WEIGHED, held, metrics=["ndcg@3"], split="all")
            assert [warning for warning in evaluation.warnings if "weigh" in warning] == notes
    with pytest.warns(ltr.OwpcLtrWarning) as caught:
        ltr.train(plain(), validation=sure(), grid={"C": [0.1, 1.0]})
    of_weights = [
        warning for warning in caught if "validation: metrics do not weigh" in str(warning.message)
    ]
    assert len(of_weights) == 1
    with pytest.warns(ltr.OwpcLtrWarning) as caught:
        ltr.select(sure(), folds=3, grid={"C": [0.1]}, metrics=["ndcg@3"])
    assert [str(warning.message) for warning in caught] == [UNUSED]


Array = NDArray[Any]
VALUES = hnp.arrays(np.float64, 8, elements=st.floats(-1, 1))
COUNTS = hnp.arrays(np.int64, 8, elements=st.integers(1, 5))


def sample(rng: np.random.Generator, n: int = 60) -> tuple[Array, Array, Array]:
    b = rng.random(n)
    return b + 0.03 + 0.1 * rng.standard_normal(n), b, rng.integers(1, 6, n).astype(np.float64)


def test_weights_that_are_nearly_alike_change_nearly_nothing(rng: np.random.Generator) -> None:
    """The weighted formulas themselves, not the way around them, meet the plain ones."""
    a, b, _ = sample(rng)
    weights = np.ones(60)
    weights[0] += 1e-13
    near = compare_paired(a, b, seed=3, weights=weights).as_dict()
    assert near == pytest.approx(compare_paired(a, b, seed=3).as_dict(), abs=1e-9)


@given(VALUES, COUNTS)
def test_a_whole_weight_is_the_mean_of_the_query_repeated(values: Array, counts: Array) -> None:
    weighted = mean_of_values(values, counts.astype(np.float64))
    assert weighted == pytest.approx(float(np.repeat(values, counts).mean()), abs=1e-12)


def test_a_query_of_weight_0_is_as_if_it_were_not_there(rng: np.random.Generator) -> None:
    a, b, weights = sample(rng)
    weights[::4] = 0.0
    kept = weights > 0
    a[0] = np.nan
    comparison = compare_paired(a, b, seed=1, weights=weights)
    assert comparison == compare_paired(a[kept], b[kept], seed=1, weights=weights[kept])
    assert comparison.n_queries == 45


def test_scaled_weights_are_the_same_weights(rng: np.random.Generator) -> None:
    a, b, weights = sample(rng)
    comparison = compare_paired(a, b, seed=1, weights=weights).as_dict()
    # A power of two scales without rounding.
    assert compare_paired(a, b, seed=1, weights=8 * weights).as_dict() == comparison


def repeated_flips_p(a: Array, b: Array, counts: Array) -> float:
    """The p of all flips of the repeated queries, whose repetitions flip as one."""
    differences = np.repeat(a - b, counts)
    signs = np.array(list(itertools.product([-1, 1], repeat=len(a))))
    sums = np.abs(np.repeat(signs, counts, axis=1) @ differences)
    return float(np.mean(sums >= abs(differences.sum()) - 1e-9))


@given(VALUES, COUNTS)
def test_the_permutation_test_is_that_of_the_repeated_queries(values: Array, counts: Array) -> None:
    zeros = np.zeros(8)
    values = np.round(values, 3)
    comparison = compare_paired(values, zeros, seed=0, weights=counts, resamples=300)
    assert comparison.p_permutation == repeated_flips_p(values, zeros, counts)


def test_a_test_that_ignores_weights_is_caught(rng: np.random.Generator) -> None:
    a, b, _ = sample(rng, 8)
    counts = np.array([9, 1, 1, 1, 1, 1, 1, 1])
    wanted = repeated_flips_p(a, b, counts)
    assert compare_paired(a, b, seed=0, weights=counts).p_permutation == wanted
    assert compare_paired(a, b, seed=0).p_permutation != wanted


def ratio(values: Array, weights: Array, axis: int = -1) -> Array:
    ratios: Array = (values * weights).sum(axis=axis) / weights.sum(axis=axis)
    return ratios


def test_the_weighted_interval_is_near_scipys_bca_of_the_ratio(rng: np.random.Generator) -> None:
    weights = rng.integers(1, 9, 80).astype(np.float64)
    values = rng.exponential(size=80) ** 2 - 1.0 + 0.6 * weights
    # Expanded quantiles: what a normal one misses at this level, Student's misses at 5 %.
    level = 2 * stats.norm.cdf(np.sqrt(80 / 79) * stats.t.ppf(0.975, 79)) - 1
    theirs = stats.bootstrap(
        (values, weights), ratio, paired=True, method="BCa", n_resamples=20_000,
        confidence_level=level, rng=rng,
    ).confidence_interval  # fmt: skip
    low, high = bca_interval(values, weights, 0.05, 20_000, rng)
    spread = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.04 * spread)
    assert high == pytest.approx(theirs.high, abs=0.04 * spread)
    ignorant, _ = bca_interval(values, None, 0.05, 20_000, rng)
    assert abs(ignorant - theirs.low) > 0.1 * spread


def test_the_lean_is_that_of_the_jackknife(rng: np.random.Generator) -> None:
    values, weights = rng.exponential(size=30), rng.integers(1, 9, 30).astype(np.float64)
    for own in (None, weights):
        given_weights = np.ones(30) if own is None else own
        left = [ratio(np.delete(values, i), np.delete(given_weights, i)) for i in range(30)]
        moved = np.mean(left) - np.array(left)
        wanted = (moved**3).sum() / (6 * (moved**2).sum() ** 1.5)
        assert acceleration(values, own) == pytest.approx(wanted)


def test_the_weighted_error_is_that_of_the_mean_over_samples(rng: np.random.Generator) -> None:
    """Against the spread that the weighted mean really has when queries are drawn anew."""
    draws = rng.exponential(size=(4_000, 200))
    weights = rng.integers(1, 9, (4_000, 200)).astype(np.float64)
    draws += 0.2 * weights
    spread = ratio(draws, weights).std()
    errors = np.array(
        [standard_error(v, w) for v, w in zip(draws[:200], weights[:200], strict=True)]
    )
    assert errors.mean() == pytest.approx(spread, rel=0.04)


def test_equal_rankers_are_told_apart_as_often_as_promised(rng: np.random.Generator) -> None:
    rejected = np.zeros(2)
    for _ in range(400):
        a, b = rng.random(40), rng.random(40)
        weights = rng.exponential(size=40)
        comparison = compare_paired(a, b, seed=0, resamples=200, weights=weights)
        rejected += [comparison.p_permutation < 0.05, comparison.p_t < 0.05]
    # 20 of 400, give or take three standard deviations.
    assert ((rejected >= 7) & (rejected <= 33)).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights of shape \(1,\) for values of shape \(3,\)"),
        ([1.0, -1.0, 1.0], r"query 1 \(counted from 0\) has the weight -1.0"),
        ([1.0, np.nan, 1.0], "has the weight nan"),
        ([1.0, 0.0, 0.0], "cannot compare on 1 queries"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compare_paired(np.arange(3.0), np.ones(3), seed=0, weights=np.array(weights))


METRICS = ["ndcg@3", "map,empty=skip"]


def data(weights: Vector | None) -> RankingDataset:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 200)
    labels[:5] = 0  # a query without anything relevant
    ids = np.repeat([f"q{n}" for n in range(40)], 5)
    return make_dataset(rng.normal(size=(200, 2)) + labels[:, None] / 2, labels, ids,
                        query_weights=weights)  # fmt: skip


WEIGHTS = np.random.default_rng(6).integers(0, 5, 40).astype(np.float64)
MODEL = LinearModel(("1", "2"), np.array([1.0, 0.3]))
OTHER = LinearModel(("1", "2"), np.array([0.1, 1.0]))


def test_means_are_those_of_the_queries_repeated() -> None:
    plain = data(None)
    times = WEIGHTS.astype(int)
    parts = [plain.select(np.flatnonzero(times > round_)) for round_ in range(times.max())]
    evaluation = evaluated(data(WEIGHTS))
    assert evaluation.weighted
    values = [evaluated(part).measured for part in parts]
    for number, measurement in enumerate(evaluation.measured):
        repeated = np.concatenate([of_part[number].per_query for of_part in values])
        assert measurement.mean == pytest.approx(np.nanmean(repeated))
    floor = evaluated(data(WEIGHTS), LinearModel(("1", "2"), np.zeros(2))).measured
    assert [measurement.all_tied_baseline for measurement in evaluation.measured] == [
        measurement.mean for measurement in floor
    ]
    assert abs(evaluation.measured[0].mean - evaluated(plain).measured[0].mean) > 1e-3


def evaluated(data: Any, model: Any = MODEL, **how: Any) -> ltr.Evaluation:
    return ltr.evaluate(model, data, metrics=METRICS, split="all", **how)


def test_importance_that_is_all_1_or_not_wanted_changes_no_bit() -> None:
    plain = evaluated(data(None), baseline=OTHER)
    for weights, how in (
        (np.ones(40), {}),
        (np.full(40, 0.3), {}),
        (WEIGHTS, {"unweighted": True}),
    ):
        evaluation = evaluated(data(weights), baseline=OTHER, **how)
        assert evaluation.as_dict() == plain.as_dict()
        assert (evaluation.weighted, "weighted" in repr(evaluation)) == (False, False)


def test_the_comparison_is_weighted_too() -> None:
    evaluation = evaluated(data(WEIGHTS), baseline=OTHER)
    model, other = evaluation.rankers
    for mine, theirs, pair in zip(model.measured, other.measured, evaluation.pairs, strict=True):
        assert pair.comparison.mean_difference == pytest.approx(mine.mean - theirs.mean)
        assert pair.comparison.mean_a == pytest.approx(mine.mean)
    for shown in (repr(evaluation), evaluation._repr_html_()):
        assert "weighted by the importance of queries" in shown


def test_parts_have_the_figures_of_memory(tmp_path: Path) -> None:
    whole = data(WEIGHTS)
    parts = ltr.partition(whole, out=tmp_path / "parts", buckets=4)
    order = [
        whole.query_ids.to_pylist().index(query_id) for query_id in parts.query_ids.to_pylist()
    ]
    evaluation = evaluated(parts, baseline=OTHER)
    assert evaluation.weighted
    wanted = evaluated(whole.select(np.array(order)), baseline=OTHER)
    assert evaluation.as_dict() == wanted.as_dict()


def test_the_command_says_that_means_are_weighted(run: RunCommand) -> None:
    for name, weights in (("weighted", WEIGHTS), ("plain", None)):
        ltr.save_dataset(data(weights), f"{name}.parquet")
    save_model(replace(MODEL, record={}), Path("m.json"))
    words = ["evaluate", "m.json", "--data", "weighted.parquet", "--split", "all"]
    assert "weighted by the importance of queries" in " ".join(run(*words)[1].split())
    assert json.loads(run(*words, "--json")[1])["weighted"] is True
    unweighted = run(*words, "--unweighted")[1]
    plain = run("evaluate", "m.json", "--data", "plain.parquet", "--split", "all")[1]
    assert unweighted == plain.replace("plain", "weighted")
