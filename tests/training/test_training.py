"""Training: candidates, honest selection, refusals, and a model that knows how it was made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr import (
    RankingDataset,
    make_dataset,
    save_model,
)
from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import HashSplit, fold_of_queries
from owpc_ltr.errors import BadInput, OwpcLtrWarning, PluginError, Refused, UsageError
from owpc_ltr.evaluation.judged_data import model_data
from owpc_ltr.evaluation.measurement import list_warnings, lists_of
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.protocols import Run
from owpc_ltr.training.fitting import kept_history, train_plan
from owpc_ltr.training.plan import deviation_within_queries, model_plan, with_scales
from owpc_ltr.training.rerankers import reranking_plan

REGISTRY = load()
OWPC = REGISTRY.find("loss", "owpc")
LAMBDARANK = REGISTRY.find("loss", "lambdarank")
LARANK = REGISTRY.find("optimizer", "larank")


def dataset(queries: int = 60, documents: int = 12, seed: int = 0) -> RankingDataset:
    generator = np.random.default_rng(seed)
    rows = queries * documents
    X = generator.normal(size=(rows, 5)).astype(np.float32)
    X[:, 4] *= 1000
    utility = X[:, 0] - 0.5 * X[:, 1] + generator.normal(size=rows)
    labels = (utility > 1.2).astype(np.float32)
    ids = np.repeat([f"query {i}" for i in range(queries)], documents)
    return make_dataset(
        X,
        labels,
        ids,
        doc_ids=pa.array([f"d{i}" for i in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"q{i}"}) for i in range(queries)]),
        featureset_hash="a" * 64,
    )


def split(data: RankingDataset) -> tuple[RankingDataset, RankingDataset]:
    halves = HashSplit(validation=0.3, test=0.0)
    return halves.part(data, "train"), halves.part(data, "validation")


class Reversed(type(parse_metric("map"))):  # type: ignore[misc]
    """A metric that is installed nowhere."""

    name = "least-map"
    higher_is_better = False


@pytest.mark.parametrize(
    ("select", "best", "tried"),
    [("map", max, 5), ("pairwise-error", min, 5), (Reversed(), min, 6)],
    ids=str,
)
def test_the_best_candidate_by_validation_is_kept(
    select: Any, best: Callable[..., float], tried: int
) -> None:
    training, validation = split(dataset())
    trained = train_plan(training, model_plan(OWPC, LARANK, metric=select), Run(), validation)
    values = [row["validation"] for row in trained.table]
    assert len(values) == tried
    metric = parse_metric(select) if isinstance(select, str) else select
    scores = trained.model.score(validation.features)
    chosen = metric.mean(scores, validation.labels, validation.offsets)
    assert chosen == pytest.approx(best(values))
    assert trained.model.record["validation"] == best(values)
    assert trained.model.record["select"] == str(select)
    place = values.index(best(values))
    assert trained.table[place]["optimizer.C"] == trained.settings["optimizer.C"]


def test_a_plan_takes_names_for_the_classes_of_installed_plugins() -> None:
    assert model_plan("owpc", "larank") == model_plan(OWPC, LARANK)
    assert reranking_plan("owpc", "exchangeable") == reranking_plan(
        OWPC, REGISTRY.find("reranker", "exchangeable")
    )
    assert model_plan("owpc", "larank", {"optimizer.C": 1}).make({"optimizer.C": 1})[1] == LARANK(
        C=1.0
    )


@pytest.mark.parametrize("plan", [model_plan, reranking_plan])
def test_a_plan_of_what_is_not_installed_is_refused_when_it_is_made(plan: Any) -> None:
    with pytest.raises(PluginError, match=r"'owcp': did you mean 'owpc'\?; installed: .*owpc, "):
        plan("owcp", "larank")
    learner = "optimizer" if plan is model_plan else "reranker"
    with pytest.raises(PluginError, match=f"no {learner} is named 'nothing'; installed: "):
        plan("owpc", "nothing")
    with pytest.raises(PluginError, match="needs a class attribute"):
        plan(object(), "larank" if plan is model_plan else "exchangeable")


def test_an_object_of_a_plugin_gives_its_settings_and_those_of_a_name_come_after() -> None:
    plan = model_plan(OWPC(p=5), LARANK(C=3.0), {"C": 1.0})
    loss, optimizer = plan.make(plan.settings)
    assert (loss, optimizer) == (OWPC(p=5), LARANK(C=1.0))


def test_a_metric_selects_as_its_text_does() -> None:
    training, validation = split(dataset())
    adarank = REGISTRY.find("optimizer", "adarank")
    for optimizer in (LARANK, adarank):
        by_text, other = (
            train_plan(training, model_plan(OWPC, optimizer, metric=select), Run(), validation)
            for select in ("ndcg@3,empty=one", parse_metric("ndcg@3,empty=one"))
        )
        assert by_text.model.as_dict() == other.model.as_dict()
        assert json.dumps(by_text.model.record) == json.dumps(other.model.record)


@pytest.mark.parametrize("select", ["map", "pairwise-error"])
def test_of_equal_candidates_the_first_is_kept(select: str) -> None:
    training, validation = split(dataset())
    # With one feature all positive weights rank alike, whatever C is.
    training, validation = (
        replace(part, features=part.features[:, :1].copy(), feature_names=("1",))
        for part in (training, validation)
    )
    for grid in ((0.1, 1.0, 10.0), (10.0, 1.0, 0.1)):
        plan = model_plan(OWPC, LARANK, grid={"optimizer.C": grid}, metric=select)
        trained = train_plan(training, plan, Run(), validation)
        assert len({row["objective"] for row in trained.table}) == 3
        assert len({row["validation"] for row in trained.table}) == 1
        assert trained.settings == {"optimizer.C": grid[0]}
        assert trained.fit.certificate.objective == trained.table[0]["objective"]


def test_each_candidate_is_announced_with_its_settings_and_the_share_that_is_done() -> None:
    training, validation = split(dataset(20))
    said: list[tuple[str, float | None]] = []

    def show(message: str, done: float | None = None) -> None:
        said.append((message, done))

    run = Run(progress=show)
    plan = model_plan(OWPC, LARANK, {"loss.p": 5}, {"optimizer.C": (0.1, 1.0)})
    train_plan(training, plan, run, validation)
    assert [news for news in said if news[0].startswith("candidate")] == [
        ("candidate 1 of 2 loss.p=5, optimizer.C=0.1", 0.0),
        ("candidate 2 of 2 loss.p=5, optimizer.C=1.0", 0.5),
    ]


def test_warm_starts_do_not_change_the_fits() -> None:
    training, validation = split(dataset())
    grid = {"optimizer.C": (0.1, 1.0, 10.0)}
    settings_ = {"optimizer.tolerance": 1e-5}
    warm = train_plan(training, model_plan(OWPC, LARANK, settings_, grid), Run(), validation)
    for row in warm.table:
        plan = model_plan(OWPC, LARANK, {**settings_, "optimizer.C": row["optimizer.C"]})
        cold = train_plan(training, plan, Run(), validation)
        assert cold.fit.certificate.objective == pytest.approx(row["objective"], rel=1e-3)


def test_a_model_file_tells_how_it_was_made_and_reads_back(tmp_path: Path) -> None:
    training, validation = split(dataset())
    plan = model_plan(OWPC, LARANK, {"loss.generator": "inverse"})
    trained = train_plan(training, plan, Run(), validation)
    save_model(trained.model, tmp_path / "m.json")
    model = load_scoring_model(tmp_path / "m.json")
    record = model.record
    assert (record["loss"]["name"], record["loss"]["settings"]["generator"]) == ("owpc", "inverse")
    assert record["featureset_hash"] == "a" * 64
    assert record["certificate"]["relative_gap"] <= 1e-3
    assert len(record["probes"]) == min(20, validation.n_queries)
    assert np.array_equal(model.score(training.features), trained.model.score(training.features))
    history = record["history"]
    assert history == [dict(row) for row in trained.fit.history]
    assert [row["pass"] for row in history] == list(range(1, len(history) + 1))
    assert history[-1]["gap"] == pytest.approx(trained.fit.certificate.gap, rel=0.2)


def test_what_cannot_be_learned_is_refused_before_any_work() -> None:
    data, infinite = dataset(), dataset()
    infinite.features[13, 2] = np.inf
    alike = replace(data, labels=np.zeros_like(data.labels))
    for unlearnable, loss, error, message in (
        (data, LAMBDARANK, UsageError, "'larank' needs a convex loss, and 'lambdarank'"),
        (alike, OWPC, Refused, "no order to learn"),
        (infinite, OWPC, Refused, "feature '3' is infinite for query 'query 1', document 2"),
    ):
        with pytest.raises(error, match=message):
            train_plan(unlearnable, model_plan(loss, LARANK, {"optimizer.C": 1.0}), Run())


@settings(max_examples=20)
@given(st.integers(0, 1000), st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=5))
def test_units_of_features_do_not_matter_when_scaled(seed: int, units: list[float]) -> None:
    data = dataset(queries=20, seed=seed)
    other = replace(data, features=(data.features * np.array(units)).astype(np.float32))
    plan = model_plan(OWPC, LARANK, {"optimizer.C": 1.0, "optimizer.tolerance": 1e-6})
    model, other_model = train_plan(data, plan, Run()).model, train_plan(other, plan, Run()).model
    assert model.score(data.features) == pytest.approx(other_model.score(other.features), abs=2e-2)


def test_a_feature_that_never_differs_within_a_query_gets_scale_zero() -> None:
    data = dataset()
    features = data.features.copy()
    features[:, 3] = np.repeat(np.arange(60), 12)
    scaled = with_scales(replace(data, features=features), "scale")
    assert scaled.scales[3] == 0.0
    assert (scaled.scales[[0, 1, 2, 4]] > 0).all()


def test_deviations_are_numpys_within_each_query() -> None:
    data = dataset()
    blocks = data.features.reshape(60, 12, 5).astype(np.float64)
    expected = np.sqrt(((blocks - blocks.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    assert deviation_within_queries(data) == pytest.approx(expected)


def test_folds_have_equal_sizes() -> None:
    assert sorted(np.bincount(fold_of_queries(dataset(), 7, "x"))) == [8, 8, 8, 9, 9, 9, 9]


def score_warnings(scores: Vector, data: RankingDataset) -> list[str]:
    """What is told of a model that scores the documents so."""
    scored = replace(data, features=scores[:, None].astype(np.float32), feature_names=("s",))
    model = LinearModel(("s",), np.ones(1))
    return list_warnings(model, [lists_of(model, scored).facts])


def test_equal_scores_are_told_with_their_share_above_a_twentieth() -> None:
    data = dataset()
    assert "all scores are equal" in score_warnings(np.zeros(720), data)[0]
    for pairs, said in ((36, "10%"), (360, "100%")):
        assert score_warnings(paired_scores(pairs), data) == [
            f"{said} of the documents share their score with another of the same query; "
            "figures are expected values over the orders of tied documents"
        ]
    assert score_warnings(paired_scores(19), data)
    # Equal scores of different queries are no ties.
    for scores in (paired_scores(18), np.arange(720.0), np.tile(np.arange(12.0), 60)):
        assert score_warnings(scores, data) == []


def paired_scores(pairs: int) -> Vector:
    """Scores of the dataset, all different but those of so many pairs of neighbours."""
    scores = np.arange(720.0)
    twins = np.arange(0, 2 * pairs, 2)
    scores[twins] = scores[twins + 1]
    return scores


def test_validation_queries_that_are_trained_on_are_named() -> None:
    data = dataset()
    with pytest.warns(OwpcLtrWarning, match=f"{data.n_queries} of {data.n_queries} validation"):
        ltr.train(data, validation=data, loss="pairwise")
    with pytest.raises(UsageError, match="one dataset: read several files as one"):
        ltr.train([data, data])  # type: ignore[arg-type]


def test_what_makes_data_another_than_the_models_is_named() -> None:
    data = dataset()
    # What has no hash was not logged, and says nothing of the feature set.
    unlogged = replace(data, featureset_hash=None)
    turned = LinearModel(data.feature_names[::-1], np.ones(5))
    hashed = LinearModel(data.feature_names, np.ones(5), record={"featureset_hash": "b" * 64})
    for model, other_data, message in (
        (LinearModel(("1", "2", "x"), np.ones(3)), data,
         r"lacks 'x' and has '3' \(3 features against 5\)"),
        (turned, data, "the model's features in another order; .* log the data with the model's"),
        (turned, unlogged, "in another order: name the features as in training"),
        (hashed, data, r"\(hash bbbbbbbbbbbb\); it was logged with aaaaaaaaaaaa: log"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            model_data(model, other_data)
    assert model_data(hashed, unlogged)[:2] == (unlogged, "unknown")
    plain = replace(hashed, record={})
    assert model_data(plain, data)[:2] == (data, "unknown")
    with pytest.raises(UsageError, match="unknown split 'held-out': choose among auto, all, tr"):
        model_data(plain, data, "held-out")


HEAD = '{"format": "owpc-ltr model", "kind": '


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a model file"),
        ("[]", "is not a model file of owpc-ltr"),
        (HEAD + '"magic"}', "of kind 'magic'"),
        (HEAD + '"linear"}', "damaged model file"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        (HEAD + '"linear", "feature_names": ["a"], "weights": [1, 2]}', "1 features has 2 weights"),
        (
            HEAD + '"linear", "feature_names": ["a"], "weights": [1e39]}',
            "'a' is not a finite",
        ),
        ("[" * 100_000, "is not a model file"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        load_scoring_model(path)
    assert str(path) in str(caught.value)


def test_trees_are_trained_on_missing_values_as_they_are() -> None:
    """A tree that was shown zeros in their place would be served NaN by the engine."""
    data = dataset()
    holes = data.features.copy()
    holes[data.labels > 0, 0] = np.nan
    plan = model_plan(OWPC, REGISTRY.find("optimizer", "boosting"), {"optimizer.trees": 5})
    model = train_plan(replace(data, features=holes), plan, Run()).model
    shown = holes[:1].copy(), holes[:1].copy()
    shown[0][0, 0], shown[1][0, 0] = np.nan, 0.0
    assert model.score(shown[0]) > model.score(shown[1])


def test_of_a_long_history_the_ends_and_a_hundred_rows_are_kept() -> None:
    rows = [{"pass": float(number)} for number in range(1, 1235)]
    kept = kept_history(rows)
    assert len(kept) <= 100
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    steps = np.diff([row["pass"] for row in kept])
    assert steps.min() >= steps.max() - 1
