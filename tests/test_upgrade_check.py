"""`owpc-ltr upgrade-check`: an upgrade's effect on rankings, with an exit code for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xgboost

from owpc_ltr import RankingDataset, make_dataset, save_dataset, save_model
from owpc_ltr.engine.client.engine import Engine, Identity
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.model_conversion import export_linear
from owpc_ltr.formats.stored_model import model_source
from owpc_ltr.formats.upgrade_report import deploy
from owpc_ltr.formats.xgboost_json import from_dump, from_raw
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import parity_samples_of, with_record
from tests.commands import Run

NAMES = ("title", "pop", "n")
FACTOR = {"function_score": {"field_value_factor": {"field": "x"}, "boost_mode": "replace"}}
FEATURESET = FeatureSet(
    "f",
    (
        Feature("title", ("q",), {"match": {"title": "{{q}}"}}),
        Feature("pop", (), FACTOR),
        Feature("n", (), FACTOR),
    ),
)


def checked(run: Run, before: str, after: str, *more: str) -> tuple[int, dict[str, Any], str]:
    words = (
        "upgrade-check",
        "--model",
        "m.json",
        "--data",
        "d.parquet",
        "--from",
        before,
        "--to",
        after,
    )
    code, out, err = run(*words, *more, "--json")
    return code, json.loads(out), err


@pytest.fixture
def data(rng: np.random.Generator, run: Run) -> RankingDataset:
    """A data file and a feature set file; a third of the values are missing."""
    rows = rng.normal(size=(600, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    # A missing title is as good as a high one, a missing pop as good as a low one.
    labels = ~(rows[:, 0] < 0.5) & ~(rows[:, 1] > 0.5)
    made = make_dataset(rows, labels, np.repeat(np.arange(30), 20), feature_names=NAMES)
    save_dataset(made, Path("d.parquet"))
    Path("f.json").write_text(json.dumps(FEATURESET.to_body()))
    return made


@pytest.fixture
def trees(data: RankingDataset) -> None:
    """A model file of trees that have learned from missing values."""
    matrix = xgboost.DMatrix(data.features, data.labels, feature_names=list(NAMES))
    booster = xgboost.train({"max_depth": 3, "nthread": 1}, matrix, 10)
    save_model(from_raw(json.loads(booster.save_raw("json"))), Path("m.json"))


def test_without_data_a_model_file_is_tried_on_what_it_remembers(
    run: Run, rng: np.random.Generator
) -> None:
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    data = make_dataset(
        rows,
        ~(rows[:, 0] < 0.5),
        np.repeat(np.arange(15), 20),
        feature_names=NAMES,
        doc_ids=pa.array([f"d{row}" for row in range(300)]),
        query_params=pa.array(["{}"] * 15),
    )
    save_dataset(data, Path("d.parquet"))
    matrix = xgboost.DMatrix(data.features, data.labels, feature_names=list(NAMES))
    model = from_raw(json.loads(xgboost.train({"nthread": 1}, matrix, 10).save_raw("json")))
    save_model(model, Path("m.json"))
    words = ("upgrade-check", "--model", "m.json", "--from", "3.1", "--to", "3.8", "--json")
    code, _, err = run(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "m.json remembers no judged documents: give --data FILE" in err
    save_model(with_record(model, {"probes": parity_samples_of(data)}), Path("m.json"))
    code, out, _ = run(*words)
    assert code == 5
    code, told, _ = checked(run, "3.1", "3.8")
    assert json.loads(out) == {**told, "data": "m.json itself"}


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(("before", "after"), [("3.1", "3.3"), ("3.3", "3.8"), ("3.1", "3.8")])
def test_trees_that_learned_from_missing_values_change_with_the_rule(
    run: Run, before: str, after: str
) -> None:
    code, told, err = checked(run, before, after)
    assert code == 5
    assert err.count("\n") == 1
    assert "changes rankings" in err
    assert told["changes_rankings"]
    assert told["reordered"] > 10
    assert told["rescored"] > 50
    assert told["mean_tau"] < 0.99
    assert "send a missing feature elsewhere" in told["inexact_before"]
    quality = told["ndcg@10"]
    assert quality["before"] < quality["as_trained"]
    # From 3.8 the engine follows each split, as the model was trained.
    assert (quality["after"] == pytest.approx(quality["as_trained"], abs=1e-9)) is (after == "3.8")


@pytest.mark.usefixtures("trees")
def test_nothing_changes_between_versions_of_one_rule(run: Run) -> None:
    for before, after in (("3.8", "3.9"), ("2.19", "3.1")):
        code, told, err = checked(run, before, after, *["--featureset", "f.json"] * (before < "3"))
        if before == "3.8":
            assert (code, err, told["rescored"], told["reordered"]) == (0, "", 0, 0)
            assert told["inexact_before"] is None
        else:
            assert told["bm25_features"] == ["title"]
    words = ("--model", "m.json", "--data", "d.parquet", "--from", "3.8", "--to", "3.9")
    assert "no score of 600 documents changes, and no order" in run.output("upgrade-check", *words)


@pytest.mark.usefixtures("data")
def test_a_linear_model_is_only_warned_of_text_scores(run: Run) -> None:
    save_model(LinearModel(NAMES, np.array([0.0, 1.0, -2.0])), Path("m.json"))
    code, told, err = checked(run, "2.19", "3.8")
    assert (code, err, told["rescored"], told["mean_tau"]) == (0, "", 0, 1.0)
    assert told["bm25_unsure"] == list(NAMES)
    words = ("--model", "m.json", "--data", "d.parquet", "--from", "2.19", "--to", "3.8")
    _, out, _ = run("upgrade-check", *words)
    assert "cannot be judged: title, pop, n" in out
    assert "as long as these do not matter, no score" in out
    code, told, _ = checked(run, "2.19", "3.8", "--featureset", "f.json")
    assert (code, told["bm25_features"], told["bm25_unsure"]) == (0, ["title"], [])
    code, told, _ = checked(run, "3.1", "3.8")
    assert (code, told["rescored"], told["bm25_unsure"]) == (0, 0, [])


@pytest.mark.usefixtures("data")
def test_text_scores_that_weigh_against_others_change_orders(run: Run) -> None:
    save_model(LinearModel(NAMES, np.array([1.0, 1.0, 0.0])), Path("m.json"))
    code, told, _ = checked(run, "2.19", "3.8", "--featureset", "f.json")
    assert code == 5
    assert told["reordered"] > 10
    assert told["bm25_factor"] == pytest.approx(1 / 2.2)
    # Elasticsearch has kept the old factor.
    more = ("--distribution", "elasticsearch", "--featureset", "f.json")
    assert checked(run, "8.15", "9.1", *more)[0] == 0


@pytest.mark.usefixtures("data")
def test_a_model_as_the_store_keeps_it_is_judged_too(run: Run) -> None:
    stored = export_linear(LinearModel(NAMES, np.array([1.0, 1.0, 0.0])), FEATURESET, "m")
    content = {"name": "m", "type": "model", "model": model_source(stored)}
    for body in (content, {"_index": ".ltrstore", "_source": content}):
        Path("m.json").write_text(json.dumps(body))
        code, told, _ = checked(run, "2.19", "3.8")
        assert (code, told["bm25_features"]) == (5, ["title"])
        assert told["ndcg@10"]["as_trained"] is None


@pytest.mark.usefixtures("trees")
def test_the_cluster_is_asked_for_its_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(_: Engine) -> Identity:
        return Identity("opensearch", "3.1.0", "c", "u", ())

    monkeypatch.setattr(Engine, "identity", identity)
    words = ("upgrade-check", "--model", "m.json", "--data", "d.parquet", "--to", "3.8")
    code, out, _ = run(*words, "--url", "http://127.0.0.1:1")
    assert code == 5
    assert "from opensearch 3.1.0 to opensearch 3.8" in out
    err = run.refusal(2, *words, "--distribution", "elasticsearch", "--url", "http://127.0.0.1:1")
    assert "runs opensearch, not elasticsearch" in err


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        (("--from", "x", "--to", "3.8"), 2, "'x' is not a version"),
        (("--from", "3.1", "--to", "3.8", "--distribution", "solr"), 2, "solr"),
        (("--from", "3.1", "--to", "3.8", "--featureset", "g.json"), 3, "lacks 'pop'"),
        (("--from", "3.1", "--to", "3.8", "--model", "f.json"), 3, "import it first"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused_in_one_line(
    run: Run, words: tuple[str, ...], code: int, fragment: str
) -> None:
    few = FeatureSet("g", FEATURESET.features[:1])
    Path("g.json").write_text(json.dumps(few.to_body()))
    ended, out, err = run("upgrade-check", "--model", "m.json", "--data", "d.parquet", *words)
    assert (ended, out, err.count("\n")) == (code, "", 1)
    assert fragment in err


def test_a_feature_that_matches_every_document_makes_no_version_inexact() -> None:
    leaves = [{"nodeid": 1, "leaf": 1.0}, {"nodeid": 2, "leaf": 2.0}]
    split = {"nodeid": 0, "depth": 0, "split": "pop", "split_condition": -1.0, "yes": 1, "no": 2}
    # A missing value goes left, and 0 right: no format of 3.5 does that.
    model = from_dump([{**split, "missing": 1, "children": leaves}], NAMES)
    old = serving_profile("opensearch", "3.5")
    assert deploy(model, old, FEATURESET).inexact is None
    assert "send a missing feature elsewhere" in str(deploy(model, old, None).inexact)
