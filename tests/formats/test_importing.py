"""Importing models by what their files hold."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from owpc_ltr import import_model, save_model
from owpc_ltr.errors import BadInput
from owpc_ltr.formats.ranklib import to_ranklib
from owpc_ltr.formats.stored_model import LINEAR, XGBOOST, serving_profile
from owpc_ltr.formats.xgboost_json import from_raw, to_dump
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import TreeModel

NAMES = ("title", "pop", "n")
NEW = serving_profile("opensearch", "3.8.0")


def rows_and_labels(rng: np.random.Generator) -> tuple[Any, Any]:
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    return rows, (np.nan_to_num(rows[:, 0]) > np.nan_to_num(rows[:, 1])).astype(float)


def boosted(rng: np.random.Generator, names: list[str] | None) -> tuple[xgboost.Booster, Any]:
    rows, labels = rows_and_labels(rng)
    matrix = xgboost.DMatrix(rows, labels, feature_names=names)
    return xgboost.train({"max_depth": 3, "nthread": 1}, matrix, 6), rows


def test_each_kind_of_file_is_known_by_its_content(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    booster, rows = boosted(rng, list(NAMES))
    wanted = booster.predict(xgboost.DMatrix(rows, feature_names=list(NAMES)))
    path = tmp_path / "model"  # a name that tells nothing

    booster.save_model(tmp_path / "m.json")
    path.write_bytes((tmp_path / "m.json").read_bytes())
    whole = import_model(path)
    assert isinstance(whole, TreeModel)
    assert whole.score(rows) == pytest.approx(wanted, abs=1e-6)
    assert whole.record["imported"]["format"] == "model/xgboost+json+raw"
    save_model(whole, tmp_path / "own.json")
    assert import_model(tmp_path / "own.json").as_dict() == whole.as_dict()

    dump = booster.get_dump(dump_format="json")
    path.write_text("[" + ",\n".join(dump) + "]")
    assert import_model(path, feature_names=NAMES).score(rows) + whole.base == pytest.approx(
        wanted, abs=1e-6
    )

    zeros = whole.with_missing_as_zero()
    path.write_text(to_ranklib(zeros, NAMES, NEW))
    assert import_model(path, feature_names=NAMES).score(rows) == pytest.approx(
        zeros.score(rows), abs=1e-6
    )

    labels = rows_and_labels(rng)[1]
    light = lightgbm.train(
        {"objective": "regression", "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(rows, labels, feature_name=list(NAMES)),
        5,
    )
    light.save_model(path)
    assert import_model(path).score(rows) == pytest.approx(light.predict(rows), abs=1e-9)


def test_numbered_features_take_the_names_in_order(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    booster, rows = boosted(rng, None)
    wanted = booster.predict(xgboost.DMatrix(rows))
    path = tmp_path / "m.json"
    booster.save_model(path)
    whole = import_model(path, feature_names=NAMES)
    assert isinstance(whole, TreeModel)
    assert whole.feature_names == NAMES
    assert whole.score(rows) == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(BadInput, match="has no feature names"):
        import_model(path)
    path.write_text("[" + ",".join(booster.get_dump(dump_format="json")) + "]")
    numbered = import_model(path, feature_names=NAMES)
    assert numbered.feature_names == NAMES
    assert numbered.score(rows) + whole.base == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(BadInput, match="does not name its features"):
        import_model(path)


def test_a_stored_model_brings_its_feature_set(rng: np.random.Generator, tmp_path: Path) -> None:
    features = [{"name": name, "params": [], "template": {"match_all": {}}} for name in NAMES]
    normalisers = {"pop": {"standard": {"mean": 1.5, "standard_deviation": 2.0}}}
    model = {
        "type": LINEAR,
        "definition": json.dumps({"title": 0.5, "pop": 2}),
        "feature_normalizers": normalisers,
    }
    inner = {"name": "m", "feature_set": {"name": "f", "features": features}, "model": model}
    wanted = LinearModel(
        NAMES, np.array([0.5, 2.0, 0.0]), {"pop": Normaliser("standard", 1.5, 2.0)}
    )
    path = tmp_path / "m.json"
    for content in ({"_source": {"type": "model", "model": inner}}, {"model": inner}, inner):
        path.write_text(json.dumps(content))
        imported = import_model(path)
        assert isinstance(imported, LinearModel)
        assert imported.feature_names == NAMES
        assert imported.as_dict() == wanted.as_dict()
    path.write_text(json.dumps({"type": LINEAR, "definition": {"a": 1}}))
    assert import_model(path).feature_names == ("a",)

    trees = from_raw(json.loads(boosted(rng, list(NAMES))[0].save_raw("json")))
    path.write_text(json.dumps({"type": XGBOOST, "definition": to_dump(trees, NAMES, NEW)}))
    rows, _ = rows_and_labels(rng)
    assert import_model(path, feature_names=NAMES).score(rows) == pytest.approx(
        trees.score(rows), abs=1e-6
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a model in a known format"),
        (b"hello", "not a model in a known format"),
        (b"{}", "it is JSON with no key, and not a model in a known format"),
        (b"[]", "does not name its features"),
        (b'{"learner": {}}', "has no feature names"),
        (b'{"type": "model/x", "definition": {}}', "no LTR plugin has"),
        (
            b'{"type": "a\\nb", "definition": {}, "feature_normalizers": {"f": 1}}',
            r'type "a\\nb" with norm',
        ),
        (b'{"format": "owpc-ltr model", "kind": "x"}', "kind 'x'"),
        (pickle.dumps({"a": 1}), "is binary"),
        (b"{L\x00\x00learner", "save_model"),
        (b"\xff\xfe\xfdtext", "neither JSON nor text"),
        (b"## LambdaMART\n", "does not name its features"),
        (b"tree\nversion=v4\n", "cut short"),
    ],
)
def test_a_file_that_is_no_model_is_named_in_one_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "some.file"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        import_model(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_xgboost_file_in_ubjson_is_told_from_json(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    boosted(rng, list(NAMES))[0].save_model(tmp_path / "m.ubj")
    with pytest.raises(BadInput, match=r"save_model\('model\.json'\)"):
        import_model(tmp_path / "m.ubj")
    with pytest.raises(BadInput, match="No such file"):
        import_model(tmp_path / "absent")
