"""Export targets by name: what each reads back agrees with another reader, or is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_exports.elastic import Elastic
from owpc_ltr_exports.opensearch import OpenSearch
from owpc_ltr_exports.plugin_free_trees import PluginFreeTreesTarget

from owpc_ltr import OwpcLtrError, export_model, save_model
from owpc_ltr.errors import BadInput, PluginError, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.elastic_trees import rounded_up
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import HIGHEST, LINKS, TreeModel
from tests.commands import Run
from tests.foreign_models import NAMES, data, elastic_score, zero_model
from tests.small_models import random_forest

FEATURES = FeatureSet("f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES))
LINEAR = LinearModel(NAMES, np.array([0.1, 2.0, 0.0, -3.0]))
ONE_ROW = np.zeros((1, 4), dtype=np.float32)
MINE = '''
"""A target of one's own: the weights, one a line."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.errors import Refused
from owpc_ltr.protocols import ExportedFile


@dataclass(frozen=True)
class Lines:
    """One weight a line."""

    name: ClassVar[str] = "lines"
    versions: ClassVar[tuple[str, ...]] = ("1",)

    separator: str = "="

    def export(self, model, name, version, featureset=None):
        if model.kind != "linear":
            raise Refused("only linear models have a form in lines")
        pairs = zip(model.feature_names, model.weights, strict=True)
        text = "".join(f"{name}{self.separator}{weight}\\n" for name, weight in pairs)
        return ExportedFile(text, "lines", f"cat {name}", version)

    def scores(self, exported, feature_names, features):
        weights = dict(line.split(self.separator) for line in exported.text.splitlines())
        return np.nan_to_num(features) @ [float(weights[name]) for name in feature_names]


@hookimpl
def ltr_export_targets():
    return [Lines]
'''


def test_elastics_file_is_read_as_another_reader_reads_it(rng: np.random.Generator) -> None:
    rows, _ = data(rng)
    made = Elastic().export(zero_model(rng, base_score=0.3), "m", "9.1", FEATURES)
    other = [elastic_score(json.loads(made.text)["definition"], row) for row in rows]
    assert Elastic().scores(made, NAMES, rows) == pytest.approx(other, abs=1e-12)


@given(st.floats(-HIGHEST, HIGHEST), st.floats(width=32, allow_nan=False))
def test_rounded_up_a_threshold_decides_the_same_for_every_float32(
    threshold: float, value: float
) -> None:
    rounded = float(rounded_up(np.array([threshold]))[0])
    assert rounded == np.float32(rounded)
    for near in (value, rounded, float(np.nextafter(np.float32(rounded), np.float32(-np.inf)))):
        assert (near < threshold) == (near < rounded)


def changed(text: str, path: str, value: Any) -> str:
    """The JSON text with another value at a path of keys."""
    content = json.loads(text)
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    inner = content
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return json.dumps(content)


ENSEMBLE = "definition/trained_model/ensemble"
NODE = f"{ENSEMBLE}/trained_models/0/tree/tree_structure/0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{ENSEMBLE}/aggregate_output", {"weighted_mode": {}}),
        (f"{ENSEMBLE}/feature_names", ["a", "b", "c"]),
        (f"{ENSEMBLE}/trained_models", []),
        (f"{NODE}/decision_type", "gt"),
        (f"{NODE}/split_feature", 4),
        (f"{NODE}/default_left", 1),
        (f"{NODE}/left_child", 0),
        (f"{NODE}/left_child", 99),
        (f"{NODE}/threshold", "0.5"),
    ],
)
def test_what_elastic_would_not_take_is_not_read(
    rng: np.random.Generator, path: str, value: Any
) -> None:
    rows, _ = data(rng)
    made = Elastic().export(zero_model(rng), "m", "9.1", FEATURES)
    broken = replace(made, text=changed(made.text, path, value))
    with pytest.raises(BadInput):
        Elastic().scores(broken, NAMES, rows)


def test_the_plugins_file_is_read_as_the_type_that_it_is_said_to_be() -> None:
    made = OpenSearch().export(LINEAR, "m", "3.8")
    with pytest.raises(BadInput, match="said to make a model/ranklib"):
        OpenSearch().scores(replace(made, type="model/ranklib"), NAMES, ONE_ROW)
    with pytest.raises(BadInput, match="JSON"):
        OpenSearch().scores(replace(made, text="{"), NAMES, ONE_ROW)


def test_a_target_is_found_by_its_name() -> None:
    made = export_model(
        model(), target="plugin-free-trees", version="3.8", featureset=FEATURES_SEARCH,
        settings={"window": 37},
    )  # fmt: skip
    assert json.loads(made.text)["rescore"][0]["window_size"] == 37
    assert (made.target, made.version) == ("plugin-free-trees", "3.8")
    with pytest.raises(PluginError, match=r"'elastik': did you mean 'elastic'[?]; installed: e"):
        export_model(LINEAR, target="elastik", version="9.8")
    with pytest.raises(UsageError, match="no setting 'shop'"):
        export_model(LINEAR, target="opensearch", version="3.8", settings={"shop": "x"})


def test_another_feature_set_than_the_models_is_refused_for_every_target() -> None:
    fewer = FeatureSet("fewer", FEATURES.features[:3])
    for plugin in load().all("export-target"):
        with pytest.raises(OwpcLtrError, match="lacks 'd'"):
            export_model(LINEAR, target=plugin.name, version="9.8", featureset=fewer)


def test_a_file_of_ones_own_is_a_target(run: Run) -> None:
    Path("lines.py").write_text(MINE)
    save_model(LINEAR, Path("m.json"))
    words = ("export", "m.json", "--for", "lines", "--version", "1", "--out", "m.txt")
    code, _, err = run(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "no export-target is named 'lines'" in err
    code, out, err = run(*words, "--plugin", "lines.py", "--set", "target.separator=:")
    assert (code, err) == (0, "")
    assert out == "lines for lines 1; send it by cat owpc-ltr\nwrote m.txt\n"
    assert Path("m.txt").read_text().startswith("a:0.10000000149011612\nb:2.0\n")
    listed = run("plugins", "--plugin", "lines.py")[1]
    (line,) = [
        line for line in listed.splitlines() if line.split()[:2] == ["export-target", "lines"]
    ]
    assert "A target of one's own" in line
    assert "separator  =" in run("plugins", "show", "lines", "--plugin", "lines.py")[1]


def test_a_model_that_no_engine_has_is_refused_by_each(rng: np.random.Generator) -> None:
    from owpc_ltr.models.combined import AverageModel

    average = AverageModel(NAMES, (LINEAR, zero_model(rng)), np.ones(2))
    for plugin in load().all("export-target"):
        with pytest.raises(Refused, match="average"):
            export_model(average, target=plugin.name, version="9.8", featureset=FEATURES)


NAMES_SEARCH = ("title", "body", "size")
FEATURES_SEARCH = FeatureSet(
    "f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES_SEARCH)
)
DOCUMENTS = np.round(np.random.default_rng(1).normal(size=(80, 3)), 1).astype(np.float32)


def model(link: str = "identity", depth: int = 3) -> TreeModel:
    forest = random_forest(np.random.default_rng(2), DOCUMENTS, trees=9, depth=depth)
    return TreeModel(NAMES_SEARCH, forest, 0.2, link)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("depth", [0, 3])
def test_the_file_alone_scores_as_the_model_does_but_for_a_constant(link: str, depth: int) -> None:
    target = PluginFreeTreesTarget()
    ranker = model(link, depth)
    made = target.export(ranker, "m", "3.8", FEATURES_SEARCH)
    difference = target.scores(made, NAMES_SEARCH, DOCUMENTS) - ranker.score(DOCUMENTS)
    assert np.ptp(difference) < 1e-5


def test_the_window_is_a_setting_and_beyond_it_the_searchs_order_is_kept() -> None:
    made = PluginFreeTreesTarget(window=37).export(model(), "m", "3.8", FEATURES_SEARCH)
    (clause,) = json.loads(made.text)["rescore"]
    assert clause["window_size"] == 37
    assert clause["query"]["query_weight"] == 2.0**-100
    with pytest.raises(ValueError, match="1 to 10000"):
        PluginFreeTreesTarget(window=0)


def test_templates_that_are_text_cannot_stand_in_a_body() -> None:
    text = Feature("title", ("q",), '{"match": {"title": "{{q}}"}}')
    mixed = replace(FEATURES_SEARCH, features=(text, *FEATURES_SEARCH.features[1:]))
    with pytest.raises(Refused, match="'title' is mustache text"):
        PluginFreeTreesTarget().export(model(), "m", "3.8", mixed)


def test_a_set_of_queries_is_needed_and_an_engine_of_this_world() -> None:
    with pytest.raises(UsageError, match="give `featureset`"):
        PluginFreeTreesTarget().export(model(), "m", "3.8")
    with pytest.raises(UsageError, match="choose 1"):
        PluginFreeTreesTarget().export(model(), "m", "0.90", FEATURES_SEARCH)


@pytest.mark.parametrize("old", ["params.floor", "params.step", '"rescore"', '"feature"'])
def test_another_script_or_no_script_is_not_read_as_ours(old: str) -> None:
    made = PluginFreeTreesTarget().export(model(), "m", "3.8", FEATURES_SEARCH)
    damaged = replace(made, text=made.text.replace(old, old.replace("r", "x").replace("f", "x")))
    assert damaged != made
    with pytest.raises(BadInput, match="not a rescoring by tables"):
        PluginFreeTreesTarget().scores(damaged, NAMES_SEARCH, DOCUMENTS)
