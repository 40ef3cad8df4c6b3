"""Profiling: known costs are found again on an engine with a clock, and a real node is measured.

No test asserts how long a real search takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr.engine import profile as profiling
from owpc_ltr.engine.client.engine import About
from owpc_ltr.engine.model_size import Capacity, capacity
from owpc_ltr.engine.profile import (
    Profile,
    SearchTimes,
    Subject,
    _cost,
    feature_costs,
    feature_effects,
    hadamard_design,
    time_variants,
    with_features,
)
from owpc_ltr.engine.stores import Search
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from tests.commands import Run
from tests.engine.scripted_plugin import ScriptedPlugin
from tests.engine.small_cluster import FEATURESET, STORES, WORDS, Small, linear, small_cluster

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = [{"keywords": f"{word} {WORDS[0]}", "other": "x"} for word in WORDS]
COSTS = {"title": 2.0, "body": 0.5, "size": 7.0}
WEIGHTS = {"title": 1.0, "body": 0.5, "size": -0.2}


@dataclass
class Clocked:
    """An engine on which each feature takes its own time, every search 3 ms, and all get slower.

    A search's features are told by what the request holds, as an engine would.
    """

    settings: ClassVar[Any] = SimpleNamespace(url="memory:")
    drift: float = 0.0
    now: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    shards: ClassVar[dict[str, int]] = {"total": 1, "successful": 1, "failed": 0}

    def about(self) -> About:
        return About("opensearch", "3.8.0", "c", "u")

    def request(self, method: str, path: str, **given: Any) -> Any:
        if path in self.answers:
            return self.answers[path]
        body = given["body"]
        self.asked.append(body)
        passed = 3.0 + 0.01 * body["size"] + self.drift * len(self.asked)
        passed += sum(COSTS[name] for name in self.features(body))
        self.now += passed / 1000
        return {"took": 1, "timed_out": False, "_shards": self.shards, "hits": {"hits": []}}

    def features(self, body: dict[str, Any]) -> list[str]:
        text = json.dumps(body.get("rescore", []))
        for step in body.get("rescore", []):
            sltr = step["query"]["rescore_query"].get("sltr")
            if sltr is not None:
                return list(sltr.get("active_features", COSTS))
        fields = {"title": '"title":', "body": '"body":', "size": "field_value_factor"}
        return [name for name, sign in fields.items() if sign in text]


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Any:
    engine = Clocked()
    clock = SimpleNamespace(perf_counter=lambda: engine.now)
    monkeypatch.setattr(profiling, "time", clock)
    return engine


def subject(model: StoredModel | None = None) -> Subject:
    return Subject("docs", QUERY, FEATURESET, model)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("modelled", [False, True])
def test_the_cost_of_each_feature_is_found_again(clocked: Any, kind: str, modelled: bool) -> None:
    model = StoredModel("m", "model/linear", WEIGHTS, FEATURESET) if modelled else None
    costs, whole = feature_costs(clocked, STORES[kind](clocked), subject(model), PARAMS, repeat=9)
    assert [cost.feature for cost in costs] == ["size", "title", "body"]
    for cost in costs:
        assert cost.milliseconds == pytest.approx(COSTS[cost.feature])
        assert cost.low <= cost.milliseconds <= cost.high
    difference = whole["all"].median_ms - whole["none"].median_ms
    assert difference == pytest.approx(sum(COSTS.values()))


def test_an_engine_that_slows_down_does_not_change_which_feature_is_dear(clocked: Any) -> None:
    clocked.drift = 0.2
    costs, _ = feature_costs(clocked, PluginFreeStore(clocked), subject(), PARAMS, repeat=60)
    for cost in costs:
        # 380 searches later everything takes 75 ms more; the differences are off by a few of one
        # repeat's six searches.
        assert cost.milliseconds == pytest.approx(COSTS[cost.feature], abs=0.8)


@given(st.integers(1, 70), st.integers(0, 2**32))
def test_a_feature_is_in_half_of_the_searches_and_two_meet_in_a_quarter(n: int, seed: int) -> None:
    groups = hadamard_design(n, np.random.default_rng(seed)).astype(int)
    assert n < len(groups) <= 2 * n + 1
    together = groups.T @ groups / len(groups)
    assert (np.diag(together) == 0.5).all()
    assert (together[~np.eye(n, dtype=bool)] == 0.25).all()


@given(st.integers(1, 70), st.integers(0, 2**32))
def test_costs_that_add_up_are_found_again_whatever_every_search_takes(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    groups, costs = hadamard_design(n, random), random.normal(size=n)
    passed = groups @ costs + 5.0
    assert feature_effects(groups, passed) == pytest.approx(costs)


def test_a_cost_is_told_from_noise_that_two_searches_drown_it_in(rng: np.random.Generator) -> None:
    """Of 26 features one costs as much as the noise of a search, the others nothing."""
    costs = np.zeros((20, 26))
    for turn in range(20):
        groups = hadamard_design(26, rng)
        costs[turn] = feature_effects(groups, groups[:, 3] * 1.0 + rng.normal(size=len(groups)))
    medians = np.median(costs, axis=0)
    assert medians[3] == pytest.approx(1.0, abs=0.4)
    assert np.abs(np.delete(medians, 3)).max() < 0.4


def test_no_cost_is_below_nothing_and_the_noise_is_said(rng: np.random.Generator) -> None:
    """Half of the features that cost nothing would else be measured to cost less than that."""
    groups = hadamard_design(26, rng)
    costs = feature_effects(groups, rng.normal(5, 1, size=(12, len(groups))))
    costs_of_noise = [_cost(f"f{place}", costs[:, place]) for place in range(26)]
    assert min(min(cost.milliseconds, cost.low) for cost in costs_of_noise) == 0
    assert sum(cost.milliseconds == 0 for cost in costs_of_noise) > 5
    assert all(cost.low <= cost.milliseconds <= cost.high for cost in costs_of_noise)
    times = SearchTimes(1.0, 2.0)
    whole = Profile(
        "docs",
        "plugin-free",
        4,
        12,
        100,
        tuple(costs_of_noise),
        {"all": times, "none": times},
        {},
        {},
        Capacity(),
    )
    for out in (str(whole), whole._repr_html_()):
        assert re.search(r"-[0-9]", out) is None
        assert f"{sum(cost.in_noise for cost in costs_of_noise)} of 26 within the noise" in out


def test_windows_and_order_are_as_asked(clocked: Any) -> None:
    store = PluginFreeStore(clocked)
    ways = {window: with_features(store, subject(), window) for window in (10, 500)}
    timings = time_variants(clocked, "docs", ways, PARAMS, 4)
    assert list(timings) == [10, 500]
    assert timings[500].median_ms == pytest.approx(17.5)
    assert timings[10].p95_ms == pytest.approx(12.6)
    asked = [body["size"] for body in clocked.asked[-8:]]
    assert sorted(asked) == [10] * 4 + [500] * 4
    again = Clocked()
    other: Any = again
    time_variants(other, "docs", ways, PARAMS, 4)
    assert [body["size"] for body in again.asked[-8:]] == asked


def test_derived_features_are_not_asked_for_one_by_one(clocked: Any) -> None:
    twice = Feature("twice", (), "title * 2", DERIVED)
    both = FeatureSet("d", (*FEATURESET.features, twice))
    costs, _ = feature_costs(
        clocked, PluginFreeStore(clocked), Subject("docs", QUERY, both), PARAMS, repeat=2
    )
    assert {cost.feature for cost in costs} == set(COSTS)
    assert both.derived_from == {"twice": ["title"]}


def test_what_cannot_be_timed_is_refused(clocked: Any) -> None:
    ways = {"a": lambda _: Search({"query": {}, "size": 1})}
    with pytest.raises(UsageError, match="`repeat` is"):
        time_variants(clocked, "docs", ways, PARAMS, 0)
    with pytest.raises(UsageError, match="'sort'"):
        feature_costs(
            clocked,
            PluginFreeStore(clocked),
            Subject("docs", {"sort": []}, FEATURESET),
            PARAMS,
            repeat=2,
        )
    clocked.shards = {"total": 2, "failed": 1}
    with pytest.raises(Refused, match="part of the index"):
        time_variants(clocked, "docs", ways, PARAMS, 3)


CLAUSES = "indices.query.bool.max_clause_count"


@pytest.mark.parametrize(
    ("limit", "wanted"), [("10mb", 10 << 20), ("5%", 25_000), ("1.5gb", 3 << 29), ("much", None)]
)
def test_the_engines_cache_is_read_as_the_plugin_tells_it(limit: str, wanted: int | None) -> None:
    engine: Any = Clocked()
    engine.answers = {
        "/_cluster/settings": {
            "persistent": {},
            "defaults": {"ltr.caches.max_mem": limit, CLAUSES: "512"},
        },
        "/_nodes/stats/jvm": {"nodes": {"n": {"jvm": {"mem": {"heap_max_in_bytes": 500_000}}}}},
        "/_ltr/_cachestats": {"all": {"models": {"ram": 567683, "count": 43}}},
    }
    model = StoredModel("m", "model/linear", WEIGHTS, FEATURESET)
    room = capacity(engine, LtrPluginStore(engine), FEATURESET, model, PARAMS[0])
    assert room.cache_bytes == wanted
    assert (room.cache_used_bytes, room.cached_models) == (567683, 43)
    assert room.model_bytes == len('{"title":1.0,"body":0.5,"size":-0.2}')
    free = capacity(engine, PluginFreeStore(engine), FEATURESET, model, PARAMS[0])
    # The third feature is a function of a field, which is no clause.
    assert (free.clauses, free.most_clauses, free.cache_bytes) == (2, 512, None)
    less = StoredModel("m", "model/linear", {"title": 1.0}, FEATURESET)
    assert capacity(engine, PluginFreeStore(engine), FEATURESET, less, PARAMS[0]).clauses == 1


@pytest.fixture(scope="module")
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url, documents=100) as made:
        fuzzy = {"match": {"body": {"query": "{{keywords}}", "fuzziness": 2}}}
        dear = Feature("fuzzy", ("keywords",), fuzzy)
        made.store.put_featureset(FeatureSet("dear", (*FEATURESET.features, dear)))
        made.store.put_model(export_linear(linear(), FEATURESET, made.name))
        yield made


@pytest.fixture
def profile(small: Small, run: Run) -> Run:
    """Profiles what is in the index."""
    return Run(lambda *words: run("profile", *small.place, "--index", small.index, *words))


def test_a_real_node_is_profiled_for_people_and_machines(
    small: Small, profile: Run, tmp_path: Path
) -> None:
    judged = tmp_path / "judged.csv"
    judged.write_text("query,docid,rating\nalpha beta,d1,1\ngamma zeta,d2,0\n")
    words = ("--featureset", "dear", "--queries", str(judged), "--repeat", "2", "--json")
    code, out, err = profile(*words)
    assert err == f"cluster: {small.engine.settings.url}\n"
    assert code == 0
    result = json.loads(out)
    assert {cost["feature"] for cost in result["features"]} == {"title", "body", "size", "fuzzy"}
    costs = [cost["milliseconds"] for cost in result["features"]]
    assert costs == sorted(costs, reverse=True)
    assert np.isfinite(costs).all()
    ends = [(cost["low"], cost["milliseconds"], cost["high"]) for cost in result["features"]]
    assert all(0 <= low <= middle <= high for low, middle, high in ends)
    assert [row["window"] for row in result["windows"]] == [10, 50, 100, 200, 500, 1000]
    for row in (*result["windows"], *result["searches"].values()):
        assert 0 < row["median_ms"] <= row["p95_ms"]
    assert result["capacity"]["clauses"] == 3
    assert result["queries"] == 2

    less = ("--model", small.name, "--keywords", "alpha beta", "--repeat", "2")
    out = profile.output(*less)
    assert "with all features" in out
    assert re.search(r"its features are at least 2 (of 1024 )?clauses", out)
    assert "WINDOW" in out


@pytest.mark.parametrize("kind", ["plugin-free", "ltr-plugin"])
def test_a_model_that_is_not_uploaded_is_profiled_and_leaves_nothing(
    kind: str, plugin_node: tuple[str, ScriptedPlugin], tmp_path: Path, lasting_small: Small
) -> None:
    url, plugin = plugin_node
    with small_cluster(url, kind=kind, index=lasting_small.index) as made:
        cluster = made.cluster
        path = tmp_path / "model.json"
        ltr.save_model(linear(), path)
        for model in (path, str(path), linear()):
            measured_profile = cluster.profile(
                keywords=["alpha beta"], model=model, index=made.index, repeat=1
            )
            assert {cost.feature for cost in measured_profile.features} == {"title", "body", "size"}
            assert f"<b>Profile of {made.index}</b><table" in measured_profile._repr_html_()
            assert cluster.models.overview().models == []
        assert (plugin.computed != []) == (kind == "ltr-plugin")


@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        (("--featureset", "dear"), 2, "give --keywords or --queries"),
        (("--keywords", "a"), 2, "say what to profile"),
        (("--keywords", "a", "--featureset", "absent"), 3, "no feature set 'absent'"),
        (("--keywords", "a", "--featureset", "dear", "--model", "MODEL"), 2, "'small', not 'dear'"),
    ],
)
def test_a_profile_without_its_parts_is_refused_in_one_line(
    small: Small, profile: Run, words: tuple[str, ...], code: int, fragment: str
) -> None:
    words = tuple(small.name if word == "MODEL" else word for word in words)
    ended, out, err = profile(*words)
    assert (ended, out, err.count("\n")) == (code, "", 2)
    assert fragment in err
