"""An application's query, from a file: what cannot be asked for is refused, never left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.options import params_from
from owpc_ltr.engine.search.request import (
    CARRIED,
    COLLAPSE,
    REFUSED,
    SearchRequest,
    request_body,
    search_request,
)
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import UsageError
from owpc_ltr.formats.model_conversion import export_linear
from tests.engine.small_cluster import FEATURESET, linear

QUERY = {"match": {"t": "{{keywords}}"}}
STORED = export_linear(linear(), FEATURESET, "m")


NOWHERE = Cluster(Engine(ConnectionSettings("http://127.0.0.1:1")))
"""A cluster that is never asked."""


def request(folder: Path, content: dict[str, Any], **asked: Any) -> SearchRequest:
    """What is asked with a query file."""
    path = folder / "query.json"
    path.write_text(json.dumps(content))
    return search_request(NOWHERE, "red", index="docs", query_template=path, **asked)


@pytest.mark.parametrize("key", sorted(CARRIED - {"size", COLLAPSE}))
def test_what_stands_beside_the_query_is_carried(key: str, tmp_path: Path) -> None:
    part: Any = 20 if key == "from" else {"of": ["{{keywords}}"]}
    asked = request(tmp_path, {"query": QUERY, key: part})
    body = request_body(PluginFreeStore(NOWHERE.engine), None, asked)
    assert body.pop(key) == (20 if key == "from" else {"of": ["red"]})
    assert body == {"query": {"match": {"t": "red"}}, "size": 10}


def test_a_query_alone_is_one_too_and_a_size_of_its_own_holds(tmp_path: Path) -> None:
    assert request(tmp_path, QUERY).query == QUERY
    assert request(tmp_path, {"query": QUERY, "size": 3}).size == 3
    assert request(tmp_path, {"query": QUERY, "size": 3}, size=7).size == 7


def test_the_window_reaches_to_the_end_of_the_page(tmp_path: Path) -> None:
    asked = request(tmp_path, {"query": QUERY, "from": 95, "size": 10})
    body = request_body(PluginFreeStore(NOWHERE.engine), STORED, asked)
    assert {clause["window_size"] for clause in body["rescore"]} == {105}


@pytest.mark.parametrize("part", sorted(REFUSED))
def test_what_cannot_be_rescored_is_refused_by_name_with_what_would_do(
    part: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"'{part}'.*: {REFUSED[part][:20]}"):
        request(tmp_path, {"query": QUERY, part: {}})


def test_what_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'surprise' beside its query"):
        request(tmp_path, {"query": QUERY, "surprise": 1})


def test_parameters_fill_the_words_and_the_features() -> None:
    """Without a word to the cluster, which is not there."""
    params = params_from(["tag=a=b", "n=1"])
    filled = search_request(
        NOWHERE, "red shoe", index="docs", query_template=QUERY, params=params, size=3, window=7
    )
    assert filled.params == {"keywords": "red shoe", "query": "red shoe", "tag": "a=b", "n": 1}
    assert (filled.size, filled.window) == (3, 7)
    assert filled.filled == {"match": {"t": "red shoe"}}


@pytest.mark.parametrize("text", ["tag", "=x", ""])
def test_a_parameter_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        params_from([text])
