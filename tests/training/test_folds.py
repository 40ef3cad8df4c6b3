"""Cross-validated evidence: every query is ranked by a model that never saw it, on every path."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.splits import known_sides, seen_queries
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.attempts import AttemptsFile
from owpc_ltr.evaluation.judged_data import NothingHeldOut, choose_queries
from owpc_ltr.models.combined import (
    CrossValidated,
    fold_records,
    with_folds,
    without_other_folds,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import content_of
from tests.rankers import judged, linear
from tests.verdict_paths import METRIC

FOLDS = 4


def seen(data: ltr.RankingDataset) -> dict[str, Any]:
    return {"source": seen_queries(data)}


def crossed(
    data: ltr.RankingDataset, whole: tuple[float, float], without: tuple[float, float]
) -> LinearModel:
    """A model that has seen all queries, and models that have each seen all but one in four."""
    fold = np.arange(data.n_queries) % FOLDS
    models = [
        linear(*without, **seen(data.select(np.flatnonzero(fold != number))))
        for number in range(FOLDS)
    ]
    made = with_folds(linear(*whole, **seen(data)), models)
    assert isinstance(made, LinearModel)
    return made


@pytest.fixture
def data() -> ltr.RankingDataset:
    return judged(seed=8)


def evaluated(model: LinearModel, data: ltr.RankingDataset, **how: Any) -> tuple[str, float]:
    evaluation = ltr.evaluate(model, data, metrics=METRIC, **how)
    return evaluation.split, evaluation[METRIC].mean


def compared(model: LinearModel, data: ltr.RankingDataset, **how: Any) -> tuple[str, float]:
    rankers = {"new": model, "old": linear(0.5, 0.5)}
    comparison = ltr.compare(rankers, data=data, metrics=METRIC, resamples=100, **how)
    return comparison.split, comparison.rankers[0].means[METRIC].mean


def compared_over_folds(model: LinearModel, data: ltr.RankingDataset) -> tuple[str, float]:
    halves = [data.select(np.arange(part, data.n_queries, 2)) for part in range(2)]
    return compared(model, halves)  # type: ignore[arg-type]


@pytest.mark.parametrize("measured", [evaluated, compared, compared_over_folds])
def test_the_models_of_folds_are_measured_on_what_their_model_has_seen(
    data: ltr.RankingDataset, measured: Callable[..., tuple[str, float]]
) -> None:
    """The model itself ranks the other way round: its own value would be another."""
    model = crossed(data, (-1.0, -0.1), (1.0, 0.1))
    split, value = measured(model, data)
    assert split == "folds"
    assert value == measured(linear(1.0, 0.1), data)[1]


@pytest.mark.parametrize("measured", [evaluated, compared])
def test_on_all_queries_and_on_new_ones_the_model_itself_is_measured(
    data: ltr.RankingDataset, measured: Callable[..., tuple[str, float]]
) -> None:
    model, itself = crossed(data, (-1.0, -0.1), (1.0, 0.1)), linear(-1.0, -0.1)
    assert measured(model, data, split="all")[1] == measured(itself, data, split="all")[1]
    ids = [f"new {n}" for n in range(data.n_queries)]
    params = [json.dumps({"keywords": f"another text {n} of {n * 7}"}) for n in range(len(ids))]
    import pyarrow as pa

    new = replace(data, query_ids=pa.array(ids), query_params=pa.array(params))
    assert measured(model, new) == ("test", measured(itself, new)[1])


def test_a_model_of_a_fold_that_saw_its_queries_measures_none(data: ltr.RankingDataset) -> None:
    models = [linear(1.0, 0.1, **seen(data))] * FOLDS
    liar = with_folds(linear(1.0, 0.1, **seen(data)), models)
    with pytest.raises(NothingHeldOut):
        choose_queries({"the model": liar.record}, data)


def test_another_spelling_of_a_query_is_ranked_by_a_model_that_saw_neither(
    data: ltr.RankingDataset,
) -> None:
    """The first query of the data is spelled anew: only its own fold's model knows neither."""
    import pyarrow as pa

    model = crossed(data, (1.0, 0.1), (1.0, 0.1))
    spelling = [json.dumps({"keywords": "q0 of word"})]
    other = replace(
        data.select(np.array([0])), query_ids=pa.array(["x"]), query_params=pa.array(spelling)
    )
    assert choose_queries({"m": model.record}, other).folds == {"m": {"x": 0}}


def test_train_keeps_for_each_query_a_model_that_never_saw_it(
    data: ltr.RankingDataset, tmp_path: Path
) -> None:
    model = ltr.train(data, folds=FOLDS, settings={"C": 0.1})
    plain = ltr.train(data, test_share=0, settings={"C": 0.1})
    assert model.weights.tolist() == plain.weights.tolist()  # type: ignore[attr-defined]
    sides = np.array([known_sides(fold, data) for fold in fold_records(model.record)])
    assert ((sides == "test").sum(axis=0) == 1).all()
    sizes = (sides == "test").sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.sum() == data.n_queries
    ltr.save_model(model, tmp_path / "m.json")
    again = ltr.load_model(tmp_path / "m.json")
    folds = choose_queries({"m": again.record}, data).folds["m"]
    assert set(folds) == set(data.query_ids.to_pylist())
    scores = CrossValidated(again, folds).score_dataset(data)  # type: ignore[arg-type]
    for number, fold in enumerate(model.record["folds"]):
        rows = np.repeat(sides[number] == "test", np.diff(data.offsets))
        np.testing.assert_allclose(scores[rows], data.features[rows] @ fold["weights"])


def test_trees_that_learn_noise_by_heart_show_no_gain() -> None:
    """Labels are drawn: on what they have seen the trees are near 1, and folds show it is luck."""
    rng = np.random.default_rng(3)
    rows = 60 * 10
    labels = rng.integers(0, 2, rows)
    features = rng.normal(size=(rows, 8))
    data = ltr.make_dataset(features, labels, np.repeat([f"q{n}" for n in range(60)], 10))
    model = ltr.train(
        data, folds=3, loss="lambdarank", optimizer="boosting", validation_share=0,
        settings={"trees": 60},
    )  # fmt: skip
    known = ltr.evaluate(model, data, metrics="ndcg@5", split="all")["ndcg@5"]
    fair = ltr.evaluate(model, data, metrics="ndcg@5")["ndcg@5"]
    assert known.mean > 0.9
    assert abs(fair.mean - fair.all_tied_baseline) < 0.1


def test_models_that_learned_from_fewer_queries_do_not_show_their_model_to_be_worse(
    data: ltr.RankingDataset,
) -> None:
    bad, good = crossed(data, (1.0, 0.1), (0.1, 1.0)), linear(1.0, 0.1)
    both = crossed(data, (1.0, 0.1), (1.0, 0.1))
    for doubtful in (
        ltr.evaluate(bad, data, metrics=METRIC, baseline=good).verdict(),
        ltr.compare({"bad": bad, "good": good}, data=data, metrics=METRIC).verdict("bad", "good"),
        ltr.compare({"bad": bad, "good": good}, data=data, metrics=METRIC).verdict("good", "bad"),
    ):
        assert [warning.check for warning in doubtful.warnings] == ["fewer-training-queries"]
    fair = ltr.compare({"bad": bad, "good": both}, data=data, metrics=METRIC)
    assert str(fair.verdict("bad", "good")) == "worse"


def test_p_is_doubled_on_every_path(
    data: ltr.RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models of folds are others than the model itself: the differences vary more than by query."""
    model, plain, old = crossed(data, (-1.0, -0.1), (1.0, 0.1)), linear(1.0, 0.1), linear(0.6, 0.4)
    paths: list[Callable[[LinearModel], Any]] = [
        lambda ranker: ltr.evaluate(ranker, data, metrics=METRIC, baseline=old),
        lambda ranker: ltr.compare({"a": ranker, "b": old}, data, metrics=METRIC, baseline="b"),
    ]
    for measured in paths:
        monkeypatch.setattr(AttemptsFile, "count", lambda *_: 0)
        by_folds, alone = measured(model), measured(plain)
        p_folds, p_alone = (comparison.pairs[0].p_holm for comparison in (by_folds, alone))
        assert p_folds == min(1.0, 2.0 * p_alone)
        assert "p is doubled" in str(by_folds)
        assert "p is doubled" not in str(alone)


def test_the_page_and_the_line_say_cross_validated(data: ltr.RankingDataset) -> None:
    model = crossed(data, (-1.0, -0.1), (1.0, 0.1))
    assert "40 queries (cross-validated)" in str(ltr.evaluate(model, data, metrics=METRIC))
    comparison = ltr.compare({"new": model, "old": linear(0.1, 1.0)}, data=data, metrics=METRIC)
    assert "40 queries (cross-validated)" in str(comparison)
    pytest.importorskip("owpc_ltr_report")
    page = ltr.report([comparison]).html()
    assert "cross-validated" in page
    assert "p is doubled" in page


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"validation": "the data"}, "`folds` and `validation` do not go together"),
        ({"max_features": 1}, "`folds` and `max_features` do not go together"),
        ({"test_share": 0.4}, "`folds` keeps no test queries out: leave `test_share` out"),
    ],
)
def test_what_does_not_go_with_folds_is_refused(
    data: ltr.RankingDataset, given: dict[str, Any], message: str
) -> None:
    given = {key: data if value == "the data" else value for key, value in given.items()}
    with pytest.raises(UsageError, match=message):
        ltr.train(data, folds=3, **given)


def test_fewer_queries_than_folds_are_refused(data: ltr.RankingDataset) -> None:
    with pytest.raises(BadInput, match="cannot cut 40 independent queries into 41 folds"):
        ltr.train(data, folds=41, settings={"C": 1.0})


@pytest.mark.parametrize("folds", [{}, [1], [{"kind": "linear"}], [{"record": []}]])
def test_a_damaged_record_of_folds_is_bad_input(
    data: ltr.RankingDataset, tmp_path: Path, folds: Any
) -> None:
    content = content_of(crossed(data, (1.0, 0.1), (1.0, 0.1)))
    content["record"]["folds"] = folds or {"0": 1}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"format": "owpc-ltr model", "version": 1, **content}))
    with pytest.raises(BadInput, match=r"m\.json is a damaged model file: 'folds' of its record"):
        ltr.load_model(path)


def test_models_of_folds_with_other_features_are_not_deployed(data: ltr.RankingDataset) -> None:
    record = crossed(data, (1.0, 0.1), (1.0, 0.1)).record
    assert without_other_folds(record, ("bm25", "likes")) is record
    assert "folds" not in without_other_folds(record, ("bm25",))
