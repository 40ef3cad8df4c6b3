"""What each feature does in a model: the weight that scores, the splits that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.deployment.deployment_record import describe_model_file
from owpc_ltr.formats.xgboost_model import from_raw
from owpc_ltr.models.average import average
from owpc_ltr.models.feature_use import importances
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import save_model, with_record
from tests.xgboost_samples import NAMES, raw, trained

weights = st.lists(st.floats(-10, 10, width=32), min_size=4, max_size=4)


@given(weights=weights, scale=st.floats(0.125, 8))
def test_a_weight_is_what_one_more_of_the_feature_adds_to_the_score(
    weights: list[float], scale: float
) -> None:
    normalisers = {"b": Normaliser("standard", 1.0, scale)}
    model = LinearModel(NAMES, np.array(weights), normalisers)
    found = importances(model)
    ones = np.eye(4, dtype=np.float32)
    steps = model.score(ones) - model.score(np.zeros((1, 4), np.float32))
    assert [found[name]["weight"] for name in NAMES] == pytest.approx(list(steps), abs=1e-6)
    sizes = [abs(one["weight"]) for one in found.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_splits_gain_and_cover_are_those_that_xgboost_counts(rng: np.random.Generator) -> None:
    booster = trained(rng)
    found = importances(from_raw(raw(booster)))
    splits = booster.get_score(importance_type="weight")
    assert {name: one["splits"] for name, one in found.items() if one["splits"]} == splits
    for fact in ("gain", "cover"):
        totals: dict[str, Any] = booster.get_score(importance_type=f"total_{fact}")
        whole = sum(totals.values())
        told = {name: one[fact] for name, one in found.items() if fact in one}
        assert told == pytest.approx({name: part / whole for name, part in totals.items()})
        assert sum(told.values()) == pytest.approx(1.0)
    gains = [one.get("gain", 0.0) for one in found.values()]
    assert gains == sorted(gains, reverse=True)
    assert all(0 <= one["trees"] <= min(one["splits"], 8) for one in found.values())


@pytest.mark.parametrize("broken", ["absent", "no numbers", "too few", "not finite", "all zero"])
def test_what_the_file_does_not_tell_of_gains_is_left_out_and_scores_all_the_same(
    broken: str, rng: np.random.Generator
) -> None:
    booster = trained(rng)
    content = raw(booster)
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        gains = tree.pop("loss_changes")
        if broken != "absent":
            tree["loss_changes"] = {
                "no numbers": ["x"] * len(gains),
                "too few": gains[:1],
                "not finite": [float("nan")] * len(gains),
                "all zero": [0.0] * len(gains),
            }[broken]
    model = from_raw(content)
    assert all(one.keys() == {"splits", "trees"} for one in importances(model).values())
    rows = rng.normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(model.score(rows), from_raw(raw(booster)).score(rows))


def test_an_average_tells_what_each_of_its_parts_does(rng: np.random.Generator) -> None:
    trees = from_raw(raw(trained(rng)))
    linear = LinearModel(NAMES, np.array([1.0, -2.0, 0.0, 0.5]))
    found = importances(average([trees, linear]))
    assert found["b"]["part 2: weight"] == -2.0
    assert found["b"]["part 1: splits"] == importances(trees)["b"]["splits"]


def test_a_model_file_is_described_without_its_samples(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    trees = from_raw(raw(trained(rng)))
    kept = with_record(trees, {**trees.record, "seed": 7, "probes": [{"query_id": "q"}]})
    save_model(kept, tmp_path / "m.json")
    content, facts, features = describe_model_file(tmp_path / "m.json")
    assert (facts["type"], facts["seed"], facts["features"]) == ("trees", 7, 4)
    assert "probes" not in content["record"]
    assert features == importances(trees)
