"""An application's query, from a file: what cannot be asked for is refused, never left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.api.cluster import Cluster
from owpc_ltr.cli.queries import Question
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.connection import ConnectionSettings
from owpc_ltr.engine.search.request import read_query
from owpc_ltr.errors import UsageError

QUERY = {"match": {"t": "{{keywords}}"}}


def template(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """What is read of a query file."""
    path = folder / "query.json"
    path.write_text(json.dumps(content))
    return read_query(path)


@pytest.mark.parametrize(
    "body",
    [
        QUERY,
        {"query": QUERY},
        {"query": QUERY, "size": 3, "from": 10, "_source": ["t"], "track_total_hits": True},
        {"query": QUERY, "highlight": {"fields": {"t": {}}}, "aggs": {}},
    ],
)
def test_the_body_of_a_search_means_its_query(body: dict[str, Any], tmp_path: Path) -> None:
    assert template(tmp_path, body) == QUERY


@pytest.mark.parametrize(
    "part", ["sort", "collapse", "rescore", "post_filter", "min_score", "knn", "search_after"]
)
def test_what_would_rank_otherwise_is_refused_by_name(part: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'{part}'"):
        template(tmp_path, {"query": QUERY, part: {}})


def test_parameters_fill_the_words_and_the_features() -> None:
    """Without a word to the cluster, which is not there."""
    asked = Question(param=["tag=a=b", "n=1"], size=3, window=7).asked() | {"query": QUERY}
    nowhere = Cluster(Engine(ConnectionSettings("http://127.0.0.1:1")))
    request = nowhere.request("red shoe", index="docs", **asked)
    assert request.params == {"keywords": "red shoe", "query": "red shoe", "tag": "a=b", "n": "1"}
    assert (request.size, request.window) == (3, 7)
    assert request.filled == {"match": {"t": "red shoe"}}


@pytest.mark.parametrize("text", ["tag", "=x", ""])
def test_a_parameter_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        Question(param=[text]).asked()
