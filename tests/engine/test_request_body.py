"""The body of a search request as text, JSON and in a notebook."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import UsageError, connect
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.live_results.rankers import LiveRankers
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import (
    RequestBody,
    SearchRequest,
    check_body,
    request_body,
    split_body,
    template_window,
    without_window,
)
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import Refused
from owpc_ltr.formats.stored_model import StoredModel
from tests.engine.small_cluster import FEATURESET

BODY = RequestBody({"query": {"match": {"title": "<b>café</b> & {{keywords}}"}}})


def test_a_body_is_its_json_as_text() -> None:
    assert json.loads(str(BODY)) == BODY.as_dict() == BODY


def test_a_notebook_shows_the_json_without_its_markup() -> None:
    page = BODY._repr_html_()
    assert "<b>café" not in page
    assert "&lt;b&gt;café&lt;/b&gt; &amp; {{keywords}}" in page


def test_a_template_says_how_many_documents_are_rescored() -> None:
    query = {"match": {"title": "{{keywords}}"}}
    whole = {"query": query, "size": 5, "rescore": {"window_size": 240}}
    assert template_window(split_body(whole)[1]) == 240
    assert without_window(split_body(whole)[1]) == {"size": 5}
    # A rescorer of the application's own is refused still, and no window is made of it.
    other = {"query": query, "rescore": {"window_size": 240, "query": {}}}
    assert template_window(split_body(other)[1]) is None
    with pytest.raises(UsageError, match="has a 'rescore'"):
        check_body(without_window(split_body(other)[1]))
    for wrong, message in (("240", "give a whole number"), (0, "a window is 1 to 10000")):
        with pytest.raises(UsageError, match=message):
            template_window({"rescore": {"window_size": wrong}})


@pytest.mark.parametrize("key", ["size", "from"])
def test_a_number_that_applications_give_is_left_to_them_and_any_other_text_refused(
    key: str,
) -> None:
    query = {"match": {"title": "{{keywords}}"}}
    for place in (f"{{{{{key}}}}}", f"{{{{ {key} }}}}", f"{{{{#toJson}}}}{key}{{{{/toJson}}}}"):
        assert split_body({"query": query, key: place}) == (query, {})
    assert split_body({"query": query, key: 7}) == (query, {key: 7})
    for wrong in ("5}", "5", "{{rows}}", f"1{{{{{key}}}}}", f"{{{{{key}}}}}}}", 5.0, -1, True, [5]):
        with pytest.raises(UsageError, match=rf"^the template's {key} is .*: give a whole number,"):
            split_body({"query": query, key: wrong})


def test_a_window_that_is_given_wins_over_the_templates() -> None:
    cluster = connect("http://127.0.0.1:1")
    words = {"match": {"title": "{{keywords}}"}}
    template = {"query": words, "rescore": {"window_size": 240}}
    assert cluster.window(template, None) == 240
    assert cluster.window(template, 30) == 30
    assert cluster.window({"match_all": {}}, None) == cluster.window(None, None) == DEFAULT_WINDOW
    assert cluster.template("any", template) == (words, {})


@pytest.mark.parametrize("template", [{"match_all": {}}, {"query": {"match": {"title": "red"}}}])
def test_a_template_without_keywords_is_refused_on_every_path(
    template: dict[str, Any], tmp_path: Path
) -> None:
    """Whatever is typed, it would bring the same documents, and every figure would be 0."""
    (tmp_path / "query.json").write_text(json.dumps(template))
    cluster = connect("http://127.0.0.1:1")
    judged = [JudgedQuery("q", {"keywords": "red"}, ["d"], np.ones(1, np.float32))]
    rankers = LiveRankers(
        cluster=cluster, query_template=None, window=10, judged=judged, trials=ExitStack(),
        index="i",
    )  # fmt: skip
    for given in (template, tmp_path / "query.json"):
        for path in (
            lambda given=given: cluster.template("any", given),
            lambda given=given: rankers.of(given),
        ):
            with pytest.raises(UsageError, match=r"has no \{\{keywords\}\}"):
                path()


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("additive", "an engine that allows inline scripts runs it: upload it there"),
        ("trees", "a cluster with the LTR plugin may run it"),
        ("logistic-network", "a cluster with the LTR plugin may run it"),
        ("network", "no engine runs models of the kind network"),
    ],
)
def test_a_model_that_the_client_scores_is_refused_with_where_else_it_would_run(
    kind: str, where: str
) -> None:
    stored = StoredModel("m", f"owpc-ltr/{kind}", {}, FEATURESET)
    store = PluginFreeStore(Engine(ConnectionSettings("http://127.0.0.1:9")))
    request = SearchRequest("docs", {"match": {"title": "{{keywords}}"}}, {"keywords": "a"})
    with pytest.raises(Refused, match=f"use owpc-ltr search; {where}$"):
        request_body(store, stored, request)
