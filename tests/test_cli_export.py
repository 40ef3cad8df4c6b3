"""`owpc-ltr export`: the file that each engine takes, which scores there by its rules as here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.emulator import emulate
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST, serving_profile
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.xgboost_model import from_raw
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import save_model, with_record
from owpc_ltr.models.trees import TreeModel
from tests.commands import Run, commands_in
from tests.format_scores import elastic_score, solr_score
from tests.xgboost_samples import NAMES, data, raw, trained, zero_model

FEATURES = FeatureSet("f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES))
LINEAR = LinearModel(NAMES, np.array([0.1, 2.0, 0.0, -3.0]), {"b": Normaliser("min_max", 1.0, 3.0)})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    Path(tmp_path / "set.json").write_text(json.dumps(FEATURES.to_body()))
    return commands_in(tmp_path, monkeypatch, capsys)


@pytest.fixture
def zeros(rng: np.random.Generator) -> TreeModel:
    """A model that takes missing features as 0, with a base score."""
    return zero_model(rng, base_score=0.3)


def written(run: Run, *words: str) -> tuple[str, Any]:
    code, out, err = run("export", "m.json", "--out", "out.json", *words)
    assert (code, err) == (0, "")
    return out, json.loads(Path("out.json").read_text())


def test_trees_for_the_plugin_take_the_form_that_the_version_scores_exactly(
    run: Run, zeros: TreeModel, rng: np.random.Generator
) -> None:
    rows, _ = data(rng)
    save_model(zeros, Path("m.json"))
    for version, kind in (("2.19.6", XGBOOST), ("3.5", RANKLIB), ("3.8", XGBOOST)):
        out, body = written(run, "--for", "opensearch", "--version", version, "--name", "m")
        made = body["model"]["model"]
        assert f"{kind} for opensearch {version}; send it by POST" in out
        assert (body["model"]["name"], made["type"]) == ("m", kind)
        stored = StoredModel("m", kind, made["definition"], FEATURES)
        scores = emulate(stored, rows, serving_profile("opensearch", version))
        assert scores == pytest.approx(zeros.score(rows), abs=1e-6)


def test_linear_models_keep_their_normalisers(run: Run, rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    save_model(LINEAR, Path("m.json"))
    out, body = written(run, "--for", "elasticsearch", "--version", "9.0.8",
                        "--featureset", "set.json")  # fmt: skip
    assert "POST /_ltr/_featureset/f/_createmodel" in out
    made = body["model"]["model"]
    stored = StoredModel(
        "m", made["type"], made["definition"], FEATURES, made["feature_normalizers"]
    )
    scores = emulate(stored, rows, serving_profile("elasticsearch", "9.0.8"))
    assert scores == pytest.approx(LINEAR.score(rows), rel=1e-6, abs=1e-6)


def test_elasticsearchs_own_takes_the_queries_along(run: Run, rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    model = from_raw(raw(trained(rng)))
    save_model(model, Path("m.json"))
    words = ("--for", "elastic", "--version", "9.1")
    code, _, err = run("export", "m.json", "--out", "out.json", *words)
    assert code == 2
    assert "give --featureset FILE" in err
    assert not Path("out.json").exists()
    out, body = written(run, *words, "--featureset", "set.json", "--name", "mine")
    assert "PUT /_ml/trained_models/mine" in out
    assert len(body["inference_config"]["learning_to_rank"]["feature_extractors"]) == 4
    scores = [elastic_score(body["definition"], row) for row in rows]
    assert scores == pytest.approx(model.score(rows), abs=1e-9)


def test_solr_takes_trees_and_linear_models(
    run: Run, zeros: TreeModel, rng: np.random.Generator
) -> None:
    rows, _ = data(rng)
    save_model(zeros, Path("m.json"))
    out, body = written(run, "--for", "solr", "--version", "9.8", "--name", "mine")
    assert "PUT /solr/COLLECTION/schema/model-store" in out
    assert body["name"] == "mine"
    scores = [solr_score(body, dict(zip(NAMES, row, strict=True))) for row in rows]
    assert scores == pytest.approx(zeros.score(rows), abs=1e-6)
    save_model(LINEAR, Path("m.json"))
    assert written(run, "--for", "solr", "--version", "9.8")[1]["class"].endswith("LinearModel")


def test_what_an_engine_cannot_score_so_is_refused_and_nothing_is_written(
    run: Run, rng: np.random.Generator
) -> None:
    native = from_raw(raw(trained(rng)))
    save_model(native, Path("m.json"))
    for words, code, fragment in (
        (("--for", "solr", "--version", "9.8"), 5, "send a missing feature elsewhere than solr"),
        (("--for", "opensearch", "--version", "3.5"), 5, "elsewhere than opensearch 3.5 does"),
        (("--for", "opensearch", "--version", "new"), 2, "'new' is not a version"),
        (("--for", "lucene", "--version", "8"), 2, "installed: elastic, elasticsearch, opensearch"),
        (("--for", "vespa", "--version", "7"), 2, "vespa 7 is not known here"),
        (("--for", "solr", "--version", "9.8", "--set", "loss.p=1"), 2, "has no 'loss' to set"),
        (("--for", "solr", "--version", "9.8", "--set", "target.shop=x"), 2, "no setting 'shop'"),
        (("--for", "solr", "--version", "9.8", "--name", "a/b"), 2, "cannot name a model"),
        (("--for", "opensearch", "--version", "3.8", "--featureset", "no.json"), 3, "no.json"),
    ):
        ended, out, err = run("export", "m.json", "--out", "out.json", *words)
        assert (ended, out, err.count("\n")) == (code, "", 1), err
        assert fragment in err
    changed = with_record(native, {"featureset_hash": "f" * 64})
    save_model(changed, Path("m.json"))
    known = ("--for", "opensearch", "--version", "3.8", "--featureset", "set.json", "--json")
    ended, _, err = run("export", "m.json", "--out", "out.json", *known)
    assert ended == 5
    assert "has changed since" in err
    assert not Path("out.json").exists()
    save_model(native, Path("m.json"))
    out, _ = written(run, *known)
    assert json.loads(out) == {
        "for": "opensearch 3.8",
        "type": XGBOOST,
        "request": "POST /_ltr/_featureset/f/_createmodel",
    }
