"""What the laboratory of faults needs: a world on the real node."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.engine.fake_engine import FakeEngine
from tests.faults.cells import Laboratory
from tests.faults.kills import Killer
from tests.faults.world import World

collect_ignore = ["warmed.py"]
"""Whatever imports it trains models: it has no doctests, and is for the server of children."""


@pytest.fixture(scope="session")
def world(node_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world of this process's own."""
    own = f"faults-{os.environ.get('PYTEST_XDIST_WORKER', 'gw')}"
    made = World(node_url, tmp_path_factory.mktemp("world"), own)
    made.build()
    yield made
    made.close()


@pytest.fixture(scope="session")
def laboratory(world: World) -> Iterator[Laboratory]:
    """The world, ready to be struck by faults."""
    with FakeEngine() as elsewhere:
        yield Laboratory(world, world.state(), elsewhere)


@pytest.fixture(scope="session")
def killer(laboratory: Laboratory) -> Killer:
    """Strikes commands in children of their own."""
    return Killer(laboratory)
