"""Lists of the Search Relevance Workbench: fetched or to be imported, clean or not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_judgments.jsonl import Jsonl
from owpc_ltr_judgments.srw import Srw

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.errors import BadInput
from owpc_ltr.host.judgment_lists import read_judgments
from tests.judgment_writers import RAMBO, Ratings, entries, fetched, told


def imported(ratings: Ratings) -> dict[str, Any]:
    return {"name": "n", "type": "IMPORT_JUDGMENT", "judgmentRatings": entries(ratings)}


def read(content: Any, folder: Path, **how: Any) -> Judgments:
    path = folder / "list.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, **how))
    return read_judgments(path)


@pytest.mark.parametrize("form", [imported, fetched])
@pytest.mark.parametrize("how", [{}, {"indent": 2}, {"ensure_ascii": False}], ids=str)
def test_a_list_is_read_in_either_form_however_it_is_printed(
    form: Any, how: dict[str, Any], tmp_path: Path
) -> None:
    assert told(read(form(RAMBO), tmp_path, **how)) == [
        ("rambo", {"keywords": "rambo", "query": "rambo"}, {"7555": 4, "1370": 0.5}),
        ("- rocky? §", dict.fromkeys(("keywords", "query"), "- rocky? §"), {"a b": 3}),
    ]


def test_a_query_has_the_same_id_in_every_list_and_in_tables_without_ids(tmp_path: Path) -> None:
    one = read(imported({"rambo": [("a", "1")]}), tmp_path).queries[0].query_id
    other = read(fetched({"rocky": [("b", "1")], "rambo": [("c", "0")]}), tmp_path)
    (tmp_path / "a.csv").write_text("query,doc_id,grade\nrambo,d,1\n")
    table = read_judgments(tmp_path / "a.csv").queries[0].query_id
    assert one == other.queries[1].query_id == table


def test_lines_of_json_stay_lines_of_json(tmp_path: Path) -> None:
    line = {"query": "rambo", "doc_id": "7", "grade": 1, "judgmentRatings": [1]}
    assert not Srw().recognises(tmp_path, json.dumps(line).encode())
    assert not Srw().recognises(tmp_path, Jsonl().example())
    assert not Srw().recognises(tmp_path, b'[{"judgmentRatings": []}]')
    assert not Srw().recognises(tmp_path, b'{"query": "a \\"judgmentRatings\\" b"}')
    assert read(line, tmp_path).queries[0].params["judgmentRatings"] == [1]


def test_queries_without_ratings_are_counted(tmp_path: Path) -> None:
    found = read(imported({"rocky": [], "rambo": [("a", "1")], "": []}), tmp_path)
    assert [query.query_id for query in found.queries] == ["rambo"]
    assert found.notes == ("2 queries have no rating",)


def test_a_rating_that_is_none_yet_can_be_left_out(tmp_path: Path) -> None:
    content = imported({"rambo": [("a", "1"), ("b", None), ("c", "")]})
    with pytest.raises(BadInput, match=r"rating 2: the grade '' is not a number.*--skip-unjudged"):
        read(content, tmp_path)
    found = read_judgments(tmp_path / "list.json", skip_unjudged=True)
    assert found.queries[0].document_ids == ["a"]
    assert found.notes == ("2 lines without a grade were left out",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (imported({"rambo": [("a", "n/a")]}), "rating 1: the grade 'n/a' is not a number"),
        (imported({"rambo": [("a", "1"), ("b", "-1")]}), "rating 2: the grade '-1' is negative"),
        (imported({"rambo": [("a", "NaN")]}), "rating 1: the grade 'NaN' is not a number"),
        (imported({"rambo": [("a", True)]}), "rating 1: '{'docId': 'a', 'rating': True}' is not"),
        (imported({"rambo": [(None, "1")]}), "rating 1: '{'docId': None, 'rating': '1'}' is not"),
        (imported({"rambo": [("a", "1"), ("a", "2")]}), "rating 2: document 'a' of query 'rambo'"),
        (imported({"rambo": [("", "1")]}), "rating 1: the document id is empty"),
        (imported({" ": [("a", "1")]}), "rating 1: its query is empty"),
        (imported({"rambo": []}), "it has no judgment"),
        (imported({}), "it has no judgment"),
        ({"judgmentRatings": {"rambo": {}}}, "no list 'judgmentRatings' is in it"),
        ({"judgmentRatings": ["rambo"]}, "query 1: it is a text without a text 'query'"),
        ({"judgmentRatings": [{"query": "a", "ratings": {}}]}, "query 1: it is an object without"),
        (fetched(RAMBO, status="PROCESSING"), "the list is 'PROCESSING', not COMPLETED"),
        (fetched(RAMBO, status="ERROR"), "the list is 'ERROR', not COMPLETED"),
        ({"hits": {"hits": [{}, {"judgmentRatings": []}]}}, "an answer with 2 judgment lists"),
        (json.dumps(imported(RAMBO))[:-2], "it is no whole JSON"),
        (
            '{"judgmentRatings": [], "judgmentRatings": []}',
            "the key 'judgmentRatings' stands twice",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_in_one_line(
    content: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as raised:
        read(content, tmp_path)
    assert str(tmp_path / "list.json") in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.thorough
def test_a_million_ratings_are_read_in_one_go(tmp_path: Path) -> None:
    ratings: Ratings = {
        f"query {q}": [(f"d{d}", f"{(q + d) % 4}.000") for d in range(500)] for q in range(2000)
    }
    path = tmp_path / "large.json"
    path.write_text(json.dumps(fetched(ratings)))
    found = read_judgments(path)
    assert (found.n_judgments, len(found.queries)) == (1_000_000, 2000)
    assert found.queries[7].grades[:3].tolist() == [3, 0, 1]
