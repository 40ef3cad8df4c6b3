"""Model formats: what is read scores as its library predicts, what is written as the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble, tree

from owpc_ltr.emulator import emulate, foresee
from owpc_ltr.engine.stores import StoredModel
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.featureset import Feature, FeatureSet
from owpc_ltr.formats.choosing import plugin_definition
from owpc_ltr.formats.elastic import to_elastic, to_elastic_body
from owpc_ltr.formats.lightgbm_text import from_lightgbm
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.sklearn_trees import from_sklearn
from owpc_ltr.formats.solr import to_solr
from owpc_ltr.formats.xgboost_json import from_dump
from owpc_ltr.formats.xgboost_json_writer import to_dump
from owpc_ltr.formats.xgboost_raw import from_raw
from owpc_ltr.formats.xgboost_raw_writer import to_raw
from owpc_ltr.logistic_network import Layer, LogisticNetwork
from owpc_ltr.models import LinearModel, Normaliser
from owpc_ltr.profiles import RANKLIB, XGBOOST, XGBOOST_RAW, ServingProfile, serving_profile
from owpc_ltr.trees import TreeModel

NAMES = ("a", "b", "c", "d")
OLD, MIDDLE, NEW = (serving_profile("opensearch", v) for v in ("2.19.6", "3.5.0", "3.8.0"))
OBJECTIVES = (
    *("rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror", "reg:squaredlogerror"),
    *("reg:pseudohubererror", "reg:absoluteerror", "binary:logistic", "binary:logitraw"),
    "reg:logistic",
)


def data(rng: np.random.Generator, missing: float = 0.2) -> tuple[Any, Any]:
    rows = np.round(rng.normal(size=(400, 4)), 1).astype(np.float32)
    labels = (rows[:, 0] + rows[:, 1] * rows[:, 2] + 0.3 * rng.normal(size=400) > 0).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, labels


def trained(rng: np.random.Generator, missing: float = 0.2, **settings: Any) -> xgboost.Booster:
    rows, labels = data(rng, missing)
    grouped = str(settings.get("objective", "rank:ndcg")).startswith("rank")
    matrix = xgboost.DMatrix(
        rows, labels, feature_names=list(NAMES), qid=np.arange(400) // 10 if grouped else None
    )
    rounds = settings.pop("rounds", 8)
    objective = settings.pop("objective", "rank:ndcg")
    return xgboost.train(
        {"objective": objective, "max_depth": 4, "nthread": 1, **settings}, matrix, rounds
    )


def raw(booster: xgboost.Booster) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(booster.save_raw("json"))
    return content


def predictions(booster: xgboost.Booster, rows: Any) -> Any:
    return booster.predict(xgboost.DMatrix(rows, feature_names=list(NAMES)))


def stored(model_type: str, definition: Any, names: tuple[str, ...] = NAMES) -> StoredModel:
    features = tuple(Feature(name, (), {"match_all": {}}) for name in names)
    return StoredModel("m", model_type, definition, FeatureSet("f", features))


def test_every_objective_of_xgboost_scores_as_xgboost_predicts(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    for objective in OBJECTIVES:
        for base in (None, 0.3):
            settings = {} if base is None else {"base_score": base}
            booster = trained(rng, objective=objective, **settings)
            model = from_raw(raw(booster))
            assert model.score(rows) == pytest.approx(predictions(booster, rows), abs=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"booster": "dart", "rate_drop": 0.4, "seed": 1},
        {"num_parallel_tree": 3, "subsample": 0.7},
        {"grow_policy": "lossguide", "max_leaves": 9, "tree_method": "hist"},
        {"tree_method": "exact", "eta": 0.1},
        {"gamma": 1.0, "tree_method": "exact"},
        {"max_depth": 0, "max_leaves": 40, "grow_policy": "lossguide"},
    ],
    ids=str,
)
def test_every_way_to_grow_trees_scores_as_xgboost_predicts(
    rng: np.random.Generator, settings: dict[str, Any]
) -> None:
    rows, _ = data(rng)
    booster = trained(rng, **settings)
    model = from_raw(raw(booster))
    assert model.score(rows) == pytest.approx(predictions(booster, rows), abs=1e-6)


def test_the_best_iteration_is_what_is_kept(rng: np.random.Generator) -> None:
    rows, labels = data(rng)
    regressor = xgboost.XGBRegressor(
        n_estimators=60, early_stopping_rounds=3, num_parallel_tree=2, n_jobs=1, learning_rate=0.9
    )
    regressor.fit(rows[:200], labels[:200], eval_set=[(rows[200:], labels[200:])], verbose=False)
    content = raw(regressor.get_booster())
    model = from_raw(content, NAMES)
    assert len(model.forest.roots) == 2 * (regressor.best_iteration + 1)
    assert model.score(rows) == pytest.approx(regressor.predict(rows), abs=1e-6)
    everything = from_raw(content, NAMES, slice_best=False)
    assert len(everything.forest.roots) > len(model.forest.roots)


def test_a_dump_read_is_the_model_without_its_base_score(rng: np.random.Generator) -> None:
    booster = trained(rng, base_score=0.7)
    dump = [json.loads(text) for text in booster.get_dump(dump_format="json", with_stats=True)]
    model, whole = from_dump(dump, NAMES), from_raw(raw(booster))
    rows, _ = data(rng)
    assert model.score(rows) + whole.base == pytest.approx(whole.score(rows), abs=1e-12)


def lightgbm_model(rng: np.random.Generator, **settings: Any) -> tuple[Any, Any]:
    rows, labels = data(rng)
    rows[:, 3] = np.where(rng.random(400) < 0.5, 0, rows[:, 3])
    settings = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, **settings}
    group = [20] * 20 if "rank" in settings["objective"] else None
    train = lightgbm.Dataset(rows, labels, group=group, feature_name=list(NAMES))
    edges = np.array([0, -0.0, 1e-35, -1e-35, 1e-36, 1.1e-35, -1.1e-35, 1e-45], np.float32)
    rows = np.vstack([rows, rng.choice(edges, size=(200, 4))])
    return lightgbm.train({"min_data_in_leaf": 3, **settings}, train, 12), rows


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero_as_missing": True},
        {"zero_as_missing": True, "num_leaves": 60, "min_data_in_leaf": 2},
        {"use_missing": False},
        {"objective": "rank_xendcg", "seed": 3},
        {"objective": "regression"},
        {"objective": "huber"},
        {"objective": "binary"},
        {"objective": "binary", "sigmoid": 0.7},
        {"objective": "cross_entropy"},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"objective": "regression", "boosting": "dart", "drop_rate": 0.3},
        {"min_data_in_leaf": 1000},
    ],
    ids=str,
)
def test_lightgbm_scores_as_it_predicts(rng: np.random.Generator, settings: dict[str, Any]) -> None:
    booster, rows = lightgbm_model(rng, **settings)
    model = from_lightgbm(booster.model_to_string())
    assert model.feature_names == NAMES
    assert model.score(rows) == pytest.approx(booster.predict(rows), abs=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "multiclass", "num_class": 2},
        {"objective": "poisson"},
        {"objective": "regression", "linear_tree": True},
        {"objective": "regression", "min_data_per_group": 1, "cat_smooth": 0},
        {"objective": "regression", "reg_sqrt": True},
    ],
    ids=str,
)
def test_lightgbm_that_no_engine_scores_is_refused(
    rng: np.random.Generator, settings: dict[str, Any]
) -> None:
    rows, labels = data(rng, 0)
    rows[:, 3] = np.arange(400) % 7
    target = labels + (rows[:, 3] % 2)
    categories = [3] if "cat_smooth" in settings else []
    train = lightgbm.Dataset(
        rows.astype(float), np.minimum(target, 1), categorical_feature=categories
    )
    booster = lightgbm.train({"verbosity": -1, "num_threads": 1, **settings}, train, 3)
    with pytest.raises(BadInput, match=r"train|categorical|linear"):
        from_lightgbm(booster.model_to_string())


@pytest.mark.parametrize(
    "make",
    [
        lambda: tree.DecisionTreeRegressor(max_depth=5),
        lambda: ensemble.RandomForestRegressor(7, max_depth=5, n_jobs=1),
        lambda: ensemble.HistGradientBoostingRegressor(max_iter=8),
        lambda: ensemble.HistGradientBoostingRegressor(max_iter=8, loss="absolute_error"),
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=8),
    ],
)
def test_scikit_learn_scores_as_it_predicts(
    rng: np.random.Generator, make: Callable[[], Any]
) -> None:
    rows, labels = data(rng)
    check_estimator(make().fit(rows, labels), rows)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ensemble.ExtraTreesRegressor(7, max_depth=5, n_jobs=1),
        lambda: ensemble.GradientBoostingRegressor(n_estimators=8),
        lambda: ensemble.GradientBoostingRegressor(n_estimators=8, init="zero"),
        lambda: ensemble.GradientBoostingClassifier(n_estimators=8),
    ],
)
def test_scikit_learn_without_missing_values_scores_as_it_predicts(
    rng: np.random.Generator, make: Callable[[], Any]
) -> None:
    rows, labels = data(rng, 0)
    check_estimator(make().fit(rows, labels), rows)


def check_estimator(estimator: Any, rows: Any) -> None:
    classifies = hasattr(estimator, "predict_proba")
    wanted = estimator.predict_proba(rows)[:, 1] if classifies else estimator.predict(rows)
    assert from_sklearn(estimator, NAMES).score(rows) == pytest.approx(wanted, abs=1e-9)


def test_scikit_learn_that_no_engine_scores_is_refused(rng: np.random.Generator) -> None:
    rows, labels = data(rng, 0)
    several = tree.DecisionTreeRegressor().fit(rows, np.column_stack([labels, labels]))
    poisson = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(rows, labels)
    for estimator, message in (
        (several, "several outputs"),
        (poisson, "'poisson' has a link"),
        (tree.DecisionTreeRegressor(), "not fitted"),
        (object(), "no converter for object"),
    ):
        with pytest.raises(BadInput, match=message):
            from_sklearn(estimator, NAMES)


def zero_model(rng: np.random.Generator, **settings: Any) -> TreeModel:
    """A model of data without missing values, for engines that know only zeros."""
    return from_raw(raw(trained(rng, missing=0.0, **settings))).with_missing_as_zero()


@pytest.mark.parametrize("profile", [OLD, NEW], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_exported_scores_as_the_model(
    rng: np.random.Generator, profile: ServingProfile, objective: str
) -> None:
    rows, _ = data(rng)
    model = zero_model(rng, objective=objective, base_score=0.3)
    more = ("x", *reversed(NAMES), "y")  # a feature set in another order
    wide = np.column_stack([rows[:, 0], rows[:, ::-1], rows[:, 0]])
    exports: list[tuple[str, object]] = [
        (XGBOOST, to_dump(model, more, profile)),
        (XGBOOST_RAW, to_raw(model, more, profile)),
    ]
    if model.link == "identity":
        exports.append((RANKLIB, to_ranklib(model, more, profile)))
    for model_type, definition in exports:
        assert foresee(definition, model_type, more, profile) is None
        scores = emulate(stored(model_type, definition, more), wide, profile)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_a_model_of_missing_values_goes_to_engines_that_know_them(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    booster = trained(rng, base_score=0.5)
    model = from_raw(raw(booster))
    for to, model_type in ((to_dump, XGBOOST), (to_raw, XGBOOST_RAW)):
        scores = emulate(stored(model_type, to(model, NAMES, NEW)), rows, NEW)
        assert scores == pytest.approx(predictions(booster, rows), abs=1e-6)
        for profile in (OLD, MIDDLE):
            with pytest.raises(Refused, match="send a missing feature elsewhere"):
                to(model, NAMES, profile)
            # Features that match every document are safe anywhere.
            full = np.nan_to_num(rows)
            definition = to(model, NAMES, profile, never_missing=NAMES)
            scores = emulate(stored(model_type, definition), full, profile)
            assert scores == pytest.approx(predictions(booster, full), abs=1e-6)


def test_between_3_2_and_3_7_a_model_of_zeros_goes_as_ranklib(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = zero_model(rng)
    with pytest.raises(Refused, match="as model/ranklib"):
        to_dump(model, NAMES, MIDDLE)
    scores = emulate(stored(RANKLIB, to_ranklib(model, NAMES, MIDDLE)), rows, MIDDLE)
    assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_where_the_engine_knows_the_flag_a_model_of_zeros_says_so(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = zero_model(rng)
    flagged = replace(MIDDLE, missing_as_zero=True)
    for to, model_type in ((to_dump, XGBOOST), (to_raw, XGBOOST_RAW)):
        definition = to(model, NAMES, flagged)
        assert definition["missing_as_zero"] is True
        scores = emulate(stored(model_type, definition), rows, flagged)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)
        assert "missing_as_zero" not in to(model, NAMES, NEW)


def test_a_written_raw_model_loads_into_xgboost_and_predicts_the_same(
    rng: np.random.Generator,
) -> None:
    rows, _ = data(rng)
    for objective in ("rank:ndcg", "binary:logistic"):
        model = from_raw(raw(trained(rng, objective=objective, base_score=0.4)))
        text = json.dumps(to_raw(model, NAMES, NEW)).encode()
        assert predictions(xgboost.Booster(model_file=bytearray(text)), rows) == pytest.approx(
            model.score(rows), abs=1e-6
        )


def test_what_is_written_reads_back_as_the_same_trees(rng: np.random.Generator) -> None:
    model = replace(zero_model(rng), link="identity", base=0.0)
    single = model.forest.value.astype(np.float32).astype(np.float64)
    model = replace(model, forest=replace(model.forest, value=single))
    wanted = model.as_dict()
    assert from_dump(to_dump(model, NAMES, NEW), NAMES).as_dict() == wanted
    assert from_raw(to_raw(model, NAMES, NEW)).as_dict() == wanted
    again = from_ranklib(to_ranklib(model, NAMES, NEW), NAMES)
    assert isinstance(again, TreeModel)
    assert again.as_dict() == wanted


def test_linear_models_and_networks_go_through_ranklib(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    normalisers = {"b": Normaliser("standard", 1.5, 2.0), "d": Normaliser("min_max", 0.0, 4.0)}
    linear = LinearModel(NAMES, rng.normal(size=4), normalisers)
    hidden = Layer(rng.normal(size=(3, 4)), rng.normal(size=3))
    network = LogisticNetwork(NAMES, (hidden, Layer(rng.normal(size=(1, 3)), rng.normal(size=1))))
    for model in (linear, network):
        definition = to_ranklib(model, NAMES, OLD)
        scores = emulate(stored(RANKLIB, definition), rows, OLD)
        assert scores == pytest.approx(model.score(rows), abs=1e-6)
    again = from_ranklib(to_ranklib(network, NAMES, OLD), NAMES)
    assert isinstance(again, LogisticNetwork)
    assert again.as_dict() == network.as_dict()
    content = json.loads(json.dumps(network.as_dict()))
    assert LogisticNetwork.from_dict(content, NAMES, {}).as_dict() == network.as_dict()


def solr_score(definition: dict[str, Any], row: dict[str, float]) -> float:
    """Solr's rule: missing is 0, left up to and including the threshold plus its slack."""

    def walk(node: dict[str, Any]) -> np.float32:
        if "value" in node:
            return np.float32(node["value"])
        bound = np.float32(node["threshold"]) + np.float32(1e-6)
        x = np.float32(np.nan_to_num(row[node["feature"]]))
        return walk(node["left"] if x <= bound else node["right"])

    return float(sum(float(t["weight"]) * walk(t["root"]) for t in definition["params"]["trees"]))


def test_solrs_file_scores_as_the_model_by_solrs_rule(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model, profile = zero_model(rng, base_score=0.3), serving_profile("solr", "9.8.1")
    definition = to_solr(model, NAMES, profile)
    scores = [solr_score(definition, dict(zip(NAMES, row, strict=True))) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-6)


def test_solrs_linear_file_names_weights_and_normalisers() -> None:
    model = LinearModel(("a", "b"), np.array([0.1, 2.0]), {"b": Normaliser("min_max", 1.0, 3.0)})
    definition = to_solr(model, ("a", "b"), serving_profile("solr", "9.8.1"))
    assert definition["params"] == {"weights": {"a": 0.1, "b": 2.0}}
    assert definition["features"][1]["norm"]["params"] == {"min": "1.0", "max": "4.0"}


def elastic_score(definition: dict[str, Any], row: Any) -> float:
    """Elasticsearch's rule: in float64, a missing value by default_left."""
    total = 0.0
    for part in definition["trained_model"]["ensemble"]["trained_models"]:
        nodes = {node["node_index"]: node for node in part["tree"]["tree_structure"]}
        node = nodes[0]
        while "leaf_value" not in node:
            x = float(row[node["split_feature"]])
            left = node["default_left"] if np.isnan(x) else x < node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        total += node["leaf_value"]
    return total


def test_elasticsearchs_file_scores_as_the_model_by_its_rule(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = from_raw(raw(trained(rng, base_score=0.3)))
    profile = serving_profile("elastic", "9.1.0")
    definition = to_elastic(model, NAMES, profile)
    scores = [elastic_score(definition, row) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-12)
    with pytest.raises(Refused, match="rescore chain"):
        to_elastic(LinearModel(NAMES, np.ones(4)), NAMES, profile)


def test_elasticsearchs_body_takes_the_feature_sets_queries(rng: np.random.Generator) -> None:
    features = tuple(Feature(name, (), {"match": {name: "{{q}}"}}) for name in NAMES)
    profile = serving_profile("elastic", "9.1.0")
    body = to_elastic_body(zero_model(rng), FeatureSet("f", features), profile)
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert extractors[1]["query_extractor"]["query"] == {"match": {"b": "{{q}}"}}
    script = Feature("s", (), "1 + a", "derived_expression")
    with pytest.raises(Refused, match="'s' is not a mustache query"):
        to_elastic_body(zero_model(rng), FeatureSet("f", (*features, script)), profile)


def test_what_an_engine_cannot_do_is_refused_before_it_is_asked(rng: np.random.Generator) -> None:
    model = zero_model(rng)
    with pytest.raises(Refused, match="needs the feature 'd'"):
        to_dump(model, NAMES[:3], NEW)
    with pytest.raises(Refused, match=r"opensearch 2\.19\.1 does not take .*\+raw"):
        to_raw(model, NAMES, serving_profile("opensearch", "2.19.1"))
    with pytest.raises(Refused, match="RankLib has no logistic output"):
        to_ranklib(replace(model, link="logistic"), NAMES, NEW)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("learner", "gradient_booster", "name"), "gblinear", "only gbtree and dart"),
        (("learner", "learner_model_param", "num_class"), "3", "num_class"),
        (("learner", "learner_model_param", "num_target"), "2", "num_target"),
        (("learner", "learner_model_param", "base_score"), "[1E0,2E0]", "not one number"),
        (("learner", "learner_model_param", "base_score"), "nan", "not one number"),
        (("learner", "objective", "name"), "multi:softmax", "none whose scores"),
        (("learner", "objective", "name"), "count:poisson", "none whose scores"),
        (("learner", "feature_types"), ["float", "c", "float", "float"], "categorical"),
        (("learner", "feature_names"), ["a", "b"], "splits on feature number"),
        (("learner", "feature_names"), ["a", "a", "c", "d"], "two features of one name"),
        (("learner", "attributes"), {"best_iteration": "x"}, "best iteration"),
        (("learner",), [], "not an object"),
        (("version",), [], "version"),
    ],
)
def test_raw_models_that_cannot_be_mended_are_refused(
    rng: np.random.Generator, path: tuple[str, ...], value: object, message: str
) -> None:
    content = raw(trained(rng))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(BadInput, match=message):
        from_raw(content)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("split_type", [1], "categorical"),
        ("left_children", [5], "node 5 is not among|one child"),
        ("split_indices", [-1], "negative number"),
        ("split_conditions", ["1"], "not only numbers"),
        ("split_conditions", [1e39], "not a finite float32"),
        ("default_left", [0.5], "not only 32-bit integers"),
        ("tree_param", {"size_leaf_vector": "3"}, "vectors as leaves"),
        ("parents", [0, 0], "1 nodes and 2 parents"),
        ("id", 4, "says that it is tree 4"),
    ],
)
def test_raw_trees_that_cannot_be_mended_are_refused(key: str, value: Any, message: str) -> None:
    none = [0]
    one_leaf = {
        "left_children": [-1],
        "right_children": [-1],
        "split_indices": none,
        "default_left": none,
        "split_conditions": none,
        "split_type": none,
    }
    content = {
        "learner": {
            "feature_names": ["a"],
            "gradient_booster": {"name": "gbtree", "model": {"trees": [one_leaf]}},
            "learner_model_param": {"base_score": "5E-1"},
            "objective": {"name": "rank:ndcg"},
        },
        "version": [3, 0, 0],
    }
    assert from_raw(content).base == 0.5
    one_leaf[key] = value
    if key in {"split_indices", "left_children"}:
        one_leaf["left_children"] = one_leaf["right_children"] = [5]
    with pytest.raises(BadInput, match=message):
        from_raw(content)


def test_the_first_format_that_scores_a_model_exactly_is_chosen(rng: np.random.Generator) -> None:
    zeros, native = zero_model(rng), from_raw(raw(trained(rng)))
    assert plugin_definition(zeros, NAMES, OLD)[0] == XGBOOST
    assert plugin_definition(zeros, NAMES, MIDDLE)[0] == RANKLIB
    assert plugin_definition(zeros, NAMES, NEW)[0] == XGBOOST
    assert plugin_definition(native, NAMES, NEW)[0] == XGBOOST
    with pytest.raises(Refused, match="elsewhere than opensearch 3"):
        plugin_definition(native, NAMES, MIDDLE)
    with pytest.raises(Refused, match="kind 'linear' has no form"):
        plugin_definition(LinearModel(NAMES, np.ones(4)), NAMES, NEW)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("iteration_indptr", [1, 2, 3], "do not run from 0 to its 8 trees"),
        ("iteration_indptr", [0, 9], "do not run from 0 to its 8 trees"),
        ("tree_info", [0, 1], "several outputs"),
        ("tree_info", [0], "8 trees and 1 of 'tree_info'"),
        ("trees", [], "0 trees and 8 of"),
    ],
)
def test_raw_models_that_contradict_themselves_are_refused(
    rng: np.random.Generator, key: str, value: Any, message: str
) -> None:
    content = raw(trained(rng))
    inner = content["learner"]["gradient_booster"]["model"]
    child = inner["trees"][0]["left_children"][0]
    inner[key] = value
    with pytest.raises(BadInput, match=message):
        from_raw(content)
    again = raw(trained(rng))
    again["learner"]["gradient_booster"]["model"]["trees"][0]["parents"][child] = 3
    with pytest.raises(BadInput, match="names another parent"):
        from_raw(again)


def test_what_the_plugin_says_of_missing_values_is_read_from_a_raw_model_too(
    rng: np.random.Generator,
) -> None:
    model = from_raw(raw(trained(rng)))
    written = to_raw(model, NAMES, NEW)
    rows = np.full((3, len(NAMES)), np.nan, np.float32)
    assert (from_raw(written).score(rows) == model.score(rows)).all()
    zeros = model.with_missing_as_zero()
    assert (zeros.score(rows) != model.score(rows)).any()
    assert (from_raw({**written, "missing_as_zero": True}).score(rows) == zeros.score(rows)).all()
    with pytest.raises(BadInput, match="not true or false"):
        from_raw({**written, "missing_as_zero": 1})
