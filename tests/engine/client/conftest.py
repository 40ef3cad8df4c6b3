"""A server that can be told to fail, and a client that asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from owpc_ltr.engine.client.engine import Engine
from tests.engine.fake_engine import Clock, FakeEngine, make_engine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(fake: FakeEngine, clock: Clock) -> Iterator[Engine]:
    made = make_engine(fake.url, clock)
    yield made
    made.close()
