"""What all tests share: the seeded generator and the optional folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A first call compiles, which takes a second, and machines are as slow as they are; a failure must
# come back in the next run.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, which is not part of the project."""
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("OWPC_LTR_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set OWPC_LTR_DATA to use it")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the real node runs in one process, so that one node is started."""
    for item in items:
        if {"node_url", "session_node"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("node"))
