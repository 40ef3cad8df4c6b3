"""Quepid's CSV: as its exports are, with queries that nobody rated."""

from __future__ import annotations

from pathlib import Path

import pytest
from owpc_ltr_judgments.csv import Csv
from owpc_ltr_judgments.quepid import Quepid

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.errors import BadInput
from owpc_ltr.host.judgment_lists import read_judgments


def read(text: str, folder: Path, **how: bool) -> Judgments:
    (folder / "ratings.csv").write_text(text)
    return read_judgments(folder / "ratings.csv", **how)  # type: ignore[arg-type]


def test_an_export_is_read_with_the_queries_that_nobody_rated_counted(tmp_path: Path) -> None:
    text = 'query,docid,rating\nrambo,7555,4\nrocky\n"a, ""b""",x,1\nrambo,1370,0.5\n"c, d"\n'
    found = read(text, tmp_path)
    assert [(q.query_id, q.document_ids, q.grades.tolist()) for q in found.queries] == [
        ("rambo", ["7555", "1370"], [4, 0.5]),
        ('a, "b"', ["x"], [1]),
    ]
    assert found.notes == ("2 queries have no rating",)


def test_texts_that_look_like_formulas_are_as_people_type_them(tmp_path: Path) -> None:
    found = read("query,docid,rating\n -18 jeans,a,1\n@home,b,1\n =1+2,c,0\n", tmp_path)
    assert [query.query_id for query in found.queries] == ["-18 jeans", "@home", "=1+2"]
    assert found.queries[0].params == {"keywords": "-18 jeans", "query": "-18 jeans"}


def test_what_csv_reads_too_is_read_as_csv_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("query,docid,rating\nred,a,1\nblue,b,2.5\nred,c,0\n")
    quepid, csv = (read_judgments(tmp_path / "a", format=name) for name in ("quepid", "csv"))
    for one, other in zip(quepid.queries, csv.queries, strict=True):
        assert (one.query_id, one.params) == (other.query_id, other.params)
        assert (one.document_ids, one.grades.tolist()) == (
            other.document_ids,
            other.grades.tolist(),
        )


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
        read(f"query,docid,rating\n{rows}", tmp_path)


def test_documents_that_nobody_rated_can_be_left_out(tmp_path: Path) -> None:
    found = read("query,docid,rating\nred,a,\nred,b,2\n", tmp_path, skip_unjudged=True)
    assert found.queries[0].document_ids == ["b"]
