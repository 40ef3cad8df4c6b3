"""Judgment lists of the workbench over HTTP: its answers as recorded, and its ways to say no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrError
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from tests.commands import Run
from tests.engine.fake_engine import FakeEngine, Reply
from tests.judgment_writers import RAMBO, fetched, rows_of

ID = "b54f791a-3b02-49cb-a06c-46ab650b2ade"
PATH = f"/_plugins/_search_relevance/judgments/{ID}"


def asked(reply: Any, name: str = ID, **how: Any) -> Judgments:
    with FakeEngine() as fake:
        fake.on("GET", PATH, reply)
        return ltr.connect(fake.url).judgments(name, **how)


def test_a_list_is_fetched_as_a_file_of_it_is_read() -> None:
    judgments = asked(fetched(RAMBO))
    assert [query for query, _, _ in rows_of(judgments)] == ["rambo", "- rocky? §"]
    twice = {"rambo": [("a", "1.0"), ("a", "3.0"), ("b", "")]}
    with pytest.warns(ltr.OwpcLtrWarning, match="1 duplicates were merged|1 lines without"):
        judgments = asked(fetched(twice), duplicates="max", skip_unjudged=True)
    assert rows_of(judgments)[0][2] == {"a": 3}


NO_HANDLER = f"no handler found for uri [{PATH}] and method [GET]"
ABSENT = {"error": {"type": "resource_not_found_exception", "reason": "Document not found"}}


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply({"error": NO_HANDLER}, 400), Refused, "this cluster has no Search Relevance Work"),
        (
            Reply(b"Search Relevance Workbench is disabled", 403, content_type="text/plain"),
            EngineUnavailable,
            "or the workbench is off: set plugins.search_relevance.workbench_enabled to true",
        ),
        (Reply(ABSENT, 404), BadInput, f"the workbench has no judgment list '{ID}'"),
        (fetched(RAMBO) | {"hits": {"hits": []}}, BadInput, "the workbench has no judgment list"),
        (fetched(RAMBO, status="PROCESSING"), BadInput, "the list is 'PROCESSING', not"),
        (fetched({"r": [("a", "n/a")]}), BadInput, f"judgments/{ID}, rating 1: the grade 'n/a'"),
        (fetched(RAMBO) | {"timed_out": True}, Refused, "for a part of the index only"),
        ({"greeting": "hello"}, EngineUnavailable, "is not an engine's answer"),
        (Reply({"error": {"type": "x", "reason": "broken"}}, 400), Refused, "broken"),
    ],
    ids=str,
)
def test_every_no_is_one_line(reply: Any, kind: type[OwpcLtrError], message: str) -> None:
    with pytest.raises(kind) as raised:
        asked(reply)
    assert message in str(raised.value)


@pytest.mark.parametrize("name", ["", "..", "a/b", "*", "_search", "é"])
def test_what_is_no_id_is_asked_of_nobody(name: str) -> None:
    with pytest.raises(UsageError):
        asked(fetched(RAMBO), name)


def test_the_command_writes_what_it_fetched(run: Run) -> None:
    with FakeEngine() as fake:
        fake.on("GET", PATH, fetched(RAMBO))
        words = ("judge", "convert", f"workbench:{ID}", "--url", fake.url, "--out")
        code, out, _ = run(*words, "a.tsv")
    assert (code, out) == (0, "3 judgments of 2 queries\nwrote a.tsv\n")
    assert rows_of(ltr.read_judgments("a.tsv")) == rows_of(asked(fetched(RAMBO)))
    with FakeEngine() as fake:
        fake.on("GET", PATH, Reply({"error": NO_HANDLER}, 400))
        words = ("judge", "convert", f"workbench:{ID}", "--url", fake.url, "--out")
        code, _, err = run(*words, "b.tsv")
    assert (code, "has no Search Relevance Workbench" in err) == (5, True)
    assert not Path("b.tsv").exists()
