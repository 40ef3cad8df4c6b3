"""Trees without the plugin: inside the engine where they fit, otherwise scored by the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning, make_dataset
from owpc_ltr.arrays import Matrix
from owpc_ltr.engine.deployment import model_upload, serving_mode
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.model_upload import Uploaded
from owpc_ltr.engine.deployment.parity import MAX_DRIFT, ProofLimits
from owpc_ltr.engine.deployment.trial import on_trial
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.profile import Subject, measure_profile
from owpc_ltr.engine.search.request import FLOOR, SearchRequest, request_body
from owpc_ltr.engine.search.search import search_ranked
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.formats.plugin_free import TREES, score_shift, store_plugin_free
from owpc_ltr.formats.stored_model import (
    StoredModel,
    client_model,
    is_client_scored,
    serving_profile,
    store_for_client,
)
from owpc_ltr.models.analysis import score_interval
from owpc_ltr.models.forests import Steps, sum_of_forests
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel
from owpc_ltr.models.model_file import packed, unpacked
from owpc_ltr.models.trees import LINKS, Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.commands import Run
from tests.engine.deployed import Liar, Scriptless, put, put_beside
from tests.engine.small_cluster import FEATURESET, Small, linear, probes, small_cluster
from tests.faults.seeds import Seeds
from tests.small_models import random_forest
from tests.small_models import trees as trees_client

pytestmark = pytest.mark.filterwarnings("ignore:the client scores")

QUERY = {"match": {"body": "{{keywords}}"}}
PARAMS = {"keywords": "alpha gamma"}


def trees(small: Small, forest: Forest | None = None, base: float = 0.5) -> TreeModel:
    """Trees that remember features as the engine gives them."""
    asked = []
    for probe in probes():
        ids, features = small.store.logged(FEATURESET, small.index, probe)
        assert ids == probe["document_ids"]
        asked.append({**probe, "features": packed(features)})
    grown = forest or random_forest(np.random.default_rng(4), features, trees=12)
    record = {"probes": asked, "featureset_hash": FEATURESET.hash}
    return TreeModel(FEATURESET.feature_names, grown, base, record=record)


def reason_of(done: Uploaded) -> str:
    assert done.serving_mode is not None
    return done.serving_mode.words


@pytest.mark.modules
def test_trees_that_fit_run_inside_the_engine_and_are_proven_there(small: Small) -> None:
    done = put(small, trees(small))
    assert done.type == TREES
    assert done.parity.scored_by == "engine"
    assert done.parity.largest_difference < 1e-6
    assert done.parity.swapped == 0
    assert "it runs inside the engine" in reason_of(done)
    verification = verify_model(small.engine, small.store, done.model)
    assert verification.drift == ()
    assert verification.parity is not None
    assert verification.parity.scored_by == "engine"


@pytest.mark.modules
def test_a_sum_of_curves_and_trees_is_proven_there(small: Small) -> None:
    asked = trees(small)
    names = asked.feature_names
    features = np.concatenate(
        [
            unpacked(sample["features"], len(sample["document_ids"]), len(names))
            for sample in asked.record["probes"]
        ]
    )
    data = make_dataset(
        features, np.zeros(len(features)), np.zeros(len(features)), feature_names=names
    )
    weights = np.linspace(-1.0, 1.0, len(names))
    line = LinearModel(names, weights)
    stepped = Steps.of(data, 63).forest_of([(line, 1.0)], data)
    assert stepped is not None
    model = replace(sum_of_forests([stepped, asked], [1.0, 0.5]), record=asked.record)
    done = put(small, model)
    assert (done.type, done.parity.scored_by) == (TREES, "engine")
    assert done.parity.largest_difference < 1e-6
    assert done.parity.swapped == 0


@pytest.mark.modules
def test_the_size_of_a_model_decides_where_it_runs_and_is_said(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trees(small)
    assert put(small, model).parity.scored_by == "engine"
    monkeypatch.setattr(serving_mode, "MOST_TABLES", 0)
    done = put(small, model)
    assert done.parity.scored_by == "client"
    assert done.serving_mode is not None
    assert done.serving_mode.as_dict() == {"runs_in": "client", "why": reason_of(done)}
    limit = (
        "at most 64 feature queries and 0 tables run there: train with optimizer.interactions=20"
    )
    assert f"tables of up to three features, 3 feature queries, and {limit}" in reason_of(done)


def test_where_no_scripts_are_allowed_the_client_scores(small: Small) -> None:
    done = put_beside(small, trees(small), Scriptless(small.engine))
    assert done.parity.scored_by == "client"
    assert "cannot execute [inline] scripts" in reason_of(done)


@pytest.mark.parametrize(
    ("weights", "scored_by"),
    [pytest.param((1.0, -1.0), "client", marks=pytest.mark.modules), ((1.0, 1.0), "engine")],
)
def test_a_linear_model_runs_where_its_request_does(
    small: Small, weights: tuple[float, float], scored_by: str
) -> None:
    """Only scores without a known lower end take a script, which holds them above one."""
    model = linear((*weights, *(0.0,) * (len(FEATURESET.feature_names) - 2)))
    done = put_beside(small, model, Scriptless(small.engine))
    assert done.parity.scored_by == scored_by
    assert ("cannot execute [inline] scripts" in reason_of(done)) == (scored_by == "client")
    assert put(small, model).parity.scored_by == "engine"


class Shifting(Liar):
    """A store whose rescorers add to what they should give."""

    def rescore(self, model: StoredModel, params: Any, window: int) -> Any:
        definition = {**model.definition, "unit": model.definition["unit"] * 1.001}
        return self.store.rescore(replace(model, definition=definition), params, window)


@pytest.mark.modules
def test_a_store_that_keeps_another_value_is_found_out(small: Small) -> None:
    lying = replace(small, store=cast("Store", Shifting(small.store)))
    with pytest.raises(Refused, match="the engine scores differently"):
        put(lying, trees(small))
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
    assert "in float32" in reason_of(done)


@pytest.mark.parametrize("scored_by", [pytest.param("engine", marks=pytest.mark.modules), "client"])
def test_a_search_shows_the_models_own_scores_and_says_who_scored(
    small: Small, scored_by: str
) -> None:
    by_client = scored_by == "client"
    model = trees_client(small) if by_client else trees(small)
    stored = small.store.get_model(put(small, model, client_scored=by_client).model)
    request = SearchRequest(small.index, QUERY, PARAMS, 10, 30)
    both = search_ranked(small.engine, small.store, request, stored)
    assert (both.scored_by, len(both.after)) == (scored_by, 10)
    probe = {"params": PARAMS, "document_ids": [f"d{n}" for n in range(small.documents)]}
    ids, features = small.store.logged(FEATURESET, small.index, probe)
    local = dict(zip(ids, model.score(features), strict=True))
    own = [local[hit.document_id] for hit in both.after]
    scores = [hit.score for hit in both.after]
    assert scores == (own if by_client else pytest.approx(own, abs=1e-5))
    assert scores == sorted(scores, reverse=True)
    if by_client:
        assert both.reason == ""
        with pytest.raises(Refused, match="scored by the client"):
            request_body(small.store, stored, SearchRequest(small.index, QUERY, PARAMS))
        return
    assert "tables" in both.form
    with on_trial(small.engine, small.store, model, FEATURESET) as serve:
        served = serve(request)
    assert list(served.doc_ids[:10]) == [hit.document_id for hit in both.after]


def test_what_is_profiled_is_the_model_as_it_runs(small: Small) -> None:
    stored = small.store.get_model(put(small, trees(small)).model)
    quiet: Any = lambda *_: None  # noqa: E731
    profile = measure_profile(
        small.engine, small.store, Subject(small.index, QUERY, FEATURESET, stored), [PARAMS],
        repeat=1, window=10, seed=0, progress=quiet,
    )  # fmt: skip
    assert profile.capacity.clauses is not None
    assert {cost.feature for cost in profile.features} == set(FEATURESET.feature_names)


@pytest.mark.modules
def test_the_command_line_tells_where_a_model_runs(small: Small, tmp_path: Path, run: Run) -> None:
    trees(small).save(tmp_path / "trees.json")
    asked = ("--index", small.index, *small.place)
    put_it = ("upload", "trees.json", "--name", small.name)
    assert "it runs inside the engine" in run.output(*put_it, *asked)
    out = run.output("models", "show", small.name, *small.place)
    assert "serving_mode.why" in out
    assert "serving_mode.runs_in" in out
    out = run.output("search", "alpha gamma", "--model", small.name, *asked)
    assert "the engine scored the window" in out
    _, out, err = run("request", "alpha gamma", "--model", small.name, *asked)
    assert json.loads(out)["rescore"][0]["query"]["query_weight"] == 2.0**-100
    assert "are the model's plus" in err


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


OPENSEARCH = serving_profile("opensearch", "3.8.0")


def index_again(small: Small, documents: int) -> None:
    """Documents written once more, as they are but for one word: statistics of the index move."""
    for number in range(documents):
        path = f"/{small.index}/_doc/d{number}"
        source = small.engine.request("GET", path)["_source"]
        source["body"] += " alpha"
        small.engine.request("PUT", path, params={"refresh": "true"}, body=source)


@dataclass
class Rounding:
    """A store that keeps a tree's leaf otherwise than it was sent."""

    store: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put_model(self, stored: StoredModel) -> None:
        wrong = dict(stored.definition)
        wrong["value"] = [0.26 if value == 0.25 else value for value in wrong["value"]]
        assert wrong != stored.definition
        self.store.put_model(replace(stored, definition=wrong))


def test_trees_are_kept_whole_and_read_back_as_they_were(small: Small) -> None:
    model = trees_client(small)
    done = put(small, model, client_scored=True)
    assert reason_of(done) == "the client scores it: as requested"
    assert done.parity.scored_by == "client"
    assert done.parity.largest_difference == 0.0
    assert [feature.by for feature in done.features] == [0.0] * 3
    assert done.rankings is not None
    assert (done.rankings.tau, done.rankings.ndcg_difference) == (1.0, 0.0)
    stored = small.store.get_model(done.model)
    assert is_client_scored(stored)
    features = np.random.default_rng(2).uniform(0, 9, (50, 3)).astype(np.float32)
    features[::5] = np.nan
    np.testing.assert_array_equal(client_model(stored).score(features), model.score(features))


@pytest.mark.usefixtures("own_index")
def test_documents_indexed_again_move_features_and_the_upload_passes_and_tells(
    small: Small,
) -> None:
    model = trees_client(small)
    index_again(small, 3)
    done = put(small, model, client_scored=True)
    assert done.parity.largest_difference == 0.0
    # Far more than the tolerance of scores, and yet nothing is wrong.
    assert 1e-4 < done.features[0].by < MAX_DRIFT
    assert done.features[0].feature == "body"
    assert done.rankings is not None
    assert done.rankings.tau > 0.8
    assert done.rankings.ndcg_difference is not None


def test_a_wrong_stored_tree_is_refused_and_taken_out(small: Small) -> None:
    lying = replace(small, store=cast("Store", Rounding(small.store)))
    with pytest.raises(Refused, match=r"read back from the store scores differently: by 0\.01 on"):
        put(lying, trees_client(small), client_scored=True)
    assert small.store.list_models() == []


def test_features_of_another_meaning_are_refused_with_what_that_does_to_rankings(
    small: Small,
) -> None:
    other = {"match": {"title": "{{keywords}}"}}
    features = [replace(feature, template=other) if feature.name == "body" else feature
                for feature in FEATURESET.features]  # fmt: skip
    edited = replace(FEATURESET, features=tuple(features))
    model = trees_client(small, edited)
    with pytest.raises(
        Refused, match=r"feature 'body' has drifted since training.*deviations"
    ) as caught:
        put(small, model, client_scored=True)
    for words in ("(0.25 is allowed)", "Kendall's tau", "ndcg@10", "`max_drift`"):
        assert words in str(caught.value)
    assert small.store.list_models() == []
    allowed = put(small, model, limits=ProofLimits(max_drift=1e6), client_scored=True)
    assert allowed.features[0].by > MAX_DRIFT
    assert allowed.rankings is not None
    assert allowed.rankings.tau < 0.95


def test_a_model_that_remembers_no_features_is_proven_and_its_drift_is_not_known(
    small: Small,
) -> None:
    done = put(small, trees_client(small, probes=probes()), client_scored=True)
    assert done.parity.largest_difference == 0.0
    assert (done.features, done.rankings) == ((), None)


@pytest.mark.usefixtures("own_index")
def test_verify_says_the_same_two_figures(small: Small) -> None:
    done = put(small, trees_client(small), client_scored=True)
    verification = verify_model(small.engine, small.store, done.model, small.index)
    assert verification.drift == ()
    assert verification.parity is not None
    assert verification.parity.scored_by == "client"
    index_again(small, 3)
    verification = verify_model(small.engine, small.store, done.model, small.index)
    assert verification.parity is not None
    assert verification.parity.largest_difference == 0.0
    assert verification.features[0].by > 1e-4
    assert verification.rankings is not None
    assert verification.rankings.tau > 0.8


def test_a_damaged_stored_model_is_not_taken(small: Small) -> None:
    definition = {**store_for_client(trees_client(small), FEATURESET, "m").definition}
    definition["left"] = [0] * 8
    with pytest.raises(BadInput, match="damaged"):
        small.store.put_model(StoredModel("m", "owpc-ltr/trees", definition, FEATURESET))
    with pytest.raises(BadInput, match="damaged"):
        client_model(StoredModel("m", "owpc-ltr/trees", "text", FEATURESET))


DOCUMENTS, SHARDS = 240, 3
# Every document matches, so that there are many beyond a small window.
QUERY_NODE: dict[str, Any] = {
    "bool": {"must": [{"match_all": {}}], "should": [{"match": {"body": "{{keywords}}"}}]}
}


@dataclass(frozen=True)
class Known:
    """What a search of the whole index gives, and the features of every document."""

    small: Small
    order: list[str]
    shards: list[list[str]]
    ids: list[str]
    features: Matrix

    def within(self, window: int) -> set[str]:
        """Each shard rescores its own best."""
        return {document for shard in self.shards for document in shard[:window]}

    def local(self, model: Model) -> dict[str, float]:
        """The local scores."""
        return dict(zip(self.ids, model.score(self.features).tolist(), strict=True))


@pytest.fixture(scope="module")
def known(node_url: str) -> Iterator[Known]:
    with small_cluster(node_url, DOCUMENTS, SHARDS) as small:
        everything = SearchRequest(small.index, QUERY_NODE, PARAMS, DOCUMENTS)
        body = request_body(small.store, None, everything)
        shards = [ids_of(small, body, preference=f"_shards:{shard}") for shard in range(SHARDS)]
        probe = {"params": PARAMS, "document_ids": [f"d{number}" for number in range(DOCUMENTS)]}
        ids, features = small.store.logged(FEATURESET, small.index, probe)
        assert len(ids) == DOCUMENTS
        # Some features are missing, and some documents share all of theirs.
        assert 0.1 < np.isnan(features).mean() < 0.9
        yield Known(small, ids_of(small, body), shards, ids, features)


def scored_ids(small: Small, body: dict[str, Any], **params: str) -> list[tuple[str, float]]:
    answer = small.engine.request(
        "POST", f"/{small.index}/_search", params=params, body={**body, "_source": False}
    )
    return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]


def ids_of(small: Small, body: dict[str, Any], **params: str) -> list[str]:
    return [document for document, _ in scored_ids(small, body, **params)]


def as_stored(forest: Forest, base: float = 0.0, link: str = "identity") -> TreeModel:
    return TreeModel(FEATURESET.feature_names, forest, base, link)


def served(known: Known, stored: StoredModel, window: int) -> list[tuple[str, float]]:
    """All documents with the window rescored, as one page."""
    asked = SearchRequest(known.small.index, QUERY_NODE, PARAMS, 1, window)
    body = request_body(known.small.store, stored, asked)
    return scored_ids(known.small, {**body, "size": DOCUMENTS})


def check(known: Known, model: Model, stored: StoredModel, window: int) -> None:
    """Ids, order and scores are the local ones within the window, and the search's beyond it."""
    hits = served(known, stored, window)
    inside = known.within(window)
    local = known.local(model)
    assert {document for document, _ in hits[: len(inside)]} == inside
    beyond = [document for document, _ in hits[len(inside) :]]
    assert beyond == [document for document in known.order if document not in inside]
    assert all(score > FLOOR / 2 for _, score in hits[: len(inside)])
    assert all(score < FLOOR * 2.0**-40 for _, score in hits[len(inside) :])
    own = np.array([local[document] for document, _ in hits[: len(inside)]])
    scores = np.array([score for _, score in hits[: len(inside)]])
    interval = score_interval(model)
    # Where all scores are alike, what float32 rounds is all the difference that there is.
    spread = max(interval.high - interval.low, 0.05)
    assert np.abs(scores - score_shift(stored) - own).max() <= 1e-6 * spread
    # No document stands below one that is scored lower locally.
    assert (np.diff(own) <= 1e-6 * spread).all()


def random_curves(rng: np.random.Generator, features: Matrix) -> AdditiveModel:
    """Curves of both signs and many sizes, their knots at values that occur."""
    curves = {}
    for column, name in enumerate(FEATURESET.feature_names):
        values = features[~np.isnan(features[:, column]), column]
        knots = np.unique(rng.choice(values, int(rng.integers(1, 9)))).astype(np.float64)
        heights = rng.normal(size=len(knots)) * float(rng.choice([0.01, 1.0, 3.0]))
        curves[name] = Curve(knots, heights, float(rng.choice([heights[0], rng.normal()])))
    return AdditiveModel(FEATURESET.feature_names, curves)


@pytest.mark.faults
def test_random_curves_rank_in_the_engine_as_locally_and_keep_their_window(
    known: Known, seeds: Seeds
) -> None:
    for seed in seeds(sample=15, whole=500):
        rng = np.random.default_rng(seed)
        model = random_curves(rng, known.features)
        check(known, model, store_plugin_free(model, FEATURESET, "m"), int(rng.integers(1, 60)))
        higher = replace(model.curves["body"], values=model.curves["body"].values + 0.01)
        lie = replace(model, curves={**model.curves, "body": higher})
        with pytest.raises(AssertionError):
            check(known, model, store_plugin_free(lie, FEATURESET, "m"), DOCUMENTS)


@pytest.mark.faults
def test_random_forests_rank_in_the_engine_as_locally_and_keep_their_window(
    known: Known, seeds: Seeds
) -> None:
    for seed in seeds(sample=25, whole=1000):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, known.features, trees=int(rng.integers(1, 30)))
        model = as_stored(forest, float(rng.normal()), str(rng.choice(LINKS, p=[0.8, 0.2])))
        stored = store_plugin_free(model, FEATURESET, "m")
        check(known, model, stored, int(rng.integers(1, 60)))


def test_liars_are_caught(known: Known) -> None:
    """A threshold one float32 aside, a value read for its neighbour, no floor: each is seen."""
    rng = np.random.default_rng(11)
    model = as_stored(random_forest(rng, known.features, trees=12))
    stored = store_plugin_free(model, FEATURESET, "m")
    check(known, model, stored, 20)
    aside = replace(
        model.forest, threshold=np.nextafter(model.forest.threshold, np.float32(np.inf))
    )
    flipped = replace(model.forest, default_left=~model.forest.default_left)
    doubled = replace(model.forest, value=1.001 * model.forest.value)
    for forest in (aside, flipped, doubled):
        with pytest.raises(AssertionError):
            check(known, model, store_plugin_free(as_stored(forest), FEATURESET, "m"), 20)


def test_a_forest_of_nothing_but_leaves_gives_every_document_the_same(known: Known) -> None:
    forest = random_forest(np.random.default_rng(0), known.features, trees=3, depth=0)
    for link in LINKS:
        model = as_stored(forest, 0.25, link)
        check(known, model, store_plugin_free(model, FEATURESET, "m"), 20)


@pytest.mark.modules
def test_an_upload_says_what_each_search_request_takes(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(small, trees(small))
    with pytest.warns(OwpcLtrWarning, match="so that none is negative"):
        body = small.cluster.request("alpha gamma", model=small.name, index=small.index)
    sent = len(json.dumps(body, separators=(",", ":")))
    assert done.request_bytes is not None
    assert 0.8 * sent < done.request_bytes <= sent
    assert f"\nsearch request with the model: {-(-done.request_bytes // 1000)} kB\n" in str(done)
    assert done.as_dict()["request_bytes"] == done.request_bytes
    monkeypatch.setattr(model_upload, "LARGE_REQUEST", done.request_bytes - 1)
    with pytest.warns(OwpcLtrWarning, match=r"has \d+ kB, as the engine keeps no models"):
        put(small, trees(small))
    by_client = put(small, trees(small), client_scored=True)
    assert by_client.request_bytes is None
    assert "search request" not in str(by_client)
