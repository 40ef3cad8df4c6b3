"""A world for each test of `keep`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.write_world import World
from tests.keep.keep_world import KeepWorld, plan_in


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(made: World, tmp_path: Path) -> Iterator[KeepWorld]:
    """A world that a test may change."""
    before = copy.deepcopy(made.cluster.indices)
    folder = tmp_path / "keep"
    folder.mkdir()
    yield KeepWorld(made, plan_in(folder))
    made.cluster.indices = before
