"""A node of another engine: the one that is asked for, or the one that costs least.

OWPC_LTR_TEST_ENGINE names it with its version, as `opensearch:2.19.6`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from owpc_ltr_node.release import ELASTICSEARCH, Release, usual_release

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.session_node import running_node


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What takes several engines, or long, runs when it is asked for."""
    if item.get_closest_marker("engines") and not os.environ.get("OWPC_LTR_TEST_ENGINES"):
        pytest.skip("of several engines: make test-engines runs it")


@pytest.fixture(autouse=True)
def capability(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """A test with a docstring is a row of the table, under its first line."""
    words = request.function.__doc__
    if words and "other_engine" in request.fixturenames and "{" not in words:
        record_property("capability", words.strip().splitlines()[0])


@pytest.fixture(scope="session")
def release() -> Release:
    """Which engine is asked for."""
    asked = os.environ.get("OWPC_LTR_TEST_ENGINE")
    return Release(*asked.split(":")) if asked else usual_release(ELASTICSEARCH)


@pytest.fixture(scope="session")
def other_engine(release: Release) -> Iterator[Engine]:
    """A node of it, of this session's own."""
    with running_node(release, heap="256m") as node:
        engine = Engine(ConnectionSettings(node.status.url))
        yield engine
        engine.close()
