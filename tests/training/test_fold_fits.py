"""Fits by folds: what is chosen, what is held out, and the kinds that they compare."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Run
from owpc_ltr.training import kinds as kinds_of_models
from owpc_ltr.training.fitting import check_trainable
from owpc_ltr.training.fold_fits import (
    FOLDS,
    Means,
    QueryFolds,
    fit_by_folds,
    mean_of_trees,
)
from owpc_ltr.training.kinds import (
    BOOSTED,
    CURVES,
    LINEAR,
    PAIRS,
    SUM,
    SUMMED,
    FittedKinds,
    Kind,
    kinds,
)
from owpc_ltr.training.plan import C, Plan, model_plan
from owpc_ltr.training.train import TrainingSummary

METRIC = parse_metric("ndcg@10")
FEW: dict[str, Any] = {"trees": 25, "patience": 8, "depth": 2, "leaf": 5.0}


def world(queries: int = 60, seed: int = 2, signal: float = 1.0) -> RankingDataset:
    """Grades that depend on a feature, on the size of another, and on the product of two."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries * 12, 5)).astype(np.float32)
    wish = features[:, 0] - np.abs(features[:, 1]) + features[:, 2] * features[:, 3]
    wish = signal * wish + rng.normal(size=len(wish))
    grades = np.digitize(wish, np.quantile(wish, [0.5, 0.8, 0.95]))
    return ltr.make_dataset(features, grades, np.repeat([f"q{n}" for n in range(queries)], 12))


def in_folds(data: RankingDataset) -> QueryFolds:
    return QueryFolds.of(data, check_trainable(data))


def trees(**settings: Any) -> Plan:
    named = {f"optimizer.{name}": value for name, value in {**FEW, **settings}.items()}
    return model_plan("lambdarank", "boosting", named, metric="ndcg@10")


def mean_of(queries: QueryFolds, scores: Any) -> float:
    data = queries.data
    return METRIC.mean(np.asarray(scores), data.labels, data.offsets)


def means(queries: QueryFolds, model: Any) -> float:
    return mean_of(queries, model.score(queries.data.features))


def by_hand(plan: Plan, queries: QueryFolds, settings: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The mean on each fold of a model that is fitted without it."""
    values = []
    for number in range(FOLDS):
        rest, own = (side(number, queries.data) for side in (queries.without, queries.only))
        model = ltr.train(
            rest,
            loss=plan.loss,
            optimizer=plan.learner,
            settings={**plan.settings, **settings},
            metric="ndcg@10",
            validation_share=0,
            test_share=0,
        )
        values.append(means(replace(queries, data=own), model))
    return np.array(values)


def test_each_query_is_in_one_fold_and_in_no_fit_that_scores_it() -> None:
    queries = in_folds(world())
    for number in range(FOLDS):
        rest = set(queries.without(number, queries.data).query_ids.to_pylist())
        own = set(queries.only(number, queries.data).query_ids.to_pylist())
        assert not rest & own
        assert len(rest | own) == queries.data.n_queries


def test_the_c_is_chosen_that_is_best_on_the_mean_of_the_folds() -> None:
    queries = in_folds(world())
    plan = model_plan(metric="ndcg@10")
    fits = fit_by_folds(plan, queries, Run())
    assert fits.plan.settings[C] == max(fits.table, key=lambda row: row["validation"])[C]
    assert fits.value == max(row["validation"] for row in fits.table)
    exact = by_hand(fits.plan, queries, {"tolerance": 1e-2})
    sizes = [np.sum(queries.fold == number) for number in range(FOLDS)]
    assert fits.value == pytest.approx(np.average(exact, weights=sizes), abs=5e-3)
    assert not fits.passes


def test_a_c_that_is_set_is_the_only_one_that_is_fitted() -> None:
    queries = in_folds(world())
    plan = model_plan(metric="ndcg@10")
    chosen = fit_by_folds(plan, queries, Run())
    again = fit_by_folds(chosen.plan, queries, Run())
    assert len(again.table) == 1
    assert again.plan.settings[C] == chosen.plan.settings[C]
    assert again.value == pytest.approx(chosen.value, abs=0.02)


def test_a_c_that_is_set_is_fitted_exactly() -> None:
    """Where nothing is chosen, models of other columns are compared, not how far fits went."""

    def weights(**settings: float) -> Any:
        plan = model_plan(metric="ndcg@10", settings={"C": 1.0, **settings})
        (linear, *_) = fit_by_folds(plan, in_folds(world()), Run()).held_out
        assert isinstance(linear, LinearModel)
        return linear.weights

    exact = weights(tolerance=1e-8)
    assert weights() == pytest.approx(exact, abs=5e-3)
    assert weights(tolerance=1e-2) != pytest.approx(exact, abs=5e-3)


def test_the_number_of_trees_is_chosen_that_is_best_on_the_mean_of_the_folds() -> None:
    queries = in_folds(world())
    fits = fit_by_folds(trees(), queries, Run())
    curve = [row["validation"] for row in fits.history]
    assert fits.passes == int(np.argmax(curve)) + 1
    assert fits.value == max(curve)
    sizes = [np.sum(queries.fold == number) for number in range(FOLDS)]
    own = [
        means(replace(queries, data=queries.only(number, queries.data)), model)
        for number, model in enumerate(fits.models)
    ]
    assert fits.value == pytest.approx(np.average(own, weights=sizes), abs=1e-6)


def test_a_fold_has_no_say_in_the_settings_of_the_model_that_scores_it() -> None:
    means = Means(METRIC, np.array([2.0, 1.0, 1.0]))
    means.rows = [np.array(row) for row in ([0.9, 0.1, 0.2], [0.3, 0.5, 0.2], [0.2, 0.1, 0.6])]
    assert means.best() == 0
    assert [means.best(without=fold) for fold in range(FOLDS)] == [1, 0, 0]
    means.rows.append(np.array([0.0, np.nan, 0.9]))
    assert means.best(without=0) == 3


@pytest.mark.parametrize("plan", [model_plan(metric="ndcg@10"), trees()], ids=["C", "trees"])
def test_what_is_held_out_is_ranked_by_chance_where_nothing_can_be_learned(plan: Plan) -> None:
    """Also by the fit whose settings were chosen. Chosen on its own fold, trees seem to rank."""
    gains, flattered = [], []
    for seed in range(25):
        queries = in_folds(world(30, seed=seed, signal=0.0))
        fits = fit_by_folds(plan, queries, Run())
        chance = mean_of(queries, np.zeros(queries.data.n_documents))
        gains.append(mean_of(queries, queries.scores(fits.held_out)) - chance)
        flattered.append(best_of_each_fold(plan, queries) - chance)
    error = np.std(gains) / np.sqrt(len(gains))
    assert abs(np.mean(gains)) < 3 * error
    if plan.learner.name == "boosting":
        assert np.mean(flattered) > 3 * error


def best_of_each_fold(plan: Plan, queries: QueryFolds) -> float:
    """The liar: each fold has the number of trees that is best on itself."""
    if plan.learner.name != "boosting":
        return 0.0
    total = 0.0
    for number in range(FOLDS):
        loss, optimizer = plan.make(plan.candidates()[0])
        own = queries.only(number, queries.data)
        run = Run(validation=own, metric=METRIC)
        fit = optimizer.minimise(loss, queries.without(number, queries.data), run)
        total += max(row["validation"] for row in fit.history) * own.n_queries
    return total / queries.data.n_queries


def test_the_mean_of_forests_has_the_mean_of_their_scores_and_of_their_gains() -> None:
    queries = in_folds(world())
    fits = fit_by_folds(trees(), queries, Run())
    mean = mean_of_trees(fits.models)
    scores = [model.score(queries.data.features) for model in fits.models]
    np.testing.assert_allclose(mean.score(queries.data.features), np.mean(scores, axis=0))
    gains = [model.record["importances"]["gain"] for model in fits.models]
    for name, gain in mean.record["importances"]["gain"].items():
        assert gain == pytest.approx(sum(own.get(name, 0.0) for own in gains) / FOLDS)


# Kinds


def fitted(data: RankingDataset, *names: str, missing: str | None = None) -> FittedKinds:
    """These kinds with few trees, fitted by folds."""
    make = partial(model_plan, metric="ndcg@10", missing=missing)
    made = FittedKinds(in_folds(data), missing)
    for kind in kinds(make, data.n_features):
        if kind.name in names:
            plan = kind.plan
            if plan is not None and plan.learner.name == "boosting":
                few = {f"optimizer.{name}": value for name, value in FEW.items()}
                plan = replace(plan, settings={**plan.settings, **few}, grid={})
            made.fit(replace(kind, plan=plan), Run())
    return made


def test_a_sum_is_of_parts_of_one_spread_and_one_forest() -> None:
    data = world()
    made = fitted(data, LINEAR, CURVES, PAIRS, SUM)
    of_parts = np.zeros(data.n_documents)
    for part in (LINEAR, CURVES, PAIRS):
        scores = made.scores[part]
        within = [own - own.mean() for own in np.split(scores, data.offsets[1:-1])]
        spread = np.sqrt(np.mean([np.sum(own**2) for own in within]) * data.n_queries
                         / data.n_documents)  # fmt: skip
        assert made.weights[part] == pytest.approx(1.0 / spread, rel=1e-5)
        of_parts += scores * made.weights[part]
    # But for steps, and what is the same for all documents of a fold.
    for number in range(FOLDS):
        rows = np.repeat(made.queries.fold == number, np.diff(data.offsets))
        both = np.corrcoef(made.scores[SUM][rows], of_parts[rows])
        assert both[0, 1] > 0.995
    result = made.trained(Kind(SUM, None, frozenset(), ""), Run(), None)
    assert isinstance(result.model, TreeModel)
    assert list(result.model.record["parts"]) == [LINEAR, CURVES, PAIRS]
    record = result.model.record
    assert record["validation"] == made.values[SUM]
    kinds_record = {"kind": SUM, "why": "the best", "compared": []}
    model = replace(result.model, record={**record, "kinds": kinds_record})
    lines = " ".join(str(TrainingSummary(model)).split())
    assert "kind: sum: the best chosen: linear, C=" in lines
    assert lines.count("trees") == 2
    page = pytest.importorskip("owpc_ltr_report.models")
    section = page.training_section(page.NamedModel("m", model), 1)
    assert section is not None
    text = str(section)
    for words in (
        "Folds of the queries chose the kind of model",
        *(f"loss of {k}" for k in SUMMED),
    ):
        assert words in text


@pytest.mark.parametrize("missing", [None, "zero"])
def test_a_sum_has_a_way_for_missing_values(missing: str | None) -> None:
    data = world()
    features = data.features.copy()
    features[::7, 0] = np.nan
    made = fitted(replace(data, features=features), LINEAR, CURVES, PAIRS, SUM, missing=missing)
    model = made.trained(Kind(SUM, None, frozenset(), ""), Run(), None).model
    gone, zero = (model.score(np.array([[value, 0, 0, 0, 0]])) for value in (np.nan, 0.0))
    assert (gone == zero) == (missing == "zero")


def choice_of(values: dict[str, Any], runs_in: str = "engine", sign: int = 1) -> Any:
    """The choice among kinds of which these are the values of the metric, query by query."""
    queries = len(next(iter(values.values())))
    made = FittedKinds(in_folds(world(queries)), None)
    ordered = list(values.values())
    metric = SimpleNamespace(
        of=lambda ranked: np.asarray(ordered[int(ranked.scores[0])], dtype=np.float64),
        span=1.0,
        higher_is_better=sign > 0,
    )
    model = LinearModel(("a",), np.ones(1))
    found = []
    for number, name in enumerate(values):
        made.fits[name] = SimpleNamespace(plan=SimpleNamespace(metric=metric))  # type: ignore[assignment]
        made.held_out[name] = (model,) * FOLDS
        made.scores[name] = np.full(made.queries.data.n_documents, float(number))
        places = {"plugin", "client"} | ({"engine"} if name != BOOSTED else set())
        found.append(Kind(name, None, frozenset(places), ""))
    return made.choice(found, np.arange(queries), runs_in, 0)


def noise(size: float, queries: int = 400) -> Any:
    return size * np.random.default_rng(1).permutation(np.linspace(-1.0, 1.0, queries))


@pytest.mark.parametrize(
    ("loss", "spread", "chosen"),
    [
        pytest.param(0.0019, 0.5, LINEAR, id="less than .002, and than half of .0144"),
        pytest.param(0.0025, 0.5, PAIRS, id="more than .002"),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_simpler_kind_may_lose_a_part_of_the_noise_alone(
    loss: float, spread: float, chosen: str, sign: int
) -> None:
    best = np.full(400, 0.5)
    simpler = best - sign * loss + noise(spread)
    choice = choice_of({LINEAR: simpler, PAIRS: best}, sign=sign)
    assert choice.kind.name == chosen
    if chosen == LINEAR:
        assert f"of the best ({PAIRS})" in choice.why
        assert "the simplest of those that run in every engine within 0." in choice.why


def test_another_place_is_named_where_it_gives_more_than_a_little() -> None:
    flat = np.full(400, 0.5)
    few = choice_of({LINEAR: flat, BOOSTED: flat + 0.004 + noise(0.1)})
    assert few.why == "the best of those that run in every engine"
    for gain, spread in ((0.006, 0.5), (0.004, 0.001)):
        much = choice_of({LINEAR: flat, BOOSTED: flat + gain + noise(spread)})
        assert much.kind.name == LINEAR
        assert f"; {BOOSTED} would change it by +{gain:.4f}: `runs_in` plugin" in much.why
    assert choice_of({LINEAR: flat, BOOSTED: flat + 0.01}, "plugin").kind.name == BOOSTED


def test_large_labels_choose_by_their_own_size() -> None:
    data = world()
    large = replace(data, labels=33 * data.labels)
    assert kinds_of_models.metric_for(data) == "ndcg@10"
    assert kinds_of_models.metric_for(large) == "ndcg@10,gain=linear"
    binary = replace(data, labels=np.minimum(data.labels, 1))
    assert kinds_of_models.metric_for(binary) == "map"


@pytest.mark.parametrize("how", [{}, {"loss": "lambdarank", "optimizer": "boosting"}])
def test_labels_of_any_size_train_alike(how: dict[str, Any]) -> None:
    """Labels of grades times 33 have the ranking of a linear gain, which knows no unit."""
    data = world(30)
    few: dict[str, Any] = {"settings": {"trees": 20}} if how else {}
    one, other = (
        ltr.train(each, metric="ndcg@10,gain=linear", **how, **few)
        for each in (data, replace(data, labels=33 * data.labels))
    )
    np.testing.assert_allclose(one.score(data.features), other.score(data.features), rtol=1e-6)


@pytest.mark.parametrize("validation", [None, "other", "same"])
def test_the_model_learns_from_all_queries_that_are_not_kept_out(validation: str | None) -> None:
    data = world(60)
    splits = data.split(validation=0.2, test=0.2)
    if validation is None:
        model, seen = ltr.train(data), splits.training.n_queries + splits.validation.n_queries
    elif validation == "other":
        model = ltr.train(splits.training, validation=splits.validation)
        seen = splits.training.n_queries + splits.validation.n_queries
    else:
        with pytest.warns(ltr.OwpcLtrWarning, match="validation queries are in the training data"):
            model = ltr.train(splits.training, validation=splits.training)
        seen = splits.training.n_queries
    assert model.record["queries"] == seen
    measured = ltr.evaluate(model, data, metrics="ndcg@10")
    assert measured.n_queries == splits.test.n_queries
