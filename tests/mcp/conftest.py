"""A cluster in memory and a folder, which a session of tools is for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine import connect as connecting
from tests.engine.write_world import World, cluster_of, copied_world
from tests.mcp.logged_cluster import LoggedCluster


@pytest.fixture(autouse=True)
def sdk() -> None:
    """The SDK is optional: without it there is no server to test."""
    pytest.importorskip("mcp")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The cluster that the environment names."""
    world = copied_world(tmp_path, LoggedCluster)
    world.cluster.settings.given = True

    @functools.wraps(connecting.connect)
    def connect(**_options: Any) -> Any:
        return cluster_of(world.engine)

    monkeypatch.setattr(connecting, "connect", connect)
    return world
