"""Weights in judgment lists: read from every format that has them, checked, settled, kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import read_judgments
from owpc_ltr.data.judgment_tables import read_queries, write_judgments, write_sheet
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.options import Duplicates
from owpc_ltr.errors import BadInput

COLUMNS = ("query_id", "query", "doc_id", "grade", "weight", "query_weight")
Row = tuple[str, str, str, float, float | None, float | None]
FORMATS = ("csv", "tsv", "jsonl", "parquet")


def written(rows: list[Row], format: str, folder: Path) -> Path:  # noqa: A002
    path = folder / f"judgments.{format}"
    columns = {name: [row[n] for row in rows] for n, name in enumerate(COLUMNS)}
    if format == "parquet":
        weights = {name: pa.array(columns[name], pa.float64()) for name in COLUMNS[4:]}
        pq.write_table(pa.table({**columns, **weights}), path)
    elif format == "jsonl":
        lines = ({k: v for k, v in zip(COLUMNS, row, strict=True) if v is not None} for row in rows)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    else:
        mark = "\t" if format == "tsv" else ","
        cells = [["" if v is None else str(v) for v in row] for row in rows]
        path.write_text("".join(f"{mark.join(row)}\n" for row in [COLUMNS, *cells]))
    return path


def read(text: str, folder: Path, duplicates: Duplicates = "refuse") -> Judgments:
    (folder / "a").write_text(text)
    return read_judgments(folder / "a", duplicates=duplicates)


def rows_of(judgments: Judgments) -> list[Any]:
    return [
        (q.query_id, q.doc_ids, q.grades.tolist(),
         None if q.weights is None else q.weights.tolist(), q.importance)
        for q in judgments.queries
    ]  # fmt: skip


weight = st.none() | st.sampled_from([0.0, 1.0, 2.5]) | st.floats(0, 2**100, width=32)


@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), weight), min_size=1, max_size=8),
    asked=st.fixed_dictionaries({"a": weight, "b": weight}),
    said=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_every_format_that_has_columns_has_both_weights(
    rows: list[tuple[str, float | None]],
    asked: dict[str, float | None],
    said: list[bool],
    tmp_path: Path,
) -> None:
    lines: list[Row] = [
        (query, f"text of {query}", f"d{n}", n % 3, sure, asked[query] if said[n] else None)
        for n, (query, sure) in enumerate(rows)
    ]
    for name in FORMATS:
        for query in read_judgments(written(lines, name, tmp_path)).queries:
            own = [line for line in lines if line[0] == query.query_id]
            expected = np.array([1.0 if line[4] is None else line[4] for line in own], np.float32)
            weights = query.weights if query.weights is not None else np.ones(len(own), np.float32)
            assert weights.dtype == np.float32
            assert weights.tolist() == expected.tolist()
            known = [line[5] for line in own if line[5] is not None]
            assert query.importance == (known[0] if known else None)


@pytest.mark.parametrize("name", FORMATS)
def test_a_list_that_says_nothing_of_weights_has_none(name: str, tmp_path: Path) -> None:
    path = written([("q", "red", "d", 1, None, None)], name, tmp_path)
    (query,) = read_judgments(path).queries
    assert query.importance is None
    assert query.weights is None or query.weights.tolist() == [1]
    assert query.params == {"keywords": "red", "query": "red"}
    if name in {"csv", "tsv"}:
        mark = "\t" if name == "tsv" else ","
        rows = (COLUMNS[:4], ("q", "red", "d", "1"))
        path.write_text("".join(f"{mark.join(row)}\n" for row in rows))
        assert rows_of(read_judgments(path)) == [("q", ["d"], [1], None, None)]


HEADER = "query_id,query,doc_id,grade,weight,query_weight\n"


@pytest.mark.parametrize("bad", ["-1", "nan", "inf", "1e39", "much", "-0.001", "1,5"])
def test_what_is_no_weight_is_refused_by_line_and_value(bad: str, tmp_path: Path) -> None:
    said = f'"{bad}"'
    with pytest.raises(BadInput, match=rf"a, line 3: the weight '{bad}' is not a number from 0 up"):
        read(HEADER + f"q,red,d,1,,\nq,red,e,1,{said},\n", tmp_path)
    if bad != "1e39":
        with pytest.raises(BadInput, match=rf"line 2: the query_weight '{bad}' is not a number"):
            read(HEADER + f"q,red,d,1,,{said}\n", tmp_path)


def test_a_nan_in_a_column_of_numbers_is_no_null(tmp_path: Path) -> None:
    columns = {"query": ["red", "red"], "doc_id": [1, 2], "grade": [0, 1]}
    for name in ("weight", "query_weight"):
        table = pa.table({**columns, name: pa.array([None, float("nan")], pa.float32())})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(BadInput, match=f"row 2: the {name} 'nan' is not a number from 0 up"):
            read_judgments(tmp_path / "a.parquet")


def test_a_query_has_one_importance(tmp_path: Path) -> None:
    message = r"a, line 4: query 'q' has the query_weight '3', and '2.0' on line 3: give it one"
    with pytest.raises(BadInput, match=message):
        read(HEADER + "q,red,d,1,,\nq,red,e,1,,2.0\nq,red,f,1,,3\n", tmp_path)
    judgments = read(HEADER + "q,red,d,1,,\nr,blue,d,1,,\nq,red,e,1,,2.0\nq,red,f,1,,2\n", tmp_path)
    assert [query.importance for query in judgments.queries] == [2, None]


def test_duplicates_of_weighted_judgments_are_settled_with_their_weights(tmp_path: Path) -> None:
    lines = HEADER + "q,red,a,1,2,\nq,red,b,2,5,\nq,red,a,4,1,\nq,red,a,4,6,\nq,red,b,0,0,\n"
    settled: dict[Duplicates, list[Any]] = {
        "first": [[1, 2], [2, 5]],
        "max": [[4, 2], [6, 5]],
        "mean": [np.array([30 / 9, 2], np.float32).tolist(), [3, 2.5]],
    }
    for policy, expected in settled.items():
        (query,) = read(lines, tmp_path, policy).queries
        assert query.weights is not None
        assert [query.grades.tolist(), query.weights.tolist()] == expected
    (query,) = read(HEADER + "q,red,a,1,0,\nq,red,a,2,0,\n", tmp_path, "mean").queries
    assert (query.grades.tolist(), query.weights is not None and query.weights.tolist()) == (
        [1.5],
        [0],
    )


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.sampled_from([0, 0.5, 1, 2])),
        min_size=2,
        max_size=7,
    ),
    data=st.data(),
)
def test_max_and_mean_do_not_depend_on_the_order_of_weighted_lines(
    rows: list[tuple[str, int, float]], data: st.DataObject, tmp_path: Path
) -> None:
    turned = data.draw(st.permutations(rows))
    policies: tuple[Duplicates, ...] = ("max", "mean")
    for policy in policies:
        weights_by_document = []
        for order in (rows, turned):
            lines = "".join(f"q,red,{d},{grade},{sure},\n" for d, grade, sure in order)
            (query,) = read(HEADER + lines, tmp_path, policy).queries
            assert query.weights is not None
            pairs = zip(query.grades.tolist(), query.weights.tolist(), strict=True)
            weights_by_document.append(dict(zip(query.doc_ids, pairs, strict=True)))
        assert weights_by_document[0].keys() == weights_by_document[1].keys()
        for document, figures in weights_by_document[0].items():
            assert figures == pytest.approx(weights_by_document[1][document])


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=9))
def test_weights_of_1_settle_duplicates_as_no_weights_do(
    rows: list[tuple[str, int]], tmp_path: Path
) -> None:
    policies: tuple[Duplicates, ...] = ("first", "max", "mean")
    for policy in policies:
        lines = [f"q,red,{document},{grade / 7}" for document, grade in rows]
        plain = read("query_id,query,doc_id,grade\n" + "\n".join(lines), tmp_path, policy)
        ones = read(HEADER + "\n".join(f"{line},1,1" for line in lines), tmp_path, policy)
        assert plain.notes == ones.notes
        assert plain.queries[0].grades.tobytes() == ones.queries[0].grades.tobytes()
        assert ones.queries[0].weights is not None
        assert set(ones.queries[0].weights.tolist()) == {1}


def test_lines_that_nobody_judged_take_their_weights_along(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(HEADER + "q,red,a,,7,\nq,red,b,2,0.5,4\nq,red,c,1,,\n")
    judgments = read_judgments(tmp_path / "a", skip_unjudged=True)
    assert rows_of(judgments) == [("q", ["b", "c"], [2, 1], [0.5, 1], 4)]


def test_a_parameter_may_be_called_weight_where_it_is_declared(tmp_path: Path) -> None:
    judgments = read("query,doc_id,grade,weight:json\nred,a,1,70\nred,b,0,70\n", tmp_path)
    assert judgments.queries[0].params["weight"] == 70
    assert judgments.queries[0].weights is None


def test_ranklibs_weights_are_the_importance_of_queries(tmp_path: Path) -> None:
    text = "# qid:1: rambo*2.5\n# qid:2: rocky\n4 qid:1 # a\n3 qid:2 # b\n"
    judgments = read(text, tmp_path)
    assert [query.params["query"] for query in judgments.queries] == ["rambo", "rocky"]
    assert [query.importance for query in judgments.queries] == [2.5, None]
    assert judgments.notes == ()
    again = read(f"# qid:1: rambo\n{text}# qid:1: rambo*2.50\n", tmp_path)
    assert again.queries[0].importance == 2.5
    with pytest.raises(BadInput, match=r"line 5: query '1' has the weight 3, and 2.5 on line 1"):
        read(f"{text}# qid:1: rambo*3\n", tmp_path)


def test_parameters_that_are_called_as_weights_are_read_back_beside_them(tmp_path: Path) -> None:
    params = {"keywords": "red", "query": "red", "weight": "70", "Query_Weight": "much"}
    sure = np.array([0.5, 2.0], np.float32)
    query = JudgedQuery("q", params, ["d", "e"], np.zeros(2, np.float32), sure, 3e300)
    write_judgments(Judgments([query]), tmp_path / "a.tsv")
    (again,) = read_judgments(tmp_path / "a.tsv").queries
    assert (again.params, again.importance) == (params, 3e300)
    assert again.weights is not None
    assert again.weights.tolist() == [0.5, 2.0]


def test_sheets_keep_how_often_queries_are_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(HEADER + "q,red,d,1,0.5,\nq,red,e,1,,3\nr,blue,d,1,,\n")
    asked = read_queries(tmp_path / "a")
    assert [(query.importance, query.weights) for query in asked] == [(3, None), (None, None)]
    assert all("weight" not in query.params for query in asked)
    nothing = np.zeros(1, np.float32)
    pooled = [JudgedQuery(q.query_id, q.params, ["x"], nothing, None, q.importance) for q in asked]
    write_sheet(pooled, [], {}, tmp_path / "sheet.csv")
    sheet = (tmp_path / "sheet.csv").read_text()
    assert sheet == "query_id,query,query_weight,doc_id,grade\nq,red,3,x,\nr,blue,,x,\n"
    (tmp_path / "sheet.csv").write_text(sheet.replace("x,", "x,2"))
    again = read_judgments(tmp_path / "sheet.csv").queries
    assert [query.importance for query in again] == [3, None]


def test_a_query_that_is_to_be_judged_has_one_importance(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("query,query_weight\nred,2\nblue,-1\n")
    with pytest.raises(BadInput, match=r"line 3: the query_weight '-1' is not a number from 0 up"):
        read_queries(tmp_path / "a")
    (tmp_path / "a").write_text("query,query_weight\nred,2\nred,\nred,3\n")
    with pytest.raises(BadInput, match="line 4: query 'red' has another text"):
        read_queries(tmp_path / "a")
