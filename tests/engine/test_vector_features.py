"""Features of vectors where an engine has no vector search: exact by a script of the page."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.engine.vector_road import (
    DIMENSIONS,
    Road,
    check_cosines,
    check_serving,
    check_values,
    featureset_of_page,
    vector_road,
)

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def road(node_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    engine = Engine(ConnectionSettings(node_url))
    fields = {f"v{number}": {"type": "float"} for number in range(DIMENSIONS)}
    featureset = featureset_of_page("products.json")
    folder: Path = tmp_path_factory.mktemp("vectors")
    with vector_road(engine, uuid.uuid4().hex[:8], featureset, fields, folder) as made:
        yield made
    engine.close()


def test_every_value_is_its_querys_own_and_the_cosine(road: Road) -> None:
    missing = check_values(road)
    assert missing["cosine"] > 0
    check_cosines(road, 1, scale=1.0)


def test_a_model_of_them_serves_as_it_was_trained(road: Road) -> None:
    check_serving(road)
