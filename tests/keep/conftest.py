"""A world for each test of `keep`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.write_world import copied_world
from tests.keep.keep_world import KeepWorld, plan_in


@pytest.fixture
def world(tmp_path: Path) -> KeepWorld:
    """A world that a test may change."""
    folder = tmp_path / "keep"
    folder.mkdir()
    return KeepWorld(copied_world(tmp_path), plan_in(folder))
