"""A model that the LTR plugin's cache has no room for is refused, and told what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.deployment.model_upload import Uploaded, upload_model
from owpc_ltr.engine.search.capacity import CompiledTrees, compiled_trees
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import Refused
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.model_conversion import export_checked
from owpc_ltr.models.trees import Forest, TreeModel
from tests.engine.deployed import Plugin, connected
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.small_cluster import FEATURESET, linear, probes


@dataclass
class Cached(Plugin):
    """A plugin that says how large its cache is, or whose settings are not for everybody."""

    limit: str | None = "10mb"

    def answer(self, asked: Asked) -> Reply:
        if asked.path != "/_cluster/settings":
            return super().answer(asked)
        if self.limit is None:
            return Reply({"error": {"type": "security_exception"}}, 403)
        return Reply({"persistent": {}, "defaults": {"ltr.caches.max_mem": self.limit}})


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as made:
        yield made


def full_trees(trees: int, depth: int) -> TreeModel:
    """Trees with every split that their depth allows, in the order of a heap."""
    nodes = 2 ** (depth + 1) - 1
    place = np.tile(np.arange(nodes, dtype=np.int32), trees)
    roots = np.arange(trees, dtype=np.int32) * nodes
    leaf = place >= nodes // 2
    forest = Forest(
        roots,
        np.where(leaf, -1, place % 3).astype(np.int32),
        np.where(leaf, 0, 1.5).astype(np.float32),
        np.where(leaf, 0, np.repeat(roots, nodes) + 2 * place + 1).astype(np.int32),
        ~leaf,
        np.where(leaf, 0.25, 0.0),
    )
    record = {"probes": probes(), "featureset_hash": FEATURESET.hash}
    return TreeModel(FEATURESET.feature_names, forest, record=record)


def sent(fake: FakeEngine, limit: str | None, model: Any, **options: Any) -> Uploaded:
    engine = connected(fake, Cached("3.8.0", limit=limit))
    return upload_model(engine, LtrPluginStore(engine), model, FEATURESET, "small", "m", **options)


@given(trees=st.integers(1, 5), depth=st.integers(1, 6))
def test_the_compiled_size_is_32_bytes_a_node_and_8_a_tree(trees: int, depth: int) -> None:
    profile = serving_profile("opensearch", "3.8.0")
    stored = export_checked(full_trees(trees, depth), FEATURESET, "m", profile)
    found = compiled_trees(stored)
    assert found is not None
    assert (found.trees, found.depth) == (trees, depth)
    assert found.size == trees * (32 * (2 ** (depth + 1) - 1) + 8)
    assert [found.size_at(d) for d in range(depth + 1)] == [
        trees * (32 * (2 ** (d + 1) - 1) + 8) for d in range(depth + 1)
    ]


@pytest.mark.parametrize(("depth", "megabytes"), [(6, 1.94), (8, 7.8)])
def test_the_compiled_size_is_what_was_measured_of_500_trees(depth: int, megabytes: float) -> None:
    found = CompiledTrees(tuple(500 * 2**level for level in range(depth + 1)))
    assert found.size / 2**20 == pytest.approx(megabytes, abs=0.006)


@given(
    trees=st.integers(1, 3000),
    depth=st.integers(1, 12),
    room=st.floats(1, 1e8, allow_nan=False),
)
def test_what_is_said_to_fit_fits_and_is_the_most_that_does(
    trees: int, depth: int, room: float
) -> None:
    found = CompiledTrees(tuple(trees * 2**level for level in range(depth + 1)))
    words = found.smaller(room)
    of_each = found.size / trees
    fewer = int(words.split()[0].replace(",", "")) if "trees like its" in words else 0
    assert fewer * of_each <= room * (1 + 1e-9)
    assert (fewer + 1) * of_each > room * (1 - 1e-9)
    fits = [d for d in range(1, depth) if found.size_at(d) <= room]
    assert ("of depth" in words) == bool(fits)
    assert not fits or words.endswith(f"of depth {fits[-1]}")


def test_a_model_beyond_the_cache_is_refused_before_anything_is_stored(fake: FakeEngine) -> None:
    with pytest.raises(Refused) as raised:
        sent(fake, "20kb", full_trees(8, 6))
    name = str(raised.value).split("'")[1]
    assert str(raised.value) == (
        f"compiled, '{name}' takes 0.0311 MB of the 0.0195 MB of the engine's cache of models (2 "
        "trees like its 8 or as many of depth 4 would leave room): every search would compile it "
        "anew, and drive all other models out; raise ltr.caches.max_mem, train a smaller one, or "
        "--allow-slow"
    )
    assert {asked.method for asked in fake.requests} == {"GET"}


def test_it_is_uploaded_with_a_caution_if_that_is_wanted(fake: FakeEngine) -> None:
    (caution,) = sent(fake, "20kb", full_trees(8, 6), allow_slow=True).cautions
    assert "every search would compile it anew" in caution


@pytest.mark.parametrize(("limit", "cautions"), [("40kb", 1), ("70kb", 0), ("10mb", 0), ("1gb", 0)])
def test_above_half_of_the_cache_it_warns_and_below_it_is_silent(
    limit: str, cautions: int, fake: FakeEngine
) -> None:
    done = sent(fake, limit, full_trees(8, 6))
    assert len(done.cautions) == cautions
    assert all("compiled again and again" in caution for caution in done.cautions)


def test_where_the_engine_does_not_tell_its_limit_nothing_is_refused_for_it(
    fake: FakeEngine,
) -> None:
    assert sent(fake, None, full_trees(8, 6)).cautions == ()
    assert sent(fake, "a lot", full_trees(8, 6)).cautions == ()


def test_what_takes_next_to_nothing_is_never_in_the_way(fake: FakeEngine) -> None:
    assert sent(fake, "1b", linear()).cautions == ()
