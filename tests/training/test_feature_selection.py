"""Few features: those that lose least for what they cost are left out, and the record says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_losses.listnet import ListNet
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.gradient import Gradient
from owpc_ltr_optimizers.larank import LaRank

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset, save_dataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training import feature_selection
from owpc_ltr.training.feature_selection import Costs, costs_of, train_on_few_features
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import Plan, model_plan
from tests.commands import Run as RunCommand

NAMES = ("strong", "copy", "weak", "noise", "more_noise")
Both = tuple[RankingDataset, RankingDataset]
LINEAR = model_plan(OWPC, LaRank, {"optimizer.C": 3.0}, metric="ndcg@10")
TREES = model_plan(
    OWPC,
    Boosting,
    {"optimizer.trees": 10, "optimizer.depth": 3, "optimizer.leaf": 1.0},
    metric="ndcg@10",
)
RUN = Run()
NDCG = parse_metric("ndcg@10")


def made(rng: np.random.Generator, queries: int) -> RankingDataset:
    """A strong feature and a noisy copy of it, a weak one, and two that say nothing."""
    rows = rng.normal(size=(20 * queries, 5)).astype(np.float32)
    rows[:, 1] = rows[:, 0] + 0.3 * rows[:, 1]
    labels = rows[:, 0] + 0.4 * rows[:, 2] + 0.3 * rng.normal(size=len(rows)) > 1
    return make_dataset(rows, labels, np.repeat(np.arange(queries), 20), feature_names=NAMES)


@pytest.fixture
def both(rng: np.random.Generator) -> Both:
    return made(rng, 60), made(rng, 60)


def selected(both: Both, most: int, costs: Costs | None = None, plan: Plan = LINEAR) -> Model:
    return train_on_few_features(both[0], plan, RUN, both[1], max_features=most, costs=costs).model


def kept(model: Model) -> Any:
    return model.record["feature_selection"]["kept"]


def path_of(model: Model) -> Any:
    return model.record["feature_selection"]["path"]


def value_of(model: Model, data: RankingDataset) -> float:
    return float(NDCG.mean(model.score(data.features), data.labels, data.offsets))


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("plan", [LINEAR, TREES])
def test_what_is_left_out_is_never_looked_at(both: Both, plan: Plan, most: int) -> None:
    model = selected(both, most, Costs({"strong": 5.0, "weak": 1.0, "noise": 1.0}), plan)
    assert model.feature_names == NAMES
    assert len(kept(model)) == most
    changed = both[1].features.copy()
    changed[:, [name not in kept(model) for name in NAMES]] = np.nan
    assert (model.score(changed) == model.score(both[1].features)).all()
    path = path_of(model)
    assert path[-1]["features"] == most
    assert path[-1]["validation"] == pytest.approx(value_of(model, both[1]), abs=1e-12)
    sizes = [step["features"] for step in path]
    assert sizes == sorted(set(sizes), reverse=True)
    assert min(sizes[:-1], default=len(NAMES)) > most


@pytest.mark.parametrize("plan", [LINEAR, TREES])
def test_the_record_names_each_feature_that_was_left_out_and_its_step(
    both: Both, plan: Plan
) -> None:
    model = selected(both, 2, Costs({"strong": 5.0}), plan)
    record = model.record["feature_selection"]
    assert (record["max_features"], record["milliseconds"]) == (2, {"strong": 5.0})
    out = [name for step in record["path"] for name in (step["dropped"], *step["unused"]) if name]
    assert sorted([*out, *record["kept"]]) == sorted(NAMES)
    json.dumps(model.record, allow_nan=False)


def test_a_model_that_uses_few_features_is_the_one_of_all(both: Both) -> None:
    whole = train_plan(both[0], LINEAR, RUN, both[1]).model
    model = selected(both, 5)
    (step,) = path_of(model)
    assert (step["dropped"], step["unused"], kept(model)) == (None, (), [*NAMES])
    assert (model.score(both[1].features) == whole.score(both[1].features)).all()


@pytest.mark.parametrize("plan", [LINEAR, TREES])
def test_the_model_remembers_documents_with_the_features_that_it_leaves_out(
    both: Both, plan: Plan
) -> None:
    """An upload compares them with the engine's: zeros in their place would be drift."""
    training, validation = (
        replace(
            side,
            query_params=pa.array([f'{{"keywords": "{n}"}}' for n in range(side.n_queries)]),
            doc_ids=pa.array([f"d{n}" for n in range(side.n_documents)]),
        )
        for side in both
    )
    model = selected((training, validation), 2, plan=plan)
    assert model.record["probes"] == parity_samples_of(validation)


def test_without_costs_quality_alone_decides(both: Both) -> None:
    assert set(kept(selected(both, 2))) == {"strong", "weak"}
    assert kept(selected(both, 1)) == ["strong"]


def test_an_expensive_feature_gives_way_to_its_cheap_copy(both: Both) -> None:
    assert kept(selected(both, 2, Costs({"strong": 100.0, "weak": 1.0}))) == ["copy", "weak"]
    assert kept(selected(both, 2, Costs({"copy": 100.0, "weak": 1.0}))) == ["strong", "weak"]


def test_a_derived_copy_of_an_expensive_feature_does_not_pass_for_a_cheap_one(both: Both) -> None:
    """Leaving out what a copy is derived from saves nothing while the copy is used."""
    derived = Costs({"strong": 100.0, "weak": 1.0}, {"copy": ["strong"]})
    assert kept(selected(both, 2, derived)) == ["strong", "weak"]


def worth_of(names: frozenset[str], both: Both, costs: Costs) -> float:
    """The worth of a model of these features alone, trained anew."""
    training, validation = (
        replace(side, features=np.where([n in names for n in NAMES], side.features, np.float32(0)))
        for side in both
    )
    model = train_plan(training, LINEAR, RUN, validation).model
    whole = value_of(train_plan(both[0], LINEAR, RUN, both[1]).model, both[1])
    columns = both[1].features.astype(float).T
    best = max(NDCG.mean(column, both[1].labels, both[1].offsets) for column in columns)
    saved = 1 - costs.of(names) / costs.of(frozenset(NAMES))
    return value_of(model, validation) + (whole - best) * saved


def test_each_feature_that_goes_is_the_one_that_others_best_stand_in_for(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By training without each; the model of all of them does not tell it."""
    costs = Costs({"weak": 4.0, "strong": 3.9, "noise": 0.5})
    path = path_of(selected(both, 1, costs))
    left = frozenset(NAMES)
    for step in path[1:]:
        worth = {name: worth_of(left - {name}, both, costs) for name in sorted(left)}
        assert worth[step["dropped"]] == pytest.approx(max(worth.values()), abs=1e-12)
        left -= {step["dropped"]}
    monkeypatch.setattr(feature_selection, "_TRIED", 1)
    assert path_of(selected(both, 1, costs)) != path


def test_the_most_expensive_feature_is_tried_however_much_the_model_leans_on_it(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_selection, "_TRIED", 1)
    leant_on = train_plan(both[0], LINEAR, RUN).model
    assert isinstance(leant_on, LinearModel)
    assert NAMES[int(np.abs(leant_on.weights).argmax())] == "strong"
    path = path_of(selected(both, 4, Costs({"strong": 3.0, "noise": 0.1})))
    assert path[1]["dropped"] == "strong"


def test_costs_decide_nothing_where_all_features_gain_nothing(both: Both) -> None:
    """Over the best single one: then no millisecond is worth any loss."""
    sides = [
        replace(side, features=np.column_stack([side.features[:, 0], *[side.features[:, 3]] * 4]))
        for side in both
    ]
    assert kept(selected((sides[0], sides[1]), 1, Costs({"strong": 1000.0}))) == ["strong"]


def test_the_record_is_of_the_data_as_it_was_given(both: Both) -> None:
    record = selected(both, 2).record
    assert record["fingerprint"] == both[0].fingerprint
    assert record["feature_ranges"][1][0] == both[0].features[:, 0].max()


def test_what_cannot_be_selected_is_refused(both: Both) -> None:
    for costs in (Costs({"absent": 1.0}), Costs({}, {"absent": ["weak"]})):
        with pytest.raises(BadInput, match="the costs name 'absent', which is not a feature"):
            selected(both, 2, costs)
    with pytest.raises(UsageError, match="give validation queries"):
        train_on_few_features(both[0], LINEAR, RUN, None, max_features=2)
    with pytest.raises(
        UsageError, match=r"`feature_cost` decides which .*`max_features` leaves out"
    ):
        ltr.train(both[0], feature_cost={"strong": 1.0})
    with pytest.raises(UsageError, match="`max_features` is 1 or more, not 0"):
        ltr.train(both[0], max_features=0)
    network = {"optimizer.model": "network", "optimizer.epochs": 1}
    with pytest.raises(Refused, match="this is a network model: train without it"):
        selected(both, 2, plan=model_plan(ListNet, Gradient, network, metric="ndcg@10"))
    assert Costs({"noise": -3.0, "weak": 2.0}).of(frozenset(NAMES)) == 2.0


def test_a_derived_feature_costs_what_it_comes_from_and_nothing_twice() -> None:
    costs = Costs({"a": 4.0, "b": 2.0, "c": 1.0}, {"d": ["a", "b"], "e": ["d", "c"]})
    for names, wanted in (
        ("d", 6.0),
        ("ad", 6.0),
        ("e", 7.0),
        ("abde", 7.0),
        ("c", 1.0),
        ("", 0.0),
    ):
        assert costs.of(frozenset(names)) == wanted


def test_train_takes_what_profile_printed(both: Both, run: RunCommand) -> None:
    save_dataset(both[0], Path("d.parquet"))
    printed = {
        "features": [{"feature": "strong", "milliseconds": 100.0, "low": 1.0}],
        "derived": {},
    }
    Path("profile.json").write_text(json.dumps(printed))
    Path("plain.json").write_text('{"strong": 100}')
    words = ("train", "d.parquet", "--out", "m.json", "--metric", "ndcg@10")
    more = ("--set", "optimizer.C=10", "--max-features", "3", "--feature-cost")
    models = []
    for costs in ("profile.json", "plain.json"):
        code, out, err = run(*words, *more, costs)
        assert (code, err) == (0, "")
        header, *rows = [line.split() for line in out.splitlines()[:4]]
        assert header == ["LEFT", "OUT", "FEATURES", "MS", "VALIDATION"]
        assert [row[0] for row in rows[:2]] == ["–", "strong"]
        assert "kept 3 features: copy" in out
        model = load_scoring_model(Path("m.json"))
        assert isinstance(model, LinearModel)
        models.append(model.weights.tolist())
    assert models[0] == models[1]
    assert models[0][0] == 0
    assert run("evaluate", "m.json", "--data", "d.parquet")[0] == 0
    assert " MS " not in run.output(*words, "--max-features", "2")
    assert "--max-features" in run.refusal(2, *words, "--feature-cost", "plain.json")
    for bad, said in (
        ('{"strong": "much"}', "bad.json: the cost of 'strong' is 'much', not milliseconds"),
        (json.dumps({**printed, "derived": {"copy": "strong"}}), "'derived' names no features"),
        ('{"features": [1]}', "bad.json is not the JSON that profile prints"),
    ):
        Path("bad.json").write_text(bad)
        assert said in run.refusal(3, *words, *more, "bad.json")


def test_python_takes_the_costs_as_they_are(both: Both, tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text('{"strong": 100}')
    records = [
        ltr.train(both[0], settings={"C": 10}, max_features=2, feature_cost=costs).record
        for costs in (tmp_path / "costs.json", {"strong": 100})
    ]
    assert records[0]["feature_selection"] == records[1]["feature_selection"]
    profile = {"features": [{"feature": "a", "milliseconds": 1.0}], "derived": {"b": ["a"]}}
    assert costs_of(profile) == Costs({"a": 1.0}, {"b": ["a"]})
