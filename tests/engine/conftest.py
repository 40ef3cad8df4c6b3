"""What tests of engines share: commands, a fake engine, and a small cluster on the node."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from tests.engine.fake_engine import FakeEngine
from tests.engine.log_runs import digest, log
from tests.engine.memory_engine import MemoryEngine
from tests.engine.small_cluster import Small, emptied_store, read_only, small_cluster


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a module that the Elasticsearch of Maven lacks is not run on it."""
    engine = os.environ.get("OWPC_LTR_TEST_ENGINE", "")
    if item.get_closest_marker("modules") and engine.startswith("elasticsearch"):
        pytest.skip("Elasticsearch from Maven has no scripts, few analyzers and no reindexing")


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    """A server that can be told to fail."""
    with FakeEngine() as server:
        yield server


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    """A client of the node."""
    made = Engine(ConnectionSettings(node_url))
    yield made
    made.close()


@pytest.fixture
def free(engine: Engine) -> Iterator[PluginFreeStore]:
    """A store of its own on the node."""
    name = uuid.uuid4().hex[:8]
    yield PluginFreeStore(engine, name)
    with contextlib.suppress(EngineRefusal):
        engine.request("DELETE", f"/owpc-ltr-store-{name}")


@pytest.fixture(scope="session")
def lasting_small(node_url: str) -> Iterator[Small]:
    """The small index that tests share, and the store that each of them gets empty."""
    with small_cluster(node_url) as made, read_only(made):
        yield made


@pytest.fixture
def own_index() -> None:
    """For tests that change the index of `small`: it is theirs alone."""


@pytest.fixture
def small(request: pytest.FixtureRequest, node_url: str) -> Iterator[Small]:
    """A small index on the node, and a store in which nothing but its feature set is."""
    own = "own_index" in request.fixturenames
    with (
        small_cluster(node_url) if own else emptied_store(request.getfixturevalue("lasting_small"))
    ) as made:
        yield made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where features are logged to: a file alone in a folder."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder / "movies.parquet"


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of an undisturbed log of the engine in memory."""
    path = tmp_path_factory.mktemp("clean") / "clean.parquet"
    log(MemoryEngine(), path)
    return digest(path)
