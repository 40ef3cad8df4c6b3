"""Judgment lists as JSON lines, of the Search Relevance Workbench and of Quepid."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_judgments.quepid import Quepid
from owpc_ltr_judgments.srw import Srw
from owpc_ltr_judgments.tables import Csv, Jsonl

from owpc_ltr import read_judgments
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.options import ROLES
from owpc_ltr.errors import BadInput
from tests.judgment_writers import RAMBO, Ratings, entries, fetched, plain, rows_of


def written(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "judgments"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read(rows: list[dict[str, Any]], folder: Path) -> Judgments:
    return read_judgments(written(rows, folder))


def judged(document: str = "d", **more: Any) -> dict[str, Any]:
    return {"query_id": "q", "query": "red", "doc_id": document, "grade": 1, **more}


@given(data=st.data())
def test_every_name_that_csv_knows_is_known_here(data: st.DataObject, tmp_path: Path) -> None:
    names = {role: data.draw(st.sampled_from(known)) for role, known in ROLES.items()}
    shown = {role: data.draw(st.sampled_from([name, name.upper()])) for role, name in names.items()}
    values = {"query_id": "q1", "query": "red shoe", "doc_id": "00.70", "grade": "0.5"}
    values |= {"weight": "0.25", "query_weight": "3"}
    order = data.draw(st.permutations(list(values)))
    row = {shown[role]: values[role] for role in order}
    header = ",".join(row)
    (tmp_path / "a.csv").write_text(f"{header}\n{','.join(row.values())}\n")
    assert plain(read([row], tmp_path)) == plain(read_judgments(tmp_path / "a.csv"))


def test_ids_and_grades_may_be_numbers_and_a_query_its_own_id(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"query": "red", "doc_id": 7, "grade": 2},
        {"query": "red", "doc_id": "8", "grade": 1e-5},
        {"query": "blue", "doc_id": 7, "grade": "3"},
    ]
    entries_read = plain(read(rows, tmp_path))
    assert [(query, documents) for query, _, documents, _ in entries_read] == [
        ("red", ["7", "8"]), ("blue", ["7"]),
    ]  # fmt: skip
    assert entries_read[0][3] == pytest.approx([2, 1e-5])


@given(
    said=st.lists(st.booleans(), min_size=1, max_size=6).filter(any),
    value=st.sampled_from([[0.5, -1.0], True, 0, "text", {"a": [1]}]),
)
def test_what_one_line_says_holds_for_the_query_whichever_line_it_is(
    said: list[bool], value: Any, tmp_path: Path
) -> None:
    rows = [judged(str(n), **({"p": value} if says else {})) for n, says in enumerate(said)]
    other = {**judged("x"), "query_id": "other"}
    everywhere = [judged(str(n), p=value) for n in range(len(said))]
    assert plain(read([other, *rows], tmp_path)) == plain(read([other, *everywhere], tmp_path))


def test_null_and_an_empty_text_are_no_value_and_zero_false_and_an_empty_list_are(
    tmp_path: Path,
) -> None:
    row = judged(a=None, b="", c=0, d=False, e=[], f={})
    (query,) = read([row], tmp_path).queries
    assert query.params == {
        "keywords": "red", "query": "red", "c": 0, "d": False, "e": [], "f": {},
    }  # fmt: skip


def test_what_is_shown_of_documents_is_passed_over(tmp_path: Path) -> None:
    (query,) = read([judged(**{"document:title": "A shoe"})], tmp_path).queries
    assert query.params == {"keywords": "red", "query": "red"}


LINE = '{"query": "r", "doc_id": "d", "grade": 1}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "r"}', "no key is called 'doc_id' or 'grade': found 'query'; its lines must"),
        ('{"query": "r", "doc_id": "d", "grade": 1', "line 1: '{\"query\": \"r\", "),
        ('{"query": "r", "doc_id": "d", "grade": 1}\n[1]', "line 2: '[1]' is a list, not an"),
        ('{"query": "r", "doc_id": "d", "grade": 1}\n\n7', "line 3: '7' is a number, not an"),
        ('{"query": "r", "doc_id": ["d"], "grade": 1}', "line 1: the doc_id is a list, ['d'],"),
        ('{"query": "r", "doc_id": 1.5, "grade": 1}', "line 1: the doc_id is a number, 1.5, and"),
        ('{"query": "r", "doc_id": "d", "grade": true}', "the grade is true or false, True, and"),
        ('{"query": "r", "doc_id": "d", "grade": NaN}', "(NaN is not a finite number)"),
        ('{"query": "r", "doc_id": "d", "grade": "x"}', "line 1: the grade 'x' is not a number"),
        ('{"query": "r", "doc_id": "d", "grade": 1, "v": [1e999]}', "(1e999 is not a finite"),
        ('{"query": "r", "query": "s", "doc_id": "d", "grade": 1}', "the key 'query' occurs twice"),
        ('{"query": "r", "Query": "s", "doc_id": "d", "grade": 1}', "it has two of 'query'"),
        ('{"query": " ", "doc_id": "d", "grade": 1}', "line 1: the query is empty of query id ' '"),
        (LINE + '{"query": "r", "grade": 1}', "line 2: the docu"),
        (LINE + '{"query": "r", "doc_id": "e"}', "line 2: the "),
        ('{"qid": "1"}\n{"query_id": "2"}', "both name the"),
        ('{"qid": null, "query": "r", "doc_id": "d", "grade": 1}', "line 1: the query id is empty"),
        ('{"qid": "", "query": "r", "doc_id": "d", "grade": 1}', "line 1: the query id is empty"),
    ],
)  # fmt: skip
def test_bad_lines_are_named_by_their_number(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(f"{text}\n")
    with pytest.raises(BadInput) as raised:
        read_judgments(path)
    said = str(raised.value)
    assert said.startswith(f"cannot read {path}")
    assert message in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("first", "other"),
    [([1.0], [1.5]), ([1.0], None), (None, [1.0]), (1, True), ("a", "b"), ({"a": 1}, {"a": 2})],
)
def test_a_parameter_of_two_values_is_refused_by_both_lines(
    first: Any, other: Any, tmp_path: Path
) -> None:
    agreeing = [judged(document, query_id="r", p="c") for document in "de"]
    rows = [judged("d", p=first), judged("e"), judged("f", p=other), *agreeing]
    with pytest.raises(BadInput, match=r"line 3: query 'q' has p '.*', and '.*' on line 1: give"):
        read(rows, tmp_path)


def test_the_example_is_nobody_elses_and_csv_is_not_taken_for_it() -> None:
    assert Jsonl().recognises(Path("a"), Jsonl().example())
    assert not Jsonl().recognises(Path("a"), Csv().example())


def imported(ratings: Ratings) -> dict[str, Any]:
    return {"name": "n", "type": "IMPORT_JUDGMENT", "judgmentRatings": entries(ratings)}


def read_workbench(content: Any, folder: Path, **how: Any) -> Judgments:
    path = folder / "list.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, **how))
    return read_judgments(path)


@pytest.mark.parametrize("form", [imported, fetched])
@pytest.mark.parametrize("how", [{}, {"indent": 2}, {"ensure_ascii": False}], ids=str)
def test_a_list_is_read_in_either_form_however_it_is_printed(
    form: Any, how: dict[str, Any], tmp_path: Path
) -> None:
    assert rows_of(read_workbench(form(RAMBO), tmp_path, **how)) == [
        ("rambo", {"keywords": "rambo", "query": "rambo"}, {"7555": 4, "1370": 0.5}),
        ("- rocky? §", dict.fromkeys(("keywords", "query"), "- rocky? §"), {"a b": 3}),
    ]


def test_a_query_has_the_same_id_in_every_list_and_in_tables_without_ids(tmp_path: Path) -> None:
    query_id = read_workbench(imported({"rambo": [("a", "1")]}), tmp_path).queries[0].query_id
    other = read_workbench(fetched({"rocky": [("b", "1")], "rambo": [("c", "0")]}), tmp_path)
    (tmp_path / "a.csv").write_text("query,doc_id,grade\nrambo,d,1\n")
    table = read_judgments(tmp_path / "a.csv").queries[0].query_id
    assert query_id == other.queries[1].query_id == table


def test_lines_of_json_stay_lines_of_json(tmp_path: Path) -> None:
    line = {"query": "rambo", "doc_id": "7", "grade": 1, "judgmentRatings": [1]}
    assert not Srw().recognises(tmp_path, json.dumps(line).encode())
    assert not Srw().recognises(tmp_path, Jsonl().example())
    assert not Srw().recognises(tmp_path, b'[{"judgmentRatings": []}]')
    assert not Srw().recognises(tmp_path, b'{"query": "a \\"judgmentRatings\\" b"}')
    assert read_workbench(line, tmp_path).queries[0].params["judgmentRatings"] == [1]


def test_queries_without_ratings_are_counted(tmp_path: Path) -> None:
    judgments = read_workbench(imported({"rocky": [], "rambo": [("a", "1")], "": []}), tmp_path)
    assert [query.query_id for query in judgments.queries] == ["rambo"]
    assert judgments.notes == ("2 queries have no rating",)


def test_a_rating_that_is_none_yet_can_be_left_out(tmp_path: Path) -> None:
    content = imported({"rambo": [("a", "1"), ("b", None), ("c", "")]})
    with pytest.raises(
        BadInput, match=r"rating 2: the grade '' is not a number.*`skip_unjudged=True`"
    ):
        read_workbench(content, tmp_path)
    judgments = read_judgments(tmp_path / "list.json", skip_unjudged=True)
    assert judgments.queries[0].doc_ids == ["a"]
    assert judgments.notes == ("2 lines without a grade were left out",)


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
        ({"judgmentRatings": ["rambo"]}, 'list.json is "rambo", not an object'),
        ({"judgmentRatings": [{"query": "a", "ratings": {}}]}, "'ratings' of query 1 of "),
        (fetched(RAMBO, status="PROCESSING"), "the list is 'PROCESSING', not COMPLETED"),
        (fetched(RAMBO, status="ERROR"), "the list is 'ERROR', not COMPLETED"),
        ({"hits": {"hits": [{}, {"judgmentRatings": []}]}}, "an answer with 2 judgment lists"),
        (json.dumps(imported(RAMBO))[:-2], "it is not complete JSON"),
        (
            '{"judgmentRatings": [], "judgmentRatings": []}',
            "the key 'judgmentRatings' occurs twice",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_in_one_line(
    content: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as raised:
        read_workbench(content, tmp_path)
    assert str(tmp_path / "list.json") in str(raised.value)


@pytest.mark.thorough
def test_a_million_ratings_are_read_in_one_go(tmp_path: Path) -> None:
    ratings: Ratings = {
        f"query {q}": [(f"d{d}", f"{(q + d) % 4}.000") for d in range(500)] for q in range(2000)
    }
    path = tmp_path / "large.json"
    path.write_text(json.dumps(fetched(ratings)))
    judgments = read_judgments(path)
    assert (judgments.n_judgments, len(judgments.queries)) == (1_000_000, 2000)
    assert judgments.queries[7].grades[:3].tolist() == [3, 0, 1]


def read_quepid(text: str, folder: Path, **how: bool) -> Judgments:
    (folder / "ratings.csv").write_text(text)
    return read_judgments(folder / "ratings.csv", **how)  # type: ignore[arg-type]


def test_an_export_is_read_with_the_queries_that_nobody_rated_counted(tmp_path: Path) -> None:
    text = 'query,docid,rating\nrambo,7555,4\nrocky\n"a, ""b""",x,1\nrambo,1370,0.5\n"c, d"\n'
    judgments = read_quepid(text, tmp_path)
    assert [(q.query_id, q.doc_ids, q.grades.tolist()) for q in judgments.queries] == [
        ("rambo", ["7555", "1370"], [4, 0.5]),
        ('a, "b"', ["x"], [1]),
    ]
    assert judgments.notes == ("2 queries have no rating",)


def test_texts_that_look_like_formulas_are_as_people_type_them(tmp_path: Path) -> None:
    judgments = read_quepid("query,docid,rating\n -18 jeans,a,1\n@home,b,1\n =1+2,c,0\n", tmp_path)
    assert [query.query_id for query in judgments.queries] == ["-18 jeans", "@home", "=1+2"]
    assert judgments.queries[0].params == {"keywords": "-18 jeans", "query": "-18 jeans"}


def test_no_spreadsheet_takes_a_query_or_an_id_for_a_formula(tmp_path: Path) -> None:
    texts = ["=1+1", "+2", "-x", "@sum", "'=1", "plain"]
    queries = [
        JudgedQuery(text, {"query": text, "keywords": text}, texts, np.ones(6, np.float32))
        for text in texts
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(Quepid().to_bytes(Judgments(queries)))
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in {"=", "+", "-", "@"}]
    for header in ("query,docid,rating", "query,docid,ann@a.org"):
        path.write_text(path.read_text().replace("query,docid,rating", header))
        judged_queries = read_judgments(path).queries
        assert [(query.query_id, query.doc_ids) for query in judged_queries] == [
            (q, texts) for q in texts
        ]


def test_what_csv_reads_too_is_read_as_csv_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("query,docid,rating\nred,a,1\nblue,b,2.5\nred,c,0\n")
    quepid, csv = (plain(read_judgments(tmp_path / "a", format=name)) for name in ("quepid", "csv"))
    assert quepid == csv


@pytest.mark.parametrize(
    "header",
    ["query,doc_id,rating", "docid,query,rating", "query,docid,rating,city", "query;docid;rating"],
)
def test_other_tables_are_left_to_csv(header: str, tmp_path: Path) -> None:
    assert not Quepid().recognises(tmp_path, header.encode())
    assert not Quepid().recognises(tmp_path, Csv().example())
    assert Quepid().recognises(tmp_path, b'"Query","DocId","Rating"\n')


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("red,a,n/a\n", "line 2: the grade 'n/a' is not a number"),
        ("red,a,\n", "line 2: the grade '' is not a number that fits; 1 of 1 lines have none"),
        (
            "red,a,1\nred,a,2\n",
            "line 3: document 'a' of query 'red' is judged as 2, and as 1 on line 2",
        ),
        ("red,a,1\nred,b\n", "line 3: 2 fields where the header has 3"),
        ("red\nblue\n", "it has a header, and no judgment below it"),
        ("", "it has a header, and no judgment below it"),
    ],
)
def test_what_cannot_be_right_is_named_by_its_line(rows: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        read_quepid(f"query,docid,rating\n{rows}", tmp_path)
