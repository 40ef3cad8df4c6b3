"""The demo's figures: an honest baseline, a fair rival, and sentences that admit a defeat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from owpc_ltr_demo.corpus import DemoQuery, index_body
from owpc_ltr_demo.demo import demo
from owpc_ltr_demo.evaluation import (
    LAMBDAMART,
    LiveSearches,
    compare_on_held_out,
    examples,
    gains,
    runs_in,
    search_live,
    verdict,
)
from owpc_ltr_demo.preparation import featureset_file, text_fields
from owpc_ltr_demo.session import WINDOW, DemoOptions, DemoSession
from owpc_ltr_demo.training import train_lambdamart

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import DatasetSplits
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.attempts import AttemptsFile
from owpc_ltr.features.feature_set import Feature, FeatureSet, load_featureset
from owpc_ltr.formats.stored_model import StoredModel
from tests.engine.memory_engine import whole


@pytest.fixture
def data(rng: np.random.Generator) -> RankingDataset:
    """100 queries of 12 documents; what counts is 2 × the first column plus the second."""
    features = rng.exponential(size=(1200, 3)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    truth = np.nan_to_num(features) @ [2.0, 1.0, 0.0] + rng.normal(scale=0.1, size=1200)
    best = truth.reshape(100, 12).max(axis=1, keepdims=True)
    labels = (truth.reshape(100, 12) == best).ravel()
    # Judged documents of which each query has exactly one are sampled ones.
    for query in (0, 60):
        labels[12 * query + np.argsort(truth[12 * query :][:12])[-2]] = True
    kinds = ["module" if number % 5 == 0 else "object" for number in range(100)]
    ids = np.repeat([f"{kind}:{number}" for number, kind in enumerate(kinds)], 12)
    return make_dataset(features, labels, ids)


def test_only_a_plain_match_is_the_score_of_a_field() -> None:
    templates: list[Any] = [
        {"match": {"title": "{{keywords}}"}},
        {"match": {"title": {"query": "{{keywords}}", "operator": "and"}}},
        {"constant_score": {"filter": {"match": {"body": "{{keywords}}"}}}},
        {"match": {"body": {"query": "{{keywords}}"}}},
        '{"match": {"noise": "{{keywords}}"}}',
    ]
    features = tuple(
        Feature(f"f{number}", ("keywords",), template) for number, template in enumerate(templates)
    )
    assert text_fields(FeatureSet("f", features)) == ["title", "body"]
    with pytest.raises(BadInput, match="no plain match feature"):
        text_fields(FeatureSet("f", features[1:3]))


def test_the_shipped_features_ask_only_for_fields_that_are_indexed() -> None:
    featureset = load_featureset(featureset_file())
    known = set()
    for name, content in index_body()["mappings"]["properties"].items():
        known |= {name, *(f"{name}.{part}" for part in content.get("fields", {}))}
    assert len(featureset.features) >= 12
    assert set(text_fields(featureset)) <= known
    for feature in featureset.features:
        used = set(_fields(feature.template))
        assert used
        assert used <= known, feature.name


def test_lambdamart_learns_and_repeats_itself(data: RankingDataset) -> None:
    sides = {
        "train": data.select(np.arange(50)),
        "validation": data.select(np.arange(50, 100)),
    }
    splits = DatasetSplits(data, sides, {})
    session = DemoSession(DemoOptions(seed=1))
    rival, again = (train_lambdamart(session, splits) for _ in range(2))
    held_out = splits.validation
    scores = rival.model.score(held_out.features)
    noise = np.nan_to_num(held_out.features[:, 2]).astype(np.float64)
    result = compare_on_held_out({"trees": scores, "noise": noise}, held_out)
    assert result.verdicts("trees", "noise")["ndcg@10"].outcome == "better"
    assert result.ranker("trees").measured[2].mean == pytest.approx(
        rival.model.record["validation"]
    )
    assert (scores == again.model.score(held_out.features)).all()


def test_a_demo_that_is_run_often_with_other_models_says_the_same(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    good, bad = data.labels + 0.5 * rng.random(1200), rng.random(1200)

    def p() -> float:
        return compare_on_held_out({"a": good, "b": bad}, data).pairs[0].p_holm

    first = p()
    for _ in range(5):
        compare_on_held_out({"a": rng.random(1200), "b": rng.random(1200)}, data)
    assert p() == first
    assert not AttemptsFile().path.exists()


def test_a_query_without_an_answer_among_its_candidates_counts_zero_for_all(
    data: RankingDataset,
) -> None:
    labels = data.labels.copy()
    labels[: int(data.offsets[25])] = 0
    data = replace(data, labels=labels)
    result = compare_on_held_out({"ideal": labels.astype(np.float64)}, data)
    assert result.ranker("ideal").measured[2].mean == pytest.approx(0.75)


def test_the_verdict_says_who_is_worse_and_what_cannot_be_told(
    data: RankingDataset, rng: np.random.Generator
) -> None:
    good = data.labels + 0.1 * rng.random(1200)
    bad, worse = rng.random(1200), rng.random(1200)

    def verdict_line(ours: Vector, theirs: Vector) -> str:
        pair = compare_on_held_out({"ours": ours, "theirs": theirs}, data).pair("ours", "theirs")
        return verdict(pair, "ours", "theirs")

    assert verdict_line(bad, good).startswith("ours against theirs: worse (-")
    assert verdict_line(good, bad).startswith("ours against theirs: better (+")
    assert "no significant difference" in verdict_line(bad, worse)


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="with `folder`"):
        demo(folder=tmp_path / "file" / "demo")


ASKED = (
    DemoQuery("object:a", "first", "object", {"a": 1}),
    DemoQuery("object:b", "second", "object", {"b": 1}),
    DemoQuery("object:c", "third", "object", {"c": 1}),
)


def live_of(rankings: Mapping[str, tuple[list[str], list[str]]]) -> LiveSearches:
    """The live searches of an engine that gives these rankings without and with the model."""

    class Answering:
        settings = SimpleNamespace(url="memory:")

        def request(self, _method: str, _path: str, *, body: Any, **_: Any) -> Any:
            assert body["size"] == WINDOW
            changed = "rescore" in body
            ranking = rankings[body["query"]["match"]["text"]][changed]
            hits = [{"_id": name, "_score": 9.0 - rank} for rank, name in enumerate(ranking)]
            return whole(hits, len(hits)) | {"took": 5 if changed else 3}

    engine: Any = Answering()
    featureset = FeatureSet("f", (Feature("text", (), {"match_all": {}}),))
    model = StoredModel("m", "model/linear", {"text": 1.0}, featureset)
    query = {"match": {"text": "{{keywords}}"}}
    logged: Any = SimpleNamespace(engine=engine, store=PluginFreeStore(engine))
    return search_live(logged, model, query, ASKED, lambda *_: None)


def test_live_figures_count_what_was_not_found() -> None:
    live = live_of(
        {
            "first": (["x", "a"], ["a", "x"]),
            "second": (["x"], ["x"]),
            "third": (["c", "y"], ["y", "c"]),
        }
    )
    second = 1 / np.log2(3)
    assert gains(live)[0].tolist() == pytest.approx([second, 0.0, 1.0])
    assert gains(live)[1].tolist() == pytest.approx([1.0, 0.0, second])
    assert live.median_ms == (3, 5)
    assert list(examples(live).values()) == [0, 0, 2]
    assert json.dumps(live.as_dict())


def test_where_nothing_changes_one_query_is_shown() -> None:
    same = (["a"], ["a"])
    live = live_of({"first": same, "second": same, "third": same})
    assert examples(live) == {"nothing changed": 0}


def _fields(query: Any) -> list[str]:
    """The fields that a query reads."""
    names: list[str] = []
    if isinstance(query, dict):
        for key, value in query.items():
            if key in {"match", "term"}:
                names += list(value)
            elif key == "fields":
                names += [name.partition("^")[0] for name in value]
            elif key == "field":
                names.append(value)
            else:
                names += _fields(value)
    return names


def test_lambdamart_runs_in_the_engine_where_the_ltr_plugin_is() -> None:
    without, with_plugin = runs_in("plugin-free"), runs_in("ltr-plugin")
    assert (without[LAMBDAMART], with_plugin[LAMBDAMART]) == ("client", "engine")
    assert {where for name, where in without.items() if name != LAMBDAMART} == {"engine"}
