"""Trees as a search's rescorer: what the file holds is what the store would send."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from owpc_ltr_exports.plugin_free_trees import PluginFreeTreesTarget

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.trees import LINKS, TreeModel
from tests.models import random_forest

NAMES = ("title", "body", "size")
FEATURES = FeatureSet("f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES))
DOCUMENTS = np.round(np.random.default_rng(1).normal(size=(80, 3)), 1).astype(np.float32)


def model(link: str = "identity", depth: int = 3) -> TreeModel:
    forest = random_forest(np.random.default_rng(2), DOCUMENTS, trees=9, depth=depth)
    return TreeModel(NAMES, forest, 0.2, link)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("depth", [0, 3])
def test_the_file_alone_scores_as_the_model_does_but_for_a_constant(link: str, depth: int) -> None:
    target = PluginFreeTreesTarget()
    ranker = model(link, depth)
    made = target.export(ranker, "m", "3.8", FEATURES)
    difference = target.scores(made, NAMES, DOCUMENTS) - ranker.score(DOCUMENTS)
    assert np.ptp(difference) < 1e-5


def test_the_window_is_a_setting_and_beyond_it_the_searchs_order_is_kept() -> None:
    made = PluginFreeTreesTarget(window=37).export(model(), "m", "3.8", FEATURES)
    (clause,) = json.loads(made.text)["rescore"]
    assert clause["window_size"] == 37
    assert clause["query"]["query_weight"] == 2.0**-100
    with pytest.raises(ValueError, match="1 to 10000"):
        PluginFreeTreesTarget(window=0)


def test_templates_that_are_text_cannot_stand_in_a_body() -> None:
    text = Feature("title", ("q",), '{"match": {"title": "{{q}}"}}')
    mixed = replace(FEATURES, features=(text, *FEATURES.features[1:]))
    with pytest.raises(Refused, match="'title' is mustache text"):
        PluginFreeTreesTarget().export(model(), "m", "3.8", mixed)


def test_a_set_of_queries_is_needed_and_an_engine_of_this_world() -> None:
    with pytest.raises(UsageError, match="--featureset"):
        PluginFreeTreesTarget().export(model(), "m", "3.8")
    with pytest.raises(UsageError, match="choose 1"):
        PluginFreeTreesTarget().export(model(), "m", "0.90", FEATURES)


@pytest.mark.parametrize("old", ["params.floor", "params.step", '"rescore"', '"feature"'])
def test_another_script_or_no_script_is_not_read_as_ours(old: str) -> None:
    made = PluginFreeTreesTarget().export(model(), "m", "3.8", FEATURES)
    damaged = replace(made, text=made.text.replace(old, old.replace("r", "x").replace("f", "x")))
    assert damaged != made
    with pytest.raises(BadInput, match="no rescoring by tables"):
        PluginFreeTreesTarget().scores(damaged, NAMES, DOCUMENTS)
