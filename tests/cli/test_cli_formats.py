"""`owpc-ltr import` and `export`: models of other libraries and engines, with the same scores."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

from owpc_ltr import RankingDataset, make_dataset, save_dataset, save_model
from owpc_ltr.data.splits import known_sides
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.other_trees import from_sklearn
from owpc_ltr.formats.stored_model import RANKLIB, XGBOOST, StoredModel, serving_profile
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model, with_record
from owpc_ltr.models.trees import TreeModel
from tests.commands import Run
from tests.foreign_models import NAMES as NAMES_EXPORT
from tests.foreign_models import data as data_export
from tests.foreign_models import elastic_score, raw, trained, zero_model

NAMES = ("title", "pop", "n")


@pytest.fixture
def data(rng: np.random.Generator) -> RankingDataset:
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    labels = np.nan_to_num(rows[:, 0]) > np.nan_to_num(rows[:, 1])
    return make_dataset(
        rows,
        labels,
        np.repeat(np.arange(15), 20),
        feature_names=NAMES,
        doc_ids=pa.array([f"d{i}" for i in range(300)]),
        query_params=pa.array(['{"keywords": "a"}'] * 15),
        featureset_hash="0" * 64,
    )


def boosted(data: RankingDataset, names: list[str] | None, **settings: Any) -> xgboost.Booster:
    matrix = xgboost.DMatrix(data.features, data.labels, feature_names=names)
    return xgboost.train({"max_depth": 3, "nthread": 1, **settings}, matrix, 6)


def test_an_import_that_is_imported_again_is_the_same_model(run: Run, data: RankingDataset) -> None:
    Path("names.txt").write_text("\n".join(NAMES))
    boosted(data, list(NAMES), base_score=0.3).save_model("xgb.json")
    output = run.output("import", "xgb.json", "--out", "1.json", "--missing", "zero")
    assert "missing features go where 0 goes" in output
    for source, out in (("1.json", "2.json"), ("2.json", "3.json")):
        code, output, err = run("import", source, "--out", out, "--features", "names.txt")
        assert (code, err) == (0, "")
        assert "from model/xgboost+json+raw" in output
    first, third = (load_scoring_model(f"{number}.json") for number in (1, 3))
    assert (first.score(data.features) == third.score(data.features)).all()
    assert first.record["imported"] == third.record["imported"]
    # A model that was trained here has no import to tell of.
    save_model(LinearModel(NAMES, np.ones(3)), "own.json")
    assert "from owpc-ltr" in run.output("import", "own.json", "--out", "again.json")


NO_MODELS: dict[str, list[Any]] = {
    "kind": [[], {}, None, 5, "\x1b[31m"],
    "weights": [[value, 1, 1] for value in (10**400, True, "1", None, [1], -(10**400))],
    "feature_names": ["abc", [1, 2, 3], [["a"], "b", "c"], {"a": 1}, None],
    "record": [
        *([], [["imported", 1]], "x", 5, None),
        *({"imported": []}, {"imported": "x"}, {"imported": 5}, {"imported": True}),
        *({"source": []}, {"source": "x"}, {"source": {"split": []}}),
    ],
    "normalisers": [
        {"title": 5},
        {"title": []},
        {"title": {"kind": [], "shift": 0, "scale": 1}},
        {"title": {"kind": "standard", "shift": 10**400, "scale": 1}},
        {"title": {"kind": "standard", "shift": 0, "scale": 1e-320}},
        {"title": {"kind": "standard", "shift": "0", "scale": "1"}},
    ],
}
DAMAGES = [(key, value) for key, values in NO_MODELS.items() for value in values]


@pytest.mark.parametrize(("key", "value"), DAMAGES)
def test_a_damaged_model_file_is_one_line(
    run: Run, data: RankingDataset, key: str, value: Any
) -> None:
    save_model(LinearModel(NAMES, np.ones(3)), "m.json")
    content = json.loads(Path("m.json").read_text())
    Path("m.json").write_text(json.dumps({**content, key: value}))
    save_dataset(data, Path("data.parquet"))
    for words in (
        ("import", "m.json", "--out", "o.json"),
        ("evaluate", "m.json", "--data", "data.parquet"),
    ):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert err[:-1].isprintable()
        assert len(err) < 400


def test_an_xgboost_model_is_imported_and_evaluated(run: Run, data: RankingDataset) -> None:
    booster = boosted(data, list(NAMES), base_score=0.3)
    booster.save_model("xgb.json")
    save_dataset(data, Path("data.parquet"))
    code, out, err = run("import", "xgb.json", "--data", "data.parquet", "--out", "m.json")
    assert (code, err) == (0, "")
    assert out.startswith("a trees model of 3 features, from model/xgboost+json+raw")
    assert "base score" in out
    model = load_scoring_model(Path("m.json"))
    wanted = booster.predict(xgboost.DMatrix(data.features, feature_names=list(NAMES)))
    assert model.score(data.features) == pytest.approx(wanted, abs=1e-6)
    # What `upload` asks of a model: documents to score again, and the feature set.
    assert len(model.record["probes"]) == 15
    assert model.record["featureset_hash"] == "0" * 64
    # What a gain must not be measured on.
    assert model.record["source"]["data"] == "data.parquet"
    assert (known_sides(model.record, data) == "train").all()  # type: ignore[union-attr]
    out = run.output("evaluate", "m.json", "--data", "data.parquet", "--json")
    assert json.loads(out)["rankers"][0]["metrics"][0]["mean"] > 0.8


def test_trees_after_the_best_iteration_are_left_out_and_told(
    run: Run, data: RankingDataset
) -> None:
    booster = boosted(data, list(NAMES))
    booster.set_attr(best_iteration="3")
    booster.save_model("xgb.json")
    assert "4 of 6 kept" in run.output("import", "xgb.json", "--out", "m.json")


@pytest.mark.parametrize("named", [True, False])
def test_a_lightgbm_model_takes_the_names_of_the_feature_set(
    run: Run, data: RankingDataset, named: bool
) -> None:
    names = ["pop", "n", "title"] if named else "auto"
    rows = data.features[:, [1, 2, 0]] if named else data.features
    train = lightgbm.Dataset(rows, data.labels, feature_name=names)
    light = lightgbm.train({"verbosity": -1, "num_threads": 1}, train, 5)
    light.save_model("light.txt")
    features = tuple(Feature(name, (), {"match_all": {}}) for name in NAMES)
    Path("f.json").write_text(json.dumps(FeatureSet("f", features).to_body()))
    out = run.output("import", "light.txt", "--featureset", "f.json", "--out", "m.json", "--json")
    result = json.loads(out)
    assert result["features"] == list(NAMES)
    assert any("next float32" in note for note in result["notes"])
    assert any(("in the order" if named else "only numbered") in n for n in result["notes"])
    model = load_scoring_model(Path("m.json"))
    assert model.score(data.features) == pytest.approx(light.predict(rows), abs=1e-9)
    assert model.record["featureset_hash"] == FeatureSet("f", features).hash


def test_a_scikit_learn_model_goes_the_way_of_our_own_file_and_never_as_a_pickle(
    run: Run, data: RankingDataset
) -> None:
    estimator = HistGradientBoostingRegressor(max_iter=5).fit(data.features, data.labels)
    save_model(from_sklearn(estimator, NAMES), Path("own.json"))
    Path("names.txt").write_text("n\ntitle\npop\n")
    out = run.output("import", "own.json", "--features", "names.txt", "--out", "m.json")
    assert "in the order" in out
    scores = load_scoring_model(Path("m.json")).score(data.features[:, [2, 0, 1]])
    assert scores == pytest.approx(estimator.predict(data.features), abs=1e-6)
    Path("model.pkl").write_bytes(pickle.dumps(estimator))
    assert "pickles are never read" in run.refusal(3, "import", "model.pkl", "--out", "p.json")
    assert not Path("p.json").exists()


def test_a_dump_is_said_to_lack_what_makes_a_dart_models_order(
    run: Run, data: RankingDataset
) -> None:
    booster = boosted(data, list(NAMES), booster="dart", rate_drop=0.5, seed=3)
    booster.save_model("dart.json")
    trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    Path("dump.json").write_text(json.dumps(trees))
    Path("names.txt").write_text("\n".join(NAMES))
    scores = []
    for file in ("dart.json", "dump.json"):
        out = run.output("import", file, "--features", "names.txt", "--out", "m.json")
        scores.append(load_scoring_model(Path("m.json")).score(data.features))
    assert "of one, import its file (save_model) instead" in out
    # Not even up to a constant.
    assert np.ptp(scores[1] - scores[0]) > 1e-3
    wanted = booster.predict(xgboost.DMatrix(data.features, feature_names=list(NAMES)))
    assert scores[0] == pytest.approx(wanted, abs=1e-6)


def test_our_own_tree_model_is_put_on_more_columns_without_another_score(
    run: Run, data: RankingDataset
) -> None:
    boosted(data, list(NAMES)).save_model("xgb.json")
    Path("names.txt").write_text("x\nn\ntitle\ny\npop\n")
    out = run.output("import", "xgb.json", "--features", "names.txt", "--out", "m.json")
    assert "2 of them it does not use" in out
    wide = np.full((300, 5), 9.0, np.float32)
    wide[:, [2, 4, 1]] = data.features
    assert run("import", "xgb.json", "--out", "n.json")[0] == 0
    narrow = load_scoring_model(Path("n.json"))
    assert isinstance(narrow, TreeModel)
    assert (load_scoring_model(Path("m.json")).score(wide) == narrow.score(data.features)).all()


@pytest.mark.parametrize(
    ("names", "words", "code", "fragment"),
    [
        ("a\nb\nc\n", (), 3, "needs the feature 'title'"),
        ("title\npop\ntitle\n", (), 3, "line 3"),
        ("\n\n", (), 3, "names no feature"),
        ("title\npop\nn\n", ("--featureset", "names.txt"), 2, "give one"),
        ("title\npop\nn\n", ("--missing", "never"), 2, "never"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    run: Run, data: RankingDataset, names: str, words: tuple[str, ...], code: int, fragment: str
) -> None:
    boosted(data, list(NAMES)).save_model("xgb.json")
    Path("names.txt").write_text(names)
    ended, out, err = run(
        "import", "xgb.json", "--features", "names.txt", *words, "--out", "m.json"
    )
    assert (ended, out) == (code, "")
    assert err.count("\n") == 1
    assert fragment in err
    assert not Path("m.json").exists()


FEATURES = FeatureSet("f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES_EXPORT))


PLUGIN = ("--for", "opensearch", "--version", "3.8")


@pytest.fixture
def run_export(run: Run, tmp_path: Path) -> Run:
    Path(tmp_path / "set.json").write_text(json.dumps(FEATURES.to_body()))
    return run


def test_trees_for_the_plugin_take_the_form_that_the_version_scores_exactly(
    run_export: Run, rng: np.random.Generator
) -> None:
    rows, _ = data_export(rng)
    zeros = zero_model(rng, base_score=0.3)
    save_model(zeros, Path("m.json"))
    for version, kind in (("2.19.6", XGBOOST), ("3.5", RANKLIB), ("3.8", XGBOOST)):
        out, body = written(run_export, "--for", "opensearch", "--version", version, "--name", "m")
        made = body["model"]["model"]
        assert f"{kind} for opensearch {version}; send it by POST" in out
        assert (body["model"]["name"], made["type"]) == ("m", kind)
        stored = StoredModel("m", kind, made["definition"], FEATURES)
        scores = emulate(stored, rows, serving_profile("opensearch", version))
        assert scores == pytest.approx(zeros.score(rows), abs=1e-6)


def written(run: Run, *words: str) -> tuple[str, Any]:
    code, out, err = run("export", "m.json", "--out", "out.json", *words)
    assert (code, err) == (0, "")
    return out, json.loads(Path("out.json").read_text())


def test_linear_models_keep_their_normalisers(run_export: Run, rng: np.random.Generator) -> None:
    rows, _ = data_export(rng)
    normalisers = {"b": Normaliser("min_max", 1.0, 3.0)}
    model = LinearModel(NAMES_EXPORT, np.array([0.1, 2.0, 0.0, -3.0]), normalisers)
    save_model(model, Path("m.json"))
    out, body = written(run_export, "--for", "elasticsearch", "--version", "9.0.8",
                        "--featureset", "set.json")  # fmt: skip
    assert "POST /_ltr/_featureset/f/_createmodel" in out
    made = body["model"]["model"]
    stored = StoredModel(
        "m", made["type"], made["definition"], FEATURES, made["feature_normalizers"]
    )
    scores = emulate(stored, rows, serving_profile("elasticsearch", "9.0.8"))
    assert scores == pytest.approx(model.score(rows), rel=1e-6, abs=1e-6)


def test_elasticsearchs_own_takes_the_queries_along(
    run_export: Run, rng: np.random.Generator
) -> None:
    rows, _ = data_export(rng)
    model = from_raw(raw(trained(rng)))
    save_model(model, Path("m.json"))
    words = ("--for", "elastic", "--version", "9.1")
    err = run_export.refusal(2, "export", "m.json", "--out", "out.json", *words)
    assert "give --featureset" in err
    assert not Path("out.json").exists()
    out, body = written(run_export, *words, "--featureset", "set.json", "--name", "mine")
    assert "PUT /_ml/trained_models/mine" in out
    assert len(body["inference_config"]["learning_to_rank"]["feature_extractors"]) == 4
    scores = [elastic_score(body["definition"], row) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-9)


def test_what_an_engine_cannot_score_so_is_refused_and_nothing_is_written(
    run_export: Run, rng: np.random.Generator
) -> None:
    native = from_raw(raw(trained(rng)))
    save_model(native, Path("m.json"))
    for words, code, fragment in (
        (("--for", "opensearch", "--version", "3.5"), 5, "elsewhere than opensearch 3.5 does"),
        (("--for", "opensearch", "--version", "new"), 2, "'new' is not a version"),
        (("--for", "lucene", "--version", "8"), 2, "installed: elastic, elasticsearch, opensearch"),
        (("--for", "elastic", "--version", "8.12"), 2, "no learning to rank of its own"),
        ((*PLUGIN, "--set", "loss.p=1"), 2, "has no 'loss' to set"),
        ((*PLUGIN, "--set", "target.shop=x"), 2, "no setting 'shop'"),
        ((*PLUGIN, "--name", "a/b"), 2, "cannot name a model"),
        ((*PLUGIN, "--featureset", "no.json"), 3, "no.json"),
    ):
        ended, out, err = run_export("export", "m.json", "--out", "out.json", *words)
        assert (ended, out, err.count("\n")) == (code, "", 1), err
        assert fragment in err
    changed = with_record(native, {"featureset_hash": "f" * 64})
    save_model(changed, Path("m.json"))
    known = (*PLUGIN, "--featureset", "set.json", "--json")
    err = run_export.refusal(5, "export", "m.json", "--out", "out.json", *known)
    assert "has changed since" in err
    assert not Path("out.json").exists()
    save_model(native, Path("m.json"))
    out, _ = written(run_export, *known)
    assert json.loads(out) == {
        "for": "opensearch 3.8",
        "type": XGBOOST,
        "request": "POST /_ltr/_featureset/f/_createmodel",
    }
