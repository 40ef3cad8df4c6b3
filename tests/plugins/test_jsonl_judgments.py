"""Judgments as JSON lines: keys by csv's names, parameters of any type, each said once a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from owpc_ltr_judgments.csv import Csv
from owpc_ltr_judgments.jsonl import Jsonl

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.judgments.tables import ROLES
from owpc_ltr.errors import BadInput
from owpc_ltr.host.judgment_lists import read_judgments

quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def written(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "judgments"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read(rows: list[dict[str, Any]], folder: Path) -> Judgments:
    return read_judgments(written(rows, folder))


def plain(judgments: Judgments) -> list[Any]:
    return [(q.query_id, q.params, q.document_ids, q.grades.tolist()) for q in judgments.queries]


def judged(document: str = "d", **more: Any) -> dict[str, Any]:
    return {"query_id": "q", "query": "red", "doc_id": document, "grade": 1, **more}


@quick
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
        {"query_id": None, "query": "blue", "doc_id": 7, "grade": "3"},
        {"qid": 12, "query": "red", "doc_id": 7, "grade": 0},
    ]
    found = plain(read(rows, tmp_path))
    assert [(query, documents) for query, _, documents, _ in found] == [
        ("red", ["7", "8"]), ("blue", ["7"]), ("12", ["7"]),
    ]  # fmt: skip
    assert found[0][3] == pytest.approx([2, 1e-5])


@quick
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


def test_texts_may_be_in_topics(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text("301\tcrime\n302\tpolio\n")
    rows: list[dict[str, Any]] = [
        {"qid": 302, "docid": 7, "label": 1, "v": [1]},
        {"qid": 301, "docid": 8, "label": 0},
    ]
    found = read_judgments(written(rows, tmp_path), topics=tmp_path / "topics").queries
    assert [(q.query_id, q.params["query"], q.params.get("v")) for q in found] == [
        ("302", "polio", [1]), ("301", "crime", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "r"}', "line 1: no key is called 'doc_id' or 'grade': found 'query'; each"),
        ('{"query": "r", "doc_id": "d", "grade": 1', "line 1: '{\"query\": \"r\", "),
        ('{"query": "r", "doc_id": "d", "grade": 1}\n[1]', "line 2: '[1]' is a list, not an"),
        ('{"query": "r", "doc_id": "d", "grade": 1}\n\n7', "line 3: '7' is a number, not an"),
        ('{"query": "r", "doc_id": ["d"], "grade": 1}', "line 1: the doc_id is a list, '['d']',"),
        ('{"query": "r", "doc_id": 1.5, "grade": 1}', "line 1: the doc_id is a number, '1.5', and"),
        ('{"query": "r", "doc_id": "d", "grade": true}', "the grade is true or false, 'True', and"),
        ('{"query": "r", "doc_id": "d", "grade": NaN}', "(NaN is no finite number)"),
        ('{"query": "r", "doc_id": "d", "grade": "x"}', "line 1: the grade 'x' is not a number"),
        ('{"query": "r", "doc_id": "d", "grade": 1, "v": [1e999]}', "(1e999 is no finite number)"),
        ('{"query": "r", "query": "s", "doc_id": "d", "grade": 1}', "the key 'query' stands twice"),
        ('{"query": "r", "Query": "s", "doc_id": "d", "grade": 1}', "it has two of 'query'"),
        ('{"query": " ", "doc_id": "d", "grade": 1}', "line 1: the query is empty of query id ' '"),
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
    assert "\n" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("one", "other"),
    [([1.0], [1.5]), ([1.0], None), (None, [1.0]), (1, True), ("a", "b"), ({"a": 1}, {"a": 2})],
)
def test_a_parameter_of_two_values_is_refused_by_both_lines(
    one: Any, other: Any, tmp_path: Path
) -> None:
    rows = [judged("d", p=one), judged("e"), judged("f", p=other)]
    with pytest.raises(BadInput, match=r"line 3: query 'q' has p '.*', and '.*' on line 1: give"):
        read(rows, tmp_path)


def test_the_example_is_nobody_elses_and_csv_is_not_taken_for_it() -> None:
    assert Jsonl().recognises(Path("a"), Jsonl().example())
    assert not Jsonl().recognises(Path("a"), Csv().example())
