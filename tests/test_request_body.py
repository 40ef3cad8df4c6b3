"""The body of a search request as text, JSON and in a notebook."""

from __future__ import annotations

import json

from owpc_ltr.engine.search.request import RequestBody

BODY = RequestBody({"query": {"match": {"title": "<b>café</b> & {{keywords}}"}}})


def test_a_body_is_its_json_as_text() -> None:
    assert json.loads(str(BODY)) == BODY.as_dict() == BODY


def test_a_notebook_shows_the_json_without_its_markup() -> None:
    page = BODY._repr_html_()
    assert "<b>café" not in page
    assert "&lt;b&gt;café&lt;/b&gt; &amp; {{keywords}}" in page
