"""Where trees run without the plugin: inside the engine where they fit, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr import connect
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.deployment import serving_mode as store_form
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.model_upload import Uploaded, upload_model
from owpc_ltr.engine.deployment.parity import logged
from owpc_ltr.engine.deployment.serving_mode import Budget, on_trial
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.profile import measure_profile
from owpc_ltr.engine.search.latency import Subject
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import search_stored
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import OwpcLtrWarning, Refused
from owpc_ltr.formats.model_conversion import is_client_scored
from owpc_ltr.formats.plugin_free.trees import TYPE
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.parity_samples import packed
from owpc_ltr.models.trees import Forest, TreeModel
from tests.commands import commands_in
from tests.engine.small_cluster import FEATURESET, Small, probes, small_cluster
from tests.models import random_forest

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}
PATIENT = Budget(10_000.0, repeat=2)


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


def trees(small: Small, forest: Forest | None = None, base: float = 0.5) -> TreeModel:
    """Trees that remember features as the engine gives them."""
    asked = []
    for probe in probes():
        ids, features = logged(small.engine, small.store, FEATURESET, small.index, probe)
        assert ids == probe["document_ids"]
        asked.append({**probe, "features": packed(features)})
    grown = forest or random_forest(np.random.default_rng(4), features, trees=12)
    record = {"probes": asked, "featureset_hash": FEATURESET.hash}
    return TreeModel(FEATURESET.feature_names, grown, base, record=record)


def put(small: Small, model: TreeModel, **options: Any) -> Uploaded:
    options = {"budget": PATIENT, **options}
    return upload_model(
        small.engine, small.store, model, FEATURESET, small.index, small.name, **options
    )


def told(done: Uploaded) -> str:
    assert done.form is not None
    return done.form.words


def test_trees_that_fit_run_inside_the_engine_and_are_proven_there(small: Small) -> None:
    done = put(small, trees(small))
    assert done.type == TYPE
    assert done.parity.scored_by == "engine"
    assert done.parity.largest_difference < 1e-6
    assert done.parity.swapped == 0
    assert "it runs inside the engine" in told(done)
    assert "the budget is 10000 ms" in told(done)
    assert done.form is not None
    assert done.form.added_ms is not None
    found = verify_model(small.engine, small.store, done.model, tolerance=1e-5)
    assert found.drift == ()
    assert found.parity is not None
    assert found.parity.scored_by == "engine"


def test_without_a_budget_the_client_scores_them(small: Small) -> None:
    done = put(small, trees(small), budget=Budget(0))
    assert is_client_scored(small.store.get_model(done.model))
    assert done.parity.scored_by == "client"
    assert told(done) == "the client scores it: the budget for scripts is 0"


def test_beyond_the_budget_the_client_scores_them(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    for added, scored_by in ((14.2, "client"), (9.9, "engine")):
        monkeypatch.setattr(store_form, "added_milliseconds", lambda *_, _of=added, **__: _of)
        done = put(small, trees(small, base=added), budget=Budget(10.0))
        assert done.parity.scored_by == scored_by
        assert f"{added:+.1f} ms" in told(done)
        assert done.form is not None
        assert done.form.as_dict() == {
            "runs_in": scored_by,
            "why": told(done),
            "added_ms": added,
            "budget_ms": 10.0,
        }


def test_without_a_measurement_the_same_model_is_always_served_alike(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the node is busy with: the size of the model decides, and is said."""
    monkeypatch.setattr(store_form, "added_milliseconds", lambda *_, **__: pytest.fail("timed"))
    model = trees(small)
    first = put(small, model, budget=Budget())
    assert first.parity.scored_by == "engine"
    assert "at most 64 feature queries and 64 tables" in told(first)
    monkeypatch.setattr(store_form, "MOST_TABLES", 0)
    second = put(small, model, budget=Budget())
    assert second.parity.scored_by == "client"
    assert "--budget 10ms measures it" in told(second)


@dataclass
class Scriptless:
    """An engine that allows no inline scripts."""

    engine: Engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def request(self, method: str, path: str, **given: Any) -> Any:
        if "script_score" in json.dumps(given.get("body")):
            why = "cannot execute [inline] scripts"
            raise EngineRefusal(f"{method} {path}", 400, "illegal_argument_exception", why)
        return self.engine.request(method, path, **given)


@pytest.mark.parametrize("budget", [Budget(), PATIENT])
def test_where_no_scripts_are_allowed_the_client_scores(small: Small, budget: Budget) -> None:
    model, engine = trees(small), cast(Engine, Scriptless(small.engine))
    store = small.store_through(engine)
    done = upload_model(engine, store, model, FEATURESET, small.index, small.name, budget=budget)
    assert done.parity.scored_by == "client"
    assert "cannot execute [inline] scripts" in told(done)


def test_a_model_that_is_there_already_keeps_its_form_without_being_timed(small: Small) -> None:
    model = trees(small)
    first = put(small, model)
    again = put(small, model, budget=Budget(1e-9))
    assert again.model == first.model
    assert again.form is not None
    assert again.form.added_ms is None


def test_a_store_that_keeps_another_value_is_found_out(small: Small) -> None:
    @dataclass
    class Shifting:
        """A store whose rescorers add to what they should give."""

        store: Store

        def __getattr__(self, name: str) -> Any:
            return getattr(self.store, name)

        def rescore(self, model: StoredModel, params: Any, window: int) -> Any:
            definition = {**model.definition, "unit": model.definition["unit"] * 1.001}
            return self.store.rescore(replace(model, definition=definition), params, window)

    lying = cast(Store, Shifting(small.store))
    with pytest.raises(Refused, match="the engine scores differently"):
        upload_model(
            small.engine, lying, trees(small), FEATURESET, small.index, small.name, budget=PATIENT
        )
    assert small.store.list_models() == []


def test_scores_too_wide_for_32_bits_are_left_to_the_client(small: Small) -> None:
    model = trees(small)
    # Where the first tree gives nothing, the second is lost beside what it could have given.
    forest = Forest(
        np.array([0, 3], np.int32),
        np.array([2, -1, -1, 2, -1, -1], np.int32),
        np.array([5, 0, 0, 2, 0, 0], np.float32),
        np.array([1, 0, 0, 4, 0, 0], np.int32),
        np.array([True, False, False, True, False, False]),
        np.array([0, 0, 1e9, 0, 0.001, 0.002]),
    )
    done = put(small, replace(model, forest=forest))
    assert done.parity.scored_by == "client"
    assert "32 bits lose" in told(done)


def test_a_search_shows_the_models_own_scores_and_says_who_scored(small: Small) -> None:
    model = trees(small)
    stored = small.store.get_model(put(small, model).model)
    both = search_stored(
        small.engine, small.store, SearchRequest(small.index, QUERY, PARAMS, 10, 30), stored
    )
    assert both.scored_by == "engine"
    assert "tables" in both.form
    probe = {"params": PARAMS, "document_ids": [f"d{n}" for n in range(small.documents)]}
    ids, features = logged(small.engine, small.store, FEATURESET, small.index, probe)
    local = dict(zip(ids, model.score(features), strict=True))
    own = [local[hit.document_id] for hit in both.after]
    np.testing.assert_allclose([hit.score for hit in both.after], own, atol=1e-5)
    with on_trial(small.engine, small.store, model, FEATURESET) as serve:
        served = serve(SearchRequest(small.index, QUERY, PARAMS, 10, 30))
    assert list(served.document_ids[:10]) == [hit.document_id for hit in both.after]


def test_what_is_profiled_is_the_model_as_it_runs(small: Small) -> None:
    stored = small.store.get_model(put(small, trees(small)).model)
    quiet: Any = lambda *_: None  # noqa: E731
    found = measure_profile(
        small.engine, small.store, Subject(small.index, QUERY, FEATURESET, stored), [PARAMS],
        repeat=1, window=10, seed=0, progress=quiet,
    )  # fmt: skip
    assert found.capacity.clauses is not None
    assert {cost.feature for cost in found.costs} == set(FEATURESET.feature_names)


def test_the_command_line_tells_where_a_model_runs(
    small: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    trees(small).save(tmp_path / "trees.json")
    place = ("--url", small.engine.settings.url, "--store", small.name.removeprefix("m-"))
    asked = ("--index", small.index, *place)
    put_it = ("upload", "trees.json", "--name", small.name)
    code, out, err = run(*put_it, "--budget", "60s", *asked)
    assert code == 0, err
    assert "it runs inside the engine" in out
    code, out, err = run("models", "show", small.name, *place)
    assert "form.why" in out
    assert "form.runs_in" in out
    code, out, err = run("search", "alpha gamma", "--model", small.name, *asked)
    assert "the engine scored the window" in out
    code, out, err = run("request", "alpha gamma", "--model", small.name, *asked)
    assert json.loads(out)["rescore"][0]["query"]["query_weight"] == 2.0**-100
    assert "are the model's plus" in err
    code, out, err = run(*put_it, "--budget", "soon", *asked)
    assert code == 2
    assert "--budget is a time" in err


def test_a_request_warns_of_the_constant(small: Small) -> None:
    put(small, trees(small))
    cluster = connect(small.engine.settings.url, store=small.name.removeprefix("m-"))
    with pytest.warns(OwpcLtrWarning, match="are the model's plus"):
        cluster.request("alpha", model=small.name, index=small.index)


def test_pruning_leaves_nothing_of_a_model_that_runs_by_scripts(small: Small) -> None:
    before = _scripts(small)
    model = trees(small)
    first = put(small, model)
    put(small, replace(model, base=0.75), history=0)
    assert prunable(small.engine, small.store) == [first.model]
    prune(small.engine, small.store, [first.model])
    assert first.model not in small.store.list_models()
    assert _scripts(small) == before


def _scripts(small: Small) -> Any:
    """The scripts that the cluster keeps: none is ever stored, for their source is constant."""
    state = small.engine.request("GET", "/_cluster/state/metadata")
    return state["metadata"].get("stored_scripts", {})
