"""The first model: kinds are compared where nobody chose; grades and the grid follow the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from owpc_ltr_losses.owpc import OWPC

import owpc_ltr as ltr
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.protocols import Run
from owpc_ltr.training import kinds as first_model
from owpc_ltr.training.fitting import fit_each
from owpc_ltr.training.kinds import Kind
from owpc_ltr.training.plan import model_plan
from owpc_ltr.training.train import TrainingSummary

Place = Literal["engine", "plugin", "client"]


def world(
    queries: int = 60,
    *,
    crossed: float = 0.0,
    tangled: float = 0.0,
    bent: float = 0.0,
    seed: int = 1,
    grades: int = 4,
) -> ltr.RankingDataset:
    """Labels that depend on one feature, on products of two and three, and on a size."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries * 12, 4)).astype(np.float32)
    wish = features[:, 0] + crossed * features[:, 1] * features[:, 2] * 2
    wish += tangled * np.sign(features[:, 1] * features[:, 2] * features[:, 3])
    wish -= bent * np.abs(features[:, 3])
    wish += rng.normal(size=len(wish)) * 0.5
    cuts = np.quantile(wish, np.linspace(0.5, 0.95, grades - 1))
    ids = np.repeat([f"q{n}" for n in range(queries)], 12)
    return ltr.make_dataset(features, np.digitize(wish, cuts), ids)


@pytest.fixture
def quick_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons train the same kinds with few trees: they choose alike in this data."""
    kinds = first_model.kinds

    def quick(*how: Any) -> list[Kind]:
        quick_plans = []
        for kind in kinds(*how):
            plan = kind.plan
            if plan is not None and "trees" in kind.name:
                settings = {"optimizer.trees": 20, "optimizer.eta": 0.3}
                plan = replace(plan, settings={**plan.settings, **settings})
            quick_plans.append(replace(kind, plan=plan))
        return quick_plans

    monkeypatch.setattr(first_model, "kinds", quick)


@pytest.mark.usefixtures("quick_kinds")
def test_where_features_interact_trees_that_any_engine_runs_are_chosen() -> None:
    crossing = ltr.train(world(crossed=1.0))
    choice = crossing.record["kinds"]
    assert choice["kind"] == "interaction trees"
    assert [row["kind"] for row in choice["compared"]] == [
        "linear", "piecewise-linear", "interaction trees", "sum", "boosted trees",
    ]  # fmt: skip
    assert len(crossing.record["interactions"]) <= 20
    lines = str(TrainingSummary(crossing)).splitlines()
    assert lines[0].split() == ["KIND", "NDCG@10", "GAIN", "(95", "%)", "RUNS", "IN", "FEATURES",
                                "TREES"]  # fmt: skip
    assert max(map(len, lines)) <= 80
    assert "kind: interaction trees: the best of those that run in every engine" in "\n".join(lines)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("data", "found"),
    [
        pytest.param(world(), {"linear"}, id="a line"),
        pytest.param(
            world(bent=4.0),
            {"piecewise-linear", "interaction trees", "sum"},
            id="a feature is bent",
        ),
        pytest.param(world(crossed=1.0), {"interaction trees"}, id="two features meet"),
    ],
)
def test_of_kinds_with_all_their_trees_and_any_c_one_that_fits_is_chosen(
    data: ltr.RankingDataset, found: set[str]
) -> None:
    """`make test` compares them whole on the page on training alone."""
    assert ltr.train(data).record["kinds"]["kind"] in found


@pytest.mark.usefixtures("quick_kinds")
def test_where_a_line_does_the_line_is_chosen_and_its_metric_is_that_of_the_labels() -> None:
    graded, binary = ltr.train(world()), ltr.train(world(grades=2))
    for model, metric in ((graded, "ndcg@10"), (binary, "map")):
        assert model.record["kinds"]["kind"] == "linear"
        assert model.record["select"] == metric
    named = ltr.train(world(29), metric="mrr").record
    assert (named["select"], named["loss"]["settings"]["grades"]) == ("mrr", "binary")


@pytest.mark.usefixtures("quick_kinds")
@pytest.mark.parametrize(
    ("data", "chosen"),
    [
        pytest.param(
            world(150, crossed=1.0, tangled=3.0),
            {"engine": "interaction trees", "plugin": "boosted trees", "client": "boosted trees"},
            id="three features meet",
        ),
        pytest.param(
            world(bent=4.0),
            {"engine": "piecewise-linear", "plugin": "interaction trees"},
            id="a feature is bent",
        ),
    ],
)
def test_what_runs_where_decides_what_may_be_chosen(
    data: ltr.RankingDataset, chosen: dict[Place, str]
) -> None:
    known = {place: ltr.train(data, runs_in=place).record["kinds"] for place in chosen}
    assert {place: choice["kind"] for place, choice in known.items()} == chosen
    assert known["engine"]["compared"][0]["mean"] == known["plugin"]["compared"][0]["mean"]


def test_a_place_where_no_model_runs_is_refused() -> None:
    with pytest.raises(UsageError, match="no model runs in 'cloud': choose among engine, plugin"):
        ltr.train(world(), runs_in="cloud")  # type: ignore[arg-type]


@pytest.mark.usefixtures("quick_kinds")
def test_a_kind_is_not_chosen_by_queries_that_are_held_out() -> None:
    data = world(45, crossed=1.0)
    held_out = set(data.split().test.query_ids.to_pylist())
    out = np.repeat([query in held_out for query in data.query_ids.to_pylist()],
                    np.diff(data.offsets))  # fmt: skip
    other = replace(data, labels=np.where(out, 3 - data.labels, data.labels).astype(np.float32))
    rows, other_rows = (ltr.train(each).record["kinds"]["compared"] for each in (data, other))
    assert [row["mean"] for row in rows] == [row["mean"] for row in other_rows]


@pytest.mark.usefixtures("quick_kinds")
def test_the_same_data_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        model = ltr.train(world(crossed=1.0), out=tmp_path / name)
        assert model.record["kinds"]["kind"] == "interaction trees"
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_few_queries_are_not_compared() -> None:
    choice = ltr.train(world(30)).record["kinds"]
    assert (choice["kind"], choice["compared"]) == ("linear", [])
    assert "independent queries are too few to compare kinds of models" in choice["why"]


def test_where_a_part_cannot_be_trained_on_the_simplest_kind_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise BadInput("no query falls on the validation side")

    monkeypatch.setattr(first_model, "fit_by_folds", fail)
    choice = ltr.train(world()).record["kinds"]
    assert (choice["kind"], choice["compared"]) == ("linear", [])
    assert "(no query falls on the validation side)" in choice["why"]


@pytest.mark.parametrize(
    "chosen",
    [
        {"loss": "owpc"},
        {"optimizer": "larank"},
        {"settings": {"C": 1.0}},
        {"grid": {"C": [0.1, 1.0]}},
        {"piecewise_linear": True},
        {"max_features": 2},
    ],
)
def test_whoever_chose_gets_what_was_chosen(chosen: dict[str, Any]) -> None:
    record = ltr.train(world(), **chosen).record
    assert "kinds" not in record
    assert record["select"] == "ndcg@10"


@pytest.mark.usefixtures("quick_kinds")
def test_each_fold_chooses_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, train_best = [], first_model.train_best_kind

    def counted(data: Any, *how: Any, **others: Any) -> Any:
        sizes.append(data.n_queries)
        return train_best(data, *how, **others)

    monkeypatch.setattr(first_model, "train_best_kind", counted)
    model = ltr.train(world(45), folds=3)
    assert sizes == [45, 30, 30, 30]
    assert len(model.record["folds"]) == 3


@pytest.mark.usefixtures("quick_kinds")
def test_of_data_in_parts_only_kinds_that_fit_are_compared(tmp_path: Path) -> None:
    ltr.save_dataset(world(), tmp_path / "d.parquet")
    ltr.partition(tmp_path / "d.parquet", out=tmp_path / "parts")
    whole = ltr.train(ltr.open_dataset(tmp_path / "parts"))
    small = ltr.train(ltr.open_dataset(tmp_path / "parts", memory=1))
    names = [[row["kind"] for row in model.record["kinds"]["compared"]] for model in (whole, small)]
    assert names[0] == ["linear", "piecewise-linear", "interaction trees", "sum", "boosted trees"]
    assert names[1] == ["linear", "boosted trees"]


@pytest.mark.parametrize("optimizer", ["larank", "boosting"])
@pytest.mark.parametrize(
    ("metric", "grades"),
    [("ndcg@10", "thresholds"), ("err", "thresholds"), ("pairwise-error", "thresholds"),
     ("rbp,gain=linear", "thresholds"), ("rbp", "binary"), ("map", "binary"), ("mrr", "binary")],
)  # fmt: skip
def test_grades_count_where_the_metric_has_a_use_for_them(
    metric: str, grades: str, optimizer: str
) -> None:
    quick: dict[str, Any] = {"C": 1.0} if optimizer == "larank" else {"trees": 5}

    def trained(data: ltr.RankingDataset, **settings: str) -> ltr.Model:
        return ltr.train(
            data, metric=metric, loss="owpc", optimizer=optimizer, settings={**quick, **settings}
        )

    model = trained(world())
    assert model.record["loss"]["settings"]["grades"] == grades
    assert f"(loss.grades={grades})" in str(TrainingSummary(model))
    chosen = trained(world(), **{"loss.grades": "lower"})
    assert chosen.record["loss"]["settings"]["grades"] == "lower"
    of_two = trained(world(grades=2))
    assert of_two.record["loss"]["settings"]["grades"] == "binary"


def train(data: Any, **how: Any) -> Any:
    return ltr.train(data, optimizer="bundle", settings={"C": 1.0}, **how)


def select(data: Any, metric: str) -> Any:
    return ltr.select(data, metrics=metric, folds=3, settings={"C": 1.0})


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("job", [train, select])
def test_labels_without_an_irrelevant_grade_are_refused_or_compared_with_each_other(
    job: Any, parts: bool, tmp_path: Path
) -> None:
    data: Any = world()
    data = replace(data, labels=data.labels + 1)
    if parts:
        ltr.save_dataset(data, tmp_path / "d.parquet")
        ltr.partition(tmp_path / "d.parquet", out=tmp_path / "parts")
        data = ltr.open_dataset(tmp_path / "parts")
    with pytest.raises(Refused, match="no document is irrelevant: the lowest label is 1, and by"):
        job(data, metric="map")
    for metric in ("ndcg@10", "map,relevant-above=1"):
        selection = job(data, metric=metric)
        if job is train:
            assert np.abs(selection.weights).max() > 0
        else:
            assert all(row.settings["loss.grades"] == "thresholds" for row in selection.rows)


def test_metrics_by_which_every_document_is_relevant_are_named() -> None:
    data = world()
    data = replace(data, labels=data.labels + 1)
    model = ltr.train(data, loss="pairwise", metric="ndcg@10")
    for text in (
        ltr.evaluate(model, data, metrics=["ndcg@10", "map", "mrr"]),
        ltr.compare([model, "feature:1"], data, metrics=["map", "mrr"]),
    ):
        assert "by map and mrr every document is relevant" in " ".join(str(text).split())


def test_a_grid_goes_on_where_its_end_is_the_best_and_not_further() -> None:
    """Values of a metric that rises with C, or falls: three more powers of ten, at most."""
    plan = model_plan(OWPC, "larank")
    for sign, end in ((1.0, 1e4), (-1.0, 1e-6)):
        tried = [(settings, sign * settings["optimizer.C"]) for settings in plan.candidates()]
        while (more := plan.beyond(tried)) is not None:
            tried.append((more, sign * more["optimizer.C"]))
        assert len(tried) == 8
        assert tried[-1][0] == {"optimizer.C": end}
    flat = [(settings, 1.0) for settings in plan.candidates()]
    assert plan.beyond(flat) is None
    named = model_plan(OWPC, "larank", grid={"optimizer.C": [1.0, 10.0]})
    assert (
        named.beyond([(candidate, candidate["optimizer.C"]) for candidate in named.candidates()])
        is None
    )
    fixed = model_plan(OWPC, "larank", settings={"optimizer.C": 1.0})
    assert fixed.beyond([(candidate, 1.0) for candidate in fixed.candidates()]) is None


@pytest.mark.parametrize(
    ("values", "fallen"),
    [([0.1, 0.3, 0.2, 0.25], True), ([0.1, 0.3, 0.2], False), ([0.3, 0.2, 0.3], False),
     ([0.3, 0.3, 0.3], False), ([0.3, 0.1, 0.2, 0.4], False), ([0.3], False)],
)  # fmt: skip
def test_c_is_raised_until_the_metric_has_fallen_twice(values: list[float], fallen: bool) -> None:
    plan = model_plan(OWPC, "larank")
    tried = list(zip(plan.candidates(), values, strict=False))
    assert plan.has_fallen(tried) == fallen
    named = model_plan(OWPC, "larank", grid={"optimizer.C": [0.1, 1.0, 10.0, 100.0]})
    assert not named.has_fallen(tried)


def test_train_and_select_walk_the_same_candidates() -> None:
    data = world()
    plan = model_plan(OWPC, "larank", metric="ndcg@10")
    splits = data.split(validation=0.3, test=0.0)
    run = Run(validation=splits.validation)
    each = list(fit_each(plan, plan.candidates(), splits.training, run))
    assert [row.settings["optimizer.C"] for row in each][:7] == sorted(
        row.settings["optimizer.C"] for row in each[:7]
    )
    values = [row.value for row in each]
    best = int(np.argmax(values))
    ends = {min(row.settings["optimizer.C"] for row in each),
            max(row.settings["optimizer.C"] for row in each)}  # fmt: skip
    inside = each[best].settings["optimizer.C"] not in ends
    assert inside or len(each) == 10 or values.count(max(values)) > 1


def test_select_chooses_by_the_first_metric() -> None:
    selection = ltr.select(world(), metrics="ndcg@5,map", folds=3, settings={"C": 1.0})
    assert selection.select == "ndcg@5"
    assert ltr.select(world(), metrics="map,ndcg@5", folds=3, settings={"C": 1.0}).select == "map"


def test_of_many_features_no_curves_and_no_pairs_are_tried() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(40 * 8, 210)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=len(features)) > 0.5).astype(int)
    data = ltr.make_dataset(features, labels, np.repeat([f"q{n}" for n in range(40)], 8))
    kinds = [row["kind"] for row in ltr.train(data).record["kinds"]["compared"]]
    assert kinds == ["linear", "boosted trees"]
