"""Parameters of judged queries: types kept from every format, and values given for all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import read_judgments
from owpc_ltr.data.judgment_tables import read_queries, write_judgments, write_sheet
from owpc_ltr.data.judgments import JudgedQuery, JudgmentLines, TypedColumn, group_judgments
from owpc_ltr.engine.live_queries import typed_queries, with_params
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.files.strict_json import read_json_value

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    NUMBERS | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
QUERIES = st.lists(st.none() | VALUES, min_size=1, max_size=4)
"""The value of one parameter for each query; None where it has none."""


def exact(judged: Sequence[JudgedQuery]) -> list[str]:
    """Everything that is known of queries, with the types of their parameters."""
    return [json.dumps([q.query_id, q.params, q.doc_ids], sort_keys=True) for q in judged]


def expected(values: Sequence[Any]) -> list[str]:
    queries = []
    for number, value in enumerate(values):
        own = {} if value in (None, "") else {"p": value}
        params = {"keywords": "words", "query": "words", **own}
        queries.append(JudgedQuery(f"q{number}", params, ["d0", "d1"], np.zeros(2, np.float32)))
    return exact(queries)


def table(values: Sequence[Any], delimiter: str) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["query_id", "query", "doc_id", "grade", "p:json"])
    # The same value, written in two ways.
    for indent in (None, 1):
        for number, value in enumerate(values):
            cell = "" if value is None else json.dumps(value, indent=indent)
            writer.writerow([f"q{number}", "words", f"d{indent or 0}", "0", cell])
    return out.getvalue()


def lines(values: Sequence[Any]) -> str:
    rows = [
        {"query_id": f"q{number}", "query": "words", "doc_id": document, "grade": 0, "p": value}
        for document in ("d0", "d1")
        for number, value in enumerate(values)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@given(values=QUERIES)
def test_every_format_of_text_gives_the_same_types(values: list[Any], tmp_path: Path) -> None:
    for content in (table(values, ","), table(values, "\t"), lines(values)):
        (tmp_path / "a").write_text(content)
        assert exact(read_judgments(tmp_path / "a").queries) == expected(values)


@given(values=QUERIES)
def test_judgments_that_are_written_read_back_with_their_types(
    values: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "a").write_text(lines(values))
    judgments = read_judgments(tmp_path / "a")
    write_judgments(judgments, tmp_path / "b.tsv")
    assert exact(read_judgments(tmp_path / "b.tsv").queries) == exact(judgments.queries)


@given(values=QUERIES)
def test_a_sheet_and_a_table_of_queries_keep_types(values: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines(values))
    judged = read_judgments(tmp_path / "a").queries
    write_sheet(judged, [], {}, tmp_path / "sheet.csv")
    graded = (tmp_path / "sheet.csv").read_text().replace(',""\n', ",\n")
    (tmp_path / "sheet.csv").write_text(graded)
    again = read_queries(tmp_path / "sheet.csv")
    assert [json.dumps(q.params, sort_keys=True) for q in again] == [
        json.dumps(q.params, sort_keys=True) for q in judged
    ]


HEADER = "query_id,query,doc_id,grade,p:json\n"
TAG = '"[1, 2]"'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{HEADER}q,r,d,1,{TAG}\nq,r,e,1,[1]\n", "line 3: query 'q' has p '[1]', and '[1,2]' on"),
        (f"{HEADER}q,r,d,1,\nq,r,e,1,0\n", "line 3: query 'q' has p '0', and '' on line 2"),
        (f"{HEADER}q,r,d,1,1\nq,r,e,1,true\n", "line 3: query 'q' has p 'true', and '1' on line 2"),
        (f"{HEADER}q,r,d,1,[1\n", "line 2: the cell '[1' of the column 'p:json' is not JSON (exp"),
        (f"{HEADER}q,r,d,1,red\n", "line 2: the cell 'red' of the column 'p:json' is not JSON"),
        (f"{HEADER}q,r,d,1,2\nq2,r,d,1,[NaN]\n", "line 3: the cell '[NaN]' of the column 'p:json'"),
        (f"{HEADER}q,r,d,1,-Infinity\n", "(-Infinity is not a finite number)"),
        (f"{HEADER}q,r,d,1,1e999\n", "(1e999 is not a finite number)"),
        (f'{HEADER}q,r,d,1,"{{""a"":1,""a"":2}}"\n', "the key 'a' occurs twice in one object"),
        (f'{HEADER}q,r,d,1,"""\\ud800"""\n', "half a surrogate pair"),
        (f"{HEADER}q,r,d,1,{'[' * 99_999}\n", "(it is nested too deep)"),
        ("query,doc_id,grade,:json\nr,d,1,2\n", "column ':json' declares JSON, and it has no name"),
        ("query,doc_id,grade,query:json\nr,d,1,2\n", "the parameter 'query' has another column"),
        ("query,doc_id,grade,p,p:json\nr,d,1,2,3\n", "the parameter 'p' has another column too"),
    ],
)
def test_cells_that_are_no_json_or_contradict_are_named_by_line(
    content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(BadInput) as raised:
        read_judgments(tmp_path / "a", format="csv")
    text = str(raised.value)
    assert text.startswith(f"cannot read {tmp_path / 'a'}")
    assert message in text
    assert len(text) < 400


def test_cells_of_queries_to_be_judged_are_named_by_line_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("query,p:json\nred,[1]\nblue,[1\n")
    with pytest.raises(BadInput, match=r"line 3: the cell '\[1' of the column 'p:json' is not"):
        read_queries(tmp_path / "a")


def test_a_text_column_stays_text_whatever_it_looks_like(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("query,doc_id,grade,a,b\nr,d,1,[1],2010\n")
    (query,) = read_judgments(tmp_path / "a").queries
    assert query.params == {"keywords": "r", "query": "r", "a": "[1]", "b": "2010"}


def test_a_readers_own_column_may_hold_what_no_json_has_and_is_refused_by_line() -> None:
    column = TypedColumn(np.array([0, 1]), [[0.5], {"a": [float("nan")]}])
    both = pa.array(["q", "r"])
    held = JudgmentLines(
        Path("a"), [4, 9], both, both, ["0", "1"], {"query": both, "keywords": both, "p": column}
    )
    with pytest.raises(BadInput, match=r"^cannot read a, line 9: the parameter 'p' holds nan"):
        group_judgments(held)


@given(VALUES)
def test_json_reads_as_it_is_written(value: Any) -> None:
    assert json.dumps(read_json_value(json.dumps(value))) == json.dumps(value)


KNN = '{"knn": {"field": "v", "query_vector": {{#toJson}}vector{{/toJson}}, "k": 3}}'
FEATURES = FeatureSet("set", (Feature("near", ("vector",), KNN),))


def query(name: str, **params: Any) -> JudgedQuery:
    return JudgedQuery(name, {"keywords": name, **params}, ["d"], np.ones(1, np.float32))


QUERIES_GIVEN = [query("own", vector=[1.0, 2.0]), query("none")]


def test_a_querys_own_parameter_goes_before_the_one_that_is_given() -> None:
    queries = with_params(QUERIES_GIVEN, {"vector": np.array([0.5, 0.25]), "n": 3})
    assert [each.params for each in queries] == [
        {"keywords": "own", "vector": [1.0, 2.0], "n": 3},
        {"keywords": "none", "vector": [0.5, 0.25], "n": 3},
    ]
    assert with_params(QUERIES_GIVEN, None) == QUERIES_GIVEN
    assert "n" not in QUERIES_GIVEN[0].params


def test_live_queries_ask_with_what_is_given_and_is_refused_without() -> None:
    typed = typed_queries(with_params(QUERIES_GIVEN, {"vector": [0.5]}), FEATURES)
    assert [query.params["vector"] for query in typed] == [[1.0, 2.0], [0.5]]
    with pytest.raises(BadInput, match="query 'none' has no 'vector', which the feature set 'set'"):
        typed_queries(QUERIES_GIVEN, FEATURES)
