"""What commands import that work in a cluster, where no clock is asked either."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.deployed import put
from tests.engine.small_cluster import Small, linear, small_cluster
from tests.imported import imported_by


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        put(made, linear())
        yield made


@pytest.mark.parametrize(
    "words",
    [
        ("models", "list"),
        ("models", "show", "NAME"),
        ("search", "alpha beta", "--model", "NAME", "--index", "INDEX"),
        ("request", "--model", "NAME", "--index", "INDEX"),
    ],
)
def test_what_is_asked_of_a_cluster_needs_no_tables_and_no_compiler(
    small: Small, tmp_path: Path, words: tuple[str, ...]
) -> None:
    named = [{"NAME": small.name, "INDEX": small.index}.get(word, word) for word in words]
    place = ("--store", small.name.removeprefix("m-"), "--store-kind", "plugin-free")
    environ = {
        **os.environ,
        "OWPC_LTR_URL": small.engine.settings.url,
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    told = imported_by(*named, *place, folder=tmp_path, environ=environ)
    assert told.code == 0, told.err
    client = {"opensearchpy", "requests", "urllib3", "asyncio"}
    assert told.heavy(allowed={*client, "pydantic", "numpy", "pystache", "pluggy"}) == []
    assert len(told.modules) <= 450 + 370  # opensearch-py brings the first
