"""The Python interface: the public names, a notebook's lines, and scikit-learn estimators."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import textwrap
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn
from owpc_ltr_metrics.ndcg import NDCG
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrError, OwpcLtrWarning
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.signatures import public
from owpc_ltr.training.estimators import QueryIdsNotHandedOn
from owpc_ltr.types import FeatureSets, JudgedQuery, Judgments
from tests.commands import Run
from tests.datasets import arrays, train_on_all
from tests.fresh_process import printed_by

DATA = ltr.make_dataset(*arrays())
ROOT = Path(__file__).parent.parent
WORST_PAIRS = ROOT / "docs/examples/owpc-ltr-worst-pairs/worst_pairs.py"


def test_the_workflow_of_a_notebook(tmp_path: Path) -> None:
    parts = DATA.split()
    model = ltr.train(
        parts.training,
        validation=parts.validation,
        loss="owpc",
        optimizer="larank",
        grid={"C": "1e-1..1e1", "generator": ["constant", "inverse"]},
        metric="map",
    )
    result = ltr.evaluate(model, parts.test, metrics=["ndcg@10", "map"], baseline="feature:2")
    assert [row["metric"] for row in result.table] == ["ndcg@10", "map"]
    assert result.table[0]["mean"] > 0.8
    assert all(row["mean_difference"] > 0.1 for row in result.as_dict()["pairs"])
    assert result.per_query.column_names == [
        "query_id", "ndcg@10 the linear model", "map the linear model", "ndcg@10 feature:2",
        "map feature:2",
    ]  # fmt: skip
    assert result.to_frame(per_query=True).shape == (parts.test.n_queries, 5)
    assert "ndcg@10" in repr(result)
    assert "<table" in result._repr_html_()
    model.save(tmp_path / "m.json")
    again: Any = ltr.load_model(str(tmp_path / "m.json"))
    np.testing.assert_array_equal(again.score(DATA.features), model.score(DATA.features))
    with pytest.warns(OwpcLtrWarning, match="no ids"):
        ltr.write_run(model, parts.test, tmp_path / "run.trec")
    of_run = ltr.evaluate(
        ltr.read_run(tmp_path / "run.trec"), parts.test, metrics=["ndcg@10", "map"]
    )
    for ours, theirs in zip(result.table, of_run.table, strict=True):
        assert ours["mean"] == pytest.approx(theirs["mean"], abs=1e-12)


def test_a_grid_of_texts_is_the_grid_of_their_values() -> None:
    parts = DATA.split()
    models = [
        ltr.train(parts.training, validation=parts.validation, grid=grid)
        for grid in ({"C": "1e-1..1e1"}, {"optimizer.C": [0.1, 1.0, 10.0]}, {"C": [0.1, 1, 10]})
    ]
    assert {tuple(model.score(DATA.features[:5])) for model in models} == {
        tuple(models[0].score(DATA.features[:5]))
    }


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"loss": "owcp"}, "no loss is named 'owcp': did you mean 'owpc'"),
        ({"loss": "lambdamart"}, r"use `train\(loss='lambdarank', optimizer='boosting'\)`"),
        ({"optimizer": "xgboost"}, r"named 'xgboost': use `train\(optimizer='boosting'\)`"),
        ({"loss": "boosting"}, r"no loss is named 'boosting': use `train\(optimizer='boosting'\)`"),
        ({"grid": {"C": 1.0}}, "the grid's C is 1.0, one value"),
        ({"grid": {"c": [1.0]}}, "did you mean 'C'"),
        ({"settings": {"c": 1.0}}, "did you mean 'C'"),
        ({"grid": {"C": "0.001-1000"}}, r"write C=0\.001\.\.1000"),
        ({"settings": {"optimizer.D": 1}}, "'larank' has no setting 'D'"),
        ({"loss": "lambdarank"}, "needs a convex loss"),
        ({"metric": "nosuch"}, "no metric 'nosuch'"),
        ({"loss": "owpc"}, "candidates need validation queries"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(how: dict[str, object], why: str) -> None:
    with pytest.raises(OwpcLtrError, match=why):
        train_on_all(DATA, **how)


def test_the_notebook_in_the_help_of_the_package_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the laptop as it stands; of its cluster's methods the arguments fit."""
    local, cluster = notebook().split("cluster = ", 1)
    monkeypatch.chdir(tmp_path)
    write_letor(Path("train.txt"))
    ltr.train("train.txt", settings={"C": 0.01}).save("other.json")
    names: dict[str, Any] = {}
    exec(local, names)  # noqa: S102 - our own text
    printed = capsys.readouterr().out
    assert "(held out)" in printed
    assert "owpc against other" in printed
    assert Path("model.json").is_file()
    fitting = Fitting(ltr.Cluster)
    monkeypatch.setattr(ltr, "connect", lambda url: fitting)
    exec(f"cluster = {cluster}", names)  # noqa: S102 - our own text
    assert fitting.called == ["log_features", "upload", "search"]
    assert fitting.featuresets.called == ["push"]


class Fitting:
    """An object whose methods only check that their arguments fit."""

    def __init__(self, cls: type) -> None:
        self._cls, self.called = cls, list[str]()

    @cached_property
    def featuresets(self) -> Fitting:
        return Fitting(FeatureSets)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> None:
            inspect.signature(getattr(self._cls, name)).bind(self, *args, **named)
            self.called.append(name)

        return call


def notebook() -> str:
    """The first block of code in the docstring of the package."""
    lines = str(ltr.__doc__).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("    import"))
    end = next(n for n, line in enumerate(lines) if n > start and line and line[0] != " ")
    return textwrap.dedent("\n".join(lines[start:end]))


def write_letor(path: Path) -> None:
    """The dataset as LETOR text."""
    rows = zip(*arrays(), strict=True)
    lines = (
        f"{int(label)} qid:{query[1:]} " + " ".join(f"{n}:{v:.6g}" for n, v in enumerate(row, 1))
        for row, label, query in rows
    )
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("function", "name", "message"),
    [
        (ltr.train, "metrics", r"'metrics': did you mean 'metric'\?"),
        (ltr.train, "Threads", r"'Threads': did you mean 'threads'\?"),
        (ltr.train, "xyz", r"settings of loss and optimizer are given as settings=\{'xyz': 2\}"),
        (ltr.evaluate, "xyz", r"unexpected keyword argument 'xyz'$"),
    ],
)
def test_an_unknown_keyword_names_the_parameter_that_was_meant(
    function: Any, name: str, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        function(DATA, DATA, **{name: 2})


FUNCTIONS = [name for name in ltr.__all__ if inspect.isfunction(getattr(ltr, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_names_the_parameter_that_was_meant(name: str) -> None:
    function = getattr(ltr, name)
    *_, last = inspect.signature(function).parameters
    with pytest.raises(TypeError, match=rf"{name}\(\).*'{last}x': did you mean '{last}'\?"):
        function(**{f"{last}x": 1})


def test_a_type_error_from_within_a_function_is_told_as_it_is() -> None:
    with pytest.raises(TypeError, match="'int' and 'str'"):
        public(lambda number: number + "a")(number=1)


def test_a_text_is_one_metric_or_several_between_commas() -> None:
    model = ltr.train(DATA, settings={"C": 1.0})
    listed = ltr.evaluate(model, DATA, metrics=["ndcg@10,gain=linear", "map", "map"])
    text = ltr.evaluate(model, DATA, metrics="ndcg@10,gain=linear,map")
    assert listed.table == text.table
    assert [row["metric"] for row in text.table] == ["ndcg@10,gain=linear", "map"]
    both = ltr.compare({"one": model, "other": "feature:1"}, data=DATA, metrics="map,mrr")
    assert [str(metric) for metric in both.metrics] == ["map", "mrr"]
    selection = ltr.select(DATA, folds=3, grid={"C": [0.1, 1.0]}, metrics="map,mrr")
    assert list(selection.choices[0].test) == ["map", "mrr"]


def test_a_collapsed_optimum_is_warned_of() -> None:
    X, y, qid = arrays()
    noise = ltr.make_dataset(np.random.default_rng(5).normal(size=X.shape), y, qid)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_on_all(noise, settings={"C": 1e-06, "generator": "top"})
    assert {warning.category for warning in caught} == {OwpcLtrWarning}
    assert any("collapsed" in str(warning.message) for warning in caught)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in ltr.__all__:
        assert getattr(ltr, name) is not None
        if name not in {"__version__", "hookimpl"}:
            assert (getattr(ltr, name).__doc__ or "").strip(), name
    assert set(ltr.__all__) <= set(dir(ltr))
    with pytest.raises(AttributeError, match="nosuch"):
        _ = ltr.nosuch


HEAVY = ("numpy", "numba", "pyarrow", "scipy", "xgboost", "pluggy", "pandas")


def test_importing_the_package_imports_nothing_heavy() -> None:
    """What a fresh interpreter has after each of these statements."""
    statements = (
        "import owpc_ltr",
        "import owpc_ltr.types",
        "from owpc_ltr import read_dataset",
        "from owpc_ltr import hookimpl",
        "from owpc_ltr import make_dataset",
    )
    code = f"""
import json, sys
for statement in {statements}:
    exec(statement)
    print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""
    *nothing, plugins, data = map(json.loads, printed_by(code).splitlines())
    assert nothing == [[], [], []]
    assert plugins == ["pluggy"]
    assert {"numpy", "pyarrow"} <= set(data)


X, Y, QID = arrays()
FRAME = pd.DataFrame(X, columns=["1", "2", "3"]).assign(qid=QID)
NUMBER = np.array([int(name.removeprefix("q")) for name in QID])


def test_a_loss_with_its_settings_is_an_object_too() -> None:
    from owpc_ltr_losses.owpc import OWPC
    from owpc_ltr_optimizers.larank import LaRank

    # By a metric of grades, a loss that is only named has every grade count.
    named = train_on_all(DATA, settings={"generator": "inverse", "C": 2.0}, metric="map")
    typed = train_on_all(DATA, loss=OWPC(generator="inverse"), optimizer=LaRank(C=2), metric="map")
    np.testing.assert_array_equal(named.score(DATA.features), typed.score(DATA.features))


def test_it_scores_as_the_model_that_train_makes() -> None:
    ranker = ltr.Ranker(generator="inverse", C=1.0).fit(X, Y, qid=QID)
    model = train_on_all(DATA, settings={"generator": "inverse", "C": 1.0})
    np.testing.assert_array_equal(ranker.predict(X), model.score(X))


MODEL = train_on_all(DATA, settings={"C": 1.0})
JUDGED = Judgments([JudgedQuery("q0", {"query": "q0"}, ["d"], np.ones(1, np.float32))])
UNTYPED: Any = ltr
"""What a type checker would refuse can be called with it."""


@pytest.mark.parametrize(
    ("error", "call", "why"),
    [
        (UsageError, lambda: UNTYPED.evaluate(DATA, MODEL),
         r"models come first: `evaluate\(model, data\)`"),
        (UsageError, lambda: UNTYPED.evaluate(MODEL, MODEL), "^`data` got a model: give"),
        (UsageError, lambda: UNTYPED.train(MODEL),
         "^`data` got a model: give judged queries$"),
        (UsageError, lambda: UNTYPED.compare([MODEL, DATA], data=DATA),
         "`rankers` got a dataset: give a model"),
        (UsageError, lambda: UNTYPED.evaluate(ltr.Ranker(), DATA),
         "an estimator without a model: call its fit"),
        (UsageError, lambda: UNTYPED.train(X),
         r"`data` is an array, .*owpc_ltr.make_dataset\(X, y, qid\)"),
        (UsageError, lambda: UNTYPED.train(pd.DataFrame(X)),
         "`data` is a frame, .*owpc_ltr.from_frame"),
        (UsageError, lambda: UNTYPED.train(DATA, metric=dict),
         "is not a metric: give a name, as 'ndcg@10'"),
        (TypeError, lambda: UNTYPED.compare([MODEL], DATA, "map"),
         "3 were given: write metrics="),
        (TypeError, lambda: UNTYPED.train(X, Y, QID), "3 were given: use owpc_ltr.make_dataset"),
        (TypeError, lambda: UNTYPED.train(DATA, C=10), r"settings=\{'C': 10\}"),
        (TypeError, lambda: UNTYPED.train(X, Y, qid=QID), "'qid': make a dataset: owpc_ltr"),
        (TypeError, lambda: UNTYPED.train(FRAME, query="qid", label="y"), "'query': make a data"),
        (UsageError, lambda: UNTYPED.train(None), "`data` is None: give a dataset, or its file"),
        (UsageError, lambda: UNTYPED.train(DATA.split()), "parts of a split: give one of them"),
        (UsageError, lambda: UNTYPED.train(JUDGED), "these are judgments, which have no features"),
        (UsageError, lambda: UNTYPED.train({"a": 1}), "a dict is no dataset"),
        (UsageError, lambda: UNTYPED.train(DATA, validation=0.2),
         "`validation` is the number 0.2: .* is `validation_share=0.2`"),
        (UsageError, lambda: UNTYPED.train(DATA, settings="C=1"),
         "`settings` is of type str: give values by name"),
        (UsageError, lambda: UNTYPED.train(DATA, seed="a"), "`seed` is of type str: give a whole"),
        (UsageError, lambda: UNTYPED.train(DATA, folds=GroupKFold(3)), "`folds` is of type Group"),
        (UsageError, lambda: UNTYPED.evaluate(MODEL, [DATA, DATA]), "one dataset is measured on"),
        (UsageError, lambda: UNTYPED.evaluate([MODEL, MODEL], DATA), "list of models is no ranker"),
        (UsageError, lambda: UNTYPED.compare(MODEL, DATA), "needs 2 rankers, and there is 1"),
        (TypeError, lambda: UNTYPED.compare(MODEL, "feature:1", DATA), "`rankers` is one list"),
        (TypeError, lambda: UNTYPED.average(MODEL, MODEL), r"`models` is one list: average\(\["),
        (UsageError, lambda: UNTYPED.read_dataset(FRAME), "is a frame, .*owpc_ltr.from_frame"),
        (UsageError, lambda: UNTYPED.save_dataset(DATA, "x.csv"), "data.to_pandas.*to_csv"),
        (UsageError, lambda: UNTYPED.save_model("m.json", MODEL), "the model comes first"),
        (BadInput, lambda: UNTYPED.make_dataset(X, Y, None), "query ids are None: give one entry"),
        (BadInput, lambda: UNTYPED.make_dataset(X, None, QID), "labels are None: give one entry"),
        (BadInput, lambda: MODEL.score(None), "features are None"),
        (TypeError, lambda: DATA.select(["q0"]), "selected by their numbers, from 0"),
        (TypeError, lambda: UNTYPED.from_frame(FRAME, qid="qid", label="y"),
         "give `query`, the column of query ids"),
        (TypeError, lambda: UNTYPED.make_dataset(X, Y, QID, sample_weight=Y),
         "did you mean 'document_weights'"),
        (TypeError, lambda: UNTYPED.Ranker().fit(X, Y, eval_set=[]), "did you mean 'validation'"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_say_what_does(
    error: type[Exception], call: Any, why: str
) -> None:
    with pytest.raises(error, match=why.replace("()", r"\(\)")) as refused:
        call()
    assert len(str(refused.value).splitlines()) == 1


def test_what_is_meant_as_rows_is_taken_as_rows() -> None:
    """Generators, a mask of queries, a dataset in place of its features."""
    data = UNTYPED.make_dataset((row for row in X), (y for y in Y), (name for name in QID))
    assert data.fingerprint == DATA.fingerprint
    assert DATA.select(np.arange(60) == 3).query_ids.to_pylist() == ["q3"]
    np.testing.assert_array_equal(MODEL.score(DATA), MODEL.score(DATA.features))
    assert copy.deepcopy(DATA).fingerprint == pickle.loads(pickle.dumps(DATA)).fingerprint  # noqa: S301 - our own


def test_models_of_numpys_numbers_are_saved(tmp_path: Path) -> None:
    """As a grid search and np.arange give them."""
    untyped: Any = {"seed": np.int64(3), "settings": {"C": np.float32(1), "passes": np.int64(9)}}
    boosted: Any = {"loss": "lambdarank", "optimizer": "boosting"}
    for model in (
        train_on_all(DATA, **untyped),
        ltr.train(DATA, **boosted, grid={"trees": np.arange(2, 4), "bins": [np.int64(9)]}),
        ltr.Ranker(**boosted, trees=np.int64(2)).fit(X, Y, QID).model_,
    ):
        model.save(tmp_path / "m.json")
        again: Any = ltr.load_model(tmp_path / "m.json")
        assert again.record["table"] == model.record["table"]


def test_an_estimator_stands_for_its_model_and_a_class_for_a_metric() -> None:
    ranker = ltr.Ranker(C=1.0).fit(X, Y, qid=QID)
    own, other = (
        ltr.evaluate(ranker_argument, DATA, metrics=[metric], split="all").table[0]["mean"]
        for ranker_argument, metric in ((ranker, NDCG), (ranker.model_, "ndcg"))
    )
    assert own == other
    comparison = ltr.compare({"a": ranker, "b": "feature:1"}, data=DATA, split="all")
    assert [each.name for each in comparison.rankers] == ["a", "b"]


def test_one_plugin_file_may_stand_alone() -> None:
    assert "worst-pairs" in repr(ltr.plugins(plugins=str(WORST_PAIRS)))


def test_a_warning_points_at_the_line_of_the_call() -> None:
    with pytest.warns(OwpcLtrWarning, match="brought together") as scattered:
        ltr.make_dataset([[1.0], [2.0], [3.0]], [0, 1, 2], ["a", "b", "a"])
    data = ltr.make_dataset(np.column_stack([X, np.ones(len(X))]), Y, QID)
    with pytest.warns(OwpcLtrWarning) as call_warnings:
        ltr.train(data, settings={"C": 1.0}, validation_share=0, test_share=0)
    assert {warning.filename for warning in (*scattered, *call_warnings)} == {__file__}


def test_a_clone_has_the_same_parameters_and_settings() -> None:
    ranker = ltr.Ranker(loss="lambdarank", optimizer="boosting", trees=20, seed=3)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert copy.get_params()["trees"] == 20
    assert copy.set_params(trees=5, seed=1).get_params()["trees"] == 5
    assert ranker.get_params()["trees"] == 20


def test_any_pair_of_plugins_is_an_estimator() -> None:
    ranker = ltr.Ranker(loss="lambdarank", optimizer="boosting", trees=20).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.9


LINEAR = ltr.Ranker("owpc")


def test_query_ids_may_be_a_column_of_the_frame() -> None:
    ranker = LINEAR.fit(FRAME, Y)
    assert ranker.feature_names_in_.tolist() == ["1", "2", "3"]
    by_array = ltr.Ranker("owpc").fit(X, Y, qid=QID).predict(X)
    for frame in (FRAME, FRAME[["qid", "3", "2", "1"]], pl.from_pandas(FRAME), pa.table(FRAME)):
        np.testing.assert_array_equal(ranker.predict(frame), by_array)
    with pytest.raises(OwpcLtrError, match="query ids are needed: give `qid`"):
        LINEAR.fit(X, Y)
    other = NUMBER % 3 == 0
    ranker = LINEAR.fit(FRAME[~other], Y[~other], validation=(FRAME[other], Y[other]))
    by_array = ltr.Ranker("owpc").fit(
        X[~other], Y[~other], qid=QID[~other], validation=(X[other], Y[other], QID[other])
    )
    np.testing.assert_array_equal(ranker.predict(FRAME), by_array.predict(X))
    wrong: Any = [X, Y, QID]
    with pytest.raises(UsageError, match=r"`validation` is a tuple: \(X, y, qid\)"):
        LINEAR.fit(X, Y, qid=QID, validation=wrong)


def test_groups_keep_queries_whole_in_a_grid_search() -> None:
    search = GridSearchCV(ltr.Ranker(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    assert search.fit(FRAME, Y, groups=QID).best_score_ > 0.8


def test_a_grid_search_chooses_the_c_that_train_chooses_on_the_same_folds() -> None:
    grid = [0.001, 0.01, 0.1, 1.0, 10.0]
    parts = ltr.make_dataset(X, Y, QID).split(validation=0.4, test=0.0)
    chosen_on = np.isin(QID, parts.validation.query_ids.to_pylist())
    folds = PredefinedSplit(np.where(chosen_on, 0, -1))
    search = GridSearchCV(ltr.Ranker(metric="map"), {"C": grid}, cv=folds).fit(FRAME, Y)
    model = ltr.train(
        parts.training, validation=parts.validation, grid={"C": grid},
        settings={"generator": "inverse"}, metric="map",
    )  # fmt: skip
    assert search.best_params_["C"] == model.record["optimizer"]["settings"]["C"]
    assert search.best_score_ == pytest.approx(model.record["validation"], abs=1e-3)


def test_it_stands_at_the_end_of_a_pipeline() -> None:
    pipeline: Any = make_pipeline(StandardScaler(), ltr.Ranker("owpc", normalise="none"))
    pipeline.fit(X, Y, ranker__qid=QID)
    assert pipeline.predict(X).shape == (len(X),)


def test_a_search_that_hands_no_query_ids_on_fails_at_once() -> None:
    """Instead of scores of NaN, among which it would choose."""
    for made in (ltr.Ranker(), make_pipeline(StandardScaler(), ltr.Ranker())):
        name = "C" if isinstance(made, ltr.Ranker) else "ranker__C"
        search = GridSearchCV(made, {name: [0.1, 1.0]}, cv=GroupKFold(3))
        with pytest.raises(QueryIdsNotHandedOn, match="give X as a DataFrame with a column 'qid'"):
            search.fit(X, Y, groups=QID)
    # Their part of qid goes to fit, and to score only where it is asked for.
    search = GridSearchCV(ltr.Ranker(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    with pytest.raises(QueryIdsNotHandedOn, match=r"set_score_request\(qid=True\)"):
        search.fit(X, Y, groups=QID, qid=QID)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ltr.Ranker().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(routed, {"C": [0.1, 1.0]}, cv=GroupKFold(3))
        assert search.fit(X, Y, groups=QID, qid=QID).best_score_ > 0.8
    with pytest.raises(TypeError, match=r"set_params\(\) .*'c': did you mean 'C'\?"):
        GridSearchCV(ltr.Ranker(), {"c": [0.1]}, cv=GroupKFold(3)).fit(FRAME, Y, groups=QID)


def test_an_estimator_chooses_as_train_does() -> None:
    """The kind of model, the metric and C; the record says what was compared, and why."""
    few = NUMBER < 25
    data = ltr.make_dataset(X[few], Y[few], QID[few])
    for how in ({}, {"loss": "owpc"}, {"settings": {"generator": "top"}}, {"metric": "mrr"}):
        options: Any = how
        trained = ltr.train(data, **options, test_share=0).record
        ranker = ltr.Ranker(**options.get("settings", options)).fit(X[few], Y[few], qid=QID[few])
        fitted = ranker.model_.record
        different = {name for name in trained if trained[name] != fitted.get(name)}
        assert different <= {"seconds"}, how
        assert ("kinds" in fitted) == (how.keys() <= {"metric"})
        assert fitted["select"] == how.get("metric", "ndcg@10")
        (mean,) = ltr.evaluate(ranker, data, metrics=fitted["select"], split="all").table
        assert ranker.score(X[few], Y[few], qid=QID[few]) == pytest.approx(mean["mean"])


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"c": 1.0}, r"'c': did you mean 'C'\?"),
        ({"random_state": 1}, r"did you mean 'seed'\?"),
        ({"n_jobs": 2}, r"did you mean 'threads'\?"),
        ({"loss": "lambdarank", "optimizer": "boosting", "n_estimators": 9}, "called 'trees' here"),
        ({"trees": 100}, "'trees' is a setting of the optimizer 'boosting'"),
        ({"n_estimators": 100}, "'trees' is a setting of the optimizer 'boosting'"),
        ({"settings": {"C": 1.0}}, "each setting is a keyword of its own"),
        ({"knots": 4}, "is a parameter of owpc_ltr.train alone"),
        ({"loss__size": 4}, "the settings are generator, "),
    ],
)
def test_a_keyword_that_is_no_setting_fails_where_it_is_given(
    keywords: dict[str, Any], why: str
) -> None:
    with pytest.raises(TypeError, match=rf"^Ranker\(\) got an unexpected keyword .*{why}"):
        ltr.Ranker(**keywords)
    with pytest.raises(TypeError, match=rf"^Ranker.set_params\(\) got an .*{why}"):
        ltr.Ranker().set_params(**keywords)


@pytest.mark.parametrize("name", ["group", "groups"])
def test_groups_of_other_libraries_lead_to_query_ids(name: str) -> None:
    sizes: Any = {name: [10] * 60}
    for call, why in (
        (lambda: LINEAR.fit(X, Y, **sizes), "give `qid`, the query id of each row"),
        (lambda: UNTYPED.make_dataset(X, Y, **sizes), "give `query_ids`, the query id of each row"),
        (lambda: UNTYPED.train(DATA, **sizes), r"owpc_ltr.make_dataset\(X, y, qid\)"),
    ):
        with pytest.raises(TypeError, match=rf"'{name}': .*{why}"):
            call()


def test_boosting_stops_early_on_validation_queries() -> None:
    validation = NUMBER % 3 == 0
    training = ~validation
    settings: dict[str, Any] = {"trees": 300, "patience": 5}
    settings |= {"loss": "lambdarank", "optimizer": "boosting"}
    ranker = ltr.Ranker(metric="ndcg@10", **settings)
    ranker.fit(
        X[training], Y[training], qid=QID[training],
        validation=(X[validation], Y[validation], QID[validation]),
    )  # fmt: skip
    stopped: Any = ranker.model_
    assert len(stopped.forest.roots) < 300
    assert stopped.record["validation"] == pytest.approx(
        ranker.score(X[validation], Y[validation], qid=QID[validation])
    )
    whole: Any = ltr.Ranker(**settings).fit(X[training], Y[training], qid=QID[training]).model_
    assert len(whole.forest.roots) == 300


def test_a_row_is_named_by_its_number_and_its_index(run: Run, tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y, query_id=QID)
    spoilt = {name: frame.astype({name: object}) for name in ("a", "label", "query_id")}
    for name, bad in spoilt.items():
        bad.loc[4, name] = None if name != "a" else 1e39
    huge = pd.DataFrame({"query_id": ["q", "r"], "x": [1.0, 1e39]})
    infinite = ltr.make_dataset(*arrays())
    infinite.features[4, 0] = np.inf
    ltr.save_dataset(DATA, tmp_path / "null.parquet")
    table = pq.read_table(tmp_path / "null.parquet")
    labels = pa.array([None if row == 4 else 0.0 for row in range(len(table))], pa.float32())
    place = table.column_names.index("label")
    pq.write_table(table.set_column(place, "label", labels), tmp_path / "null.parquet")
    for call, row in (
        (lambda: ltr.from_frame(spoilt["label"], query="query_id", label="label"), 4),
        (lambda: ltr.from_frame(spoilt["query_id"], query="query_id", label="label"), 4),
        (lambda: ltr.make_dataset(X, spoilt["label"]["label"], QID), 4),
        (lambda: ltr.make_dataset(X, Y, spoilt["query_id"]["query_id"]), 4),
        (lambda: ltr.make_dataset(spoilt["a"][["a"]].astype(float), Y, QID), 4),
        (lambda: ltr.read_external_features(huge), 1),
        (lambda: ltr.save_dataset(infinite, tmp_path / "d.parquet"), 4),
        (lambda: ltr.save_dataset(infinite, tmp_path / "d.txt"), 4),
        (lambda: ltr.read_dataset(tmp_path / "null.parquet"), 4),
    ):
        with pytest.raises(OwpcLtrError, match=rf"(row|entry|document) {row + 1} \(index {row}\)"):
            call()
    code, _, err = run("train", "null.parquet", "--out", "m.json")
    assert (code, "the column 'label' has no value in row 5 (index 4)" in err) == (3, True)
