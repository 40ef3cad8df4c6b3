"""Trees inside an engine without any plugin: ids, order and scores as on the laptop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.arrays import Matrix
from owpc_ltr.engine.deployment.parity import logged
from owpc_ltr.engine.search.request import FLOOR, SearchRequest, request_body
from owpc_ltr.formats.plugin_free.form import score_shift, store_plugin_free
from owpc_ltr.formats.plugin_free.trees import store_plugin_free_trees
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.additive import AdditiveModel, Curve
from owpc_ltr.models.score_range import score_interval
from owpc_ltr.models.trees import LINKS, Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.engine.small_cluster import FEATURESET, Small, small_cluster
from tests.faults.seeds import Seeds
from tests.models import random_forest

DOCUMENTS, SHARDS = 240, 3
PARAMS = {"keywords": "alpha gamma"}
# Every document matches, so that there are many beyond a small window.
QUERY: dict[str, Any] = {
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
        """The laptop's scores."""
        return dict(zip(self.ids, model.score(self.features).tolist(), strict=True))


@pytest.fixture(scope="module")
def known(node_url: str) -> Iterator[Known]:
    with small_cluster(node_url, DOCUMENTS, SHARDS) as small:
        everything = SearchRequest(small.index, QUERY, PARAMS, DOCUMENTS)
        body = request_body(small.store, None, everything)
        shards = [ids_of(small, body, preference=f"_shards:{shard}") for shard in range(SHARDS)]
        probe = {"params": PARAMS, "document_ids": [f"d{number}" for number in range(DOCUMENTS)]}
        ids, features = logged(small.engine, small.store, FEATURESET, small.index, probe)
        assert len(ids) == DOCUMENTS
        # Some features are missing, and some documents share all of theirs.
        assert 0.1 < np.isnan(features).mean() < 0.9
        yield Known(small, ids_of(small, body), shards, ids, features)


def found(small: Small, body: dict[str, Any], **params: str) -> list[tuple[str, float]]:
    answer = small.engine.request(
        "POST", f"/{small.index}/_search", params=params, body={**body, "_source": False}
    )
    return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]


def ids_of(small: Small, body: dict[str, Any], **params: str) -> list[str]:
    return [document for document, _ in found(small, body, **params)]


def as_stored(forest: Forest, base: float = 0.0, link: str = "identity") -> TreeModel:
    return TreeModel(FEATURESET.feature_names, forest, base, link)


def served(known: Known, stored: StoredModel, window: int) -> list[tuple[str, float]]:
    """All documents with the window rescored, as one page."""
    asked = SearchRequest(known.small.index, QUERY, PARAMS, 1, window)
    body = request_body(known.small.store, stored, asked)
    return found(known.small, {**body, "size": DOCUMENTS})


def check(known: Known, model: Model, stored: StoredModel, window: int) -> None:
    """Ids, order and scores are the laptop's within the window, and the search's beyond it."""
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
    # No document stands below one that the laptop scores lower.
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
def test_random_curves_rank_in_the_engine_as_on_the_laptop_and_keep_their_window(
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
def test_random_forests_rank_in_the_engine_as_on_the_laptop_and_keep_their_window(
    known: Known, seeds: Seeds
) -> None:
    for seed in seeds(sample=25, whole=1000):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, known.features, trees=int(rng.integers(1, 30)))
        model = as_stored(forest, float(rng.normal()), str(rng.choice(LINKS, p=[0.8, 0.2])))
        stored = store_plugin_free_trees(model, FEATURESET, "m")
        check(known, model, stored, int(rng.integers(1, 60)))


def test_liars_are_caught(known: Known) -> None:
    """A threshold one float32 aside, a value read for its neighbour, no floor: each is seen."""
    rng = np.random.default_rng(11)
    model = as_stored(random_forest(rng, known.features, trees=12))
    stored = store_plugin_free_trees(model, FEATURESET, "m")
    check(known, model, stored, 20)
    aside = replace(
        model.forest, threshold=np.nextafter(model.forest.threshold, np.float32(np.inf))
    )
    flipped = replace(model.forest, default_left=~model.forest.default_left)
    doubled = replace(model.forest, value=1.001 * model.forest.value)
    for forest in (aside, flipped, doubled):
        with pytest.raises(AssertionError):
            check(known, model, store_plugin_free_trees(as_stored(forest), FEATURESET, "m"), 20)


def test_a_forest_of_nothing_but_leaves_gives_every_document_the_same(known: Known) -> None:
    forest = random_forest(np.random.default_rng(0), known.features, trees=3, depth=0)
    for link in LINKS:
        model = as_stored(forest, 0.25, link)
        check(known, model, store_plugin_free_trees(model, FEATURESET, "m"), 20)
