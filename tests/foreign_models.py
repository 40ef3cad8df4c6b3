"""XGBoost models of small random data, and scores as Elasticsearch defines them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xgboost

from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.stored_model import StoredModel, serving_profile
from owpc_ltr.formats.xgboost_json import from_raw
from owpc_ltr.models.trees import TreeModel

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


def zero_model(rng: np.random.Generator, **settings: Any) -> TreeModel:
    """A model of data without missing values, for engines that know only zeros."""
    return from_raw(raw(trained(rng, missing=0.0, **settings))).with_missing_as_zero()


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
