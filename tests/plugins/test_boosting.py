"""Boosting and RankBoost: XGBoost's own trees, sums over all pairs, honest ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers import boosting as xgboost_growth
from owpc_ltr_optimizers.boosting import Boosting, strongest_pairs
from owpc_ltr_optimizers.rankboost import RankBoost, _Pairs

import owpc_ltr as ltr
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Fit, Loss, Run
from owpc_ltr.training.kinds import kinds
from owpc_ltr.training.plan import model_plan
from tests.datasets import in_parts, learnable


def problem(seed: int, queries: int = 20, documents: int = 25) -> RankingDataset:
    """Graded documents; relevance depends on a product of features, and on one being missing."""
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 5)).astype(np.float32)
    missing = generator.random(rows) < 0.2
    utility = X[:, 0] * X[:, 1] + X[:, 2] + 2 * missing + 0.3 * generator.normal(size=rows)
    X[missing, 3] = np.nan
    labels = np.clip(np.floor(utility), 0, 2).astype(np.float32)
    return make_dataset(X, labels, np.repeat(np.arange(queries), documents))


def fit(
    data: RankingDataset, loss: Loss | None = None, run: Run | None = None, **options: Any
) -> Any:
    settings = {"trees": 20, "leaf": 1.0} | options
    return Boosting(**settings).minimise(loss or LambdaRank(), data, run or Run())


@kernel
def _squared(
    scores: Any, labels: Any, weights: Any, _parameters: Any, gradient: Any, curvature: Any
) -> float:
    value = 0.0
    for i in range(len(scores)):
        gradient[i] = weights[i] * (scores[i] - labels[i])
        value += 0.5 * weights[i] * (scores[i] - labels[i]) ** 2
        if len(curvature):
            curvature[i] = weights[i]
    return value


@dataclass(frozen=True)
class Squared(KernelLoss):
    """Half the squared distance of the scores from the labels."""

    name: ClassVar[str] = "squared"
    kernel: ClassVar[Kernel] = _squared
    has_curvature: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True


def test_squares_give_the_trees_of_xgboosts_own_regression() -> None:
    data = problem(0)
    solution = fit(data, Squared(), depth=4)
    matrix = xgboost.QuantileDMatrix(data.features, label=data.labels, max_bin=256, nthread=1)
    own = {"objective": "reg:squarederror", "base_score": 0.0, "max_depth": 4, "eta": 0.1}
    booster = xgboost.train(own | {"nthread": 1}, matrix, 20)
    assert solution.model.score(data.features) == pytest.approx(
        booster.predict(xgboost.DMatrix(data.features)).astype(float), abs=1e-5
    )


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
def test_the_model_scores_as_xgboost_predicts(objective: Any) -> None:
    data = replace(problem(1), query_weights=np.random.default_rng(0).random(20))
    solution = fit(data, objective=objective, subsample=0.8, depth=3)
    labels = data.labels if objective != "rank:map" else (data.labels > 0).astype(float)
    matrix = xgboost.QuantileDMatrix(
        data.features,
        label=labels,
        qid=np.repeat(np.arange(20), 25),
        weight=data.query_weights,
        nthread=1,
    )
    own = {"objective": objective, "subsample": 0.8, "max_depth": 3, "eta": 0.1, "base_score": 0.0}
    booster = xgboost.train(own | {"nthread": 1, "seed": 0}, matrix, 20)
    predicted = booster.predict(xgboost.DMatrix(data.features)).astype(float)
    assert np.isnan(data.features).any()
    assert solution.model.score(data.features) == pytest.approx(predicted, abs=1e-6)


LAMBDAMART: dict[str, Any] = {"loss": "lambdarank", "optimizer": "boosting"}


def times(factor: float) -> RankingDataset:
    data = problem(6)
    return replace(data, labels=factor * data.labels)


def test_the_gain_of_lambdarank_is_that_of_the_metric_unless_it_is_set() -> None:
    def gain(metric: str, **settings: Any) -> Any:
        few = {"trees": 2, **settings}
        model = ltr.train(problem(6), **LAMBDAMART, metric=metric, settings=few)
        return model.record["loss"]["settings"]["gain"]

    for metric in ("ndcg@10", "map", "rbp,gain=binary", "rbp,gain=exponential"):
        assert gain(metric) == "exponential"
    for metric in ("ndcg@10,gain=linear", "rbp,gain=linear"):
        assert gain(metric) == "linear"
        assert gain(metric, gain="exponential") == "exponential"
    assert gain("ndcg@10", gain="linear") == "linear"


def test_select_and_the_comparison_of_kinds_take_the_gain_of_the_metric_too() -> None:
    metric, few = "ndcg@10,gain=linear", {"optimizer.trees": 2}
    how: dict[str, Any] = {"folds": 3, "losses": ["lambdarank"], "optimizers": ["boosting"]}
    selection = ltr.select(times(33), metrics=metric, settings=few, **how)
    assert {row.settings["loss.gain"] for row in selection.rows} == {"linear"}
    trees = kinds(partial(model_plan, metric=metric), 5)[-1].plan
    assert trees is not None
    assert trees.for_labels(np.array([0.0, 99.0])).settings["loss.gain"] == "linear"
    with pytest.raises(Refused, match="the largest label is 66"):
        ltr.select(times(33), metrics="ndcg@10", settings=few, **how)


def test_with_a_linear_gain_trees_do_not_depend_on_the_unit_of_the_labels() -> None:
    how: dict[str, Any] = {**LAMBDAMART, "metric": "ndcg@10,gain=linear", "settings": {"trees": 9}}
    model, other = (ltr.train(times(factor), **how) for factor in (1, 32))
    features = problem(7).features
    assert np.array_equal(model.score(features), other.score(features))


@pytest.mark.parametrize("optimizer", ["boosting", "gradient"])
@pytest.mark.parametrize("factor", [25, 1000])
def test_labels_above_31_are_refused_before_training_where_the_gain_is_exponential(
    optimizer: str, factor: float, tmp_path: Path
) -> None:
    data = times(factor)
    how: dict[str, Any] = {"loss": "lambdarank", "optimizer": optimizer, "metric": "map"}
    expected = (
        rf"the largest label is {2 * factor}, and loss 'lambdarank' takes labels up to 31 with the "
        r'gain 2\^label − 1: set loss\.gain=linear, or use `metric="ndcg@10,gain=linear"`'
    )
    for table in (data, in_parts(data, tmp_path)):
        with pytest.raises(Refused, match=expected):
            ltr.train(table, **how)
    few = {"trees": 2} if optimizer == "boosting" else {"epochs": 1}
    for settings in ({"gain": "linear"}, {"measure": "map"}):
        ltr.train(data, **how, settings={**few, **settings})


def test_xgboosts_own_ndcg_refuses_labels_that_lambdarank_takes_with_a_linear_gain() -> None:
    for factor, advice in ((0.75, "`loss='lambdarank'`"), (25, " and loss.gain=linear")):
        with pytest.raises(Refused, match=f"takes whole grades up to 31, .*{advice}$"):
            fit(times(factor), objective="rank:ndcg")


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    "loss", [LambdaRank(), OWPC(), OWPC(generator="inverse"), Pairwise(inner="logistic")]
)
def test_trees_learn_what_no_single_feature_says(loss: Loss) -> None:
    data, unseen, metric = problem(2), problem(3), parse_metric("ndcg@10")
    solution = fit(data, loss, trees=60, leaf=10.0)
    learned = metric.mean(solution.model.score(unseen.features), unseen.labels, unseen.offsets)
    single = metric.mean(unseen.features[:, 2], unseen.labels, unseen.offsets)
    assert learned > single + 0.1


@dataclass(frozen=True)
class NoCurvature:
    """A stranger's loss in NumPy, which knows its gradient alone."""

    factor: float = 1.0
    name: ClassVar[str] = "no-curvature"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        error = scores - labels
        return 0.5 * self.factor * float(error @ error), self.factor * error


def test_the_units_of_a_loss_do_not_matter() -> None:
    data = problem(4)
    model, other = (fit(data, NoCurvature(factor)).model.as_dict() for factor in (1.0, 1024.0))
    assert model == other


def test_a_loss_without_curvature_comes_down_and_no_document_moves_faster_than_eta() -> None:
    data = problem(5)
    solution = fit(data, NoCurvature(), trees=10, l2=0.0)
    assert solution.certificate.risk < 0.7 * solution.certificate.risk_at_zero
    assert np.abs(solution.model.score(data.features)).max() <= 10 * 0.1 + 1e-6


def test_importance_multiplies_gradient_and_curvature() -> None:
    weights = np.array([2.0, 0.0, 1.0])
    data = replace(problem(6, queries=3), query_weights=weights)
    scores = np.random.default_rng(0).normal(size=75)
    gradient, curvature = xgboost_growth.Newton(Squared(), data, 1)(scores.astype(np.float32), None)
    rows = np.repeat(weights, 25)
    assert gradient == pytest.approx(rows * (scores - data.labels), abs=1e-6)
    assert curvature == pytest.approx(rows, abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.randoms())
def test_sums_of_rounded_values_do_not_depend_on_their_order(
    numbers: list[float], random: Any
) -> None:
    largest = float(np.abs(numbers).max())
    values = xgboost_growth._on_grid(np.array(numbers), largest)
    shuffled = values.tolist()
    random.shuffle(shuffled)
    total = 0.0
    for value in shuffled:
        total += value
    assert total == sum(values.tolist())
    assert np.array_equal(values, values.astype(np.float32))
    assert np.abs(values - numbers).max() <= max(2.0**-24 * np.abs(numbers).max(), 1e-30)


@pytest.mark.parametrize(("metric", "best"), [("ndcg@5", max), ("pairwise-error", min)])
def test_the_number_of_trees_of_the_best_validation_metric_is_kept(
    metric: str, best: Callable[..., float]
) -> None:
    data, validation = problem(8, queries=5), problem(9, queries=10)
    run = Run(validation=validation, metric=metric)
    solution = fit(data, run=run, trees=200, patience=5)
    values = [row["validation"] for row in solution.history]
    kept = parse_metric(metric).mean(
        solution.model.score(validation.features), validation.labels, validation.offsets
    )
    assert kept == pytest.approx(best(values), abs=1e-9)
    assert solution.certificate.passes == values.index(best(values)) + 1
    assert len(values) == solution.certificate.passes + 5
    assert "has not risen since tree" in solution.certificate.stop_reason
    assert len(solution.model.forest.roots) == solution.certificate.passes


def test_trees_are_deeper_and_leaves_larger_where_there_are_more_documents() -> None:
    for queries, leaves in ((40, 8), (800, 16)):
        forest = fit(problem(0, queries), trees=1, leaf=None).model.forest
        assert leaves // 2 < forest.is_leaf.sum() <= leaves


def test_data_without_an_order_gives_a_model_without_one() -> None:
    data = replace(problem(11), labels=np.ones(500, dtype=np.float32))
    assert len(np.unique(fit(data).model.score(data.features))) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {"document_weights": np.ones_like(data.labels)},
         "weighs queries, not documents"),
        (lambda data: {"labels": data.labels / np.float32(2)}, "not 0.5"),
        (lambda data: {"features": np.where(data.features > 2, np.inf, data.features)},
         "refuses the data"),
    ],
)  # fmt: skip
def test_what_xgboosts_own_objectives_cannot_take_is_refused_in_a_line(
    change: Callable[[RankingDataset], dict[str, Any]], message: str
) -> None:
    data = problem(12)
    with pytest.raises(Refused, match=message):
        fit(replace(data, **change(data)), objective="rank:ndcg")


def pairs_on_paths(model: TreeModel) -> set[tuple[str, ...]]:
    """The features of each path, by name."""
    forest, pairs = model.forest, set()
    waiting: list[tuple[int, frozenset[int]]] = [(int(root), frozenset()) for root in forest.roots]
    while waiting:
        node, seen = waiting.pop()
        if forest.is_leaf[node]:
            pairs.add(tuple(sorted(model.feature_names[column] for column in seen)))
            continue
        own = seen | {int(forest.feature[node])}
        waiting += [(int(forest.left[node]) + side, own) for side in (0, 1)]
    return pairs


@pytest.mark.parametrize("objective", ["loss", "rank:ndcg"])
def test_with_interactions_no_path_meets_another_pair_than_those_chosen(objective: str) -> None:
    data = problem(3)
    free = fit(data, objective=objective, depth=4).model
    assert max(map(len, pairs_on_paths(free))) > 2
    fitted = fit(data, objective=objective, depth=4, interactions=2, bins=64)
    chosen = {tuple(sorted(pair)) for pair in fitted.model.record["interactions"]}
    assert len(chosen) == 2
    met = {names for names in pairs_on_paths(fitted.model) if len(names) > 1}
    assert met
    assert met <= chosen


def test_the_pair_that_makes_documents_relevant_is_chosen_first() -> None:
    data = problem(5, queries=40)
    fitted = fit(data, interactions=1, depth=3, trees=60)
    assert fitted.model.record["interactions"] == [list(data.feature_names[:2])]


def test_trees_of_one_split_need_no_pairs_and_none_gives_an_additive_model() -> None:
    data = problem(3)
    assert "interactions" not in fit(data, depth=1, interactions=3).model.record
    alone = make_dataset(data.features[:, :1], data.labels, np.repeat(np.arange(20), 25))
    fitted = fit(alone, depth=3, interactions=3)
    assert fitted.model.record["interactions"] == []
    assert max(map(len, pairs_on_paths(fitted.model))) == 1


def test_gains_of_pairs_are_those_of_the_lower_splits() -> None:
    tree = {
        "split_indices": [0, 1, 0, 0, 0, 0, 2],
        "parents": [2147483647, 0, 0, 1, 1, 2, 2],
        "left_children": [1, 3, 5, -1, -1, -1, 7],
        "loss_changes": [9.0, 2.0, 8.0, 0, 0, 0, 3.0],
    }
    content = {"learner": {"gradient_booster": {"model": {"trees": [tree, tree]}}}}
    assert strongest_pairs(content, 5) == [(0, 2), (0, 1)]
    assert strongest_pairs(content, 1) == [(0, 2)]


@pytest.mark.parametrize("fails", [False, True])
def test_files_of_bins_are_there_until_their_matrices_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    there = []

    class Watched(xgboost.ExtMemQuantileDMatrix):  # type: ignore[misc]
        def __init__(self, data: Any, **more: Any) -> None:
            self.files = Path(data.cache_prefix)
            super().__init__(data, **more)

        def __del__(self) -> None:
            there.append(any(self.files.parent.glob(f"{self.files.name}*")))
            super().__del__()

    def progress(*_: object) -> None:
        if fails:
            raise ZeroDivisionError

    monkeypatch.setattr(xgboost, "ExtMemQuantileDMatrix", Watched)
    sides = in_parts(learnable(60), tmp_path / "parts").split()
    run = Run(validation=sides.validation, progress=progress)
    # Who is told of a failure holds the error, and what hangs on it.
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        Boosting(trees=2, leaf=1.0).minimise(OWPC(), sides.training, run)
    assert there == [True, True]


def problem_rankboost(seed: int, queries: int = 6, documents: int = 8) -> RankingDataset:
    """Graded documents, missing values, query and document weights."""
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 3)).astype(np.float32)
    labels = np.clip(np.floor(X[:, 0] + X[:, 1] + 0.5 * generator.normal(size=rows)), 0, 2)
    X[generator.random(X.shape) < 0.1] = np.nan
    return make_dataset(
        X,
        labels,
        np.repeat(np.arange(queries), documents),
        query_weights=generator.random(queries) + 0.5,
        document_weights=(generator.random(rows) + 0.5).astype(np.float32),
    )


def fit_rankboost(data: RankingDataset, run: Run | None = None, **options: Any) -> Fit:
    return RankBoost(**({"rounds": 20} | options)).minimise(OWPC(), data, run or Run())


def all_pairs(data: RankingDataset) -> list[tuple[int, int, float]]:
    """Better document, worse document, weight."""
    pairs = []
    for query in range(data.n_queries):
        rows = range(data.offsets[query], data.offsets[query + 1])
        for i in rows:
            for j in rows:
                if data.labels[i] > data.labels[j]:
                    weight = data.query_importance[query] * data.weights[i] * data.weights[j]
                    pairs.append((i, j, float(weight)))
    return pairs


def pair_weights(data: RankingDataset, scores: Vector) -> tuple[Vector, Vector, Vector]:
    better, worse, weight = (np.array(part) for part in zip(*all_pairs(data), strict=True))
    return better, worse, weight * np.exp(scores[worse] - scores[better])


@pytest.mark.parametrize("seed", range(3))
def test_the_stump_of_a_round_is_the_best_over_all_thresholds_and_pairs(seed: int) -> None:
    data = problem_rankboost(seed)
    pairs = _Pairs(data, threads=1)
    for _ in range(4):
        better, worse, D = pair_weights(data, pairs.scores)
        best = 0.0
        for feature in range(3):
            column = data.features[:, feature]
            for threshold in column[~np.isnan(column)]:
                for missing in (False, True):
                    h = np.where(np.isnan(column), missing, column >= threshold).astype(float)
                    best = max(best, abs(float(D @ (h[better] - h[worse]))) / D.sum())
        stump = pairs.best_stump()
        assert abs(stump.alpha) == pytest.approx(np.arctanh(best), rel=1e-9)
        pairs.add(stump)


def test_the_objective_is_the_mean_of_exponentials_over_pairs() -> None:
    data = problem_rankboost(4)
    solution = fit_rankboost(data)
    _, _, at_zero = pair_weights(data, np.zeros(data.n_documents))
    _, _, reached = pair_weights(data, solution.model.score(data.features))
    assert solution.certificate.objective == pytest.approx(reached.sum() / at_zero.sum(), rel=1e-9)


def test_each_round_lowers_the_objective_as_its_theorem_says() -> None:
    before = 1.0
    for row in fit_rankboost(problem_rankboost(5), rounds=50).history:
        # Freund et al. (2003), theorem 1 with their third method: Z ≤ √(1 − r²).
        bound = np.sqrt(1 - np.tanh(row["step"]) ** 2)
        assert row["objective"] <= before * bound * (1 + 1e-9)
        before = row["objective"]


def of_one_feature(data: RankingDataset, values: Any) -> RankingDataset:
    features = np.asarray(values, np.float32)[:, None].copy()
    return replace(data, features=features, feature_names=("a",))


def test_large_scores_neither_overflow_nor_vanish() -> None:
    data = problem_rankboost(6)
    separable = of_one_feature(data, data.labels)
    solution = fit_rankboost(separable, rounds=200)
    assert np.isfinite(solution.model.score(separable.features)).all()
    assert 0 <= solution.certificate.objective < 1e-12


def test_a_value_being_there_or_not_is_a_threshold_too_and_where_there_is_none_it_ends() -> None:
    data = problem_rankboost(7)
    known = of_one_feature(data, np.where(data.labels > 0, 5.0, np.nan))
    assert fit_rankboost(known, rounds=1).certificate.objective < 0.9
    alike = fit_rankboost(of_one_feature(data, np.ones(48)))
    assert alike.certificate.stop_reason.startswith("no threshold separates")
    with pytest.raises(Refused, match="there is no order to learn"):
        fit_rankboost(replace(data, labels=np.ones(48, np.float32)))
