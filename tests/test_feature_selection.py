"""Features for their price: none given up for nothing, none kept that is not worth its time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.larank import LaRank

from owpc_ltr import RankingDataset, make_dataset, save_dataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of
from owpc_ltr.protocols import Run
from owpc_ltr.training import feature_cost
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.feature_cost import Costs, train_at_cost
from owpc_ltr.training.plan import Plan
from tests.commands import Run as RunCommand

NAMES = ("strong", "copy", "weak", "noise", "more_noise")
Both = tuple[RankingDataset, RankingDataset]
LINEAR = Plan(OWPC, LaRank, {"optimizer.C": 3.0}, select="ndcg@10")
TREES = Plan(
    OWPC,
    Boosting,
    {"optimizer.trees": 10, "optimizer.depth": 3, "optimizer.leaf": 1.0},
    select="ndcg@10",
)
RUN = Run()


def made(rng: np.random.Generator, queries: int) -> RankingDataset:
    """A strong feature and a noisy copy of it, a weak one, and two that say nothing."""
    rows = rng.normal(size=(20 * queries, 5)).astype(np.float32)
    rows[:, 1] = rows[:, 0] + 0.3 * rows[:, 1]
    labels = rows[:, 0] + 0.4 * rows[:, 2] + 0.3 * rng.normal(size=len(rows)) > 1
    return make_dataset(rows, labels, np.repeat(np.arange(queries), 20), feature_names=NAMES)


@pytest.fixture
def both(rng: np.random.Generator) -> Both:
    return made(rng, 60), made(rng, 60)


@pytest.mark.parametrize("plan", [LINEAR, TREES])
def test_what_is_left_out_is_never_looked_at(both: Both, plan: Plan) -> None:
    training, validation = both
    costs = Costs({"strong": 5.0, "weak": 1.0, "noise": 1.0, "more_noise": 1.0}, 0.01)
    selected = train_at_cost(training, plan, RUN, validation, costs)
    model = selected.trained.model
    assert model.feature_names == NAMES
    assert 0 < len(selected.kept) < 5
    changed = validation.features.copy()
    gone = [name not in selected.kept for name in NAMES]
    changed[:, gone] = np.nan
    assert (model.score(changed) == model.score(validation.features)).all()
    (chosen,) = [step for step in selected.path if step.features == len(selected.kept)]
    assert chosen.worth == max(step.worth for step in selected.path)
    value = parse_metric("ndcg@10").mean(
        model.score(validation.features), validation.labels, validation.offsets
    )
    assert chosen.validation == pytest.approx(value, abs=1e-12)
    assert chosen.worth == pytest.approx(value - 0.01 * chosen.milliseconds, abs=1e-12)
    assert [step.features for step in selected.path] == sorted(
        {step.features for step in selected.path}, reverse=True
    )


@pytest.mark.parametrize("plan", [LINEAR, TREES])
def test_the_model_remembers_documents_with_the_features_that_it_leaves_out(
    both: Both, plan: Plan
) -> None:
    """An upload compares them with the engine's: zeros in their place would be drift."""
    known = [
        replace(
            side,
            query_params=pa.array([f'{{"keywords": "{n}"}}' for n in range(side.n_queries)]),
            doc_ids=pa.array([f"d{n}" for n in range(side.n_documents)]),
        )
        for side in both
    ]
    costs = Costs({"strong": 5.0, "weak": 1.0, "noise": 1.0, "more_noise": 1.0}, 0.01)
    selected = train_at_cost(known[0], plan, RUN, known[1], costs)
    assert len(selected.kept) < len(NAMES)
    assert selected.trained.model.record["probes"] == parity_samples_of(known[1])


def test_a_dear_feature_gives_way_to_its_cheap_copy(both: Both) -> None:
    training, validation = both
    dear = Costs({"strong": 100.0}, 0.01)
    kept = train_at_cost(training, LINEAR, RUN, validation, dear).kept
    assert "strong" not in kept
    assert "copy" in kept
    other = Costs({"copy": 100.0}, 0.01)
    assert "copy" not in train_at_cost(training, LINEAR, RUN, validation, other).kept


def test_each_feature_that_goes_is_the_one_that_others_best_stand_in_for(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By training without each; the model of all of them does not tell it."""
    training, validation = both
    costs = Costs({"weak": 4.0, "strong": 3.9, "noise": 0.5}, 0.02)
    path = train_at_cost(training, LINEAR, RUN, validation, costs).path
    left = frozenset(NAMES)
    for step in path[1:]:
        worth = {name: worth_of(left - {name}, both, costs) for name in sorted(left)}
        assert worth[step.dropped or ""] == pytest.approx(max(worth.values()), abs=1e-12)
        left -= {step.dropped or ""}
    monkeypatch.setattr(feature_cost, "_TRIED", 1)
    assert train_at_cost(training, LINEAR, RUN, validation, costs).path != path


def test_the_dearest_feature_is_tried_however_much_the_model_leans_on_it(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cost, "_TRIED", 1)
    leant_on = train_plan(both[0], LINEAR, RUN).model
    assert isinstance(leant_on, LinearModel)
    assert NAMES[int(np.abs(leant_on.weights).argmax())] == "strong"
    costs = Costs({"strong": 3.0, "noise": 0.1}, 0.02)
    path = train_at_cost(both[0], LINEAR, RUN, both[1], costs).path
    assert path[1].dropped == "strong"
    without = worth_of(frozenset(NAMES) - {"strong"}, both, costs)
    assert path[1].worth == pytest.approx(without, abs=1e-12)
    assert without > worth_of(frozenset(NAMES) - {"noise"}, both, costs)


def worth_of(names: frozenset[str], both: Both, costs: Costs) -> float:
    """The worth of a model of these features alone, trained anew."""
    blanked = [
        replace(side, features=np.where([n in names for n in NAMES], side.features, np.float32(0)))
        for side in both
    ]
    model = train_plan(blanked[0], LINEAR, RUN, blanked[1]).model
    value = parse_metric("ndcg@10").mean(
        model.score(blanked[1].features), both[1].labels, both[1].offsets
    )
    return value - costs.price * costs.of(names)


def test_without_a_price_no_quality_is_given_up(both: Both) -> None:
    training, validation = both
    whole = train_plan(training, LINEAR, RUN, validation).model
    metric = parse_metric("ndcg@10")
    free = train_at_cost(training, LINEAR, RUN, validation, Costs({"strong": 9.0}, 0.0))
    scores = [m.score(validation.features) for m in (whole, free.trained.model)]
    before, after = (metric.mean(s, validation.labels, validation.offsets) for s in scores)
    assert after >= before
    assert "strong" in free.kept
    ruin = train_at_cost(training, LINEAR, RUN, validation, Costs(dict.fromkeys(NAMES, 1.0), 10.0))
    assert len(ruin.kept) == 1


def test_the_record_is_of_the_data_as_it_was_given(both: Both) -> None:
    training, validation = both
    selected = train_at_cost(training, LINEAR, RUN, validation, Costs({"strong": 100.0}, 0.01))
    record = selected.trained.model.record
    assert record["fingerprint"] == training.fingerprint
    assert record["feature_ranges"][1][0] == training.features[:, 0].max()
    assert record["feature_cost"]["kept"] == list(selected.kept)
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("keep", [0.5, 0.9, 1.0])
def test_the_cheapest_model_that_keeps_the_gain_is_chosen(both: Both, keep: float) -> None:
    training, validation = both
    costs = Costs({"strong": 5.0, "copy": 2.0, "weak": 1.0, "noise": 1.0}, 0.0, keep_gain=keep)
    selected = train_at_cost(training, LINEAR, RUN, validation, costs)
    metric = parse_metric("ndcg@10")
    ranks = [
        metric.mean(validation.features[:, place].astype(float), validation.labels,
                    validation.offsets)
        for place in range(5)
    ]  # fmt: skip
    floor, whole = max(ranks), selected.path[0].validation
    record = selected.trained.model.record["feature_cost"]
    assert record["over"] == f"'{NAMES[ranks.index(floor)]}' alone"
    assert record["gain"] == pytest.approx(whole - floor, abs=1e-12)
    enough = [s for s in selected.path if s.validation - floor >= keep * (whole - floor) - 1e-12]
    (chosen,) = [step for step in selected.path if step.features == len(selected.kept)]
    assert chosen.milliseconds == min(step.milliseconds for step in enough)
    assert chosen.worth == pytest.approx((chosen.validation - floor) / (whole - floor), abs=1e-12)
    assert len(selected.kept) < 5


def test_a_gain_is_over_the_feature_that_is_named(both: Both) -> None:
    training, validation = both
    low = Costs({"strong": 5.0, "copy": 2.0}, 0.0, keep_gain=0.6, baseline="noise")
    selected = train_at_cost(training, LINEAR, RUN, validation, low)
    assert selected.trained.model.record["feature_cost"]["over"] == "'noise' alone"
    assert selected.kept == ("copy",), "what the copy alone gains over noise is most of all"
    whole = selected.path[0].validation
    other = Costs({"strong": 5.0, "copy": 2.0}, 0.0, keep_gain=0.6, baseline=whole - 0.1)
    record = train_at_cost(training, LINEAR, RUN, validation, other).trained.model.record
    assert record["feature_cost"]["gain"] == pytest.approx(0.1)
    nothing = Costs({"strong": 5.0, "copy": 2.0}, 0.0, keep_gain=0.6, baseline=0)
    record = train_at_cost(training, LINEAR, RUN, validation, nothing).trained.model.record
    assert record["feature_cost"]["gain"] == pytest.approx(whole)


def test_where_there_is_no_gain_no_share_of_it_can_be_kept(both: Both) -> None:
    only = replace(
        both[1],
        features=both[1].features[:, :1].copy(),
        feature_names=NAMES[:1],
        feature_scales=None,
    )
    with pytest.raises(Refused, match=r"no gain to keep a share of.*'strong' alone"):
        train_at_cost(only, LINEAR, RUN, only, Costs({"strong": 1.0}, 0.0, keep_gain=0.9))


def test_costs_that_make_no_sense_are_refused(both: Both) -> None:
    training, validation = both
    with pytest.raises(BadInput, match="'absent'"):
        train_at_cost(training, LINEAR, RUN, validation, Costs({"absent": 1.0}, 0.1))
    with pytest.raises(UsageError, match="validation queries"):
        train_at_cost(training, LINEAR, RUN, None, Costs({}, 0.1))
    with pytest.raises(UsageError, match="0 or more"):
        Costs({}, -1.0)
    for share in (0.0, 1.01, float("nan")):
        with pytest.raises(UsageError, match="above 0, and 1 at most"):
            Costs({}, 0.0, keep_gain=share)
    with pytest.raises(UsageError, match="give that, as keep_gain"):
        Costs({}, 0.0, baseline="strong")
    with pytest.raises(BadInput, match="'absent'"):
        train_at_cost(
            training, LINEAR, RUN, validation, Costs({}, 0.0, keep_gain=0.9, baseline="absent")
        )
    assert Costs({"noise": -3.0, "weak": 2.0}, 0.1).of(frozenset(NAMES)) == 2.0
    with pytest.raises(BadInput, match="'absent'"):
        train_at_cost(training, LINEAR, RUN, validation, Costs({}, 0.1, {"absent": ["weak"]}))


def test_a_derived_feature_costs_what_it_comes_from_and_nothing_twice() -> None:
    costs = Costs({"a": 4.0, "b": 2.0, "c": 1.0}, 0.1, {"d": ["a", "b"], "e": ["d", "c"]})
    for names, wanted in (
        ("d", 6.0),
        ("ad", 6.0),
        ("e", 7.0),
        ("abde", 7.0),
        ("c", 1.0),
        ("", 0.0),
    ):
        assert costs.of(frozenset(names)) == wanted


def test_a_derived_copy_of_a_dear_feature_does_not_pass_for_a_cheap_one(both: Both) -> None:
    """It is given up with what it comes from, where a true cheap copy is kept."""
    training, validation = both
    dear = {"strong": 100.0}
    cheap = train_at_cost(training, LINEAR, RUN, validation, Costs(dear, 0.01))
    assert "copy" in cheap.kept
    derived = Costs(dear, 0.01, {"copy": ["strong"]})
    assert not {"copy", "strong"} & set(
        train_at_cost(training, LINEAR, RUN, validation, derived).kept
    )


def test_train_takes_what_profile_printed(both: Both, run: RunCommand) -> None:
    save_dataset(both[0], Path("d.parquet"))
    printed = {
        "features": [{"feature": "strong", "milliseconds": 100.0, "low": 1.0}],
        "derived": {},
    }
    Path("profile.json").write_text(json.dumps(printed))
    Path("plain.json").write_text('{"strong": 100}')
    Path("bad.json").write_text('{"strong": "much"}')
    words = ("train", "d.parquet", "--out", "m.json", "--metric", "ndcg@10")
    more = ("--set", "optimizer.C=10", "--feature-price", "0.01", "--feature-cost")
    models = []
    for costs in ("profile.json", "plain.json"):
        code, out, err = run(*words, *more, costs)
        assert (code, err) == (0, "")
        assert "LEFT OUT" in out
        assert "features: copy" in out
        model = load_scoring_model(Path("m.json"))
        assert isinstance(model, LinearModel)
        models.append(model.weights.tolist())
    assert models[0] == models[1]
    assert models[0][0] == 0
    assert run("evaluate", "m.json", "--data", "d.parquet")[0] == 0
    assert "the cost of 'strong' is 'much'" in run.refusal(3, *words, *more, "bad.json")
    Path("derived.json").write_text(json.dumps({**printed, "derived": {"copy": ["strong"]}}))
    assert run(*words, *more, "derived.json")[0] == 0
    model = load_scoring_model(Path("m.json"))
    assert isinstance(model, LinearModel)
    assert model.weights[:2].tolist() == [0, 0]
    Path("bad.json").write_text(json.dumps({**printed, "derived": {"copy": "strong"}}))
    assert "'derived' names no features" in run.refusal(3, *words, *more, "bad.json")


def test_train_keeps_a_share_of_the_gain(both: Both, run: RunCommand) -> None:
    save_dataset(both[0], Path("d.parquet"))
    Path("costs.json").write_text('{"strong": 100, "copy": 1, "weak": 1}')
    words = ("train", "d.parquet", "--out", "m.json", "--metric", "ndcg@10", "--keep-gain", "0.8")
    code, out, err = run(*words, "--set", "optimizer.C=10", "--feature-cost", "costs.json")
    assert (code, err) == (0, "")
    assert "GAIN KEPT" in out
    assert "the cheapest model that keeps 80% of it is chosen" in out
    for more, said in (
        ((), "--feature-cost"),
        (("--feature-cost", "costs.json", "--feature-price", "0.1"), "give one"),
    ):
        assert said in run.refusal(2, *words, *more)
